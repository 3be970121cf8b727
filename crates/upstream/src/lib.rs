//! Speaking to MCP servers, which are trusted no further than their clients.
//!
//! So far the event streams that answers may come as, and the servers that run
//! in this process.

pub mod builtin;
pub mod sse;
