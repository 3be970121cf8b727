//! The gateway's configuration for one run: a policy that denies tools it does not list, with one
//! limit on every call that no run can reach.

use std::{fmt::Write as _, fs, net::SocketAddr, path::Path};

use sluice_store::TokenHash;

use crate::upstream::tool;

/// The size of the configuration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) grants: usize,
    pub(super) policies: usize,
    /// The number of tools that each policy lists, and that the upstream has.
    pub(super) tools: usize,
}

/// The size of an ordinary configuration.
pub(super) const ORDINARY: Shape = Shape { grants: 1, policies: 1, tools: 20 };

/// The addresses of the gateway's listeners.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listeners {
    pub(super) agents: SocketAddr,
    pub(super) people: SocketAddr,
}

impl Shape {
    /// Calls use the last grant, the last policy and the last tool, so that a linear search takes
    /// the longest.
    pub(super) fn token(self) -> String {
        token(self.grants - 1)
    }

    pub(super) fn tool(self) -> String {
        tool(self.tools - 1)
    }
}

/// Writes `sluice.toml` and its policies.
pub(super) fn write(
    folder: &Path,
    shape: Shape,
    place: &str,
    listeners: Listeners,
) -> anyhow::Result<()> {
    let policy = policy(shape.tools);
    for n in 0..shape.policies {
        fs::write(folder.join(format!("policy-{n}.json")), &policy)?;
    }
    Ok(fs::write(folder.join("sluice.toml"), render_config(shape, place, listeners))?)
}

fn render_config(shape: Shape, place: &str, listeners: Listeners) -> String {
    let Listeners { agents, people } = listeners;
    let mut text =
        format!("listen = \"{agents}\"\nadmin = \"{people}\"\n\n[servers.bench]\n{place}\n");
    // Writing to a string cannot fail.
    for n in 0..shape.policies {
        let _ = write!(
            text,
            "\n[policies.policy-{n}]\nservers = [\"bench\"]\nfile = \"policy-{n}.json\"\n"
        );
    }
    let last = shape.policies - 1;
    for n in 0..shape.grants {
        let hash = TokenHash::of(&token(n));
        let hash = hash.as_hex();
        let _ = write!(
            text,
            "\n[grants.grant-{n}]\nservers = [\"bench\"]\npolicy = \"policy-{last}\"\ntoken_sha256 = \"{hash}\"\n"
        );
    }
    text
}

fn policy(tools: usize) -> String {
    let entries: Vec<_> = (0..tools)
        .map(|n| {
            let name = tool(n);
            format!(
                r#""{name}":{{"limits":[{{"counter":"{name}_calls","window":"day","max":1000000000000,"scope":"grant"}}]}}"#
            )
        })
        .collect();
    format!(r#"{{"version":"1","default":"deny","tools":{{{}}}}}"#, entries.join(","))
}

/// The lines of TOML that declare, after the first server's URL, another server that only another
/// grant may use, and the bounds of the gateway.
pub(super) fn with_another(url: &str, other: &str, limits: &str) -> String {
    let hash = TokenHash::of(&other_token());
    let hash = hash.as_hex();
    format!(
        r#"url = "{url}"

[limits]
{limits}

[servers.other]
url = "{other}"
timeout = "10m"

[policies.other]
servers = ["other"]
file = "policy-0.json"

[grants.other]
servers = ["other"]
policy = "other"
token_sha256 = "{hash}"
"#
    )
}

/// The token of the other grant.
pub(super) fn other_token() -> String {
    token(usize::MAX)
}

/// The token of the `n`th grant: valid, and always the same.
fn token(n: usize) -> String {
    format!("sg_{}", TokenHash::of(&format!("benchmark {n}")).as_hex())
}

#[cfg(test)]
mod tests {
    use super::{ORDINARY, Shape, policy};

    #[test]
    fn the_largest_policy_is_within_the_language_s_bounds() {
        assert!(policy(5_000).len() < 1 << 20);
        let document: serde_json::Value = serde_json::from_str(&policy(2)).unwrap();
        assert_eq!(document["tools"].as_object().unwrap().len(), 2);
    }

    #[test]
    fn grants_have_tokens_of_their_own() {
        let more = Shape { grants: 2, ..ORDINARY };
        assert_ne!(ORDINARY.token(), more.token());
        assert_eq!(more.token().len(), 67);
    }
}
