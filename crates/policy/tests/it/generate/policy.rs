//! Policies: every key, operator and piece of sugar, over a few overlapping tools.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Map, Value, json};

use super::{Field, list, may, must, number, pool, record, text, words};

/// Schemas small enough that the tests can check them on their own.
pub(crate) const SCHEMAS: [&str; 4] = [
    r#"{"type":"object","required":["amount"]}"#,
    r#"{"properties":{"amount":{"type":"number","maximum":10000}}}"#,
    r#"{"properties":{"start":{"type":"string"},"flag":{"type":"boolean"}}}"#,
    r#"{"properties":{"amount":{"type":"number","minimum":0},"to":{"type":"object"}},"required":["to"]}"#,
];

/// Counters with the window, in two spellings, scope and path that all who name them agree on.
const COUNTERS: &[(&str, [&str; 2], &str, Option<&str>)] = &[
    ("calls", ["\"minute\"", "60"], "grant", None),
    ("send_rate", ["\"minute\"", "60"], "grant", None),
    ("all_tools_rate", ["\"minute\"", "60"], "grant", None),
    ("hourly", ["\"hour\"", "3600"], "server", None),
    ("spent", ["\"day\"", "86400"], "principal", Some("args.amount")),
    ("sent", ["7", "7"], "session", Some("args.to.amount")),
    ("first", ["2678400", "2678400"], "grant", Some("args.items.0.amount")),
    ("monthly", ["\"month\"", "\"month\""], "server", None),
];

/// Any policy; nearly all of them load.
pub(crate) fn policy() -> BoxedStrategy<Value> {
    record(vec![
        must("version", Just(json!("1"))),
        must("default", text(&["allow", "deny"])),
        may("mode", 30, text(&["enforce", "shadow"])),
        may("validate_args", 15, any::<bool>().prop_map(Value::from)),
        may("hide", 25, list(hidden(), 0..=2)),
        may("all_tools", 35, rule()),
        must("tools", tools()),
        may("resources", 60, access(pool::URI_PATTERNS)),
        may("prompts", 60, access(pool::PROMPT_PATTERNS)),
        may("server_requests", 40, list(text(&["sampling", "elicitation", "roots"]), 0..=2)),
        may("methods", 40, list(text(pool::METHOD_PATTERNS), 0..=2)),
    ])
}

fn hidden() -> BoxedStrategy<Value> {
    prop_oneof![
        6 => text(pool::NAMES),
        2 => text(&["get*", "*_*", "*__*", "a/*", "S*"]),
        2 => text(&["@destructive", "@financial", "@other"]),
    ]
    .boxed()
}

fn access(patterns: &'static [&'static str]) -> BoxedStrategy<Value> {
    prop_oneof![text(&["allow", "deny"]), record(vec![must("allow", list(text(patterns), 0..=2))]),]
        .boxed()
}

/// Few entries mostly, and sometimes so many globs that the engine builds its search.
fn tools() -> BoxedStrategy<Value> {
    let pattern = prop_oneof![
        4 => select(&pool::NAMES[..2]),
        4 => select(pool::NAMES),
        4 => select(&["*", "send*", "*_*", "s*d*"][..]),
        4 => select(pool::GLOBS),
        2 => select(pool::CATEGORIES),
    ];
    let few = vec((pattern, rule()), 0..=6);
    let many = vec((select(pool::GLOBS), rule()), 10..=14);
    prop_oneof![9 => few, 1 => many]
        .prop_map(|entries| {
            let entries: BTreeMap<_, _> = entries.into_iter().collect();
            let entries = entries.into_iter().map(|(key, mut rule)| {
                // `except` may not name the only tool of its entry.
                if let Some(Value::Array(except)) = rule.get_mut("except") {
                    except.retain(|name| name != key);
                }
                (key.to_owned(), rule)
            });
            Value::Object(entries.collect::<Map<_, _>>())
        })
        .boxed()
}

/// One rule with any of its parts.
pub(crate) fn rule() -> BoxedStrategy<Value> {
    let validate = prop_oneof![
        Just(json!(true)),
        Just(json!(false)),
        select(&SCHEMAS[..]).prop_map(pool::parse),
    ];
    let approval = prop_oneof![
        2 => Just(json!(true)),
        5 => record(vec![
            may("when", 70, predicates("when", 0..=2)),
            may("expires", 50, text(&["15m", "30s", "2h", "1d", "0s", "001m"])),
            may("approvers", 50, number(&["1", "2", "3", "5"])),
            may("message", 50, words()),
        ]),
    ];
    record(vec![
        may(
            "action",
            30,
            prop_oneof![
                8 => Just("allow"), 2 => Just("deny"), 2 => Just("hide"), 2 => Just("approve")
            ]
            .prop_map(Value::from),
        ),
        may("reason", 50, words()),
        may("except", 25, list(text(pool::TOOLS), 0..=2)),
        may("require", 24, predicates("require", 0..=2)),
        may("deny_if", 30, predicates("deny_if", 0..=2)),
        may("limits", 35, list(limit(), 0..=3)),
        may("rate_limit", 20, rate_limit()),
        may("concurrent", 20, concurrent()),
        may("approval", 14, approval),
        may("validate_args", 12, validate),
    ])
}

fn rate_limit() -> BoxedStrategy<Value> {
    // Windows are those of the counters with the same names, or the policy
    // would seldom load.
    prop_oneof![
        text(&["10/minute", "0/minute", "1/60", "100/minute"]),
        record(vec![must("max", number(pool::BOUNDS)), must("window", text(&["minute"]))]),
        record(vec![must("max", number(&["10", "2.5"])), must("window", number(&["60"]))]),
    ]
    .boxed()
}

fn concurrent() -> BoxedStrategy<Value> {
    const MOST: &[&str] = &["0", "1", "2", "3", "1000000"];
    prop_oneof![
        number(MOST),
        record(vec![
            must("max", number(MOST)),
            may("scope", 60, text(&["grant", "session", "principal", "server"])),
            may("on_deny", 40, words()),
        ]),
    ]
    .boxed()
}

fn limit() -> BoxedStrategy<Value> {
    let counter = (select(COUNTERS), any::<bool>(), any::<bool>());
    let rest = record(vec![must("max", number(pool::BOUNDS)), may("on_deny", 40, words())]);
    (counter, rest)
        .prop_map(|(((counter, windows, scope, path), spelling, silent), mut limit)| {
            limit["counter"] = json!(counter);
            limit["window"] = pool::parse(windows[usize::from(spelling)]);
            if !(silent && scope == "grant") {
                limit["scope"] = json!(scope);
            }
            if let Some(path) = path {
                limit["increment_from"] = json!(path);
            }
            limit
        })
        .boxed()
}

/// The predicates of one list; those that let calls pass are likelier.
fn predicates(list_name: &str, size: std::ops::RangeInclusive<usize>) -> BoxedStrategy<Value> {
    let least = usize::from(list_name == "deny_if");
    let conditions = prop_oneof![
        20 => list(condition(), 1..=2),
        1 => list(condition(), least..=4),
    ];
    list(record(vec![must("conditions", conditions), may("on_deny", 50, words())]), size)
}

/// One condition, whose path and value mostly suit its operator.
pub(crate) fn condition() -> BoxedStrategy<Value> {
    const NUMERIC: &[&str] = &[
        "args.amount",
        "args.to.amount",
        "args.items.0.amount",
        "args.items.*.amount",
        "args.items.*.id",
        "args.missing",
    ];
    const TEXTUAL: &[&str] = &[
        "args.start",
        "args.to.name",
        "args.items.*.tags.*",
        "args.items.1.id",
        "args.path",
        "args.url",
    ];
    const ODD: &[&str] = &[
        "args.*",
        "args.to.*",
        "args.0",
        "args.items.01",
        "args.items.-1",
        "args.items.+1",
        "args.items.99999999999999999999",
        "args.items.7.id",
        "args.amount.x",
        "args.Amount",
        "args.\u{17f}tart",
        "args.items",
        "args.to",
        "args.flag",
        "args.to. name",
    ];
    let on = |paths, of: BoxedStrategy<Value>| suited(paths, of);
    prop_oneof![
        4 => on(NUMERIC, numeric()),
        3 => on(TEXTUAL, textual()),
        2 => on(&["args.path"], within()),
        2 => on(&["args.url"], hosts()),
        1 => on(&["args.items", "args.items.0.tags", "args.items.*"], contains()),
        1 => on(&["args.flag", "args.start", "args.amount", "args.items.*"], equality()),
        2 => on(&["args.amount", "args.to.name", "args.items.*.id", "args.to", "args.0"], exists()),
        1 => on(ODD, prop_oneof![
            equality(), numeric(), textual(), within(), hosts(), contains(), exists()
        ].boxed()),
    ]
    .boxed()
}

/// A condition on one of the paths, with this operator and value.
fn suited(paths: &'static [&'static str], operator: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    (select(paths), operator)
        .prop_map(|(path, mut condition)| {
            condition["path"] = json!(path);
            condition
        })
        .boxed()
}

fn operator(names: &'static [&'static str], value: Field) -> BoxedStrategy<Value> {
    record(vec![must("op", text(names)), value])
}

fn numeric() -> BoxedStrategy<Value> {
    operator(&["lt", "lte", "gt", "gte", "eq", "neq"], must("value", number(pool::NUMBERS)))
}

fn textual() -> BoxedStrategy<Value> {
    prop_oneof![
        operator(&["regex"], must("value", text(pool::REGEXES))),
        operator(
            &["contains", "starts_with", "ends_with", "eq", "neq"],
            must("value", text(pool::TEXTS))
        ),
        operator(&["in", "not_in"], must("value", list(text(pool::TEXTS), 0..=6))),
    ]
    .boxed()
}

fn within() -> BoxedStrategy<Value> {
    operator(&["path_within"], must("value", list(text(pool::DIRECTORIES), 0..=3)))
}

fn hosts() -> BoxedStrategy<Value> {
    operator(&["url_host_in"], must("value", list(text(pool::HOSTS), 0..=3)))
}

fn contains() -> BoxedStrategy<Value> {
    operator(&["contains"], must("value", scalar()))
}

fn equality() -> BoxedStrategy<Value> {
    prop_oneof![
        operator(&["eq", "neq", "contains"], must("value", scalar())),
        operator(&["in", "not_in"], must("value", list(scalar(), 0..=5))),
    ]
    .boxed()
}

fn exists() -> BoxedStrategy<Value> {
    operator(&["exists"], may("value", 60, any::<bool>().prop_map(Value::from)))
}

fn scalar() -> BoxedStrategy<Value> {
    prop_oneof![number(pool::NUMBERS), text(pool::TEXTS), any::<bool>().prop_map(Value::from),]
        .boxed()
}
