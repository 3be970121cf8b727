//! The display form of a server definition, with secrets masked.

use sluice_wire::{arguments, server_url};

use crate::server::{Instances, Secret, Start, Transport};

/// Replaces a secret.
pub const MASK: &str = arguments::MASK;

/// A [`Transport`] without its secrets, for every place that shows a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MaskedTransport<'s> {
    /// The headers are names only.
    Http {
        url: String,
        headers: Vec<&'s str>,
    },
    Builtin {
        name: &'s str,
        options: &'s str,
    },
    /// The variables are names only.
    Command {
        command: Vec<String>,
        env: Vec<&'s str>,
        instances: Instances,
        start: Start,
    },
}

impl Transport {
    /// Masks the secrets in it.
    pub fn mask(&self) -> MaskedTransport<'_> {
        match self {
            Transport::Http { url, headers } => {
                let url = server_url::mask(url.expose());
                MaskedTransport::Http { url, headers: names(headers) }
            }
            Transport::Builtin { name, options } => MaskedTransport::Builtin { name, options },
            Transport::Command { command, env, instances, start } => MaskedTransport::Command {
                command: arguments::mask(command),
                env: names(env),
                instances: *instances,
                start: *start,
            },
        }
    }
}

fn names(pairs: &[(String, Secret)]) -> Vec<&str> {
    pairs.iter().map(|(name, _)| name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::{Instances, MaskedTransport, Secret, Start, Transport};

    fn pairs() -> Vec<(String, Secret)> {
        vec![("KEY".into(), Secret::new("hush".into()))]
    }

    #[test]
    fn no_secret_of_a_transport_is_shown() {
        let url = Secret::new("https://a/mcp?key=hush".into());
        let http = Transport::Http { url, headers: pairs() };
        let masked =
            MaskedTransport::Http { url: "https://a/mcp?…".into(), headers: vec!["KEY"] };
        assert_eq!(http.mask(), masked);
        let command = Transport::Command {
            command: ["serve", "--token", "hush", "--port", "1"].map(str::to_owned).to_vec(),
            env: pairs(),
            instances: Instances::Shared,
            start: Start::Up,
        };
        let masked = MaskedTransport::Command {
            command: ["serve", "--token", "…", "--port", "1"].map(str::to_owned).to_vec(),
            env: vec!["KEY"],
            instances: Instances::Shared,
            start: Start::Up,
        };
        assert_eq!(command.mask(), masked);
    }
}
