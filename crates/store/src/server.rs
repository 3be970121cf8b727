//! Servers and the policies attached to them: the internal form, into which the
//! configuration file and the API are both converted.

use std::{fmt, time::Duration};

use sluice_policy::{Format, Timestamp};

use crate::{
    digest::{hex, sha256},
    name::Name,
};

/// Where something was declared. Objects declared in a file can be changed only there.
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
    /// How long it may be silent before a call to it times out.
    pub timeout: Duration,
    /// The policy for callers without a token, on loopback only.
    pub anonymous_policy: Option<Name>,
    pub bridge: Bridge,
    pub source: Source,
}

/// How a legacy server is presented to clients that speak the modern era. Their requests
/// are bridged in either case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Bridge {
    /// As a legacy server, so that clients of both eras use the legacy era.
    #[default]
    OwnEra,
    /// As a modern server.
    Modern,
}

/// How to reach a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// Streamable HTTP. The headers contain the server's own credential and the like.
    Http { url: String, headers: Vec<(String, Secret)> },
    /// A built-in server, in process. The options are one JSON object.
    Builtin { name: String, options: String },
    /// A command that the gateway starts. The variables are set in its environment.
    Command { command: Vec<String>, env: Vec<(String, Secret)>, instances: Instances, start: Start },
}

/// Which sessions share a process of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Instances {
    #[default]
    Shared,
    /// Each session has its own process.
    Session,
}

/// When a command is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// When it is first needed.
    #[default]
    Use,
    /// When the gateway starts.
    Up,
}

impl Instances {
    /// The name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Instances::Shared => "shared",
            Instances::Session => "session",
        }
    }
}

impl Start {
    /// The name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Start::Use => "use",
            Start::Up => "up",
        }
    }
}

/// A policy attached to one server.
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
    /// The version of a policy with this text: the first 16 hexadecimal digits of its
    /// SHA-256, short enough to read out and long enough to avoid collisions.
    pub fn version_of(text: &str) -> String {
        let hash = sha256(text.as_bytes());
        hash.first_chunk::<8>().map(|start| hex(start)).unwrap_or_default()
    }
}

/// A policy, and when it became active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyVersion {
    pub policy: AttachedPolicy,
    /// When it was activated.
    pub at: Timestamp,
}

/// A text that is never printed.
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
    fn a_version_is_a_digest_and_debug_output_hides_secrets() {
        assert_eq!(AttachedPolicy::version_of("abc"), "ba7816bf8f01cfea");
        assert!(!format!("{:?}", Secret::new("hush".into())).contains("hush"));
    }
}
