//! The policies of adopted servers.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use sluice_policy::{
    Format, Policy, Restriction, ToolSeen, load, suggest_policy, suggest_policy_by_category,
};
use sluice_stack::{Ability, Tool};

use super::machine::Machine;
use crate::{data, input::read_source};

/// A policy to be written to the data directory, unless the file exists.
pub(super) struct Draft {
    pub(super) path: PathBuf,
    pub(super) text: String,
    /// The effect of the policy, line by line.
    pub(super) effect: Vec<String>,
    /// Whether the file exists already; it is not overwritten.
    pub(super) exists: bool,
    /// What clients lose under the policy that will apply; `None` if the tools are unknown, or the
    /// existing policy cannot be read.
    pub(super) restriction: Option<Restriction>,
}

/// Drafts the policy of a server, whether its tools are known or not.
pub(super) fn draft(machine: &Machine, name: &str, ability: Option<&Ability>) -> Draft {
    let path = folder(machine).join(format!("{name}.json"));
    let suggested = match ability {
        Some(ability) => suggest_policy(ability.tools.iter().map(to_tool_seen)),
        None => suggest_policy_by_category(),
    };
    let exists = path.exists();
    let policy = if exists { read(&path) } else { parse(&suggested.policy) };
    let restriction = ability
        .zip(policy)
        .map(|(known, policy)| policy.restriction(known.tools.iter().map(to_tool_seen)));
    Draft { path, text: suggested.policy, effect: suggested.effect, exists, restriction }
}

/// Reads an existing policy, if it is valid.
fn read(path: &Path) -> Option<Policy> {
    read_source(path.to_str()?).ok()?.policy().ok()
}

fn parse(text: &str) -> Option<Policy> {
    load(text.as_bytes(), Format::Json).ok()
}

fn to_tool_seen(tool: &Tool) -> ToolSeen<'_> {
    ToolSeen { name: &tool.name, category: tool.category(), has_findings: tool.findings > 0 }
}

fn folder(machine: &Machine) -> PathBuf {
    machine.data.join("stack/policies")
}

impl Draft {
    /// Writes the policy, unless the file exists.
    pub(super) fn write(&self, machine: &Machine) -> anyhow::Result<()> {
        if !Path::exists(&self.path) {
            machine.directory()?.stack_folder("policies")?;
            data::write_private(&self.path, &self.text)?;
        }
        Ok(())
    }
}

/// Why the policy of an adopted server cannot be used.
pub(super) enum Unusable {
    Gone,
    Broken(String),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Gone => f.write_str("it is gone"),
            Unusable::Broken(why) => f.write_str(why),
        }
    }
}

/// The problem with a policy file, if there is one.
pub(super) fn unusable(path: &str) -> Option<Unusable> {
    if !Path::new(path).exists() {
        return Some(Unusable::Gone);
    }
    let source = match read_source(path) {
        Ok(source) => source,
        Err(error) => return Some(Unusable::Broken(format!("{error:#}"))),
    };
    let problems = source.policy().err()?;
    let first = problems.first().map(|one| format!("{}:{} {}", one.line, one.column, one.message));
    Some(Unusable::Broken(first.unwrap_or_default()))
}
