//! Parse errors: why a text was not accepted as JSON, and where.

/// An error with the byte offset at which it was detected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at byte {offset}")]
pub struct Refusal {
    /// Byte offset into the text.
    pub offset: usize,
    /// The error.
    pub reason: Reason,
}

/// The error in a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    #[error("byte order mark")]
    ByteOrderMark,
    #[error("invalid UTF-8")]
    Utf8,
    #[error("unexpected end of text")]
    End,
    #[error("expected {0}")]
    Expected(&'static str),
    #[error("unexpected text after the value")]
    Trailing,
    #[error("comments are not JSON")]
    Comment,
    #[error("number with a leading zero")]
    LeadingZero,
    #[error("incomplete number")]
    Number,
    #[error("control character in a string: write it as \\u00xx")]
    ControlCharacter,
    #[error("unknown escape in a string")]
    Escape,
    #[error("half of a surrogate pair")]
    LoneSurrogate,
    #[error("duplicate key `{0}`")]
    DuplicateKey(String),
    #[error("more than {0} bytes of text")]
    TooLong(usize),
    #[error("nested deeper than {0}")]
    TooDeep(usize),
    #[error("string longer than {0} bytes")]
    LongString(usize),
    #[error("number longer than {0} bytes")]
    LongNumber(usize),
    #[error("more than {0} members in one list or object")]
    TooManyMembers(usize),
    #[error("more than {0} values in all")]
    TooManyNodes(usize),
}
