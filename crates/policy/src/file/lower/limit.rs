//! Lowers limits, their short form and `concurrent`, and checks counters that several rules share.

use super::{FirstUse, Lowering, list, rule::Rule, text};
use crate::{
    amount::Amount,
    decimal::Decimal,
    file::{
        check::{did_you_mean, nearest},
        node::{Node, Span},
    },
    limit::{Concurrency, Limit, Scope},
    policy::Mode,
    time::{LONGEST_WINDOW, Window},
};

impl Lowering<'_> {
    /// All limits of a rule: the explicit ones, then the short form.
    pub(super) fn limits(&mut self, rule: &Rule<'_>) -> Vec<Limit> {
        let written = list(rule.node, "limits");
        let mut limits: Vec<_> = written.iter().filter_map(|node| self.limit(rule, node)).collect();
        let short = rule.node.get("rate_limit");
        limits.extend(short.and_then(|node| self.rate_limit(rule, node)));
        limits
    }

    fn limit(&mut self, rule: &Rule<'_>, node: &Node) -> Option<Limit> {
        let counter = node.get("counter").and_then(|counter| self.counter(counter));
        let increment_from = match node.get("increment_from") {
            Some(path) => {
                let path_text = path.as_str().unwrap_or_default();
                let parsed = self.path("increment_from", path)?;
                if parsed.is_plural() {
                    let message =
                        format!("`increment_from` must name one argument, found `{path_text}`");
                    self.problems.add(path.span, message);
                }
                Some(parsed)
            }
            None => None,
        };
        let max = node.get("max")?.as_number()?;
        let limit = Limit {
            counter_number: 0,
            window: window(node.get("window")?)?,
            scope: text(node, "scope").map_or(Some(Scope::Grant), Scope::from_name)?,
            max: Amount::at_most(Decimal::read(max)),
            max_text: max.into(),
            increment_from,
            rule: format!("{}/limits/{}", rule.base, counter?).into(),
            mode: self.mode,
            message: rule.message(text(node, "on_deny")),
            counter: counter?.into(),
        };
        self.number_counter(limit, node.span)
    }

    fn counter<'n>(&mut self, node: &'n Node) -> Option<&'n str> {
        let counter = node.as_str()?;
        if counter.is_empty() {
            self.problems.add(node.span, "`counter` must not be empty".into());
        }
        Some(counter)
    }

    fn rate_limit(&mut self, rule: &Rule<'_>, node: &Node) -> Option<Limit> {
        let (max, window) = match node.as_str() {
            Some(text) => self.rate(text, node.span)?,
            None => (node.get("max")?.as_number()?, window(node.get("window")?)?),
        };
        let counter = format!("{}_rate", rule.key);
        let limit = Limit {
            counter_number: 0,
            window,
            scope: Scope::Grant,
            max: Amount::at_most(Decimal::read(max)),
            max_text: max.into(),
            increment_from: None,
            rule: format!("{}/limits/{counter}", rule.base).into(),
            mode: self.mode,
            message: rule.message(None),
            counter: counter.into(),
        };
        self.number_counter(limit, node.span)
    }

    /// Parses a rate such as `10/minute`.
    fn rate<'t>(&mut self, text: &'t str, span: Span) -> Option<(&'t str, Window)> {
        let (max, word) = text.split_once('/').unwrap_or((text, ""));
        let whole = !max.is_empty()
            && max.bytes().all(|byte| byte.is_ascii_digit())
            && (max == "0" || !max.starts_with('0'));
        let window = Window::from_word(word).or_else(|| Window::from_seconds(word));
        if let (true, Some(window)) = (whole, window) {
            return Some((max, window));
        }
        let message = format!("`rate_limit` must be such as `10/minute`, found `{text}`");
        let near = nearest(word, ["minute", "hour", "day", "month"]).filter(|_| whole);
        let hint = did_you_mean(near.map(|word| format!("{max}/{word}")).as_deref()).unwrap_or_else(
            || format!("a whole number, `/`, and `minute`, `hour`, `day`, `month` or 1 to {LONGEST_WINDOW} seconds"),
        );
        self.problems.add_with_hint(span, message, hint);
        None
    }

    /// Assigns the limit its counter's number, if it is consistent with earlier uses.
    fn number_counter(&mut self, mut limit: Limit, span: Span) -> Option<Limit> {
        let next = u32::try_from(self.counters.len()).ok()?;
        let first = self
            .counters
            .entry(limit.counter.clone())
            .or_insert_with(|| FirstUse::of(next, &limit));
        limit.counter_number = first.number;
        let own_path = limit.increment_from.as_ref().map(crate::path::ArgPath::text);
        let differs = if first.window != limit.window {
            Some("window")
        } else if first.scope != limit.scope {
            Some("scope")
        } else if first.increment_from.as_deref() != own_path {
            Some("increment_from")
        } else {
            None
        };
        if let Some(what) = differs {
            let message =
                format!("counter `{}` is used elsewhere with another `{what}`", limit.counter);
            let hint = "rules that share a counter must agree on `window`, `scope` and `increment_from`; else name another counter".into();
            self.problems.add_with_hint(span, message, hint);
        }
        Some(limit)
    }
}

/// The calls that may be in progress at a time: `concurrent`, in either form.
pub(super) fn concurrency(rule: &Rule<'_>, mode: Mode) -> Option<Concurrency> {
    let node = rule.node.get("concurrent")?;
    let max = node.get("max").unwrap_or(node).as_whole()?;
    let scope = text(node, "scope").map_or(Some(Scope::Grant), Scope::from_name)?;
    let message = rule.message(text(node, "on_deny"));
    let id = format!("{}/concurrent", rule.base).into();
    Some(Concurrency { max, scope, rule: id, mode, message })
}

fn window(node: &Node) -> Option<Window> {
    match node.as_str() {
        Some(word) => Window::from_word(word),
        None => node.as_number().and_then(Window::from_seconds),
    }
}
