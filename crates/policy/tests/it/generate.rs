//! Policies and calls made up by a generator that means harm.
//!
//! Few names and many ways to spell, select and resemble them, so that entries
//! overlap, arguments meet conditions, and counters are shared all the time.
//! Everything the policy says to a caller begins with [`WORDS`], so that its
//! words can be told from the engine's own.

pub(crate) mod call;
pub(crate) mod policy;
pub(crate) mod pool;

use proptest::{prelude::*, sample::select};
use serde_json::{Map, Value};

/// How every text that a generated policy has for a caller begins.
pub(crate) const WORDS: &str = "SAY ";

/// One key of an object, and its value where the key is there.
type Field = BoxedStrategy<Option<(String, Value)>>;

/// A key that is always there.
fn must(key: &'static str, value: impl Strategy<Value = Value> + 'static) -> Field {
    value.prop_map(move |value| Some((key.to_owned(), value))).boxed()
}

/// A key that is there in so many percent of objects.
fn may(key: &'static str, percent: u32, value: impl Strategy<Value = Value> + 'static) -> Field {
    prop_oneof![
        100 - percent => Just(None),
        percent => value.prop_map(move |value| Some((key.to_owned(), value))),
    ]
    .boxed()
}

/// An object of these keys.
fn record(fields: Vec<Field>) -> BoxedStrategy<Value> {
    fields
        .prop_map(|fields| Value::Object(fields.into_iter().flatten().collect::<Map<_, _>>()))
        .boxed()
}

/// A list of so many of these.
fn list(
    of: impl Strategy<Value = Value> + 'static,
    size: std::ops::RangeInclusive<usize>,
) -> BoxedStrategy<Value> {
    proptest::collection::vec(of, size).prop_map(Value::Array).boxed()
}

/// One of these texts.
fn text(from: &'static [&'static str]) -> BoxedStrategy<Value> {
    select(from).prop_map(Value::from).boxed()
}

/// One of these numbers, with every digit as it is spelt.
fn number(from: &'static [&'static str]) -> BoxedStrategy<Value> {
    select(from).prop_map(pool::number).boxed()
}

/// Words for a caller.
fn words() -> BoxedStrategy<Value> {
    select(&["one", "two", "three", ""][..])
        .prop_map(|word| Value::from(format!("{WORDS}{word}")))
        .boxed()
}
