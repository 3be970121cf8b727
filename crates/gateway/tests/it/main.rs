//! The data path from outside: real sockets, a recording upstream as the judge,
//! and a clock that stands still.

#![cfg(test)]

mod call;
mod doors;
mod envelope;
mod eras;
mod framing;
mod harness;
mod headers;
mod identity;
mod json;
mod lists;
mod server_requests;
mod sessions;
mod shadow;
mod talk;
mod tasks;
