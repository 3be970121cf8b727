//! Summary of a policy for one tool, independent of arguments: the two sides of a diff.

mod leases;
mod limits;

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::{Change, Direction, canonical};
use crate::{
    approval::Approval,
    condition::Predicate,
    default_messages,
    facts::Facts,
    limit::{Concurrency, Limit},
    policy::{Entry, Policy, Posture, ValidateBy},
    standing::{Unavailable, standing},
};

/// The treatment of a tool.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Hidden,
    Denied { rule: String },
    Open { held: bool, conditional: bool, limited: bool },
}

/// All demands of a policy on calls to one tool. Each demand is keyed by its canonical text, so that
/// moving a rule to another entry, or spelling it differently, is not a change.
#[derive(Debug)]
pub(super) struct Summary<'p> {
    pub(super) standing: Standing,
    /// Conditions on arguments.
    conditions: BTreeMap<String, Stated<'p>>,
    /// Conditions for approval.
    approvals: BTreeMap<String, Stated<'p>>,
    /// The limit with the smallest maximum, by counter.
    limits: BTreeMap<String, &'p Limit>,
    /// The bounds of calls in progress, by entry and scope.
    leases: BTreeMap<String, &'p Concurrency>,
}

/// One demand in words, and its rule.
#[derive(Debug)]
struct Stated<'p> {
    words: String,
    rule: &'p str,
}

impl<'p> Summary<'p> {
    /// The summary for a tool whose definition is known.
    pub(super) fn of(policy: &'p Policy, tool: &str, facts: Facts<'_>) -> Summary<'p> {
        Summary::over_layers(policy, |layer| match standing(layer, tool, facts) {
            Err(Unavailable::Hidden) => Summary::empty(Standing::Hidden),
            Err(reason) => Summary::deny(layer, reason),
            Ok(entries) => Summary::open(layer, &entries),
        })
    }

    /// The summary for a tool by its name alone, without categories.
    pub(super) fn by_name(policy: &'p Policy, tool: &str) -> Summary<'p> {
        Summary::over_layers(policy, |layer| {
            if layer.hide.hides(tool, None) {
                return Summary::empty(Standing::Hidden);
            }
            let mut entries: Vec<_> = layer.tools.applying(tool, None).collect();
            if entries.is_empty() && layer.posture() == Posture::Deny {
                return Summary::deny(layer, Unavailable::Unlisted);
            }
            entries.extend(layer.all_tools.iter().filter(|entry| !entry.except.names(tool)));
            Summary::open(layer, &entries)
        })
    }

    /// The summary for tools that no entry selects.
    pub(super) fn by_default(policy: &'p Policy) -> Summary<'p> {
        Summary::over_layers(policy, Summary::of_unlisted)
    }

    fn of_unlisted(layer: &'p Policy) -> Summary<'p> {
        if layer.posture() == Posture::Deny {
            return Summary::deny(layer, Unavailable::Unlisted);
        }
        Summary::open(layer, &layer.all_tools.iter().collect::<Vec<_>>())
    }

    /// The summary for the tools that only this pattern selects.
    pub(super) fn by_pattern(policy: &'p Policy, pattern: &str) -> Summary<'p> {
        Summary::over_layers(policy, |layer| {
            if layer.hide.has(pattern) {
                return Summary::empty(Standing::Hidden);
            }
            match layer.tools.entry(pattern) {
                Some(entry) => {
                    let entries: Vec<_> = std::iter::once(entry).chain(&layer.all_tools).collect();
                    Summary::open(layer, &entries)
                }
                None => Summary::of_unlisted(layer),
            }
        })
    }

    /// What a policy and those that it extends demand together.
    fn over_layers(policy: &'p Policy, of: impl Fn(&'p Policy) -> Summary<'p>) -> Summary<'p> {
        let all = policy.bases.iter().map(&of).chain(std::iter::once(of(policy)));
        all.reduce(Summary::and).unwrap_or_else(|| of(policy))
    }

    fn and(mut self, other: Summary<'p>) -> Summary<'p> {
        self.standing = match (self.standing, other.standing) {
            (Standing::Hidden, _) | (_, Standing::Hidden) => {
                return Summary::empty(Standing::Hidden);
            }
            (denied @ Standing::Denied { .. }, _) | (_, denied @ Standing::Denied { .. }) => {
                return Summary::empty(denied);
            }
            (
                Standing::Open { held, conditional, limited },
                Standing::Open { held: held_too, conditional: also, limited: limited_too },
            ) => Standing::Open {
                held: held || held_too,
                conditional: conditional || also,
                limited: limited || limited_too,
            },
        };
        self.conditions.extend(other.conditions);
        self.approvals.extend(other.approvals);
        for (counter, limit) in other.limits {
            self.limit(counter, limit);
        }
        self.leases.extend(other.leases);
        self
    }

    fn deny(layer: &Policy, reason: Unavailable) -> Summary<'p> {
        let rule = reason.rule_in(&layer.prefix).into_owned();
        Summary::empty(Standing::Denied { rule })
    }

    fn limit(&mut self, counter: String, limit: &'p Limit) {
        let slot = self.limits.entry(counter).or_insert(limit);
        if limit.max < slot.max {
            *slot = limit;
        }
    }

    fn empty(standing: Standing) -> Summary<'p> {
        Summary {
            standing,
            conditions: BTreeMap::new(),
            approvals: BTreeMap::new(),
            limits: BTreeMap::new(),
            leases: BTreeMap::new(),
        }
    }

    fn open(policy: &'p Policy, entries: &[&'p Entry]) -> Summary<'p> {
        let mut summary = Summary::empty(Standing::Hidden);
        if policy.validates_by_default(entries) {
            let rule = &policy.validate_args_rule;
            summary.demand(OWN_SCHEMA.into(), OWN_SCHEMA.into(), rule);
        }
        for entry in entries {
            summary.take(entry);
            summary.take_lease(entry);
        }
        summary.standing = summary.settle(entries);
        summary
    }

    fn demand(&mut self, key: String, words: String, rule: &'p str) {
        self.conditions.insert(key, Stated { words, rule });
    }

    fn take(&mut self, entry: &'p Entry) {
        let rule = &entry.validate.rule;
        match &entry.validate.by {
            ValidateBy::Default | ValidateBy::NotByDefault => {}
            ValidateBy::Own => self.demand(OWN_SCHEMA.into(), OWN_SCHEMA.into(), rule),
            ValidateBy::Schema { text, .. } => {
                let words = format!("arguments must fit the schema {text}");
                self.demand(format!("schema {}", canonical::schema(text)), words, rule);
            }
        }
        for predicate in entry.require.iter().filter(|predicate| !predicate.conditions.is_empty()) {
            let words = format!("calls are allowed only where {}", all_of(predicate));
            let key = format!("require {}", canonical::predicate(predicate));
            self.demand(key, words, &predicate.rule);
        }
        for predicate in entry.deny_if.iter().filter(|predicate| !predicate.conditions.is_empty()) {
            let words = format!("calls where {} are denied", all_of(predicate));
            let key = format!("deny_if {}", canonical::predicate(predicate));
            self.demand(key, words, &predicate.rule);
        }
        if let Some(approval) = entry.approval.as_ref().filter(|approval| !approval.never_asks()) {
            let stated = Stated { words: when(approval, all_of), rule: &approval.rule };
            self.approvals.insert(when(approval, canonical::predicate), stated);
        }
        for limit in &entry.limits {
            self.limit(limits::counter(limit), limit);
        }
    }

    fn take_lease(&mut self, entry: &'p Entry) {
        if let Some(concurrency) = &entry.concurrent {
            self.leases.insert(leases::calls(concurrency), concurrency);
        }
    }

    fn settle(&self, entries: &[&Entry]) -> Standing {
        let mut predicates = entries.iter().flat_map(|entry| &entry.deny_if);
        if let Some(denial) = predicates.find(|predicate| predicate.conditions.is_empty()) {
            return Standing::Denied { rule: denial.rule.to_string() };
        }
        Standing::Open {
            held: entries
                .iter()
                .any(|entry| entry.approval.as_ref().is_some_and(Approval::holds_every_call)),
            conditional: !self.conditions.is_empty() || !self.approvals.is_empty(),
            limited: !self.limits.is_empty() || !self.leases.is_empty(),
        }
    }

    /// The changes if `after` replaces this one.
    pub(super) fn changes_to(&self, after: &Summary<'_>) -> Vec<Change> {
        use Direction::{Looser, Neither, Tighter};
        let denied = |direction, detail| vec![self.now_unavailable(after, direction, detail)];
        match (&self.standing, &after.standing) {
            (Standing::Open { .. }, Standing::Open { .. }) => {}
            (Standing::Open { .. }, _) => return denied(Tighter, "every call is denied"),
            (_, Standing::Open { .. }) => {
                let mut changes = vec![self.now_available(after)];
                changes.extend(after.demands());
                return changes;
            }
            (Standing::Hidden, Standing::Hidden) => return Vec::new(),
            (Standing::Hidden, Standing::Denied { .. }) => {
                return denied(Looser, "still denied, but listed or named by a rule");
            }
            (Standing::Denied { .. }, Standing::Hidden) => {
                return denied(Tighter, "still denied, and now hidden from lists");
            }
            (Standing::Denied { rule: old }, Standing::Denied { rule: new }) if old == new => {
                return Vec::new();
            }
            (Standing::Denied { .. }, Standing::Denied { .. }) => {
                return denied(Neither, "still denied, by another rule");
            }
        }
        let mut changes = self.condition_changes(after);
        changes.extend(limits::changes(&self.limits, &after.limits));
        changes.extend(leases::changes(&self.leases, &after.leases));
        changes
    }

    fn now_available(&self, after: &Summary<'_>) -> Change {
        let rule = self.standing.rule();
        let detail = format!("calls were denied by `{rule}` and no longer are");
        let (before, after) = (self.standing.json(), after.standing.json());
        let direction = Direction::Looser;
        Change { effect: "allowed", direction, rule: rule.into(), detail, before, after }
    }

    fn now_unavailable(&self, after: &Summary<'_>, direction: Direction, detail: &str) -> Change {
        let (rule, detail) = (after.standing.rule().into(), detail.into());
        let (before, after) = (self.standing.json(), after.standing.json());
        Change { effect: "denied", direction, rule, detail, before, after }
    }

    /// All demands on a tool that has just become available.
    fn demands(&self) -> Vec<Change> {
        let open = Standing::Open { held: false, conditional: false, limited: false };
        Summary::empty(open).changes_to(self)
    }

    fn condition_changes(&self, after: &Summary<'_>) -> Vec<Change> {
        let lists = [
            ("arguments", &self.conditions, &after.conditions),
            ("approval", &self.approvals, &after.approvals),
        ];
        let mut changes = Vec::new();
        for (effect, old, new) in lists {
            for (_, Stated { words, rule }) in new.iter().filter(|(key, _)| !old.contains_key(*key))
            {
                changes.push(Change {
                    effect,
                    direction: Direction::Tighter,
                    rule: (*rule).into(),
                    detail: format!("new: {words}"),
                    before: Json::Null,
                    after: json!(words),
                });
            }
            for (_, Stated { words, rule }) in old.iter().filter(|(key, _)| !new.contains_key(*key))
            {
                changes.push(Change {
                    effect,
                    direction: Direction::Looser,
                    rule: (*rule).into(),
                    detail: format!("no longer: {words}"),
                    before: json!(words),
                    after: Json::Null,
                });
            }
        }
        changes
    }
}

impl Standing {
    /// The rule by which no call is allowed.
    fn rule(&self) -> &str {
        match self {
            Standing::Denied { rule } => rule,
            Standing::Hidden | Standing::Open { .. } => "(hidden)",
        }
    }

    fn json(&self) -> Json {
        json!(self.name())
    }
}

const OWN_SCHEMA: &str = "arguments must fit the tool's own schema";

fn all_of(predicate: &Predicate) -> String {
    let parts: Vec<_> = predicate.conditions.iter().map(default_messages::condition).collect();
    parts.join(" and ")
}

fn when(approval: &Approval, words: impl Fn(&Predicate) -> String) -> String {
    let terms = format!(
        "{} of {} within {} s",
        if approval.approvers == 1 { "approval" } else { "approvals" },
        approval.approvers,
        approval.expires_seconds
    );
    if approval.holds_every_call() {
        return format!("{terms}, for every call");
    }
    let any: Vec<_> = approval.when.iter().map(words).collect();
    format!("{terms}, for calls where {}", any.join(", or "))
}
