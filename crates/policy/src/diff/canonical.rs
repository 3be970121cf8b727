//! One text for all spellings of a condition or a schema that mean the same, to compare them.

use sluice_wire::json::{Bounds, Document, Kind, Value};

use crate::{
    condition::{Condition, Predicate},
    decimal::Decimal,
    default_messages::Phrase,
};

/// Whether the order of a list's items matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Matters,
    /// Nor does it matter how often an item occurs.
    DoesNotMatter,
}

/// A predicate: its conditions in any order.
pub(super) fn predicate(predicate: &Predicate) -> String {
    let mut all: Vec<_> = predicate.conditions.iter().map(condition).collect();
    all.sort_unstable();
    all.dedup();
    all.join(" and ")
}

fn condition(condition: &Condition) -> String {
    let path = condition.path.text();
    match condition.phrases.condition {
        // All lists that operators take are sets.
        Phrase::Before(phrase) => {
            format!("{path} {phrase} {}", json(&condition.value, Order::DoesNotMatter))
        }
        Phrase::Given => format!("{path} exists {}", &*condition.value != "false"),
    }
}

/// A JSON Schema.
pub(super) fn schema(text: &str) -> String {
    json(text, Order::Matters)
}

fn json(text: &str, order: Order) -> String {
    let bounds = Bounds { bytes: usize::MAX, string: usize::MAX, ..Bounds::default() };
    match Document::parse(text, &bounds) {
        Ok(document) => write(document.root(), order),
        // It is compared as it is written.
        Err(_) => text.to_owned(),
    }
}

fn write(value: Value<'_>, order: Order) -> String {
    match value.kind() {
        Kind::Number => value.as_number().map(number).unwrap_or_default(),
        Kind::List => {
            let items = value.items().into_iter().flatten();
            let mut items: Vec<_> = items.map(|item| write(item, order)).collect();
            if order == Order::DoesNotMatter {
                items.sort_unstable();
                items.dedup();
            }
            format!("[{}]", items.join(","))
        }
        Kind::Object => {
            let members = value.members().into_iter().flatten();
            let mut members: Vec<_> =
                members.map(|(key, value)| format!("{key}:{}", write(value, order))).collect();
            members.sort_unstable();
            format!("{{{}}}", members.join(","))
        }
        _ => value.to_string(),
    }
}

/// `5`, `5.0` and `5e0` have one text.
fn number(text: &str) -> String {
    let number = Decimal::read(text);
    let sign = if number.is_negative() { "-" } else { "" };
    let digits: String = number.digits().map(|digit| char::from(b'0' + digit)).collect();
    format!("{sign}0.{digits}e{}", number.magnitude())
}

#[cfg(test)]
mod tests {
    use super::{Order, json};

    #[test]
    fn spellings_of_one_value_have_one_text() {
        let same = |one: &str, other: &str, order| {
            assert_eq!(json(one, order), json(other, order), "{one} and {other}");
        };
        same("5", "5.0", Order::Matters);
        same("-0", "0", Order::Matters);
        same("1e2", "100.00", Order::Matters);
        same(r#""a""#, r#""\u0061""#, Order::Matters);
        same(r#"["a", 1, "a"]"#, r#"[1.0, "a"]"#, Order::DoesNotMatter);
        same(r#"{"a": 1, "b": [1, 2]}"#, r#"{"b": [1.0, 2], "a": 1}"#, Order::Matters);
        for (one, other) in
            [("5", "\"5\""), ("5", "-5"), ("5", "50"), ("[1,2]", "[2,1]"), ("0.5", "0.05")]
        {
            assert_ne!(json(one, Order::Matters), json(other, Order::Matters), "{one}, {other}");
        }
    }
}
