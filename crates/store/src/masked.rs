//! A server as it may be shown: without its secrets.

use sluice_wire::arguments;

use crate::server::{Instances, Secret, Start, Transport};

/// Replaces a secret.
pub const MASK: &str = arguments::MASK;

/// A [`Transport`] without its secrets, for every place that shows a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MaskedTransport<'s> {
    /// The URL has no query, and the headers are names only.
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
                MaskedTransport::Http { url: mask_url(url), headers: names(headers) }
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

/// A URL without its query, which may contain keys.
fn mask_url(url: &str) -> String {
    match url.split_once('?') {
        Some((place, _)) => format!("{place}?{MASK}"),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Instances, MaskedTransport, Secret, Start, Transport};

    fn pairs() -> Vec<(String, Secret)> {
        vec![("KEY".into(), Secret::new("hush".into()))]
    }

    #[test]
    fn no_secret_of_a_transport_is_shown() {
        let http = Transport::Http { url: "https://a/mcp?key=hush".into(), headers: pairs() };
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

    #[test]
    fn a_url_without_a_query_is_shown_whole() {
        let http = Transport::Http { url: "https://a/mcp".into(), headers: Vec::new() };
        let masked = MaskedTransport::Http { url: "https://a/mcp".into(), headers: Vec::new() };
        assert_eq!(http.mask(), masked);
    }
}
