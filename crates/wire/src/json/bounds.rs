//! Size limits of a document, in every dimension that costs memory or time, and the one
//! irregularity that may be allowed.

/// Limits that are checked while a document is parsed, before memory is allocated for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The maximum length of the text, in bytes.
    pub bytes: usize,
    /// The maximum nesting of containers; a single list or object has depth 1.
    pub depth: usize,
    /// The maximum length of a string or key, in bytes, with escapes decoded.
    pub string: usize,
    /// The maximum length of a number's text, in bytes.
    pub number: usize,
    /// The maximum number of elements in a list, or of members in an object.
    pub members: usize,
    /// The maximum number of values in total.
    pub nodes: usize,
    /// What happens to half of a surrogate pair in a value.
    pub lone_surrogates: LoneSurrogates,
}

/// What happens to half of a surrogate pair that a string value contains as an escape, as
/// servers write it that cut a text within a character. In a key it is always refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoneSurrogates {
    #[default]
    Refuse,
    /// The text keeps it; the decoded string has U+FFFD in its place.
    Replace,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            bytes: 4 << 20,
            depth: 64,
            string: 1 << 20,
            number: 1024,
            members: 100_000,
            nodes: 100_000,
            lone_surrogates: LoneSurrogates::Refuse,
        }
    }
}
