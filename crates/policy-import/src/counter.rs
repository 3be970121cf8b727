//! The counters that a policy of the older dialect declares, and our names for them.
//!
//! In the older dialect, a counter belonged to the tool that declared it (`_global` for `"*"`).
//! Ours are shared by name, so each gets a unique name. How they limit calls is left to
//! [`entry`](super::entry).

use std::collections::BTreeSet;

use sluice_policy::file::{
    check::{did_you_mean, nearest},
    node::Node,
    problem::Problems,
};

use super::{bound::Below, dialect::WINDOWS, is_pattern, list, text, tools};

/// One counter.
#[derive(Debug, Clone)]
pub(super) struct Counter {
    /// Its path in conditions: `state.<tool>.<counter>`.
    pub(super) path: String,
    /// The tool it belongs to, or `_global`.
    scope: Box<str>,
    /// Its name in our policy.
    pub(super) name: String,
    pub(super) window: Box<str>,
    pub(super) step: Increment,
    pub(super) counts: Counts,
}

/// The amount that a call adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Increment {
    /// INVARIANT: not 0.
    Fixed(u64),
    /// A path into the arguments.
    From(Box<str>),
}

/// Whether a counter was ever incremented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counts {
    Yes,
    /// The older proxy incremented a counter only through an `lt` or `lte` on it in the rule that
    /// declares it. Without one it always read 0.
    Never,
}

/// All counters of a policy.
#[derive(Debug, Default)]
pub(super) struct Counters {
    all: Vec<Counter>,
    names: BTreeSet<String>,
}

impl Counters {
    /// Collects the counters of all rules.
    pub(super) fn gather(root: &Node, problems: &mut Problems) -> Counters {
        let mut counters = Counters::default();
        for (tool, _, node) in tools(root).filter(|(tool, ..)| *tool == "*" || !is_pattern(tool)) {
            let scope = if tool == "*" { "_global" } else { tool };
            for rule in list(node, "rules") {
                counters.declare(scope, rule, problems);
            }
        }
        counters
    }

    fn declare(&mut self, scope: &str, rule: &Node, problems: &mut Problems) {
        let Some(declared) = Declared::of(rule) else { return };
        let path = path_of(scope, &declared.counter);
        if self.at(&path).is_some() {
            let message = format!("duplicate counter `{}`: another rule has it", declared.counter);
            let hint = "give it another name or window, or make the rules one".into();
            problems.add_with_hint(declared.node.span, message, hint);
            return;
        }
        let by_rate = rule.get("state").is_none();
        let counts = by_rate || limiting(rule, &path).is_some();
        let name = self.free_name(scope, &declared.counter);
        self.all.push(Counter {
            path,
            scope: scope.into(),
            name,
            window: declared.window.into(),
            step: declared.step,
            counts: if counts { Counts::Yes } else { Counts::Never },
        });
    }

    /// A free name: `<scope>_<counter>`, with a number if needed.
    pub(super) fn free_name(&mut self, scope: &str, counter: &str) -> String {
        let plain = format!("{scope}_{}", counter.strip_prefix('_').unwrap_or(counter));
        let numbered = (2_u64..).map(|number| format!("{plain}_{number}"));
        let mut names = std::iter::once(plain.clone()).chain(numbered);
        let free = names.find(|name| !self.names.contains(name)).unwrap_or(plain);
        self.names.insert(free.clone());
        free
    }

    /// The counter that a condition's path names.
    pub(super) fn at(&self, path: &str) -> Option<&Counter> {
        self.all.iter().find(|counter| counter.path == path)
    }

    /// The counter that the rule declares.
    pub(super) fn of(&self, scope: &str, rule: &Node) -> Option<&Counter> {
        self.at(&path_of(scope, &Declared::of(rule)?.counter))
    }
}

impl Counter {
    /// Whether every call under rules of `scope` increments the counter.
    pub(super) fn is_raised_by_all_of(&self, scope: &str) -> bool {
        *self.scope == *scope || &*self.scope == "_global"
    }
}

/// A counter declaration in a rule.
struct Declared<'n> {
    node: &'n Node,
    counter: String,
    window: &'n str,
    step: Increment,
}

impl<'n> Declared<'n> {
    fn of(rule: &'n Node) -> Option<Declared<'n>> {
        let Some(state) = rule.get("state") else {
            let node = rule.get("rate_limit")?;
            let window = Rate::read(node.as_str()?)?.window;
            let counter = format!("_rate_{window}");
            return Some(Declared { node, counter, window, step: Increment::Fixed(1) });
        };
        let step = match text(state, "increment_from") {
            Some(path) => Increment::From(path.into()),
            // The older proxy treated an `increment` of 0 as missing.
            None => Increment::Fixed(
                state.get("increment").and_then(Node::as_whole).unwrap_or(1).max(1),
            ),
        };
        let counter = text(state, "counter")?.into();
        Some(Declared { node: state, counter, window: text(state, "window")?, step })
    }
}

/// A rate such as `5/hour`.
pub(super) struct Rate<'t> {
    pub(super) max: u64,
    pub(super) window: &'t str,
}

impl<'t> Rate<'t> {
    pub(super) fn read(text: &'t str) -> Option<Rate<'t>> {
        let (max, window) = text.split_once('/')?;
        let digits = max.bytes().all(|byte| byte.is_ascii_digit());
        let max = digits.then(|| max.parse().ok())?.filter(|max| *max > 0)?;
        WINDOWS.contains(&window).then_some(Rate { max, window })
    }

    /// The hint for a text that is not a rate.
    pub(super) fn hint(text: &str) -> String {
        let (max, word) = text.split_once('/').unwrap_or((text, ""));
        let meant = nearest(word, WINDOWS).map(|window| format!("{max}/{window}"));
        did_you_mean(meant.filter(|meant| Rate::read(meant).is_some()).as_deref()).unwrap_or_else(
            || "a whole number of 1 or more, `/`, and `minute`, `hour` or `day`".into(),
        )
    }
}

fn path_of(scope: &str, counter: &str) -> String {
    format!("state.{scope}.{counter}")
}

/// The condition with which a rule limits its own counter: the first `lt` or `lte` on it.
pub(super) fn limiting<'n>(rule: &'n Node, path: &str) -> Option<&'n Node> {
    list(rule, "conditions").iter().find(|condition| {
        text(condition, "path") == Some(path)
            && text(condition, "op").and_then(Below::from_name).is_some()
            && condition.get("value").and_then(Node::as_number).is_some()
    })
}
