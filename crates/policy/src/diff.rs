//! Semantic diff of two policies, tool by tool.
//!
//! Compares what each policy says about every tool. Where the result depends on a
//! call's arguments, the diff names the added and removed conditions and makes no
//! claim about the calls that match them. Each change says whether it is tighter or looser.

mod canonical;
mod others;
mod summary;

use std::collections::BTreeSet;

use serde::{Serialize, Serializer};
use serde_json::Value as Json;

use crate::{
    facts::{Facts, ToolFacts},
    policy::Policy,
};
use summary::{Standing, Summary};

/// All differences between two policies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PolicyDiff {
    /// The tools whose treatment changes, by name.
    pub tools: Vec<ToolDiff>,
    /// Changes that are not about one tool.
    pub other: Vec<Change>,
    /// How many compared tools are treated as before.
    pub unchanged: usize,
    /// Whether every tool of the server was compared.
    pub complete: bool,
    /// What could not be compared, and what would make it possible.
    pub notes: Vec<String>,
}

/// The change for one tool, or for all tools that a pattern selects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolDiff {
    pub tool: String,
    /// Its previous treatment, in a few words.
    pub before: &'static str,
    pub after: &'static str,
    pub changes: Vec<Change>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// `allowed`, `denied`, `limited`, `loosened`, `changed`, `approval`, or `arguments`
    /// where it depends on a call's arguments.
    pub effect: &'static str,
    pub direction: Direction,
    /// The rule behind it, in the policy that contains it.
    pub rule: String,
    pub detail: String,
    /// The old value, for programs; null if there was none.
    pub before: Json,
    /// The new value; null if there is none.
    pub after: Json,
}

/// Whether a change permits fewer calls or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Tighter,
    Looser,
    /// Some calls are permitted that were not, and others are not that were; or the calls are the
    /// same, and only the rule is another one.
    Neither,
}

impl Direction {
    /// The word used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Tighter => "tighter",
            Direction::Looser => "looser",
            Direction::Neither => "other",
        }
    }
}

impl Serialize for Direction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Compares two policies over a server's tools or, without a list of tools, over the names and
/// patterns in the policies.
pub fn diff(before: &Policy, after: &Policy, tools: Option<&[ToolFacts]>) -> PolicyDiff {
    let mut result = PolicyDiff {
        tools: Vec::new(),
        other: others::changes(before, after),
        unchanged: 0,
        complete: true,
        notes: Vec::new(),
    };
    let changes = Summary::by_default(before).changes_to(&Summary::by_default(after));
    result.other.extend(changes.into_iter().map(|change| Change {
        detail: format!("tools that no entry names: {}", change.detail),
        ..change
    }));
    let named: BTreeSet<&str> = before.exact_names().chain(after.exact_names()).collect();
    let Some(tools) = tools else {
        for name in named {
            let summary = |policy| Summary::by_name(policy, name);
            result.compare(name, &summary(before), &summary(after));
        }
        result.compare_patterns(before, after);
        return result;
    };
    for tool in tools {
        let summary = |policy| Summary::of(policy, tool.name(), Facts::Known(tool));
        result.compare(tool.name(), &summary(before), &summary(after));
    }
    result.note_missing(&named, tools);
    result
}

impl PolicyDiff {
    /// All changes, of tools and others.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.tools.iter().flat_map(|tool| &tool.changes).chain(&self.other)
    }

    /// Whether any difference was found.
    pub fn is_empty(&self) -> bool {
        self.changes().next().is_none()
    }

    /// How many changes go in this direction.
    pub fn count(&self, direction: Direction) -> usize {
        self.changes().filter(|change| change.direction == direction).count()
    }

    fn compare(&mut self, tool: &str, old: &Summary<'_>, new: &Summary<'_>) {
        let changes = old.changes_to(new);
        if changes.is_empty() {
            self.unchanged += 1;
        } else {
            let (before, after) = (old.standing.name(), new.standing.name());
            self.tools.push(ToolDiff { tool: tool.into(), before, after, changes });
        }
    }

    /// Compares entries that select by pattern or category, each by itself.
    fn compare_patterns(&mut self, before: &Policy, after: &Policy) {
        let patterns: BTreeSet<&str> = before.patterns().chain(after.patterns()).collect();
        if patterns.is_empty() {
            return;
        }
        for pattern in patterns {
            let summary = |policy| Summary::by_pattern(policy, pattern);
            let compared = self.tools.len();
            self.compare(pattern, &summary(before), &summary(after));
            for change in self.tools.iter_mut().skip(compared).flat_map(|diff| &mut diff.changes) {
                change.detail.insert_str(0, "this entry by itself: ");
            }
        }
        self.complete = false;
        let note = "entries by pattern or category were compared each by itself, and categories \
                    were left out for the tools that are named: give the server's `tools/list` \
                    with `--tools` to compare tool by tool";
        self.notes.push(note.into());
    }

    fn note_missing(&mut self, named: &BTreeSet<&str>, tools: &[ToolFacts]) {
        let listed: BTreeSet<_> = tools.iter().map(ToolFacts::name).collect();
        let missing: Vec<_> = named.difference(&listed).map(|name| format!("`{name}`")).collect();
        if !missing.is_empty() {
            self.complete = false;
            self.notes.push(format!(
                "named in the policies but not in the list, and not compared: {}",
                missing.join(", ")
            ));
        }
    }
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
