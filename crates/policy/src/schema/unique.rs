//! `uniqueItems`, in place of the library's implementation.
//!
//! The library hashes all numbers that round to one float, and all lists without
//! scalars, into one bucket, and compares numbers by writing out their powers of ten.
//! A few kilobytes of such items keep it busy for minutes. Here items are sorted, so
//! the time is `n log n`.

use jsonschema::{Keyword, ValidationError, paths::Location};
use serde_json::{Map, Value as Json};

use crate::decimal::Decimal;

/// Whether a list's items must differ.
struct Unique(bool);

/// Builds the keyword for one location of a schema.
#[expect(clippy::unnecessary_wraps, reason = "the library's factories may fail")]
pub(super) fn keyword<'a>(
    _: &'a Map<String, Json>,
    value: &'a Json,
    _: Location,
) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>> {
    Ok(Box::new(Unique(value.as_bool().unwrap_or_default())))
}

impl<'i> Keyword<'i> for Unique {
    fn validate(&self, instance: &'i Json) -> Result<(), ValidationError<'i>> {
        if self.is_valid(instance) {
            return Ok(());
        }
        Err(ValidationError::custom("two items are the same"))
    }

    fn is_valid(&self, instance: &'i Json) -> bool {
        match instance {
            Json::Array(items) if self.0 => are_unique(items),
            _ => true,
        }
    }
}

fn are_unique(items: &[Json]) -> bool {
    let mut items: Vec<Ordered<'_>> = items.iter().map(Ordered::from).collect();
    items.sort_unstable();
    items.is_sorted_by(|one, next| one < next)
}

/// A value with a total order; equal exactly if JSON Schema considers them equal.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Ordered<'j> {
    Null,
    Bool(bool),
    Number(Decimal<'j>),
    Text(&'j str),
    List(Vec<Ordered<'j>>),
    Object(Vec<(&'j str, Ordered<'j>)>),
}

impl<'j> From<&'j Json> for Ordered<'j> {
    fn from(value: &'j Json) -> Self {
        match value {
            Json::Null => Ordered::Null,
            Json::Bool(value) => Ordered::Bool(*value),
            Json::Number(number) => Ordered::Number(Decimal::read(number.as_str())),
            Json::String(text) => Ordered::Text(text),
            Json::Array(items) => Ordered::List(items.iter().map(Ordered::from).collect()),
            Json::Object(members) => {
                let mut members: Vec<(&str, Ordered<'_>)> =
                    members.iter().map(|(key, value)| (key.as_str(), value.into())).collect();
                members.sort_unstable_by_key(|(key, _)| *key);
                Ordered::Object(members)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, from_str};

    use super::are_unique;

    fn check(items: &str, expected: bool) {
        let items: Vec<Json> = from_str(items).unwrap();
        assert_eq!(are_unique(&items), expected, "{items:?}");
    }

    #[test]
    fn unequal_items_are_unique() {
        check("[]", true);
        check(r#"[null, false, true, 0, 1, "", "1", [], [[]], [1], {}, {"a": 1}, {"b": 1}]"#, true);
        check("[9007199254740993, 9007199254740992, 1e300, 1e301]", true);
        check(r#"[[1, [2]], [[1], 2], {"a": {"b": 1}}, {"a": {"b": 2}}]"#, true);
    }

    #[test]
    fn equal_items_are_found_however_they_are_written() {
        check("[1, 2, 1]", false);
        check("[1, 1.0]", false);
        check("[0, -0.0]", false);
        check("[10, 1e1]", false);
        check(r#"[{"a": 1, "b": 2}, 5, {"b": 2, "a": 1e0}]"#, false);
    }
}
