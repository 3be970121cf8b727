//! Servers and the policies attached to them: the one internal form, into which
//! the configuration file and the API are both lowered.

use std::{fmt, time::Duration};

use sluice_policy::Format;

use crate::name::Name;

/// Where something was declared. What a file declares is changed only there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    File,
    Stored,
}

/// One MCP server that calls can be forwarded to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    pub name: Name,
    pub transport: Transport,
    /// How long it may be silent before a call to it is given up.
    pub timeout: Duration,
    /// The policy for callers without a token, on loopback only.
    pub anonymous_policy: Option<Name>,
    pub source: Source,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// Streamable HTTP. The headers are the server's own credential and the like.
    Http { url: String, headers: Vec<(String, Secret)> },
    /// A server of ours, in process. The options are one JSON object.
    Builtin { name: String, options: String },
}

/// A policy as it is attached to one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedPolicy {
    pub server: Name,
    pub name: Name,
    pub text: String,
    pub format: Format,
    /// A digest of the text.
    pub version: String,
    pub source: Source,
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: String) -> Secret {
        Secret(text)
    }

    /// The text itself, for whoever must send it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
