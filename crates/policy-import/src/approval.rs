//! Converts rules with `action: require_approval` into the `approval` of an entry.
//!
//! A tool had any number of such rules, each with conditions, a message and a timeout of its own.
//! An entry has one `approval`, whose `when` holds a call if any of its predicates does; of the
//! timeouts, the shortest applies.

use serde_json::{Value as Json, json};
use sluice_policy::file::node::Node;

use super::{
    Import,
    entry::{ImportedEntry, OldRule, object_of, predicate},
    text,
};

const MEANING: &str = "`require_approval` now holds the calls for which all of the rule's \
                       conditions are true, and every call if it has none";
const ORDER: &str = "a call that any rule denies is denied at once, and is no longer held first";
const MESSAGES: &str = "a tool has one message for held calls: that of its first rule with \
                        `require_approval` is kept";
const NOTIFY: &str = "`approvals` said how people were told of held calls and how long these \
                      waited; it is left out, so calls without an `approval_timeout` wait 15 \
                      minutes";

/// The calls of one tool that are held.
#[derive(Debug)]
pub(super) struct HeldCalls {
    /// The conditions of each rule; `None` if one of the rules has none, so every call is held.
    when: Option<Vec<Json>>,
    message: Option<String>,
    /// The shortest timeout.
    expires_seconds: Option<u64>,
}

impl HeldCalls {
    pub(super) fn into_json(self) -> Json {
        let approval = object_of([
            ("when", self.when.map(Json::Array)),
            ("expires", self.expires_seconds.map(|seconds| json!(duration(seconds)))),
            ("message", self.message.map(Json::from)),
        ]);
        if approval == json!({}) { json!(true) } else { approval }
    }

    /// The calls that this holds, or `other` does.
    fn or(self, other: HeldCalls) -> HeldCalls {
        let when = self.when.zip(other.when).map(|(mut when, others)| {
            when.extend(others);
            when
        });
        let shortest = [self.expires_seconds, other.expires_seconds].into_iter().flatten().min();
        HeldCalls { when, message: self.message.or(other.message), expires_seconds: shortest }
    }
}

impl Import<'_> {
    pub(super) fn require_approval(
        &mut self,
        rule: &OldRule<'_>,
        conditions: &[Node],
        entry: &mut ImportedEntry,
    ) {
        for key in ["rate_limit", "state"] {
            if let Some(node) = rule.node.get(key) {
                let message = format!("a rule with `action: require_approval` takes no `{key}`");
                self.problems.add_with_hint(node.span, message, "make it two rules".into());
            }
        }
        self.notes.know_once(rule.node.span, MEANING);
        self.notes.know_once(rule.node.span, ORDER);
        let held = HeldCalls {
            when: self.hold_conditions(conditions),
            message: rule.on_deny.map(str::to_owned),
            expires_seconds: self.timeout(rule.node),
        };
        entry.held = Some(match entry.held.take() {
            None => held,
            Some(before) => {
                if held.message.is_some() && held.message != before.message {
                    self.notes.know_once(rule.node.span, MESSAGES);
                }
                before.or(held)
            }
        });
    }

    /// The conditions under which a rule holds a call. One that cannot be converted is left out,
    /// so that more calls are held.
    fn hold_conditions(&mut self, conditions: &[Node]) -> Option<Vec<Json>> {
        let mut kept = Vec::new();
        for condition in conditions {
            let path = text(condition, "path").unwrap_or_default();
            if path.starts_with("state.") {
                let message = format!(
                    "whether a call is held can no longer depend on a counter: the condition on \
                     `{path}` is left out, so more calls are held"
                );
                self.notes.leave_out(condition.span, message);
            } else if path.starts_with("args.") {
                kept.extend(self.on_argument(condition));
            } else if !path.is_empty() {
                self.no_path(condition);
            }
        }
        (!kept.is_empty()).then(|| vec![predicate(kept, None)])
    }

    fn timeout(&mut self, rule: &Node) -> Option<u64> {
        let node = rule.get("approval_timeout")?;
        let written = node.as_str()?;
        let seconds = seconds(written);
        if seconds.is_none() {
            let message =
                format!("`approval_timeout` must be a duration such as `10m`, found `{written}`");
            self.problems.add(node.span, message);
        }
        seconds
    }

    /// Reports a timeout in a rule that holds no call.
    pub(super) fn refuse_timeout(&mut self, rule: &OldRule<'_>) {
        if let Some(node) = rule.node.get("approval_timeout") {
            let message = "`approval_timeout` needs `action: require_approval` beside it";
            self.problems.add(node.span, message.into());
        }
    }

    /// Notes that the older policy's settings for approvals are left out.
    pub(super) fn note_approvals(&mut self, root: &Node) {
        if let Some(approvals) = root.get("approvals") {
            self.notes.leave_out(approvals.span, NOTIFY.into());
        }
    }
}

/// Parses a duration such as `1h30m`.
fn seconds(text: &str) -> Option<u64> {
    let mut sum: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let (number, after) = rest.split_at_checked(rest.find(|c: char| !c.is_ascii_digit())?)?;
        let mut units = after.chars();
        let unit = match units.next()? {
            'h' => 3_600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        sum = sum.checked_add(number.parse::<u64>().ok()?.checked_mul(unit)?)?;
        rest = units.as_str();
    }
    (sum > 0).then_some(sum)
}

/// Formats a duration in our language, in its largest whole unit.
fn duration(seconds: u64) -> String {
    let units = [(86_400, 'd'), (3_600, 'h'), (60, 'm')];
    let unit = units.into_iter().find(|(size, _)| seconds.is_multiple_of(*size));
    let (size, letter) = unit.unwrap_or((1, 's'));
    format!("{}{letter}", seconds / size)
}

#[cfg(test)]
mod tests {
    use super::{duration, seconds};

    #[test]
    fn durations_are_sums_of_hours_minutes_and_seconds() {
        assert_eq!(seconds("10m"), Some(600));
        assert_eq!(seconds("1h30m"), Some(5_400));
        assert_eq!(seconds("90s"), Some(90));
        for text in ["", "10", "m", "0s", "1.5h", "-1m", "10 m", "1d", "99999999999999999999h"] {
            assert_eq!(seconds(text), None, "{text}");
        }
        assert_eq!([600, 5_400, 90, 86_400].map(duration), ["10m", "90m", "90s", "1d"]);
    }
}
