//! Settings of the data path, fixed when it starts.

use std::time::Duration;

use sluice_http::address::Reach;
use sluice_listener::AllowedCallers;
use sluice_policy::ArgPath;
use sluice_stdio::Launch;
use sluice_store::{Clock, Key};
use sluice_wire::json::{Bounds, LoneSurrogates};

/// How long a new connection may send nothing.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a client may take for the TLS handshake, the preface of HTTP/2 or the headers of
/// a request. An unused HTTP/1.1 connection is closed after the same time.
const HEADER_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a body may take.
const BODY_TIMEOUT: Duration = Duration::from_mins(1);
/// How long an HTTP/2 connection may be without requests.
const IDLE_TIMEOUT: Duration = Duration::from_mins(5);
/// How long a client may not take what is sent to it.
const UNREAD_TIMEOUT: Duration = Duration::from_mins(1);

/// How long clients may keep the gateway waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientTimes {
    pub first_byte: Duration,
    pub header: Duration,
    pub body: Duration,
    pub idle: Duration,
    pub unread: Duration,
}

impl Default for ClientTimes {
    fn default() -> ClientTimes {
        ClientTimes {
            first_byte: FIRST_BYTE_TIMEOUT,
            header: HEADER_TIMEOUT,
            body: BODY_TIMEOUT,
            idle: IDLE_TIMEOUT,
            unread: UNREAD_TIMEOUT,
        }
    }
}

use crate::{hops::Hops, shares::ShareLimits};

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
    /// How many bytes of long messages may be held at a time.
    pub in_flight: usize,
    /// The maximum size of an answer in bytes, unless it is an event stream.
    pub answer: usize,
    /// Address ranges that servers may use, besides public ones.
    pub reach: Reach,
    /// The gateways that requests come through.
    pub hops: Hops,
    /// How the commands of servers are started.
    pub launch: Launch,
    /// How much of each resource one grant may use, and one server.
    pub shares: ShareLimits,
    /// How many files and connections this process may have open.
    pub descriptors: usize,
    pub times: ClientTimes,
    /// The URL of the admin listener, with which the URLs of approvals begin.
    pub admin_url: String,
    /// The arguments whose values are recorded.
    pub recorded: Vec<ArgPath>,
    /// The key from which those for sealed ids and digests are derived.
    pub key: Key,
    pub clock: Clock,
}

impl Settings {
    /// Limits on a server's messages: nested as deep as a request, as long as an answer.
    /// The policy does not judge their numbers, so numbers have no limit of their own.
    /// A text that a server cut within a character is passed on as it is.
    pub(crate) fn answer_bounds(&self) -> Bounds {
        Bounds {
            bytes: self.answer,
            string: self.answer,
            number: self.answer,
            members: 1 << 20,
            nodes: 1 << 20,
            lone_surrogates: LoneSurrogates::Replace,
            ..self.bounds
        }
    }
}
