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
    /// Allowed Hosts, and allowed Origins of calling pages.
    pub callers: AllowedCallers,
    /// Whether only this machine can connect, so that servers may allow anonymous
    /// callers.
    pub is_loopback: bool,
    /// Limits on a request.
    pub bounds: Bounds,
    /// The maximum size of an answer in bytes, unless it is an event stream.
    pub answer: usize,
    /// Address ranges that servers may use, besides public ones.
    pub reach: Reach,
    /// How the commands of servers are started.
    pub launch: Launch,
    /// How many files and connections this process may have open.
    pub descriptors: usize,
    /// The address of the dashboard, where people decide on approvals.
    pub people: String,
    /// The arguments whose values are recorded.
    pub recorded: Vec<ArgPath>,
    /// The key from which those for sealed ids and digests are derived.
    pub key: Key,
    pub clock: Clock,
}

impl Settings {
    /// Limits on a server's messages: nested as deep as a request, as long as an answer.
    /// The policy does not judge their numbers, so numbers have no limit of their own.
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
