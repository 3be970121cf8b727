//! Entries: lowering the sugar of each rule into the plain form, and finding those that
//! apply to a tool, in naming order.

use serde_json::{Value, json};

use super::Facts;
use super::pattern::{is_category, matches, names};

/// One entry of `tools`, or `all_tools`, with its rule in plain form.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The beginning of its rule ids: `/tools/<key>` or `/all_tools`.
    pub(crate) base: String,
    rule: Value,
}

impl Entry {
    /// The value of one key of the plain rule.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.rule.get(key)
    }

    /// The items of one list of the plain rule; nothing where the list is absent.
    pub(crate) fn list(&self, key: &str) -> Vec<Value> {
        list(self.rule.get(key))
    }

    /// The words a denial speaks: those of the predicate or limit, else the rule's
    /// reason.
    pub(crate) fn message(&self, part: Option<&Value>) -> Option<String> {
        let own = part.and_then(|part| part.get("on_deny"));
        own.or(self.rule.get("reason")).and_then(Value::as_str).map(str::to_owned)
    }
}

/// The items of a list; nothing where there is none.
pub(crate) fn list(value: Option<&Value>) -> Vec<Value> {
    value.and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Every entry of `tools` as key and rule, as written.
pub(crate) fn written(policy: &Value) -> Vec<(&str, &Value)> {
    let tools = policy.get("tools").and_then(Value::as_object).into_iter().flatten();
    tools.map(|(key, rule)| (key.as_str(), rule)).collect()
}

/// The plain form of the entries that apply, in the order in which denials are named:
/// the exact name, then patterns, then categories, each by code point, then
/// `all_tools`.
pub(crate) fn applying(policy: &Value, tool: &str, facts: &Facts) -> Vec<Entry> {
    let mut found = matching(policy, tool, facts);
    // Comparing UTF-8 bytes is comparing code points.
    found.sort_by_key(|(key, _)| (rank(key), *key));
    let mut entries: Vec<Entry> = found
        .into_iter()
        .map(|(key, rule)| Entry {
            base: format!("/tools/{}", escape(key)),
            rule: lower(key, rule),
        })
        .collect();
    if let Some(rule) = policy.get("all_tools")
        && !names(rule.get("except"), tool)
    {
        entries.push(Entry { base: "/all_tools".to_owned(), rule: lower("all_tools", rule) });
    }
    entries
}

/// The entries of `tools` that match the tool. A tool is listed if there is one.
pub(crate) fn matching<'p>(
    policy: &'p Value,
    tool: &str,
    facts: &Facts,
) -> Vec<(&'p str, &'p Value)> {
    let mut found = written(policy);
    found.retain(|(key, rule)| matches(key, tool, facts) && !names(rule.get("except"), tool));
    found
}

/// Exact names come first, then patterns, then categories.
fn rank(key: &str) -> u8 {
    match key {
        key if is_category(key) => 2,
        key if key.contains('*') => 1,
        _ => 0,
    }
}

/// A key as it stands in a JSON Pointer.
fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Lowers `action` and `rate_limit`. What the sugar stands for goes behind what is
/// written out. The action `hide` is not lowered here, because it speaks about the list
/// `hide`; see the module `answer`.
fn lower(key: &str, rule: &Value) -> Value {
    let mut plain = rule.clone();
    match rule.get("action").and_then(Value::as_str) {
        Some("deny") => {
            // The reason is the message of every denial without words of its own, so it
            // need not be copied.
            let mut all = list(rule.get("deny_if"));
            all.push(json!({ "conditions": [] }));
            plain["deny_if"] = Value::Array(all);
        }
        Some("approve") => plain["approval"] = always(rule.get("approval")),
        _ => {}
    }
    if let Some(written) = rule.get("rate_limit") {
        let (max, window) = rate(written);
        let mut all = list(rule.get("limits"));
        all.push(json!({ "counter": format!("{key}_rate"), "scope": "grant", "max": max, "window": window }));
        plain["limits"] = Value::Array(all);
    }
    plain
}

/// An approval without conditions. Where the rule also spells out `approval`, its
/// settings stay, and an always-true predicate joins its `when`: the action says that
/// every call is held, and the written predicates are still judged for problems.
fn always(approval: Option<&Value>) -> Value {
    let Some(Value::Object(written)) = approval else { return json!({}) };
    let mut approval = written.clone();
    if let Some(when) = written.get("when") {
        let mut when = list(Some(when));
        when.push(json!({ "conditions": [] }));
        approval.insert("when".to_owned(), Value::Array(when));
    }
    Value::Object(approval)
}

/// The maximum and the window of a `rate_limit` in either notation.
fn rate(written: &Value) -> (Value, Value) {
    match written.as_str().and_then(|text| text.split_once('/')) {
        Some((max, window)) => (
            number(max).unwrap_or_default(),
            number(window).unwrap_or_else(|| window.trim().into()),
        ),
        None => (written["max"].clone(), written["window"].clone()),
    }
}

/// The number a text spells, if it spells one.
fn number(text: &str) -> Option<Value> {
    serde_json::from_str(text.trim()).ok().filter(Value::is_number)
}
