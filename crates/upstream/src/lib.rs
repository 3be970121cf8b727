//! Speaking to MCP servers, which are trusted no further than their clients.
//!
//! So far only the event streams that answers may come as.

pub mod sse;
