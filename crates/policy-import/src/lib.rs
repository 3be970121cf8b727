//! Converts policies of the older dialect, with `rules:` under each tool, into ours.
//!
//! [`import`] parses the text, checks it against the dialect's own tables (`dialect`) and writes a
//! policy that allows and denies the same calls. If there is no exact equivalent, or the meaning
//! changes slightly, a [`Note`] says so. The result is checked with [`load`], so an invalid policy
//! is never returned.
//!
//! The dialect's counters are collected first (`counter`), because a condition may read a counter
//! that another rule declares. Then each tool becomes an entry (`entry`, `condition`, `limit`,
//! `approval`).

mod approval;
mod bound;
mod condition;
mod counter;
mod dialect;
mod entry;
mod limit;
mod note;
mod pattern;
mod tidy;

use serde_json::{Map, Value as Json, json};
use sluice_policy::{
    Format, PatternBudget, Problem, ServerRequest,
    file::{
        self,
        check::check_as,
        node::{Node, Span},
        problem::Problems,
    },
    load,
};

use counter::Counters;
use note::Notes;

pub use note::Note;

/// A policy converted from the older dialect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The policy as formatted JSON.
    pub policy: String,
    /// Notes about it, in the order of the older text.
    pub notes: Vec<Note>,
}

/// Converts a policy of the older dialect, or reports every problem in its text.
pub fn import(text: &[u8]) -> Result<Imported, Vec<Problem>> {
    let mut problems = Problems::default();
    let mut notes = Notes::default();
    let policy = file::read(text, Format::Yaml, &mut problems).map(|root| {
        let root = tidy::tidy(root, text, &mut problems);
        check_as(&dialect::POLICY, &root, &mut problems);
        policy(&root, &mut problems, &mut notes)
    });
    match policy {
        Some(policy) if problems.is_empty() => {
            let policy = format!("{policy:#}\n");
            loads(&policy)?;
            Ok(Imported { policy, notes: notes.into_notes(text) })
        }
        _ => Err(problems.into_problems(text)),
    }
}

/// Checks that the result loads; only a limit of the language, such as the longest text, can
/// prevent that.
fn loads(policy: &str) -> Result<(), Vec<Problem>> {
    let Err(problems) = load(policy.as_bytes(), Format::Json) else { return Ok(()) };
    let because = |problem: Problem| {
        let message = format!("the policy this becomes would not load: {}", problem.message);
        Problem::at(b"", 0, message)
    };
    Err(problems.into_iter().map(because).collect())
}

/// The state of an import.
struct Import<'i> {
    problems: &'i mut Problems,
    notes: &'i mut Notes,
    counters: Counters,
    patterns: PatternBudget,
}

fn policy(root: &Node, problems: &mut Problems, notes: &mut Notes) -> Json {
    let counters = Counters::gather(root, problems);
    let mut import = Import { problems, notes, counters, patterns: PatternBudget::default() };
    import.version(root);
    let mut policy = Map::new();
    policy.insert("version".into(), json!("1"));
    if let Some(description) = text(root, "description") {
        policy.insert("description".into(), json!(description));
    }
    let default = text(root, "default").unwrap_or("allow");
    policy.insert("default".into(), json!(default));
    policy.extend(import.hide(root));
    policy.extend(import.tools(root));
    if default == "deny" {
        policy.extend(import.beside_tools(root));
    }
    import.note_approvals(root);
    Json::Object(policy)
}

impl Import<'_> {
    /// Checks the version, which distinguishes this dialect from other YAML. The flat shape is
    /// recognised by its keys, and is not known to have had a version.
    fn version(&mut self, root: &Node) {
        let is_flat = |tool: &Node| dialect::FLAT.iter().any(|key| tool.get(key).is_some());
        let flat = tools(root).any(|(_, _, tool)| is_flat(tool));
        if root.get("version").is_none() && !flat {
            let hint = r#"the dialect this reads begins with `version: "1"`"#.into();
            self.problems.add_with_hint(root.span, "`version` is missing".into(), hint);
        }
    }

    fn hide(&mut self, root: &Node) -> Option<(String, Json)> {
        let mut names = Vec::new();
        for item in list(root, "hide") {
            let Some(name) = item.as_str() else { continue };
            if name.trim().is_empty() {
                self.problems.add(item.span, "an entry of `hide` must not be empty".into());
            } else if name != "*" && is_pattern(name) {
                self.unnameable(name, item.span);
            } else if !names.contains(&name) {
                names.push(name);
            }
        }
        (!names.is_empty()).then(|| ("hide".into(), json!(names)))
    }

    /// Converts `tools`, and before it `all_tools` from the entry `"*"`, which does not make a tool
    /// available in the older dialect either.
    fn tools(&mut self, root: &Node) -> Vec<(String, Json)> {
        let mut all_tools = None;
        let mut entries = Map::new();
        for (name, span, node) in tools(root) {
            if name == "*" {
                let entry = self.entry("_global", node);
                all_tools = (!entry.is_empty()).then(|| ("all_tools".into(), entry.into_json()));
            } else if is_pattern(name) {
                self.unnameable(name, span);
            } else {
                let entry = self.entry(name, node);
                entries.insert(name.into(), entry.into_json());
            }
        }
        let entries = (!entries.is_empty()).then(|| ("tools".into(), Json::Object(entries)));
        all_tools.into_iter().chain(entries).collect()
    }

    /// The rest of the policy: the older proxy judged nothing but tool calls.
    fn beside_tools(&mut self, root: &Node) -> [(String, Json); 3] {
        if let Some(default) = root.get("default") {
            let message = "`default: deny` was about tools only, so resources, prompts and \
                           requests of the server are let through by name; take those lines out \
                           to deny them too";
            self.notes.know(default.span, message.into());
        }
        let requests: Vec<_> = ServerRequest::ALL.into_iter().map(ServerRequest::name).collect();
        [
            ("resources".into(), json!("allow")),
            ("prompts".into(), json!("allow")),
            ("server_requests".into(), json!(requests)),
        ]
    }

    fn unnameable(&mut self, name: &str, span: Span) {
        let message = format!(
            "`{name}` meant one tool of exactly that name; here a `*` or a leading `@` makes a \
             pattern, so it is left out"
        );
        self.notes.leave_out(span, message);
    }
}

/// Whether our language would treat the name as a pattern.
fn is_pattern(name: &str) -> bool {
    name.contains('*') || name.starts_with('@')
}

/// The tools with their names and the names' positions.
fn tools(root: &Node) -> impl Iterator<Item = (&str, Span, &Node)> {
    let members = root.get("tools").map(Node::members).unwrap_or_default();
    members.iter().map(|member| (&*member.key, member.key_span, &member.value))
}

/// The string at a key; `None` if it is empty.
fn text<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    node.get(key).and_then(Node::as_str).filter(|text| !text.is_empty())
}

/// The items of the list at a key.
fn list<'n>(node: &'n Node, key: &str) -> &'n [Node] {
    node.get(key).map(Node::items).unwrap_or_default()
}
