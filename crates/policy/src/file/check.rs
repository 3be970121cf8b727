//! Checks a tree against the tables of the grammar.
//!
//! Reports missing, unknown and duplicate keys and wrong types. The meaning of
//! strings and numbers is checked by `lower`.

mod suggest;

use std::collections::HashSet;

use super::{
    grammar::{Choice, Field, OPERATORS, POLICY, Record, Type},
    node::{Content, Node, Span},
    problem::Problems,
};
use crate::decimal::{Decimal, LARGEST_EXPONENT};

pub use suggest::{did_you_mean, nearest};

/// Reports every part of the tree that the language does not allow.
pub(super) fn check(root: &Node, problems: &mut Problems) {
    check_as(&POLICY, root, problems);
}

/// Reports every part of the tree that does not fit `record`.
pub fn check_as(record: &'static Record, root: &Node, problems: &mut Problems) {
    let mut checker = Checker { problems };
    checker.repeated_keys(root);
    checker.numbers(root);
    checker.value("the policy", root, &Type::Record(record));
}

struct Checker<'c> {
    problems: &'c mut Problems,
}

impl Checker<'_> {
    fn repeated_keys(&mut self, node: &Node) {
        let mut seen = HashSet::new();
        for member in node.members() {
            if !seen.insert(&*member.key) {
                let message = format!("duplicate key `{}`", member.key);
                let hint = "give each key once: another reader might take the other one".into();
                self.problems.add_with_hint(member.key_span, message, hint);
            }
            self.repeated_keys(&member.value);
        }
        node.items().iter().for_each(|item| self.repeated_keys(item));
    }

    /// Reports numbers with excessive exponents, which would make comparisons inexact.
    fn numbers(&mut self, node: &Node) {
        if let Content::Number(text) = &node.content
            && Decimal::read(text).magnitude().unsigned_abs() > LARGEST_EXPONENT
        {
            self.problems.add(node.span, "the number's exponent is too large".into());
        }
        node.items().iter().for_each(|item| self.numbers(item));
        node.members().iter().for_each(|member| self.numbers(&member.value));
    }

    /// Checks a value; `name` is its key.
    fn value(&mut self, name: &str, node: &Node, of: &Type) {
        match (of, &node.content) {
            (_, Content::Reported) => {}
            (Type::Either([Type::Choice(words), Type::Whole { .. }]), Content::String(text))
                if words.len() > 1 && !words.iter().any(|word| word.name == &**text) =>
            {
                self.word_or_number(name, node, text, words);
            }
            (Type::Either(types), _) => match types.iter().find(|of| takes(of, node)) {
                Some(of) => self.value(name, node, of),
                None => self.wrong_type(name, node, of),
            },
            _ if !takes(of, node) => self.wrong_type(name, node, of),
            (Type::Record(record), _) => self.record(node, record),
            (Type::Map { values, .. }, _) => {
                for member in node.members() {
                    self.value(&member.key, &member.value, values);
                }
            }
            (Type::List(of), Content::List(items)) => {
                let name = format!("{name}[]");
                for item in items {
                    self.value(&name, item, of);
                }
            }
            (Type::Choice(choices), Content::String(text)) => {
                self.choice(name, node, text, choices);
            }
            (Type::Operator, Content::String(text)) => self.operator(node, text),
            (Type::Number { least }, Content::Number(text)) => {
                let least_text = least.to_string();
                if Decimal::read(text) < Decimal::read(&least_text) {
                    let message =
                        format!("`{name}` must be a number of {least} or more, found {text}");
                    self.problems.add(node.span, message);
                }
            }
            (Type::Whole { least, most }, Content::Number(text))
                if !node.as_whole().is_some_and(|number| (*least..=*most).contains(&number)) =>
            {
                let message =
                    format!("`{name}` must be a whole number from {least} to {most}, found {text}");
                self.problems.add(node.span, message);
            }
            _ => {}
        }
    }

    /// Checks a string where a keyword or a number is expected, as for windows.
    fn word_or_number(&mut self, name: &str, node: &Node, text: &str, words: &'static [Choice]) {
        let names = || words.iter().map(|word| word.name);
        let listed: Vec<_> = names().map(|name| format!("`{name}`")).collect();
        let message =
            format!("`{name}` must be {} or a whole number, found `{text}`", listed.join(", "));
        let near = translate_foreign_word(text).filter(|word| names().any(|name| name == *word));
        let hint = match near.or_else(|| nearest(text, names())) {
            _ if is_number(text) => format!("take the quotes away: {text}"),
            Some(near) => format!("did you mean `{near}`?"),
            None => "give other windows in seconds, without quotes: 30".into(),
        };
        self.problems.add_with_hint(node.span, message, hint);
    }

    fn record(&mut self, node: &Node, record: &'static Record) {
        for member in node.members() {
            match field(record, &member.key) {
                Some(field) => self.value(&member.key, &member.value, &field.of),
                None => self.unknown_key(record, &member.key, member.key_span),
            }
        }
        for field in record.fields.iter().filter(|field| field.required) {
            if node.get(field.name).is_none() {
                let message = format!("`{}` is missing: {}", field.name, lower_first(field.doc));
                self.problems.add(node.span, message);
            }
        }
    }

    fn unknown_key(&mut self, record: &'static Record, key: &str, span: Span) {
        let names = || record.fields.iter().map(|field| field.name);
        let hint = did_you_mean(nearest(key, names())).unwrap_or_else(|| {
            let keys: Vec<_> = names().map(|name| format!("`{name}`")).collect();
            format!("keys known here: {}", keys.join(", "))
        });
        self.problems.add_with_hint(span, format!("unknown key `{key}`"), hint);
    }

    fn choice(&mut self, name: &str, node: &Node, text: &str, choices: &'static [Choice]) {
        if choices.iter().any(|choice| choice.name == text) {
            return;
        }
        let names: Vec<_> = choices.iter().map(|choice| format!("`{}`", choice.name)).collect();
        let expected = match names.as_slice() {
            [one] => one.clone(),
            many => format!("one of {}", many.join(", ")),
        };
        let message = format!("`{name}` must be {expected}, found `{text}`");
        let near = translate_foreign_word(text)
            .filter(|word| choices.iter().any(|choice| choice.name == *word));
        let near = near.or_else(|| nearest(text, choices.iter().map(|choice| choice.name)));
        match did_you_mean(near) {
            Some(hint) => self.problems.add_with_hint(node.span, message, hint),
            None => self.problems.add(node.span, message),
        }
    }

    fn operator(&mut self, node: &Node, text: &str) {
        if OPERATORS.iter().any(|operator| operator.name == text) {
            return;
        }
        let also = OPERATORS.iter().find(|operator| operator.also.contains(&text));
        let near = also
            .map(|operator| operator.name)
            .or_else(|| nearest(text, OPERATORS.iter().map(|operator| operator.name)));
        let hint = did_you_mean(near).unwrap_or_else(|| {
            let names: Vec<_> = OPERATORS.iter().map(|operator| operator.name).collect();
            format!("operators: {}", names.join(", "))
        });
        self.problems.add_with_hint(node.span, format!("unknown operator `{text}`"), hint);
    }

    fn wrong_type(&mut self, name: &str, node: &Node, of: &Type) {
        let name = if name == "the policy" { name.into() } else { format!("`{name}`") };
        let message = format!("{name} must be {}, found {}", describe_type(of), node.kind());
        match (of, &node.content) {
            (Type::Choice([only]), Content::Number(text)) if *only.name == **text => {
                let hint = format!("put it in quotes: \"{text}\"");
                self.problems.add_with_hint(node.span, message, hint);
            }
            (Type::Record(record), Content::Null) if record.name == "rule" => {
                let hint = "write {} to allow the tool without conditions".into();
                self.problems.add_with_hint(node.span, message, hint);
            }
            (Type::Number { .. } | Type::Whole { .. }, Content::String(text))
                if is_number(text) =>
            {
                self.problems.add_with_hint(
                    node.span,
                    message,
                    format!("take the quotes away: {text}"),
                );
            }
            (Type::Either(types), Content::String(text))
                if is_number(text) && types.iter().any(|of| matches!(of, Type::Whole { .. })) =>
            {
                let hint = format!("take the quotes away: {text}");
                self.problems.add_with_hint(node.span, message, hint);
            }
            (Type::List(_), Content::Object(_) | Content::String(_)) => {
                let hint = "put it in brackets: [ … ]".into();
                self.problems.add_with_hint(node.span, message, hint);
            }
            _ => self.problems.add(node.span, message),
        }
    }
}

/// Translates words of other policy languages into ours.
fn translate_foreign_word(word: &str) -> Option<&'static str> {
    match word {
        "block" | "reject" | "forbid" | "refuse" => Some("deny"),
        "permit" | "accept" | "pass" => Some("allow"),
        "ask" | "hold" | "confirm" => Some("approve"),
        "audit" | "monitor" | "log" | "dry_run" | "report" => Some("shadow"),
        "m" | "1m" | "mins" | "60s" => Some("minute"),
        "h" | "1h" | "hr" | "hrs" | "60m" => Some("hour"),
        "d" | "1d" | "daily" | "24h" => Some("day"),
        "mo" | "monthly" | "30d" | "31d" => Some("month"),
        "user" | "agent" => Some("principal"),
        "global" | "all" => Some("server"),
        _ => None,
    }
}

pub(super) fn field(record: &'static Record, key: &str) -> Option<&'static Field> {
    record.fields.iter().find(|field| field.name == key)
}

/// Whether the value has the expected type.
fn takes(of: &Type, node: &Node) -> bool {
    match of {
        Type::Text | Type::Form(_) | Type::Choice(_) | Type::Operator => node.as_str().is_some(),
        Type::Boolean => node.as_bool().is_some(),
        Type::True => node.as_bool() == Some(true),
        Type::Number { .. } | Type::Whole { .. } => node.as_number().is_some(),
        Type::List(_) => matches!(node.content, Content::List(_)),
        Type::Record(_) | Type::Map { .. } | Type::Object => {
            matches!(node.content, Content::Object(_))
        }
        Type::OperatorValue => true,
        Type::Either(types) => types.iter().any(|of| takes(of, node)),
    }
}

/// The name of a type in the language's terms, with its article.
fn describe_type(of: &Type) -> String {
    match of {
        Type::Text | Type::Operator => "a string".into(),
        Type::Form(form) => format!("a string such as `{}`", form.example),
        Type::Choice(choices) => {
            let names: Vec<_> =
                choices.iter().map(|choice| format!("\"{}\"", choice.name)).collect();
            format!("the string {}", names.join(" or "))
        }
        Type::Boolean => "a boolean".into(),
        Type::True => "`true`".into(),
        Type::Number { .. } => "a number".into(),
        Type::Whole { .. } => "a whole number".into(),
        Type::List(_) => "a list".into(),
        Type::Record(_) | Type::Map { .. } | Type::Object => "an object".into(),
        Type::OperatorValue => "a value".into(),
        Type::Either(types) => types.iter().map(describe_type).collect::<Vec<_>>().join(" or "),
    }
}

fn lower_first(text: &str) -> String {
    let text = text.trim_end_matches('.');
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// Whether a text would be a number without its quotes.
pub(super) fn is_number(text: &str) -> bool {
    let bounds = sluice_wire::json::Bounds::default();
    sluice_wire::json::Document::parse(text, &bounds)
        .is_ok_and(|document| document.root().as_number().is_some())
}
