//! The client for MCP servers over HTTP: connections, requests, answers and event streams.
//!
//! [`HttpUpstream`] sends one request, over streamable HTTP or the older HTTP+SSE transport. All
//! other transports also return [`AnswerBody`] and [`SendError`], because they emulate an HTTP
//! server. The policy was applied before a request comes here; this crate knows nothing about
//! policies.
//!
//! This crate is large because it contains its own HTTP/1.1 client (`pool`), which is faster than a
//! general one, and the whole older transport (`legacy_sse`).

pub mod address;
pub mod answer;
mod body;
mod collect;
mod connect;
pub mod headers;
mod lease;
mod legacy_sse;
mod masked_body;
pub mod offload;
mod pace;
mod poll_body;
mod pool;
mod protocol;
mod server;
pub mod sse;

/// The parsers of HTTP/1.1 answers. Only the pool and the fuzz target `http1` use them.
pub mod http1 {
    pub use crate::pool::{Framing, Head, Piece};
}

pub use body::{AnswerBody, BodyError};
pub use collect::{CollectError, Collector, TooLong, collect};
pub use lease::Lease;
pub use masked_body::MaskedBody;
pub use pace::Pace;
pub use poll_body::PollBody;
pub use protocol::{Outdated, ServerProtocol, Speaks};
pub use server::{HttpUpstream, SendError, UrlError};
