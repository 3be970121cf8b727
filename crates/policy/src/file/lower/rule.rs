//! Lowers one rule: expands short forms and compiles the rest.

use super::{Lowering, limit::concurrency, list, text};
use crate::{
    approval::{Approval, DEFAULT_EXPIRES_SECONDS},
    condition::Predicate,
    file::node::{Content, Node},
    pattern::Pattern,
    policy::{Entry, Except, Validate, ValidateBy},
    schema::ArgsSchema,
};

/// The maximum number of conditions in one rule, over all its lists.
const MOST_CONDITIONS: usize = 100;

/// A rule being lowered.
pub(super) struct Rule<'r> {
    /// Its key, after which short forms name their counters.
    pub(super) key: &'r str,
    /// The prefix of its rule ids.
    pub(super) base: String,
    pub(super) node: &'r Node,
}

impl Rule<'_> {
    /// The message for a part of the rule: its own, or else the rule's.
    pub(super) fn message(&self, own: Option<&str>) -> Option<Box<str>> {
        own.or_else(|| text(self.node, "reason")).map(Box::from)
    }
}

impl Lowering<'_> {
    pub(super) fn entry(
        &mut self,
        key: &str,
        base: String,
        pattern: Pattern,
        node: &Node,
    ) -> Entry {
        let rule = Rule { key, base, node };
        self.patterns.begin_rule(!matches!(pattern, Pattern::Exact(_)));
        self.count_conditions(&rule);
        let except = self.except(&rule, &pattern);
        let action = text(node, "action");
        if action == Some("hide") {
            self.hide.push((pattern, except.clone()));
        }
        let mut deny_if = self.predicates(&rule, list(node, "deny_if"), "deny_if");
        if action == Some("deny") {
            deny_if.push(Predicate {
                conditions: Box::default(),
                rule: format!("{}/deny_if", rule.base).into(),
                message: rule.message(None),
            });
        }
        Entry {
            key: key.into(),
            except,
            validate: self.validate(&rule),
            require: self.predicates(&rule, list(node, "require"), "require").into(),
            deny_if: deny_if.into(),
            approval: self.approval(&rule, action == Some("approve")),
            limits: self.limits(&rule).into(),
            concurrent: concurrency(&rule, self.mode),
        }
    }

    fn count_conditions(&mut self, rule: &Rule<'_>) {
        let when = rule.node.get("approval").map(|node| list(node, "when")).unwrap_or_default();
        let predicates = [list(rule.node, "require"), list(rule.node, "deny_if"), when];
        let conditions =
            predicates.concat().iter().map(|node| list(node, "conditions").len()).sum();
        if MOST_CONDITIONS < conditions {
            let message = format!(
                "`{}` has {conditions} conditions: a rule may have at most {MOST_CONDITIONS}",
                rule.key
            );
            self.problems.add(rule.node.span, message);
        }
    }

    fn except(&mut self, rule: &Rule<'_>, pattern: &Pattern) -> Except {
        let mut names = Vec::new();
        for item in list(rule.node, "except") {
            let Some(name) = item.as_str() else { continue };
            if name.contains('*') || name.starts_with('@') {
                let message = format!("`except` takes tool names, and `{name}` is a pattern");
                let hint = "name each tool that is taken out".into();
                self.problems.add_with_hint(item.span, message, hint);
            } else if *pattern == Pattern::Exact(name.into()) {
                let message = format!("`except` takes out `{name}`, the only tool of this entry");
                let hint = "take the entry away, or let it stand".into();
                self.problems.add_with_hint(item.span, message, hint);
            }
            names.push(name.into());
        }
        Except::new(names)
    }

    fn validate(&mut self, rule: &Rule<'_>) -> Validate {
        let node = rule.node.get("validate_args");
        let by = match node.map(|node| (node.as_bool(), node)) {
            None => ValidateBy::Default,
            Some((Some(true), _)) => ValidateBy::Own,
            Some((Some(false), _)) => ValidateBy::NotByDefault,
            // A policy over the limit is refused, so compiling more would waste time.
            Some((None, node))
                if !matches!(node.content, Content::Object(_)) || self.patterns.is_spent() =>
            {
                ValidateBy::Default
            }
            Some((None, node)) => match ArgsSchema::compile(&node.to_serde()) {
                Ok(schema) => {
                    if let Err(error) = self.patterns.spend(schema.pattern_bytes()) {
                        self.problems.add(node.span, error.to_string());
                    }
                    ValidateBy::Schema { schema: Box::new(schema), text: node.to_string().into() }
                }
                Err(why) => {
                    let message = format!("`validate_args` is not a valid JSON Schema: {why}");
                    self.problems.add(node.span, message);
                    ValidateBy::Default
                }
            },
        };
        let id = format!("{}/validate_args", rule.base).into();
        Validate { by, rule: id, message: rule.message(None) }
    }

    /// `action: "approve"` beside an `approval` object keeps the object's terms and holds every
    /// call; its `when` is still evaluated, so that it can deny.
    fn approval(&mut self, rule: &Rule<'_>, always: bool) -> Option<Approval> {
        let node = rule.node.get("approval");
        if node.is_none() && !always {
            return None;
        }
        let term = |key| node.and_then(|node| node.get(key));
        let id: Box<str> = format!("{}/approval", rule.base).into();
        let when = term("when");
        let approvers = term("approvers").and_then(Node::as_whole).unwrap_or(1);
        Some(Approval {
            always: always || when.is_none(),
            when: self
                .predicates(rule, when.map(Node::items).unwrap_or_default(), "approval")
                .into(),
            expires_seconds: self.expires(term("expires")),
            approvers: u8::try_from(approvers).unwrap_or(u8::MAX),
            message: rule.message(term("message").and_then(Node::as_str)),
            rule: id,
        })
    }

    fn expires(&mut self, node: Option<&Node>) -> u64 {
        let Some((node, text)) = node.and_then(|node| Some((node, node.as_str()?))) else {
            return DEFAULT_EXPIRES_SECONDS;
        };
        seconds(text).unwrap_or_else(|| {
            let message = format!("`expires` must be a duration, found `{text}`");
            let hint = "a whole number and `s`, `m`, `h` or `d`: `15m`".into();
            self.problems.add_with_hint(node.span, message, hint);
            DEFAULT_EXPIRES_SECONDS
        })
    }
}

/// Parses a duration such as `15m`.
fn seconds(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| number.parse::<u64>().ok())??.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn durations_are_a_whole_number_and_a_unit() {
        assert_eq!(seconds("15m"), Some(900));
        assert_eq!(seconds("2d"), Some(172_800));
        for text in
            ["", "m", "15", "1.5h", "-1s", "+1s", "15 m", "15min", "é", "99999999999999999999s"]
        {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
