//! Size limits of a document, in every dimension that costs memory or time.

/// Limits checked while a document is read, before memory is spent on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of text.
    pub bytes: usize,
    /// Containers within containers; a lone list or object has depth 1.
    pub depth: usize,
    /// Bytes of one string or key, escapes decoded.
    pub string: usize,
    /// Bytes of one number's text.
    pub number: usize,
    /// Elements of one list or members of one object.
    pub members: usize,
    /// Values in all.
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
