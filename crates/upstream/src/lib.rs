//! Speaking to MCP servers: sending one HTTP request, and reading event streams.
//!
//! Whoever asks here has judged already; nothing in this crate knows policies.
//!
//! It is large because each kind of server is played as one that speaks streamable
//! HTTP, behind the one function [`Upstream::send`]: `stdio`, `legacy_sse`, `bridge`
//! and `builtin` know nothing of each other, and each could be read alone.

pub mod address;
pub mod bridge;
pub mod builtin;
pub mod client;
mod connect;
pub mod headers;
mod http;
mod legacy_sse;
mod pool;
pub mod sse;
pub mod stdio;

pub use crate::http::{AnswerBody, BodyError, HttpUpstream, SendError, Upstream, UrlError};
