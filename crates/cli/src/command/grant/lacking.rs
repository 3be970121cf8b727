//! Servers that would deny every call of a grant, because they have no policy of its name.

use serde_json::Value;
use sluice_policy::file::check::nearest;

use crate::{
    api::Gateway,
    output::{BAD, HELD, remark, visible},
};

/// A server without the policy of a grant.
pub(super) struct Lacking {
    server: String,
    /// The names of the policies that it has.
    policies: Vec<String>,
}

/// Finds the servers without the policy.
pub(super) fn find(
    gateway: &Gateway,
    servers: &[String],
    policy: &str,
) -> anyhow::Result<Vec<Lacking>> {
    let mut lacking = Vec::new();
    for server in servers {
        let answer = gateway.ask_all(&["servers", server, "policies"], "policies")?;
        let policies = answer.get("policies").and_then(Value::as_array).into_iter().flatten();
        let names = policies.filter_map(|one| one.get("name")?.as_str().map(str::to_owned));
        let policies: Vec<_> = names.collect();
        if !policies.iter().any(|name| name == policy) {
            lacking.push(Lacking { server: server.clone(), policies });
        }
    }
    Ok(lacking)
}

/// Refuses the first of them.
pub(super) fn refuse(first: &Lacking, policy: &str) -> anyhow::Result<()> {
    let Lacking { server, policies } = first;
    let meant = match nearest(policy, policies.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if policies.is_empty() => format!("server `{server}` has no policies"),
        None => format!("its policies: {}", policies.join(", ")),
    };
    let (server, policy, meant) = (visible(server), visible(policy), visible(&meant));
    remark(&format!(
        "{BAD}error{BAD:#}: server `{server}` has no policy `{policy}`, so it would deny every call\nhint: {meant}\nhint: `sluice policy put {server} {policy} FILE` adds it; with `--allow-missing` that may be done later\n"
    ))?;
    Ok(())
}

/// Warns of all of them.
pub(super) fn warn(lacking: &[Lacking], policy: &str) -> anyhow::Result<()> {
    for Lacking { server, .. } in lacking {
        let (server, policy) = (visible(server), visible(policy));
        remark(&format!(
            "{HELD}warning{HELD:#}: server `{server}` has no policy `{policy}` and will deny everything\nhint: sluice policy put {server} {policy} FILE\n"
        ))?;
    }
    Ok(())
}
