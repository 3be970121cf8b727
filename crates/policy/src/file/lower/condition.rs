//! Lowers predicates, conditions, and the values of operators.

use super::{Lowering, list, rule::Rule, text};
use crate::{
    condition::{Condition, Predicate},
    file::{
        check::is_number,
        grammar::{OPERATORS, Operator, Takes},
        node::{Content, Node},
    },
    operator::{Directories, HostPattern, Hosts, Number, Scalar, Test, TextPatternError},
    path::ArgPath,
};

impl Lowering<'_> {
    /// The predicates of one list of a rule.
    pub(super) fn predicates(
        &mut self,
        rule: &Rule<'_>,
        nodes: &[Node],
        list_name: &str,
    ) -> Vec<Predicate> {
        let base = format!("{}/{list_name}", rule.base);
        nodes
            .iter()
            .map(|node| {
                let conditions: Box<[Condition]> = list(node, "conditions")
                    .iter()
                    .filter_map(|node| self.condition(&base, node))
                    .collect();
                let id =
                    conditions.first().map_or_else(|| base.as_str().into(), |c| c.rule.clone());
                Predicate { conditions, rule: id, message: rule.message(text(node, "on_deny")) }
            })
            .collect()
    }

    fn condition(&mut self, base: &str, node: &Node) -> Option<Condition> {
        let path = node.get("path").and_then(|path| self.path("path", path));
        let name = text(node, "op")?;
        let operator = OPERATORS.iter().find(|operator| operator.name == name)?;
        let test = self.test_of(operator, node);
        let (path, test) = (path?, test?);
        let value = node.get("value").map(Node::to_string).unwrap_or_default();
        let rule = format!("{base}/{}-{name}", path.text()).into();
        let phrases = operator.phrases;
        Some(Condition { path, test, phrases, value: value.into(), rule })
    }

    /// A path into the arguments.
    pub(super) fn path(&mut self, key: &str, node: &Node) -> Option<ArgPath> {
        let text = node.as_str()?;
        let path = ArgPath::parse(text);
        if path.is_none() {
            let message =
                format!("`{key}` must begin with `args.` and name an argument, found `{text}`");
            let plain = text.replace(' ', "");
            let plain = plain.trim_start_matches(['$', '.']);
            let (head, rest) = plain.split_once('.').unwrap_or((plain, ""));
            let is_args = ["args", "arg", "arguments", "params"].contains(&&*head.to_lowercase());
            let name = if is_args { rest } else { plain }.trim_matches('.');
            let usable = !name.is_empty() && !name.contains("..") && !name.contains(['/', '[']);
            let hint = match name {
                counter if counter.starts_with("state.") => "counters go into `limits`".into(),
                name if usable => format!("write `args.{name}`"),
                _ => "write it as `args.amount` or `args.items.*.id`".into(),
            };
            self.problems.add_with_hint(node.span, message, hint);
        }
        path
    }

    fn test_of(&mut self, operator: &'static Operator, node: &Node) -> Option<Test> {
        let Some(value) = node.get("value") else {
            if let Takes::Boolean(test) = operator.takes {
                return Some(test(true));
            }
            let wanted = expected_value(operator.takes);
            let message =
                format!("`{}` needs {wanted} as its `value`, and has none", operator.name);
            self.problems.add(node.span, message);
            return None;
        };
        let made = match (operator.takes, &value.content) {
            (Takes::Scalar(test), _) => return self.scalar(operator, value).map(test),
            (Takes::Scalars(test), Content::List(items)) => {
                return self.scalars(operator, items).map(test);
            }
            (Takes::Directories, Content::List(items)) => {
                return self.directories(operator, items);
            }
            (Takes::Hosts, Content::List(items)) => return self.hosts(operator, items),
            (Takes::Pattern, Content::String(source)) => return self.regex(source, value),
            (Takes::Number(test), Content::Number(number)) => test(Number::new(number)),
            (Takes::Boolean(test), Content::Bool(truth)) => test(*truth),
            (Takes::Text(test), Content::String(value)) => test(value.clone()),
            _ => return self.wrong_value(operator, value),
        };
        Some(made)
    }

    fn regex(&mut self, source: &str, value: &Node) -> Option<Test> {
        match self.patterns.compile(source) {
            Ok(pattern) => Some(Test::Regex(pattern)),
            Err(error @ TextPatternError::TooSlow(_)) => {
                let hint = "begin it with `^` and bound its length, or lower its counts, \
                            such as the 500 in `.{500}`";
                self.problems.add_with_hint(value.span, error.to_string(), hint.into());
                None
            }
            Err(error) => {
                self.problems.add(value.span, error.to_string());
                None
            }
        }
    }

    fn directories(&mut self, operator: &'static Operator, items: &[Node]) -> Option<Test> {
        let all = self.each(operator, items, Directories::segments, "an absolute directory")?;
        Some(Test::PathWithin(Directories::new(all)))
    }

    fn hosts(&mut self, operator: &'static Operator, items: &[Node]) -> Option<Test> {
        let form = "a host such as `api.example.com` or `*.example.com`";
        let all = self.each(operator, items, HostPattern::parse, form)?;
        Some(Test::UrlHostIn(Hosts::new(all)))
    }

    /// Parses each string of a list, and reports all that are invalid.
    fn each<T>(
        &mut self,
        operator: &'static Operator,
        items: &[Node],
        read: impl Fn(&str) -> Option<T>,
        form: &str,
    ) -> Option<Vec<T>> {
        let mut all = Vec::new();
        for item in items {
            match item.as_str().map(&read) {
                Some(Some(one)) => all.push(one),
                Some(None) => {
                    let message = format!("`{}` takes {form}, found {item}", operator.name);
                    self.problems.add(item.span, message);
                }
                None => {
                    let message = format!(
                        "`{}` takes a list of strings, found {}",
                        operator.name,
                        item.kind()
                    );
                    self.problems.add(item.span, message);
                }
            }
        }
        (all.len() == items.len()).then_some(all)
    }

    fn scalar(&mut self, operator: &'static Operator, value: &Node) -> Option<Scalar> {
        match &value.content {
            Content::String(text) => Some(Scalar::String(text.clone())),
            Content::Number(text) => Some(Scalar::Number(Number::new(text))),
            Content::Bool(truth) => Some(Scalar::Bool(*truth)),
            Content::Null => {
                let message = format!("`{}` cannot compare with null", operator.name);
                let hint = "to ask whether an argument is there, use `exists`".into();
                self.problems.add_with_hint(value.span, message, hint);
                None
            }
            Content::Reported => None,
            Content::List(_) | Content::Object(_) => self.wrong_value(operator, value),
        }
    }

    fn scalars(&mut self, operator: &'static Operator, items: &[Node]) -> Option<Box<[Scalar]>> {
        let mut all = Vec::new();
        for item in items {
            match &item.content {
                Content::List(_) | Content::Object(_) => {
                    let message = format!(
                        "`{}` takes a list of strings, numbers and booleans, found {}",
                        operator.name,
                        item.kind()
                    );
                    self.problems.add(item.span, message);
                }
                _ => all.extend(self.scalar(operator, item)),
            }
        }
        (all.len() == items.len()).then(|| all.into())
    }

    fn wrong_value<T>(&mut self, operator: &'static Operator, value: &Node) -> Option<T> {
        if matches!(value.content, Content::Reported) {
            return None;
        }
        let wanted = expected_value(operator.takes);
        let message =
            format!("`{}` needs {wanted} as its `value`, found {}", operator.name, value.kind());
        let is_list_operator =
            matches!(operator.takes, Takes::Scalars(_) | Takes::Directories | Takes::Hosts);
        if is_list_operator && matches!(value.content, Content::String(_) | Content::Number(_)) {
            self.problems.add_with_hint(value.span, message, format!("write [{value}]"));
        } else if let (Takes::Number(_), Some(text)) = (operator.takes, value.as_str())
            && is_number(text)
        {
            self.problems.add_with_hint(
                value.span,
                message,
                format!("take the quotes away: {text}"),
            );
        } else {
            self.problems.add(value.span, message);
        }
        None
    }
}

fn expected_value(takes: Takes) -> &'static str {
    match takes {
        Takes::Scalar(_) => "a string, number or boolean",
        Takes::Scalars(_) | Takes::Directories | Takes::Hosts => "a list",
        Takes::Number(_) => "a number",
        Takes::Boolean(_) => "a boolean",
        Takes::Text(_) | Takes::Pattern => "a string",
    }
}
