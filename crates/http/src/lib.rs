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
mod legacy_sse;
mod pieces;
mod pool;
mod server;
pub mod sse;

pub use body::{AnswerBody, BodyError};
pub use collect::{CollectError, collect};
pub use pieces::Pieces;
pub use server::{HttpUpstream, SendError, UrlError};
