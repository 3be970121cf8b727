//! Summary of a policy for one tool, independent of arguments: the two sides of a diff.

use std::collections::BTreeMap;

use super::Change;
use crate::{
    amount::Amount,
    approval::Approval,
    condition::Predicate,
    facts::Facts,
    limit::Limit,
    policy::{Entry, Policy, Posture, ValidateBy},
    standing::{Unavailable, standing},
    words,
};

/// The treatment of a tool.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Hidden,
    Denied { rule: String },
    Open { held: bool, conditional: bool, limited: bool },
}

/// All demands of a policy on calls to one tool. Each demand is keyed by its text, so that moving a
/// rule to another entry is no change.
#[derive(Debug)]
pub(super) struct Summary<'p> {
    pub(super) standing: Standing,
    /// Conditions on arguments, each with its rule.
    conditions: BTreeMap<String, &'p str>,
    /// Conditions for approval, each with its rule.
    approvals: BTreeMap<String, &'p str>,
    /// The limit with the smallest maximum, by counter.
    limits: BTreeMap<String, &'p Limit>,
}

impl<'p> Summary<'p> {
    /// The summary for a tool whose definition is known.
    pub(super) fn of(policy: &'p Policy, tool: &str, facts: Facts<'_>) -> Summary<'p> {
        match standing(policy, tool, facts) {
            Err(Unavailable::Hidden) => Summary::closed_off(Standing::Hidden),
            Err(reason) => Summary::closed_off(Standing::Denied { rule: reason.rule().into() }),
            Ok(entries) => Summary::open(policy, &entries),
        }
    }

    /// The summary for a tool by its name alone, without categories.
    pub(super) fn by_name(policy: &'p Policy, tool: &str) -> Summary<'p> {
        if policy.hide.hides(tool, None) {
            return Summary::closed_off(Standing::Hidden);
        }
        let mut entries: Vec<_> = policy.tools.applying(tool, None).collect();
        if entries.is_empty() && policy.posture() == Posture::Deny {
            let rule = Unavailable::Unlisted.rule().into();
            return Summary::closed_off(Standing::Denied { rule });
        }
        entries.extend(policy.all_tools.iter().filter(|entry| !entry.except.names(tool)));
        Summary::open(policy, &entries)
    }

    /// The summary for tools that no entry selects.
    pub(super) fn by_default(policy: &'p Policy) -> Summary<'p> {
        if policy.posture() == Posture::Deny {
            let rule = Unavailable::Unlisted.rule().into();
            return Summary::closed_off(Standing::Denied { rule });
        }
        Summary::open(policy, &policy.all_tools.iter().collect::<Vec<_>>())
    }

    /// The summary for the tools that only this pattern selects.
    pub(super) fn by_pattern(policy: &'p Policy, pattern: &str) -> Summary<'p> {
        if policy.hide.has(pattern) {
            return Summary::closed_off(Standing::Hidden);
        }
        match policy.tools.entry(pattern) {
            Some(entry) => {
                let entries: Vec<_> = std::iter::once(entry).chain(&policy.all_tools).collect();
                Summary::open(policy, &entries)
            }
            None => Summary::by_default(policy),
        }
    }

    fn closed_off(standing: Standing) -> Summary<'p> {
        Summary {
            standing,
            conditions: BTreeMap::new(),
            approvals: BTreeMap::new(),
            limits: BTreeMap::new(),
        }
    }

    fn open(policy: &'p Policy, entries: &[&'p Entry]) -> Summary<'p> {
        let mut summary = Summary::closed_off(Standing::Hidden);
        if policy.validates_by_default(entries) {
            summary.conditions.insert(OWN_SCHEMA.into(), "/validate_args");
        }
        for entry in entries {
            summary.take(entry);
        }
        summary.standing = summary.settle(entries);
        summary
    }

    fn take(&mut self, entry: &'p Entry) {
        match &entry.validate.by {
            ValidateBy::Default | ValidateBy::NotByDefault => {}
            ValidateBy::Own => {
                self.conditions.insert(OWN_SCHEMA.into(), &entry.validate.rule);
            }
            ValidateBy::Schema { text, .. } => {
                let what = format!("arguments must fit the schema {text}");
                self.conditions.insert(what, &entry.validate.rule);
            }
        }
        for predicate in entry.require.iter().filter(|predicate| !predicate.conditions.is_empty()) {
            let what = format!("calls are allowed only where {}", all_of(predicate));
            self.conditions.insert(what, &predicate.rule);
        }
        for predicate in entry.deny_if.iter().filter(|predicate| !predicate.conditions.is_empty()) {
            let what = format!("calls where {} are denied", all_of(predicate));
            self.conditions.insert(what, &predicate.rule);
        }
        if let Some(approval) = entry.approval.as_ref().filter(|approval| !approval.never_asks()) {
            self.approvals.insert(when(approval), &approval.rule);
        }
        for limit in &entry.limits {
            let slot = self.limits.entry(counter(limit)).or_insert(limit);
            if limit.max < slot.max {
                *slot = limit;
            }
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
            limited: !self.limits.is_empty(),
        }
    }

    /// The changes if `after` replaces this one.
    pub(super) fn changes_to(&self, after: &Summary<'_>) -> Vec<Change> {
        match (&self.standing, &after.standing) {
            (Standing::Open { .. }, Standing::Open { .. }) => {}
            (Standing::Open { .. }, _) => {
                return vec![after.unavailable_by("denied", "every call is denied")];
            }
            (old, Standing::Open { .. }) => {
                let rule = match old {
                    Standing::Denied { rule } => rule.clone(),
                    _ => "(hidden)".into(),
                };
                let detail = format!("calls were denied by `{rule}` and no longer are");
                let mut changes = vec![Change { effect: "allowed", rule, detail }];
                changes.extend(after.demands());
                return changes;
            }
            (Standing::Hidden, Standing::Hidden) => return Vec::new(),
            (Standing::Hidden, Standing::Denied { .. }) => {
                return vec![
                    after.unavailable_by("denied", "still denied, but listed or named by a rule"),
                ];
            }
            (Standing::Denied { .. }, Standing::Hidden) => {
                return vec![
                    after.unavailable_by("denied", "still denied, and now hidden from lists"),
                ];
            }
            (Standing::Denied { rule: old }, Standing::Denied { rule: new }) if old == new => {
                return Vec::new();
            }
            (Standing::Denied { .. }, Standing::Denied { .. }) => {
                return vec![after.unavailable_by("denied", "still denied, by another rule")];
            }
        }
        let mut changes = self.condition_changes(after);
        changes.extend(self.limit_changes(after));
        changes
    }

    fn unavailable_by(&self, effect: &'static str, detail: &str) -> Change {
        let rule = match &self.standing {
            Standing::Denied { rule } => rule.clone(),
            _ => "(hidden)".into(),
        };
        Change { effect, rule, detail: detail.into() }
    }

    /// All demands on a tool that has just become available.
    fn demands(&self) -> Vec<Change> {
        let open = Standing::Open { held: false, conditional: false, limited: false };
        Summary::closed_off(open).changes_to(self)
    }

    fn condition_changes(&self, after: &Summary<'_>) -> Vec<Change> {
        let lists = [
            ("arguments", &self.conditions, &after.conditions),
            ("approval", &self.approvals, &after.approvals),
        ];
        let mut changes = Vec::new();
        for (effect, old, new) in lists {
            for (what, rule) in new.iter().filter(|(what, _)| !old.contains_key(*what)) {
                let detail = format!("new: {what}");
                changes.push(Change { effect, rule: (*rule).into(), detail });
            }
            for (what, rule) in old.iter().filter(|(what, _)| !new.contains_key(*what)) {
                let detail = format!("no longer: {what}");
                changes.push(Change { effect, rule: (*rule).into(), detail });
            }
        }
        changes
    }

    fn limit_changes(&self, after: &Summary<'_>) -> Vec<Change> {
        let mut changes = Vec::new();
        for (counter, limit) in &after.limits {
            let old = self.limits.get(counter);
            let effect = match old.map_or(Amount::MAX, |old| old.max).cmp(&limit.max) {
                std::cmp::Ordering::Equal if old.is_some() => continue,
                std::cmp::Ordering::Less => "loosened",
                _ => "limited",
            };
            let was = old.map(|old| format!(", was {}", old.max_text)).unwrap_or_default();
            let detail = format!("at most {} on {counter}{was}", limit.max_text);
            changes.push(Change { effect, rule: limit.rule.to_string(), detail });
        }
        for (counter, limit) in &self.limits {
            if !after.limits.contains_key(counter) {
                let detail = format!("no longer: at most {} on {counter}", limit.max_text);
                changes.push(Change { effect: "loosened", rule: limit.rule.to_string(), detail });
            }
        }
        changes
    }
}

const OWN_SCHEMA: &str = "arguments must fit the tool's own schema";

fn all_of(predicate: &Predicate) -> String {
    let parts: Vec<_> = predicate.conditions.iter().map(words::condition).collect();
    parts.join(" and ")
}

fn when(approval: &Approval) -> String {
    let terms = format!(
        "{} of {} within {} s",
        if approval.approvers == 1 { "approval" } else { "approvals" },
        approval.approvers,
        approval.expires_seconds
    );
    if approval.holds_every_call() {
        return format!("{terms}, for every call");
    }
    let any: Vec<_> = approval.when.iter().map(all_of).collect();
    format!("{terms}, for calls where {}", any.join(", or "))
}

fn counter(limit: &Limit) -> String {
    let adding = match &limit.increment_from {
        Some(path) => format!(", adding `{}`", path.text()),
        None => String::new(),
    };
    // Compared by length, because `minute` and 60 are the same window.
    let window = match limit.window.seconds() {
        60 => "minute".into(),
        3_600 => "hour".into(),
        86_400 => "day".into(),
        seconds => format!("{seconds} s"),
    };
    format!("counter `{}` ({}, per {window}{adding})", limit.counter, limit.scope)
}
