//! Speaking to MCP servers: sending one HTTP request, and reading event streams.
//!
//! Whoever asks here has judged already; nothing in this crate knows policies.

pub mod address;
pub mod builtin;
pub mod client;
mod connect;
mod http;
mod legacy_sse;
mod pool;
pub mod sse;
pub mod stdio;

pub use crate::http::{AnswerBody, BodyError, HttpUpstream, SendError, Upstream, UrlError};
