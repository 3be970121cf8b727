//! Speaking to MCP servers: sending one HTTP request, and reading event streams.
//!
//! More than half of it is the bridge, which needs the rest and nothing else of
//! the gateway's.
//!
//! Whoever asks here has judged already; nothing in this crate knows policies.

pub mod address;
pub mod bridge;
pub mod builtin;
pub mod client;
mod connect;
mod http;
mod legacy_sse;
mod pool;
pub mod sse;
pub mod stdio;

pub use crate::http::{AnswerBody, BodyError, HttpUpstream, SendError, Upstream, UrlError};
