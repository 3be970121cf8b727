//! The data path from outside: real sockets, a recording upstream as the judge,
//! and a clock that stands still.

#![cfg(test)]

mod call;
mod envelope;
mod framing;
mod harness;
mod identity;
mod json;
mod talk;
