//! What of MCP must be understood: its revisions, its methods, and the few
//! parameters that decide what a request reaches.
//!
//! Everything else about a message passes through unread.

mod header;
mod method;
mod params;
mod revision;

pub use header::{header_text, text_of_header};
pub use method::{Method, MethodClass};
pub use params::{ParamsError, Target};
pub use revision::{Era, Revision};
