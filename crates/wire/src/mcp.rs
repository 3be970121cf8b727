//! The parts of MCP that the gateway interprets: protocol versions, methods, and the
//! parameters that decide what a request reaches.
//!
//! Everything else in a message is forwarded without being interpreted.

mod header;
mod meta;
mod method;
mod params;
mod refusal;
mod revision;

pub use header::{header_text, text_of_header};
pub use meta::{
    META_CAPABILITIES, META_CLIENT, META_LEVEL, META_RELATED_TASK, META_SERVER, META_SUBSCRIPTION,
    META_VERSION, TASKS_EXTENSION, client_meta,
};
pub use method::{Method, MethodClass};
pub use params::{ParamsError, Target};
pub use refusal::{
    is_lost_transport, is_modern_error_code, is_unknown_era, is_unknown_transport,
    is_without_stream,
};
pub use revision::{Era, Revision};
