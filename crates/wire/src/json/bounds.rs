//! Size limits of a document, in every dimension that costs memory or time.

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
        }
    }
}
