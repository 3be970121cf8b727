//! Servers and the policies attached to them: the one internal form, into which
//! the configuration file and the API are both converted.

use std::{fmt, time::Duration};

use sluice_policy::{Format, Timestamp};

use crate::{
    digest::{hex, sha256},
    name::Name,
};

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
    pub bridge: Bridge,
    pub source: Source,
}

/// What a server of the legacy era is said to be to clients that ask in the
/// modern one. Their requests are bridged in either case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Bridge {
    /// What it is, so that clients of both eras speak its own.
    #[default]
    OwnEra,
    /// A modern one.
    Modern,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// Streamable HTTP. The headers are the server's own credential and the like.
    Http { url: String, headers: Vec<(String, Secret)> },
    /// A server of ours, in process. The options are one JSON object.
    Builtin { name: String, options: String },
    /// A command that is started here. The variables are set in its environment.
    Command { command: Vec<String>, env: Vec<(String, Secret)>, instances: Instances, start: Start },
}

/// Which sessions share a process of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Instances {
    #[default]
    Shared,
    /// Each has its own.
    Session,
}

/// When a command is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// When somebody needs it.
    #[default]
    Use,
    /// With the gateway.
    Up,
}

impl Instances {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Instances::Shared => "shared",
            Instances::Session => "session",
        }
    }
}

impl Start {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Start::Use => "use",
            Start::Up => "up",
        }
    }
}

/// A policy as it is attached to one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedPolicy {
    pub server: Name,
    pub name: Name,
    pub text: String,
    pub format: Format,
    /// A digest of the text: [`AttachedPolicy::version_of`].
    pub version: String,
    pub source: Source,
}

impl AttachedPolicy {
    /// The version of a policy with this text: the first 16 hexadecimal digits of
    /// its SHA-256, which is short enough to read out and too long to repeat by chance.
    pub fn version_of(text: &str) -> String {
        let hash = sha256(text.as_bytes());
        hash.first_chunk::<8>().map(|start| hex(start)).unwrap_or_default()
    }
}

/// A policy as it was from some moment on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyVersion {
    pub policy: AttachedPolicy,
    /// When it was put into force.
    pub at: Timestamp,
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: String) -> Secret {
        Secret(text)
    }

    /// The text itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::{AttachedPolicy, Secret};

    #[test]
    fn a_version_is_a_digest_and_a_secret_does_not_show_itself() {
        assert_eq!(AttachedPolicy::version_of("abc"), "ba7816bf8f01cfea");
        assert!(!format!("{:?}", Secret::new("hush".into())).contains("hush"));
    }
}
