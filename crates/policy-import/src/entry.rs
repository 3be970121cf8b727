//! Converts the rules of one tool into one entry.
//!
//! Conditions on arguments are converted by [`condition`](super::condition), and those on
//! counters by [`limit`](super::limit).

use serde_json::{Map, Value as Json};
use sluice_policy::file::node::Node;

use super::{
    Import,
    approval::HeldCalls,
    counter::Rate,
    limit::{Effect, limit, seconds_limit},
    list, text,
};

const NAMES: &str = "rule names are not kept: a decision names its rule by place, such as \
                     `/tools/<tool>/limits/<counter>`";
const UNSAID: &str = "this shape does not say whose calls a limit counts: `scope` is `server`, \
                      which all grants share; write `grant` to give each grant its own";
const SCHEMA: &str = "`required_args` is now `validate_args`, which compares all of the arguments \
                      with the tool's own schema, not only that none is missing";

/// An entry of `tools`, or `all_tools`.
#[derive(Default)]
pub(super) struct ImportedEntry {
    action: Option<&'static str>,
    reason: Option<String>,
    require: Vec<Json>,
    deny_if: Vec<Json>,
    limits: Vec<Json>,
    pub(super) held: Option<HeldCalls>,
    validate_args: Option<bool>,
}

impl ImportedEntry {
    pub(super) fn is_empty(&self) -> bool {
        self.action.is_none()
            && self.require.is_empty()
            && self.deny_if.is_empty()
            && self.limits.is_empty()
            && self.held.is_none()
            && self.validate_args.is_none()
    }

    pub(super) fn into_json(self) -> Json {
        let list = |items: Vec<Json>| (!items.is_empty()).then_some(Json::Array(items));
        let members = [
            ("action", self.action.map(Json::from)),
            ("reason", self.reason.map(Json::from)),
            ("require", list(self.require)),
            ("deny_if", list(self.deny_if)),
            ("limits", list(self.limits)),
            ("approval", self.held.map(HeldCalls::into_json)),
            ("validate_args", self.validate_args.map(Json::from)),
        ];
        object_of(members)
    }
}

/// The rule being converted.
pub(super) struct OldRule<'n> {
    /// Its tool, or `_global`.
    pub(super) scope: &'n str,
    pub(super) node: &'n Node,
    pub(super) on_deny: Option<&'n str>,
}

impl Import<'_> {
    /// `scope` is the tool's name, or `_global`.
    pub(super) fn entry(&mut self, scope: &str, node: &Node) -> ImportedEntry {
        let mut entry = ImportedEntry::default();
        for node in list(node, "rules") {
            if let Some(name) = node.get("name") {
                self.notes.know_once(name.span, NAMES);
            }
            self.rule(&OldRule { scope, node, on_deny: text(node, "on_deny") }, &mut entry);
        }
        self.flat(scope, node, &mut entry);
        entry
    }

    fn rule(&mut self, rule: &OldRule<'_>, entry: &mut ImportedEntry) {
        let has = |key| rule.node.get(key).is_some();
        let conditions = list(rule.node, "conditions");
        let action = text(rule.node, "action");
        if action == Some("require_approval") {
            return self.require_approval(rule, conditions, entry);
        }
        self.refuse_timeout(rule);
        let denies = action == Some("deny");
        if denies && (!conditions.is_empty() || has("rate_limit")) {
            let message = "a rule with `action: deny` takes no `conditions` and no `rate_limit`";
            self.problems.add(rule.node.span, message.into());
        } else if denies {
            entry.deny_if.push(predicate(Vec::new(), rule.on_deny));
        } else if let Some(rate) = rule.node.get("rate_limit") {
            self.rate_limit(rule, rate, entry);
        } else if conditions.is_empty() {
            let hint = "give it `conditions`, a `rate_limit`, or `action: deny`".into();
            self.problems.add_with_hint(rule.node.span, "the rule tests nothing".into(), hint);
        } else {
            self.state(rule);
            self.conditions(rule, conditions, entry);
        }
    }

    fn rate_limit(&mut self, rule: &OldRule<'_>, node: &Node, entry: &mut ImportedEntry) {
        if rule.node.get("conditions").is_some() || rule.node.get("state").is_some() {
            let message = "`rate_limit` takes no `conditions` and no `state` beside it";
            self.problems.add_with_hint(node.span, message.into(), "make it two rules".into());
            return;
        }
        let Some(written) = node.as_str() else { return };
        let (rate, counter) = (Rate::read(written), self.counters.of(rule.scope, rule.node));
        match (rate, counter) {
            (Some(rate), Some(counter)) => {
                entry.limits.push(limit(counter, rate.max, rule.on_deny));
                self.note_counters(node.span);
            }
            (None, _) => {
                let message = format!("`rate_limit` must be such as `5/hour`, found `{written}`");
                self.problems.add_with_hint(node.span, message, Rate::hint(written));
            }
            (Some(_), None) => {}
        }
    }

    fn conditions(&mut self, rule: &OldRule<'_>, conditions: &[Node], entry: &mut ImportedEntry) {
        let mut required = Vec::new();
        for condition in conditions {
            let path = condition.get("path").and_then(Node::as_str);
            match path.map(|path| path.split('.').next().unwrap_or_default()) {
                Some("args") => required.extend(self.on_argument(condition)),
                Some("state") => match self.on_counter(rule, condition) {
                    (Some(counter), Effect::Limit(max)) => {
                        entry.limits.push(limit(&counter, max, rule.on_deny));
                    }
                    (_, Effect::Denies) => entry.deny_if.push(predicate(Vec::new(), rule.on_deny)),
                    _ => {}
                },
                Some(_) => self.no_path(condition),
                None => {}
            }
        }
        if !required.is_empty() {
            entry.require.push(predicate(required, rule.on_deny));
        }
    }

    pub(super) fn no_path(&mut self, condition: &Node) {
        let path = condition.get("path").unwrap_or(condition);
        let message = format!("`path` must begin with `args.` or `state.`, found {path}");
        self.problems.add(path.span, message);
    }

    /// Converts the flat shape, whose keys have the same meaning in our language.
    fn flat(&mut self, scope: &str, node: &Node, entry: &mut ImportedEntry) {
        entry.reason = text(node, "reason").map(str::to_owned);
        entry.action = match text(node, "action") {
            Some("deny") => Some("deny"),
            Some("require_approval") => Some("approve"),
            _ => None,
        };
        let rate = node.get("rate_limit");
        let whole = |key| rate.and_then(|rate| rate.get(key)).and_then(Node::as_whole);
        if let (Some(rate), Some(max), Some(seconds)) = (rate, whole("max"), whole("window")) {
            let name = self.counters.free_name(scope, "rate");
            entry.limits.push(seconds_limit(&name, max, seconds));
            self.notes.know_once(rate.span, UNSAID);
        }
        let required = node.get("validate").and_then(|validate| validate.get("required_args"));
        if let Some(required) = required.filter(|required| required.as_bool() == Some(true)) {
            entry.validate_args = Some(true);
            self.notes.know_once(required.span, SCHEMA);
        }
    }
}

pub(super) fn predicate(conditions: Vec<Json>, on_deny: Option<&str>) -> Json {
    object_of([("conditions", Some(Json::Array(conditions))), ("on_deny", on_deny.map(Json::from))])
}

/// An object of the members that have a value.
pub(super) fn object_of<const N: usize>(members: [(&str, Option<Json>); N]) -> Json {
    let given = members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Json::Object(given.collect::<Map<_, _>>())
}
