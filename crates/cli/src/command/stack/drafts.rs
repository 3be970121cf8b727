//! The policies that adopted servers are put under.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use sluice_policy::{ToolSeen, suggest_policy};
use sluice_stack::{Ability, Tool};

use super::machine::Machine;
use crate::{data, input::Source};

/// A policy that is to be put into the data directory, unless one is there.
pub(super) struct Draft {
    pub(super) path: PathBuf,
    pub(super) text: String,
    /// What it does, line by line.
    pub(super) effect: Vec<String>,
    /// Whether somebody has written one before, which stays.
    pub(super) exists: bool,
}

/// The policy of a server whose tools are known, or of one whose tools are not.
pub(super) fn draft(machine: &Machine, name: &str, ability: Option<&Ability>) -> Draft {
    let path = folder(machine).join(format!("{name}.json"));
    let (text, effect) = match ability {
        Some(ability) => {
            let suggested = suggest_policy(ability.tools.iter().map(seen));
            (suggested.policy, suggested.effect)
        }
        None => (UNSEEN.to_owned(), UNSEEN_EFFECT.map(str::to_owned).to_vec()),
    };
    Draft { exists: path.exists(), path, text, effect }
}

fn seen(tool: &Tool) -> ToolSeen<'_> {
    ToolSeen { name: &tool.name, category: tool.category(), has_findings: tool.findings > 0 }
}

fn folder(machine: &Machine) -> PathBuf {
    machine.data.join("stack/policies")
}

impl Draft {
    /// Writes it, if there is none.
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

/// What is wrong with a policy's file, if anything is.
pub(super) fn unusable(path: &str) -> Option<Unusable> {
    if !Path::new(path).exists() {
        return Some(Unusable::Gone);
    }
    let source = match Source::read(path) {
        Ok(source) => source,
        Err(error) => return Some(Unusable::Broken(format!("{error:#}"))),
    };
    let problems = source.policy().err()?;
    let first = problems.first().map(|one| format!("{}:{} {}", one.line, one.column, one.message));
    Some(Unusable::Broken(first.unwrap_or_default()))
}

/// The recommended entries, for whatever the tools turn out to be.
const UNSEEN: &str = r#"{
  "version": "1",
  "default": "deny",
  "tools": {
    "@read": {},
    "@other": { "rate_limit": "60/minute" },
    "@write": { "rate_limit": "30/minute" },
    "@execute": { "rate_limit": "10/minute", "validate_args": true },
    "@destructive": { "action": "hide" },
    "@financial": { "action": "approve", "reason": "Requires human approval." }
  }
}
"#;
const UNSEEN_EFFECT: [&str; 3] = [
    "by what each tool turns out to do: reading is allowed, writing and running limited",
    "what destroys is hidden, what moves money waits for a person",
    "a tool that cannot be assessed: denied",
];

#[cfg(test)]
mod tests {
    use sluice_policy::{Format, load};

    use super::UNSEEN;

    #[test]
    fn the_policy_of_an_unseen_server_loads() {
        load(UNSEEN.as_bytes(), Format::Json).unwrap();
    }
}
