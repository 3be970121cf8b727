//! Conditions on arguments.
//!
//! In both languages, a condition on an absent argument is false, except `exists`, so a rule
//! becomes a predicate of `require` unchanged. They differ in types: the older one compared values
//! as text unless both were numbers, ours denies values of another type.

use serde_json::{Value as Json, json};
use sluice_policy::{
    ArgPath, Decimal,
    file::node::{Content, Node, Span},
};

use super::{Import, entry::object_of, pattern, text};

/// Digits that the older proxy's numbers could represent exactly.
const CERTAIN_DIGITS: usize = 15;

const LOOK_ALIKES: &str = "a call is now also denied if it has an argument whose name resembles \
                           one that a rule reads, such as `Amount` beside `amount`";
const TYPES: &str = "values were compared as text where they were not both numbers; now `5` is \
                     not `\"5\"`, and an argument of another type is denied";

impl Import<'_> {
    /// Converts a condition on an argument, if there is an equivalent.
    pub(super) fn on_argument(&mut self, condition: &Node) -> Option<Json> {
        let path = self.path(condition.get("path")?);
        let op = text(condition, "op")?;
        let Some(value) = condition.get("value") else {
            self.problems.add(condition.span, format!("`{op}` needs a `value`, and has none"));
            return None;
        };
        let (op, value) = self.test(op, value, path?)?;
        self.notes.know_once(condition.span, LOOK_ALIKES);
        Some(object_of([
            ("path", Some(json!(path?))),
            ("op", Some(json!(op))),
            ("value", Some(value)),
        ]))
    }

    fn path<'n>(&mut self, node: &'n Node) -> Option<&'n str> {
        let path = node.as_str()?;
        if ArgPath::parse(path).is_none() {
            let message = format!("`path` must name an argument after `args.`, found `{path}`");
            self.problems.add(node.span, message);
            return None;
        }
        for name in path.split('.') {
            if name == "*" {
                let message = format!(
                    "in `{path}`, `*` was the name of an argument; now it is every element of a \
                     list"
                );
                self.notes.know(node.span, message);
            } else if name.parse::<usize>().is_ok() {
                let message = format!(
                    "`{path}` could not lead into a list, and was absent there; now `{name}` is \
                     also a place in one"
                );
                self.notes.know(node.span, message);
            }
        }
        Some(path)
    }

    /// The equivalent operator and value.
    fn test<'n>(&mut self, op: &'n str, value: &Node, path: &str) -> Option<(&'n str, Json)> {
        match op {
            "eq" | "neq" | "contains" => self.scalar_test(op, value),
            "in" | "not_in" => self.list_test(op, value),
            "lt" | "lte" | "gt" | "gte" => match value.as_number() {
                Some(_) => Some((op, self.scalar(value))),
                None => self.wrong_value(op, value, "a number"),
            },
            "regex" => self.regex(op, value),
            "exists" => match value.as_bool() {
                Some(wanted) => {
                    self.exists(wanted, value.span, path);
                    Some((op, json!(wanted)))
                }
                None => self.wrong_value(op, value, "a boolean"),
            },
            // The unknown operator was reported already.
            _ => None,
        }
    }

    fn scalar_test<'n>(&mut self, op: &'n str, value: &Node) -> Option<(&'n str, Json)> {
        match (&value.content, op) {
            (Content::Null, "neq") => Some(("exists", json!(true))),
            (Content::Null | Content::List(_) | Content::Object(_), _) => {
                let message = format!(
                    "`{op}` can no longer compare with {}: the condition is left out",
                    value.kind()
                );
                self.notes.leave_out(value.span, message);
                None
            }
            _ => {
                self.types(op, value.span);
                Some((op, self.scalar(value)))
            }
        }
    }

    fn list_test<'n>(&mut self, op: &'n str, value: &Node) -> Option<(&'n str, Json)> {
        let Content::List(items) = &value.content else {
            return self.wrong_value(op, value, "a list");
        };
        let mut scalars = Vec::new();
        for item in items {
            match &item.content {
                // Null is denied whether the list contains it or not.
                Content::Null if op == "not_in" => {}
                Content::Null | Content::List(_) | Content::Object(_) => {
                    let message = format!(
                        "`{op}` can no longer compare with {}: it is left out of the list",
                        item.kind()
                    );
                    self.notes.leave_out(item.span, message);
                }
                _ => scalars.push(self.scalar(item)),
            }
        }
        if scalars.is_empty() && op == "not_in" {
            return Some(("exists", json!(true)));
        }
        self.types(op, value.span);
        Some((op, Json::Array(scalars)))
    }

    fn types(&mut self, op: &str, span: Span) {
        self.notes.know_once(span, TYPES);
        if matches!(op, "neq" | "not_in") {
            let message = format!(
                "an argument that is null or of another type passed `{op}`, and is now denied"
            );
            self.notes.know(span, message);
        }
    }

    fn exists(&mut self, wanted: bool, span: Span, path: &str) {
        if !wanted && path.split('.').count() > 2 {
            let message = format!(
                "`{path}` counted as absent where something on the way is not an object; now that \
                 is denied"
            );
            self.notes.know(span, message);
        }
    }

    fn regex<'n>(&mut self, op: &'n str, value: &Node) -> Option<(&'n str, Json)> {
        let Some(source) = value.as_str() else { return self.wrong_value(op, value, "a string") };
        let same = pattern::translate(source);
        if let Err(error) = self.patterns.compile(&same) {
            self.problems.add(value.span, error.to_string());
            return None;
        }
        if same != source {
            let message = "the pattern is spelt differently, so that it still means the same: \
                           classes such as `\\d` know more than ASCII here";
            self.notes.know(value.span, message.into());
        }
        Some((op, json!(same)))
    }

    /// A string, number or boolean.
    fn scalar(&mut self, node: &Node) -> Json {
        let number = node.as_number();
        if number.is_some_and(|text| Decimal::read(text).length() > CERTAIN_DIGITS) {
            let message = "numbers of this many digits were rounded before they were compared; \
                           now they are exact";
            self.notes.know(node.span, message.into());
        }
        node.to_serde()
    }

    fn wrong_value<T>(&mut self, op: &str, value: &Node, wanted: &str) -> Option<T> {
        if !matches!(value.content, Content::Reported) {
            let message = format!("`{op}` needs {wanted} as its `value`, found {}", value.kind());
            self.problems.add(value.span, message);
        }
        None
    }
}
