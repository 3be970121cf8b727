//! What of MCP must be understood: its revisions, its methods, and the few
//! parameters that decide what a request reaches.
//!
//! Everything else about a message passes through unread.

mod method;
mod params;
mod revision;

pub use method::{Door, Method};
pub use params::{ParamsError, Target};
pub use revision::{Era, Revision};
