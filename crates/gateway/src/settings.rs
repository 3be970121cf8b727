//! Settings of the data path, fixed when it starts.

use sluice_http::address::Reach;
use sluice_listener::AllowedCallers;
use sluice_policy::ArgPath;
use sluice_stdio::Launch;
use sluice_store::{Clock, Key};
use sluice_wire::json::Bounds;

/// Settings of the agent listener.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Hosts that it may be called by, and origins of pages that may call it.
    pub callers: AllowedCallers,
    /// Whether only this machine can connect, so that servers may let callers
    /// in without a token.
    pub is_loopback: bool,
    /// The most a request may be.
    pub bounds: Bounds,
    /// The most bytes of an answer that is read whole, or not streamed as events.
    pub answer: usize,
    /// Ranges that servers may lie in, besides public ones.
    pub reach: Reach,
    /// What commands of servers are started with.
    pub launch: Launch,
    /// How many files and connections this process may have open.
    pub descriptors: usize,
    /// Where people decide: the address of the dashboard.
    pub people: String,
    /// Arguments whose values are recorded; no others are.
    pub recorded: Vec<ArgPath>,
    /// What sealed ids and digests are made with.
    pub key: Key,
    pub clock: Clock,
}

impl Settings {
    /// Bounds on what a server sends: as deep as a request, as long as an
    /// answer may be. Its numbers are not judged, so that they have no other.
    pub(crate) fn answer_bounds(&self) -> Bounds {
        Bounds {
            bytes: self.answer,
            string: self.answer,
            number: self.answer,
            members: 1 << 20,
            nodes: 1 << 20,
            ..self.bounds
        }
    }
}
