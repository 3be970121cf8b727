//! What changes when one policy takes another's place.
//!
//! Compares what each policy says of every tool. Where the answer hangs on a
//! call's arguments, the conditions that come and go are named, and nothing is
//! guessed about the calls they catch.

mod summary;

use std::collections::BTreeSet;

use serde::Serialize;

use crate::{
    facts::{Facts, ToolFacts},
    policy::{Mode, Policy, Posture, ServerRequest},
};
use summary::{Standing, Summary};

/// All differences between two policies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PolicyDiff {
    /// The tools whose treatment changes, by name.
    pub tools: Vec<ToolDiff>,
    /// Changes that are not about one tool.
    pub other: Vec<Change>,
    /// How many tools were compared and are treated as before.
    pub unchanged: usize,
    /// What could not be compared, and what would help.
    pub notes: Vec<String>,
}

/// How the treatment of one tool changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolDiff {
    pub tool: String,
    /// How it was treated, in a few words.
    pub before: &'static str,
    pub after: &'static str,
    pub changes: Vec<Change>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// `allowed`, `denied`, `limited`, `loosened`, `approval`, or `arguments`
    /// where it depends on a call's arguments.
    pub effect: &'static str,
    /// The rule behind it, in the policy where it stands.
    pub rule: String,
    pub detail: String,
}

/// Compares two policies over a server's tools, or over the names that the
/// policies mention where no list is at hand.
pub fn diff(before: &Policy, after: &Policy, tools: Option<&[ToolFacts]>) -> PolicyDiff {
    let names: BTreeSet<&str> = match tools {
        Some(tools) => tools.iter().map(ToolFacts::name).collect(),
        None => before.exact_names().chain(after.exact_names()).collect(),
    };
    let mut result = PolicyDiff {
        tools: Vec::new(),
        other: other_changes(before, after),
        unchanged: 0,
        notes: notes(before, after, tools.is_some()),
    };
    for name in names {
        let facts = Facts::find(tools, name);
        let (old, new) = (Summary::of(before, name, facts), Summary::of(after, name, facts));
        let changes = old.changes_to(&new);
        if changes.is_empty() {
            result.unchanged += 1;
        } else {
            let (before, after) = (old.standing.name(), new.standing.name());
            result.tools.push(ToolDiff { tool: name.into(), before, after, changes });
        }
    }
    result
}

fn notes(before: &Policy, after: &Policy, have_tools: bool) -> Vec<String> {
    let by_pattern = before.has_patterns() || after.has_patterns();
    if have_tools || !by_pattern {
        return Vec::new();
    }
    let note = "entries that select by pattern or category were compared only on tools named \
                elsewhere in the policies: give the server's `tools/list` with `--tools` to see all";
    vec![note.into()]
}

fn other_changes(before: &Policy, after: &Policy) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut note = |effect, rule: &str, detail: String| {
        changes.push(Change { effect, rule: rule.into(), detail });
    };
    match (before.posture, after.posture) {
        (Posture::Allow, Posture::Deny) => {
            note("denied", "(default deny)", "tools that no entry names become denied".into());
        }
        (Posture::Deny, Posture::Allow) => {
            note("allowed", "/default", "tools that no entry names become allowed".into());
        }
        _ => {}
    }
    match (before.mode, after.mode) {
        (Mode::Enforce, Mode::Shadow) => {
            note("allowed", "/mode", "denials no longer take effect, only `hide` does".into());
        }
        (Mode::Shadow, Mode::Enforce) => note("denied", "/mode", "denials take effect".into()),
        _ => {}
    }
    for (rule, old, new) in [
        ("/resources", before.resources.to_string(), after.resources.to_string()),
        ("/prompts", before.prompts.to_string(), after.prompts.to_string()),
        ("/server_requests", requests(before), requests(after)),
        ("/methods", methods(before), methods(after)),
    ] {
        if old != new {
            let effect = match (old.as_str(), new.as_str()) {
                ("none", _) | (_, "all") => "allowed",
                (_, "none") | ("all", _) => "denied",
                _ => "arguments",
            };
            note(effect, rule, format!("{old} before, {new} after"));
        }
    }
    changes
}

fn requests(policy: &Policy) -> String {
    let names: Vec<_> = ServerRequest::ALL
        .into_iter()
        .filter(|request| policy.permits_server_request(*request))
        .map(|request| format!("`{}`", request.name()))
        .collect();
    match names.len() {
        0 => "none".into(),
        3 => "all".into(),
        _ => names.join(", "),
    }
}

fn methods(policy: &Policy) -> String {
    let names: Vec<_> = policy.methods.iter().map(|glob| format!("`{}`", glob.text())).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

impl Standing {
    fn name(&self) -> &'static str {
        match self {
            Standing::Hidden => "hidden",
            Standing::Denied { .. } => "denied",
            Standing::Open { held: true, .. } => "held for approval",
            Standing::Open { conditional: true, .. } => "depends on arguments",
            Standing::Open { limited: true, .. } => "allowed within limits",
            Standing::Open { .. } => "allowed",
        }
    }
}
