//! Converts conditions on counters into limits, where a limit is equivalent.

use serde_json::{Value as Json, json};
use sluice_policy::{
    ArgPath,
    file::node::{Node, Span},
};

use super::{
    Import,
    bound::{Below, Whole},
    counter::{Counter, Counts, Increment, limiting},
    entry::{OldRule, object_of},
    text,
};

/// The older proxy had no grants: all callers shared its counters. Of our scopes, only `server` is
/// shared by all grants, so only that scope allows the same calls.
const SCOPE: &str = "server";

const SHARED: &str = "everyone behind the older proxy shared its counters, so `scope` is \
                      `server`; write `grant` to give each grant its own";
const REFUNDS: &str = "a call that the server answered with a protocol error was taken off the \
                       counter again; now it stays counted once it was sent";
const LESS_THAN: &str = "the older proxy compared after counting the call, so `max` is one less \
                         than the bound of `lt`";

/// The effect of a condition on a counter.
pub(super) enum Effect {
    /// A limit with this `max`.
    Limit(u64),
    /// It never held, so every call was denied.
    Denies,
    Nothing,
}

/// A limit on a counter that a rule declares.
pub(super) fn limit(counter: &Counter, max: u64, on_deny: Option<&str>) -> Json {
    let increment_from = match &counter.step {
        Increment::Fixed(_) => None,
        Increment::From(path) => Some(json!(path)),
    };
    object_of([
        ("counter", Some(json!(counter.name))),
        ("window", Some(json!(counter.window))),
        ("max", Some(json!(max))),
        ("scope", Some(json!(SCOPE))),
        ("increment_from", increment_from),
        ("on_deny", on_deny.map(Json::from)),
    ])
}

/// A limit with a window in seconds.
pub(super) fn seconds_limit(counter: &str, max: u64, seconds: u64) -> Json {
    let window = match seconds {
        60 => json!("minute"),
        3_600 => json!("hour"),
        86_400 => json!("day"),
        _ => json!(seconds),
    };
    json!({ "counter": counter, "window": window, "max": max, "scope": SCOPE })
}

impl Import<'_> {
    /// Adds the note about all counters, at the first of them.
    pub(super) fn note_counters(&mut self, span: Span) {
        self.notes.know_once(span, SHARED);
        self.notes.know_once(span, REFUNDS);
    }

    /// Checks the parts of the rule's `state` that are not visible in its conditions.
    pub(super) fn state(&mut self, rule: &OldRule<'_>) {
        let Some(state) = rule.node.get("state") else { return };
        if let Some(counter) = state.get("counter").filter(|node| node.as_str() == Some("")) {
            self.problems.add(counter.span, "`counter` must not be empty".into());
        }
        if let Some(path) = state.get("increment_from") {
            self.increment_from(path);
        }
        if let Some(zero) = state.get("increment").filter(|node| node.as_whole() == Some(0)) {
            self.notes.know(zero.span, "an `increment` of 0 counted as 1, and still does".into());
        }
        match self.counters.of(rule.scope, rule.node) {
            Some(Counter { counts: Counts::Never, step: Increment::From(path), .. }) => {
                let message = format!(
                    "this never counted, but a call without a number at `{path}` was denied; \
                     that is left out"
                );
                self.notes.leave_out(state.span, message);
            }
            Some(Counter { counts: Counts::Never, .. }) => {
                let message = "this never counted, because no `lt` or `lte` condition of the rule \
                               reads it; it is left out";
                self.notes.know(state.span, message.into());
            }
            _ => {}
        }
    }

    fn increment_from(&mut self, node: &Node) {
        let Some(text) = node.as_str() else { return };
        let usable = ArgPath::parse(text).is_some_and(|path| !path.is_plural());
        if !usable {
            let message = format!("`increment_from` must name one argument, found `{text}`");
            self.problems.add_with_hint(node.span, message, "write it as `args.amount`".into());
        }
    }

    /// The counter in a condition, and the effect of the condition.
    pub(super) fn on_counter(
        &mut self,
        rule: &OldRule<'_>,
        condition: &Node,
    ) -> (Option<Counter>, Effect) {
        let path = text(condition, "path").unwrap_or_default();
        let Some(counter) = self.counters.at(path).cloned() else {
            self.no_counter(path, condition.span);
            return (None, Effect::Nothing);
        };
        let op = text(condition, "op").unwrap_or_default();
        let value = condition.get("value");
        let limits = limiting(rule.node, path).is_some_and(|first| std::ptr::eq(first, condition))
            && self.counters.of(rule.scope, rule.node).is_some_and(|own| own.path == path);
        let effect = match (Below::from_name(op), value.and_then(Node::as_number)) {
            (Some(below), Some(number)) => match Whole::read(number) {
                None => Effect::Denies,
                Some(whole) if limits => {
                    self.bound_own_counter(&counter, whole, below, condition.span)
                }
                Some(whole) => self.read_before(rule, &counter, whole, below, condition.span),
            },
            (Some(_), None) | (None, _) => self.other_test(op, value, condition.span),
        };
        (Some(counter), effect)
    }

    fn no_counter(&mut self, path: &str, span: Span) {
        let message = format!("no rule declares the counter `{path}` in a `state`");
        match path.strip_prefix("state.*.") {
            Some(name) => {
                let hint = format!("counters of `\"*\"` are written `state._global.{name}`");
                self.problems.add_with_hint(span, message, hint);
            }
            None => self.problems.add(span, message),
        }
    }

    /// Converts the condition with which the rule limits its own counter.
    fn bound_own_counter(
        &mut self,
        counter: &Counter,
        whole: Whole,
        below: Below,
        span: Span,
    ) -> Effect {
        let Some(max) = whole.after(below) else { return Effect::Denies };
        self.note_counters(span);
        if below == Below::Lt {
            self.notes.know_once(span, LESS_THAN);
        }
        match &counter.step {
            Increment::Fixed(1) => Effect::Limit(max),
            Increment::Fixed(step) => {
                let message = format!(
                    "each call added {step}; the counter now counts calls, and `max` is divided \
                     by {step}"
                );
                self.notes.know(span, message);
                Effect::Limit(max / step)
            }
            Increment::From(path) => {
                let message = format!(
                    "fractions of `{path}` were dropped and now count; a negative one gave room \
                     back and is now denied"
                );
                self.notes.know(span, message);
                Effect::Limit(max)
            }
        }
    }

    /// Converts a condition on a counter's value before the call.
    fn read_before(
        &mut self,
        rule: &OldRule<'_>,
        counter: &Counter,
        whole: Whole,
        below: Below,
        span: Span,
    ) -> Effect {
        let Some(most) = whole.before(below) else { return Effect::Denies };
        match counter.step {
            _ if counter.counts == Counts::Never => {
                let message = format!(
                    "the older proxy never counted `{}`, because the rule that declares it has \
                     no `lt` or `lte` on it; this always held and is left out",
                    counter.path
                );
                self.notes.know(span, message);
                Effect::Nothing
            }
            // A call is still allowed and counted if the counter is at `most` or less before it.
            Increment::Fixed(step) if counter.is_raised_by_all_of(rule.scope) => {
                self.note_counters(span);
                Effect::Limit((most / step).saturating_add(1))
            }
            _ => {
                let message = format!(
                    "a rule can no longer read a counter without adding to it: the condition on \
                     `{}` is left out",
                    counter.path
                );
                self.notes.leave_out(span, message);
                Effect::Nothing
            }
        }
    }

    /// Converts operators that do not limit a counter from above.
    fn other_test(&mut self, op: &str, value: Option<&Node>, span: Span) -> Effect {
        match (op, value.and_then(Node::as_bool)) {
            // A counter that was never incremented read 0, so it existed.
            ("exists", Some(true)) => Effect::Nothing,
            ("exists", Some(false)) => Effect::Denies,
            ("lt" | "lte" | "gt" | "gte", _) if value.and_then(Node::as_number).is_none() => {
                self.problems.add(span, format!("`{op}` needs a number as its `value`"));
                Effect::Nothing
            }
            _ => {
                let message = format!(
                    "a counter can only be kept from rising above a bound: the condition with \
                     `{op}` is left out"
                );
                self.notes.leave_out(span, message);
                Effect::Nothing
            }
        }
    }
}
