//! A strict JSON parser, and the JSON-RPC messages of MCP.
//!
//! Policy decisions and forwarding use the same tree, built here once, and the same
//! bytes. Texts that two correct parsers could read differently are refused. Nothing
//! here does I/O, and unknown members are preserved.
//!
//! This crate is large because everything else relies on one reading of a text: a parser,
//! a check of answers that stream, and the search for secrets in what servers write.

pub mod answer;
pub mod arguments;
pub mod edit;
pub mod json;
pub mod look_alike;
pub mod mcp;
pub mod rpc;
pub mod secrets;
pub mod server_url;
