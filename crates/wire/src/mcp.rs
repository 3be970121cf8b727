//! The parts of MCP that the gateway interprets: protocol versions, methods, and the
//! parameters that decide what a request reaches.
//!
//! Everything else in a message is forwarded without being interpreted.

mod header;
mod method;
mod params;
mod revision;

pub use header::{header_text, text_of_header};
pub use method::{Door, Method};
pub use params::{ParamsError, Target};
pub use revision::{Era, Revision};
