//! MCP servers that are reached by HTTP: connections, requests, answers and event
//! streams.
//!
//! [`HttpUpstream`] sends one request, by streamable HTTP or by the older transport
//! with one event stream. [`AnswerBody`] and [`SendError`] are what every way to a
//! server answers with, because the other ways play a server that speaks HTTP.
//! Requests were judged before they come here; nothing in this crate knows policies.
//!
//! This crate is large because it has an HTTP/1.1 client of its own (`pool`), which
//! is faster than a general one, and all of the older transport (`legacy_sse`).

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
