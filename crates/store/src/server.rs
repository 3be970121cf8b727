//! Servers and the policies attached to them: the internal form, into which the
//! configuration file and the API are both converted.

use std::{fmt, time::Duration};

use sluice_policy::{Format, Timestamp};
use sluice_wire::secrets::{KnownSecrets, Secrets};
use zeroize::Zeroize as _;

use crate::{
    bases::BaseFile,
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
    pub hidden_text: HiddenText,
    /// Whether its secrets are removed from its answers to agents.
    pub mask_secrets: bool,
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

/// What happens to text in a server's definitions that a model reads and a person does not
/// see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HiddenText {
    /// It is removed.
    #[default]
    Strip,
    /// The tool, prompt or resource is withheld.
    Withhold,
    /// It is passed on.
    Pass,
}

impl HiddenText {
    pub const ALL: [HiddenText; 3] = [HiddenText::Strip, HiddenText::Withhold, HiddenText::Pass];

    /// The name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            HiddenText::Strip => "strip",
            HiddenText::Withhold => "withhold",
            HiddenText::Pass => "pass",
        }
    }
}

/// How to reach a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// Streamable HTTP. The URL may contain a secret; the headers contain the server's own
    /// credential and the like.
    Http { url: Secret, headers: Vec<(String, Secret)> },
    /// A built-in server, in process. The options are one JSON object.
    Builtin { name: String, options: String },
    /// A command that the gateway starts. The variables are set in its environment.
    Command { command: Vec<String>, env: Vec<(String, Secret)>, instances: Instances, start: Start },
}

impl Transport {
    /// What tells a server from another one of its name: its URL, its command, or what is built in.
    /// Credentials in headers and variables are left out, because they are renewed.
    pub fn destination(&self) -> Secret {
        let (kind, parts) = match self {
            Transport::Http { url, .. } => ("url", vec![url.expose()]),
            Transport::Builtin { name, options } => ("builtin", vec![&**name, options]),
            Transport::Command { command, .. } => {
                ("command", command.iter().map(String::as_str).collect())
            }
        };
        // Lengths keep the parts apart.
        let parts = parts.iter().map(|part| format!("{}:{part}", part.len()));
        Secret::new(format!("{kind} {}", parts.collect::<Vec<_>>().join(" ")))
    }

    /// The secrets in it, to be removed from what the server writes.
    pub fn secrets(&self) -> Secrets {
        let mut known = KnownSecrets::default();
        match self {
            Transport::Http { url, headers } => {
                known.add_server_url(url.expose());
                for (name, value) in headers {
                    known.add_header(name, value.expose());
                }
            }
            Transport::Builtin { .. } => {}
            Transport::Command { command, env, .. } => {
                known.add_command(command);
                for (name, value) in env {
                    known.add_variable(name, value.expose(), value.was_looked_up());
                }
            }
        }
        known.build()
    }
}

/// A server that the configuration's files declare, or declared before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredServer {
    pub name: Name,
    /// Recognises the server: a digest of [`Transport::destination`].
    pub identity: String,
    /// Whether the files declare it now.
    pub is_declared: bool,
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
    /// The files that it extends. A policy in the store has none.
    pub base_files: Vec<BaseFile>,
}

impl AttachedPolicy {
    /// The version of a policy with this text: the first 16 hexadecimal digits of its
    /// SHA-256, short enough to read out and long enough to avoid collisions.
    pub fn version_of(text: &str) -> String {
        AttachedPolicy::version_of_bytes(text.as_bytes())
    }

    pub(crate) fn version_of_bytes(text: &[u8]) -> String {
        let hash = sha256(text);
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

/// A text that is never printed. Its memory is overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    text: String,
    was_looked_up: bool,
}

impl Secret {
    /// A text that is written where it is used.
    pub fn new(text: String) -> Secret {
        Secret { text, was_looked_up: false }
    }

    /// A text that was looked up where secrets are kept: in a variable or a file.
    pub fn from_reference(text: String) -> Secret {
        Secret { text, was_looked_up: true }
    }

    /// The text itself.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// Whether its author has marked it as a secret by keeping it elsewhere.
    pub fn was_looked_up(&self) -> bool {
        self.was_looked_up
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.text.zeroize();
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
