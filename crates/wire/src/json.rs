//! JSON documents: the original bytes, and the one tree they are parsed into.
//!
//! A [`Document`] keeps its text and a flat list of nodes in document order, so
//! parsing needs a handful of buffers whatever the size, a value's exact source
//! text is always available, and numbers keep the digits they were written with.
//! The module `read` builds it; this one provides access to it.

mod bounds;
mod print;
pub(crate) mod read;
mod refusal;
mod tape;

pub use bounds::{Bounds, LoneSurrogates};
pub use print::{Quoted, write_string};
pub use refusal::{Reason, Refusal};
pub use tape::{Document, Items, Kind, Members, Value};

impl Document {
    /// Parses one JSON value, and refuses any text that two parsers could read differently.
    pub fn parse(text: impl Into<Vec<u8>>, bounds: &Bounds) -> Result<Document, Refusal> {
        read::document(text.into(), bounds, read::RepeatedKeys::Refuse)
    }

    /// Parses a file that a person wrote, and keeps duplicate keys so that all its problems can be
    /// reported at once. The caller must report the duplicates.
    ///
    /// It must not be used for messages: see [`Document::parse`].
    pub fn parse_keeping_repeated_keys(
        text: impl Into<Vec<u8>>,
        bounds: &Bounds,
    ) -> Result<Document, Refusal> {
        read::document(text.into(), bounds, read::RepeatedKeys::Keep)
    }
}
