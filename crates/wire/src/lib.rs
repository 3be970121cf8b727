//! One strict reading of JSON, and of the JSON-RPC messages that MCP is made of.
//!
//! Everything that decides about a message decides about the one tree built
//! here, and what is sent on is taken from the same bytes. Whatever two correct
//! parsers could read differently is refused. Nothing here does I/O, and no
//! member is lost because this crate does not know it.

pub mod answer;
pub mod arguments;
pub mod edit;
pub mod json;
pub mod look_alike;
pub mod mcp;
pub mod rpc;
