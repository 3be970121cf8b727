//! Calls: arguments that mostly fit what policies ask for, and sometimes nearly do.

use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
};
use serde_json::{Value, json};

use super::{list, may, must, number, pool, record, text};

/// One call, with what is known of its tool and what its counters read.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    pub(crate) tool: &'static str,
    pub(crate) args: Option<Value>,
    pub(crate) knowledge: Knowledge,
    /// What all counters read but the one named, which is empty.
    pub(crate) reading: &'static str,
    pub(crate) empty: &'static str,
    /// How many calls are in progress, for most rules.
    pub(crate) in_progress: &'static str,
    pub(crate) millis: i64,
}

/// What is known of a tool's definition.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Knowledge {
    NoList,
    NotInList,
    /// The definition of this number, among [`definitions`].
    Definition(usize),
}

/// Tool definitions: every category with every kind of schema.
pub(crate) fn definitions() -> Vec<Value> {
    let names = ["get_it", "ping", "update_it", "run_it", "delete_it", "pay_it"];
    let schemas = [
        None,
        Some(json!({})),
        Some(json!({ "type": 5 })),
        Some(json!({ "$ref": "https://example.com/schema.json" })),
    ];
    let schemas: Vec<_> = schemas
        .into_iter()
        .chain(super::policy::SCHEMAS.map(|text| Some(pool::parse(text))))
        .collect();
    let mut all = Vec::new();
    for name in names {
        for schema in &schemas {
            let mut tool = json!({ "name": name });
            if let Some(schema) = schema {
                tool["inputSchema"] = schema.clone();
            }
            all.push(tool);
        }
    }
    all
}

/// So many calls. They share a few arguments, which are what takes long to generate.
pub(crate) fn attempts(calls: usize) -> impl Strategy<Value = Vec<Attempt>> {
    let definitions = definitions().len();
    let knowledge = prop_oneof![
        1 => Just(Knowledge::NoList),
        1 => Just(Knowledge::NotInList),
        12 => (0..definitions).prop_map(Knowledge::Definition),
    ];
    let empty = select(&["", "spent", "calls"][..]);
    let millis = -100_000_000_000_i64..2_000_000_000_000;
    let tool = prop_oneof![2 => select(&pool::TOOLS[..2]), 1 => select(pool::TOOLS)];
    let in_progress = select(&["0", "1", "2", "3"][..]);
    let rest = (tool, knowledge, select(pool::READINGS), empty, in_progress, millis);
    let args = prop_oneof![1 => Just(None), 20 => arguments().prop_map(Some)];
    (vec(args, calls.div_ceil(5)), vec((any::<Index>(), rest), calls)).prop_map(|(args, rest)| {
        rest.into_iter()
            .map(|(index, (tool, knowledge, reading, empty, in_progress, millis))| {
                let args = index.get(&args).clone();
                Attempt { tool, args, knowledge, reading, empty, in_progress, millis }
            })
            .collect()
    })
}

/// A call's arguments.
pub(crate) fn arguments() -> BoxedStrategy<Value> {
    let item = record(vec![
        may("id", 90, prop_oneof![number(pool::NUMBERS), text(pool::TEXTS)]),
        may("amount", 80, amount()),
        may("Amount", 2, amount()),
        may("tags", 60, list(text(pool::TEXTS), 0..=3)),
    ]);
    let items = prop_oneof![
        12 => list(item, 0..=3),
        2 => list(scalar(), 0..=3),
        1 => wrong(),
    ];
    let to = record(vec![
        may("amount", 80, amount()),
        may(" amount", 5, amount()),
        may("name", 80, prop_oneof![6 => text(pool::TEXTS), 1 => wrong()]),
        may("NAME\0", 2, scalar()),
    ]);
    record(vec![
        may("amount", 88, amount()),
        may("Amount", 3, amount()),
        may(" amount", 2, amount()),
        may("amount\0", 2, amount()),
        may("amount\u{a0}", 2, amount()),
        may("items", 80, items),
        may("to", 80, prop_oneof![12 => to, 1 => wrong()]),
        may("path", 85, prop_oneof![15 => text(pool::FILES), 1 => wrong()]),
        may("url", 85, prop_oneof![15 => text(pool::URLS), 1 => wrong()]),
        may("start", 80, prop_oneof![10 => text(pool::TEXTS), 1 => wrong()]),
        may("\u{17f}tart", 3, scalar()),
        may("amount\0x", 1, amount()),
        may("x\0amount", 1, amount()),
        may("\u{feff}to", 1, scalar()),
        may("\u{131}tems", 1, scalar()),
        may("url\u{1f}", 1, scalar()),
        may("flag", 80, prop_oneof![10 => any::<bool>().prop_map(Value::from), 1 => wrong()]),
        may("0", 10, scalar()),
        may("*", 5, scalar()),
        may("other", 10, scalar()),
    ])
}

fn amount() -> BoxedStrategy<Value> {
    prop_oneof![
        20 => number(pool::NUMBERS),
        1 => number(pool::WILD_NUMBERS),
        2 => wrong(),
    ]
    .boxed()
}

fn scalar() -> BoxedStrategy<Value> {
    prop_oneof![
        number(pool::NUMBERS),
        text(pool::TEXTS),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ]
    .boxed()
}

/// Something of a type that is hardly wanted.
fn wrong() -> BoxedStrategy<Value> {
    prop_oneof![
        scalar(),
        Just(json!([])),
        list(scalar(), 1..=2),
        record(vec![must("amount", number(pool::NUMBERS))]),
    ]
    .boxed()
}
