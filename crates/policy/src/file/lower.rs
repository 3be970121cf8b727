//! Lowering: from a checked tree to a compiled policy.
//!
//! Skips the parts that [`check`](super::check) has already reported, and adds the
//! errors that only the meaning of a value shows. If there is any error, the result
//! is discarded.

mod condition;
mod limit;
mod rule;
mod test;

use std::collections::HashMap;

use super::{
    bases::{self, BaseTree, MissingBase, describe_broken},
    check::{did_you_mean, nearest},
    node::{Node, Span},
    problem::Problems,
};
use crate::{
    access::Access,
    limit::Limit,
    operator::PatternBudget,
    pattern::{Glob, Pattern},
    policy::{Except, Hide, Mode, Policy, Posture, ServerRequest, Tools},
};

/// The maximum number of entries in `tools`.
const MOST_ENTRIES: usize = 5_000;

/// Compiles the policy and its bases, the nearest first; the result is valid only if no problem was
/// found.
pub(super) fn lower(root: &Node, chain: &[BaseTree], problems: &mut Problems) -> Policy {
    // Counters belong to the server, so that policies which name the same one share it.
    let mut counters = HashMap::new();
    let mut bases = Vec::with_capacity(chain.len());
    for BaseTree { name, text, root: base } in chain.iter().rev() {
        let mut own = Problems::default();
        bases.push(Lowering::new(&mut own, &mut counters, format!("{name}:")).policy(base));
        if let Some(node) = root.get("extends").filter(|_| !own.is_empty()) {
            let first = own.into_problems(&text.text).into_iter().next();
            let MissingBase { message, hint } = describe_broken(name, first.as_ref());
            bases::add(problems, node.span, message, hint);
        }
    }
    let own = Lowering::new(problems, &mut counters, String::new()).policy(root);
    Policy { bases: bases.into(), ..own }
}

struct Lowering<'l> {
    problems: &'l mut Problems,
    patterns: PatternBudget,
    counters: &'l mut HashMap<Box<str>, FirstUse>,
    hide: Vec<(Pattern, Except)>,
    /// What rule ids begin with.
    prefix: String,
    mode: Mode,
}

/// The first use of a counter.
struct FirstUse {
    number: u32,
    window: crate::time::Window,
    scope: crate::limit::Scope,
    increment_from: Option<Box<str>>,
}

impl<'l> Lowering<'l> {
    fn new(
        problems: &'l mut Problems,
        counters: &'l mut HashMap<Box<str>, FirstUse>,
        prefix: String,
    ) -> Lowering<'l> {
        let (patterns, hide) = (PatternBudget::default(), Vec::new());
        Lowering { problems, patterns, counters, hide, prefix, mode: Mode::Enforce }
    }

    fn policy(mut self, root: &Node) -> Policy {
        let posture = match text(root, "default") {
            Some("allow") => Posture::Allow,
            _ => Posture::Deny,
        };
        self.mode = match text(root, "mode") {
            Some("shadow") => Mode::Shadow,
            _ => Mode::Enforce,
        };
        for item in list(root, "hide") {
            if let Some(pattern) = self.pattern(item) {
                self.hide.push((pattern, Except::default()));
            }
        }
        let tools = self.tools(root);
        let all_tools = root.get("all_tools").map(|rule| {
            let everything = Pattern::Glob(Glob::new("*"));
            let id = format!("{}/all_tools", self.prefix);
            self.entry("all_tools", id, everything, rule)
        });
        Policy {
            bases: Box::default(),
            validate_args_rule: format!("{}/validate_args", self.prefix).into(),
            description: text(root, "description").map(Box::from),
            posture,
            mode: self.mode,
            validate_args: root.get("validate_args").and_then(Node::as_bool).unwrap_or(false),
            hide: Hide::new(std::mem::take(&mut self.hide)),
            tools: Tools::new(tools),
            all_tools,
            resources: access(root.get("resources"), posture),
            prompts: access(root.get("prompts"), posture),
            server_requests: server_requests(root, posture),
            methods: globs(list(root, "methods")),
            tests: self.tests(list(root, "tests")),
            steps_per_byte: self.patterns.steps_per_byte(),
            prefix: self.prefix.into(),
        }
    }

    fn tools(&mut self, root: &Node) -> Vec<(Pattern, crate::policy::Entry)> {
        let members = root.get("tools").map(Node::members).unwrap_or_default();
        if let Some(over) = members.get(MOST_ENTRIES) {
            let message = format!("`tools` has more than {MOST_ENTRIES} entries");
            self.problems.add(over.key_span, message);
            return Vec::new();
        }
        let mut entries = Vec::with_capacity(members.len());
        for member in members {
            let pattern = self.pattern_text(&member.key, member.key_span);
            let Some(pattern) = pattern else { continue };
            let key = member.key.replace('~', "~0").replace('/', "~1");
            let id = format!("{}/tools/{key}", self.prefix);
            let entry = self.entry(&member.key, id, pattern.clone(), &member.value);
            entries.push((pattern, entry));
        }
        entries
    }

    fn pattern(&mut self, node: &Node) -> Option<Pattern> {
        node.as_str().and_then(|text| self.pattern_text(text, node.span))
    }

    fn pattern_text(&mut self, text: &str, span: Span) -> Option<Pattern> {
        let pattern = Pattern::parse(text);
        if pattern.is_none() {
            let message = format!("`{text}` is not a category");
            let meant = category_meant(text.trim_start_matches('@'));
            let hint = did_you_mean(meant.as_deref()).unwrap_or_else(|| {
                "categories: `@read`, `@write`, `@execute`, `@destructive`, `@financial`, `@other`"
                    .into()
            });
            self.problems.add_with_hint(span, message, hint);
        }
        pattern
    }
}

fn category_meant(word: &str) -> Option<String> {
    let also = match word.to_lowercase().as_str() {
        "delete" | "danger" | "dangerous" => Some("destructive"),
        "exec" | "run" | "code" => Some("execute"),
        "money" | "payment" | "payments" | "pay" => Some("financial"),
        "readonly" | "read_only" => Some("read"),
        _ => None,
    };
    let names = || sluice_classify::Category::ALL.into_iter().map(sluice_classify::Category::name);
    also.or_else(|| nearest(word, names())).map(|name| format!("@{name}"))
}

fn access(node: Option<&Node>, posture: Posture) -> Access {
    match (node, node.and_then(Node::as_str)) {
        (_, Some("allow")) => Access::Allow,
        (Some(node), None) => Access::Only(globs(list(node, "allow"))),
        (None, None) if posture == Posture::Allow => Access::Allow,
        _ => Access::Deny,
    }
}

fn server_requests(root: &Node, posture: Posture) -> Box<[ServerRequest]> {
    match root.get("server_requests") {
        Some(node) => node
            .items()
            .iter()
            .filter_map(|item| item.as_str().and_then(ServerRequest::from_name))
            .collect(),
        None if posture == Posture::Allow => ServerRequest::ALL.into(),
        None => Box::default(),
    }
}

fn globs(items: &[Node]) -> Box<[Glob]> {
    items.iter().filter_map(Node::as_str).map(Glob::new).collect()
}

/// The string under a key, if there is one.
fn text<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    node.get(key).and_then(Node::as_str)
}

/// The items of the list under a key, if there is one.
fn list<'n>(node: &'n Node, key: &str) -> &'n [Node] {
    node.get(key).map(Node::items).unwrap_or_default()
}

impl FirstUse {
    fn of(number: u32, limit: &Limit) -> FirstUse {
        FirstUse {
            number,
            window: limit.window,
            scope: limit.scope,
            increment_from: limit.increment_from.as_ref().map(|path| path.text().into()),
        }
    }
}
