//! Warnings: parts of a policy that load and have no effect, or another one than they seem to have.
//!
//! Most of them come from comparing the policy with the tools of the server that it is for: names
//! that match nothing, arguments that do not exist (`arguments`), and entries for tools that are
//! hidden. A policy that does not load has problems instead, which are left to
//! [`load`](crate::load).

mod arguments;

use sluice_classify::skeleton;
use sluice_wire::json::{Bounds, Document};

use crate::{
    facts::ToolFacts,
    file::{
        Format,
        check::{did_you_mean, nearest},
        node::{Member, Node, Span},
        problem::{Problem, Problems},
        read,
    },
    pattern::{Glob, Pattern},
};

/// Finds what has no effect in a policy, for a server with these tools. Without them, only what
/// the policy shows by itself.
pub fn find_warnings(text: &[u8], format: Format, tools: Option<&[ToolFacts]>) -> Vec<Problem> {
    let mut unread = Problems::default();
    let Some(root) = read(text, format, &mut unread).filter(|_| unread.is_empty()) else {
        return Vec::new();
    };
    let server = tools.map(|tools| Server(tools.iter().map(KnownDefinition::of).collect()));
    let hides = hides(&root);
    let mut lint = Lint { server: server.as_ref(), hides: &hides, warnings: Problems::default() };
    lint.policy(&root);
    lint.warnings.into_problems(text)
}

/// The tools of the server.
struct Server<'t>(Vec<KnownDefinition<'t>>);

/// A tool with its parsed schema.
struct KnownDefinition<'t> {
    facts: &'t ToolFacts,
    schema: Option<Document>,
}

impl KnownDefinition<'_> {
    fn of(facts: &ToolFacts) -> KnownDefinition<'_> {
        let schema = facts.schema_text().and_then(|text| {
            let bounds = Bounds { bytes: usize::MAX, string: usize::MAX, ..Bounds::default() };
            Document::parse(text, &bounds).ok()
        });
        KnownDefinition { facts, schema }
    }
}

impl Server<'_> {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|tool| tool.facts.name())
    }
}

/// A pattern that hides tools.
struct HidePattern<'n> {
    pattern: Pattern,
    except: Vec<&'n str>,
}

impl HidePattern<'_> {
    fn selects(&self, tool: &ToolFacts) -> bool {
        selects(&self.pattern, tool) && !self.except.contains(&tool.name())
    }

    /// Whether the tool is hidden whatever its category is.
    fn names(&self, tool: &str) -> bool {
        let named = match &self.pattern {
            Pattern::Exact(name) => **name == *tool,
            Pattern::Glob(glob) => glob.matches(tool),
            Pattern::Category(_) => false,
        };
        named && !self.except.contains(&tool)
    }
}

fn hides(root: &Node) -> Vec<HidePattern<'_>> {
    let listed = list(root, "hide").iter().filter_map(Node::as_str);
    let listed = listed.filter_map(Pattern::parse);
    let mut all: Vec<_> =
        listed.map(|pattern| HidePattern { pattern, except: Vec::new() }).collect();
    let hidden = entries(root).iter().filter(|entry| hides_its_tools(&entry.value));
    all.extend(hidden.filter_map(|entry| {
        Some(HidePattern { pattern: Pattern::parse(&entry.key)?, except: except(&entry.value) })
    }));
    all
}

fn selects(pattern: &Pattern, tool: &ToolFacts) -> bool {
    match pattern {
        Pattern::Exact(name) => **name == *tool.name(),
        Pattern::Glob(glob) => glob.matches(tool.name()),
        Pattern::Category(of) => of.category == tool.category(),
    }
}

struct Lint<'l> {
    server: Option<&'l Server<'l>>,
    hides: &'l [HidePattern<'l>],
    warnings: Problems,
}

impl<'l> Lint<'l> {
    fn policy(&mut self, root: &Node) {
        for item in list(root, "hide") {
            if let Some(pattern) = item.as_str().and_then(Pattern::parse) {
                self.pattern(&pattern, item.span);
            }
        }
        for entry in entries(root) {
            let Some(pattern) = Pattern::parse(&entry.key) else { continue };
            self.pattern(&pattern, entry.key_span);
            if !hides_its_tools(&entry.value) {
                self.hidden_entry(&pattern, entry);
            }
            self.rule(&pattern, &entry.value);
        }
        if let Some(rule) = root.get("all_tools") {
            self.rule(&Pattern::Glob(Glob::new("*")), rule);
        }
    }

    /// Warns of a name or pattern that selects no tool. Categories may be for tools to come.
    fn pattern(&mut self, pattern: &Pattern, span: Span) {
        let Some(server) = self.server else { return };
        if server.0.iter().any(|tool| selects(pattern, tool.facts)) {
            return;
        }
        match pattern {
            Pattern::Exact(name) => self.unknown_name(name, server, span),
            Pattern::Glob(glob) => {
                let message = format!("`{}` matches no tool of the server", glob.text());
                self.warnings.add(span, message);
            }
            Pattern::Category(_) => {}
        }
    }

    fn unknown_name(&mut self, name: &str, server: &Server<'_>, span: Span) {
        let message = format!("the server has no tool `{name}`");
        let twin = server.names().find(|known| skeleton(known) == skeleton(name));
        let hint = match twin {
            Some(twin) => Some(format!(
                "it looks like `{twin}`, and names are compared exactly: by case, blanks and script"
            )),
            None => did_you_mean(nearest(name, server.names())),
        };
        match hint {
            Some(hint) => self.warnings.add_with_hint(span, message, hint),
            None => self.warnings.add(span, message),
        }
    }

    /// Warns of an entry all of whose tools are hidden.
    fn hidden_entry(&mut self, pattern: &Pattern, entry: &Member) {
        let by_name = match pattern {
            Pattern::Exact(name) => self.hides.iter().any(|hide| hide.names(name)),
            Pattern::Glob(_) | Pattern::Category(_) => false,
        };
        let is_hidden = by_name || {
            let mut selected = self.select_tools(pattern, &entry.value).peekable();
            selected.peek().is_some() && selected.all(|tool| self.is_hidden(tool.facts))
        };
        if is_hidden {
            let message = format!("`{}` is hidden, so this entry has no effect", entry.key);
            let hint = "take it out of `hide`, or take this entry away".into();
            self.warnings.add_with_hint(entry.key_span, message, hint);
        }
    }

    fn is_hidden(&self, tool: &ToolFacts) -> bool {
        self.hides.iter().any(|hide| hide.selects(tool))
    }

    /// The server's tools to which a rule applies.
    fn select_tools<'n>(
        &self,
        pattern: &'n Pattern,
        rule: &'n Node,
    ) -> impl Iterator<Item = &'l KnownDefinition<'l>> + use<'l, 'n> {
        let except = except(rule);
        let tools = self.server.map(|server| &*server.0).unwrap_or_default().iter();
        tools.filter(move |tool| {
            selects(pattern, tool.facts) && !except.contains(&tool.facts.name())
        })
    }

    fn rule(&mut self, pattern: &Pattern, rule: &Node) {
        for item in list(rule, "except") {
            if let (Some(name), Some(server)) = (item.as_str(), self.server)
                && !server.names().any(|known| known == name)
            {
                self.unknown_name(name, server, item.span);
            }
        }
        let tools: Vec<_> =
            self.select_tools(pattern, rule).filter(|tool| !self.is_hidden(tool.facts)).collect();
        let when = rule.get("approval").map(|approval| list(approval, "when")).unwrap_or_default();
        let predicates = [list(rule, "require"), list(rule, "deny_if"), when];
        for condition in predicates.into_iter().flatten().flat_map(|one| list(one, "conditions")) {
            self.condition(condition, &tools);
        }
        for limit in list(rule, "limits") {
            if let Some(path) = limit.get("increment_from") {
                self.argument(path, arguments::Use::Amount, &tools);
            }
        }
    }

    fn condition(&mut self, condition: &Node, tools: &[&KnownDefinition<'_>]) {
        let Some(operator) = condition.get("op").and_then(Node::as_str) else { return };
        let value = condition.get("value");
        let list_operator = ["in", "not_in", "path_within", "url_host_in"].contains(&operator);
        if let Some(value) = value.filter(|value| list_operator && value.items().is_empty()) {
            let effect = match operator {
                "in" | "not_in" => "no value can be compared with it, so calls are denied",
                _ => "it holds for no value",
            };
            self.warnings.add(value.span, format!("`{operator}` has an empty list: {effect}"));
        }
        if let Some(path) = condition.get("path") {
            self.argument(path, arguments::Use::Compared { operator, value }, tools);
        }
    }
}

fn entries(root: &Node) -> &[Member] {
    root.get("tools").map(Node::members).unwrap_or_default()
}

fn hides_its_tools(rule: &Node) -> bool {
    rule.get("action").and_then(Node::as_str) == Some("hide")
}

fn except(rule: &Node) -> Vec<&str> {
    list(rule, "except").iter().filter_map(Node::as_str).collect()
}

fn list<'n>(node: &'n Node, key: &str) -> &'n [Node] {
    node.get(key).map(Node::items).unwrap_or_default()
}
