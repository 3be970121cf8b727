//! Refusals: their messages, and the inputs refused unchecked.

use serde_json::{Value as Json, json};
use sluice_wire::json::{Bounds, Document};

use super::{ArgsSchema, is_huge};

fn refuse(schema: &Json, args: &str) -> Option<String> {
    let args = Document::parse(args, &Bounds::default()).unwrap();
    ArgsSchema::compile(schema).unwrap().refuse(Some(args.root()))
}

fn check(schema: &Json, args: &str, expected: &str) {
    assert_eq!(refuse(schema, args).as_deref(), Some(expected), "{args}");
}

#[test]
fn a_refusal_names_an_argument_where_the_name_is_the_problem() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": {} },
                         "required": ["a"], "additionalProperties": false });
    assert_eq!(refuse(&schema, r#"{"a": "x", "b": 1}"#), None);
    check(&schema, r#"{"b": 1}"#, "`a` is missing");
    check(&schema, r#"{"a": "x", "c": 1}"#, "`c` is not an argument of this tool");
    check(&schema, r#"{"a": 5}"#, "they do not fit the schema");
    check(&schema, "[]", "they are not an object");
    let none = ArgsSchema::compile(&schema).unwrap().refuse(None);
    assert_eq!(none.as_deref(), Some("`a` is missing"));
}

#[test]
fn a_name_that_a_pattern_may_fit_is_not_blamed() {
    let schema = json!({ "patternProperties": { "^x": { "type": "string" } },
                         "additionalProperties": false });
    check(&schema, r#"{"x": 1}"#, "they do not fit the schema");
}

#[test]
fn refusals_are_short_whatever_the_names() {
    let schema = json!({ "required": ["é".repeat(5_000)] });
    let refusal = refuse(&schema, "{}").unwrap();
    assert_eq!(refusal, format!("`{}…` is missing", "é".repeat(100)));
    let schema = json!({ "properties": { "a": { "type": "é".repeat(5_000) } } });
    let problem = ArgsSchema::compile(&schema).unwrap_err();
    assert!(problem.chars().count() <= 301, "{problem}");
}

#[test]
fn numbers_are_checked_exactly_or_not_at_all() {
    let schema = json!({ "properties": { "n": { "maximum": 10 } } });
    let long = format!(r#"{{"n": 1{}}}"#, "0".repeat(400));
    for args in [r#"{"n": 1e401}"#, r#"{"n": [1e-999999999]}"#, r#"{"n": 0e99999999999}"#, &long] {
        check(&schema, args, "a number is too long to be checked");
    }
    assert_eq!(refuse(&schema, r#"{"n": 10.0, "m": 1e399}"#), None);
    check(&schema, r#"{"n": 10.0000000000000000000001}"#, "they do not fit the schema");
    let schema = json!({ "maximum": super::number("1e999999999") });
    assert_eq!(ArgsSchema::compile(&schema).unwrap_err(), "a number in it is too long");
}

#[test]
fn a_number_is_huge_by_its_text_its_magnitude_or_its_exponent() {
    for (text, expected) in [
        ("0", false),
        ("-12.5E+3", false),
        ("1e399", false),
        ("1e400", true),
        ("1e-399", false),
        ("1e-402", true),
        ("0e700", false),
        ("0e801", true),
        ("0.0e-9223372036854775808", true),
        ("1e99999999999999999999", true),
    ] {
        assert_eq!(is_huge(text), expected, "{text}");
    }
}

#[test]
fn arguments_deeper_than_the_schema_can_be_checked_are_refused() {
    let branch = json!({ "properties": { "a": { "$ref": "#" } } });
    let schema = json!({ "anyOf": [branch, branch] });
    let nested = |depth| format!("{}1{}", r#"{"a": "#.repeat(depth), "}".repeat(depth));
    assert_eq!(refuse(&schema, &nested(10)), None);
    check(&schema, &nested(40), "they are nested too deeply for this schema to be checked");
}

#[test]
fn arguments_larger_than_the_schema_can_be_checked_are_refused() {
    let branches: Vec<Json> = (0..200).map(|at| json!({ "const": at })).collect();
    let schema = json!({ "properties": { "a": { "items": { "anyOf": branches } } } });
    let args = |count| format!(r#"{{"a": [{}]}}"#, vec!["7"; count].join(","));
    assert_eq!(refuse(&schema, &args(1_000)), None);
    check(&schema, &args(50_000), "they are too large for this schema to be checked");
}

#[test]
fn unique_items_are_compared_by_value() {
    let schema = json!({ "properties": { "a": { "uniqueItems": true } } });
    assert_eq!(refuse(&schema, r#"{"a": [1, 10, "1", [1]]}"#), None);
    check(&schema, r#"{"a": [1, 10, 1e1]}"#, "they do not fit the schema");
    let schema = json!({ "properties": { "a": { "uniqueItems": false } } });
    assert_eq!(refuse(&schema, r#"{"a": [1, 1]}"#), None);
}

#[test]
fn a_pattern_that_grows_large_cannot_be_compiled() {
    assert!(ArgsSchema::compile(&json!({ "pattern": r"^\p{L}{1,1000}$" })).is_err());
    assert!(ArgsSchema::compile(&json!({ "pattern": "^[a-z]{1,64}$" })).is_ok());
}

#[test]
fn the_deepest_check_fits_a_threads_stack() {
    let mut schema = json!({ "items": { "$ref": "#/$defs/n" } });
    for _ in 0..28 {
        schema = json!({ "anyOf": [{ "oneOf": [schema] }] });
    }
    let schema = json!({ "$ref": "#/$defs/n", "$defs": { "n": schema } });
    let nested = |depth| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(refuse(&schema, &nested(7)), None);
    check(&schema, &nested(9), "they are nested too deeply for this schema to be checked");
}

#[test]
fn a_chain_of_thousands_of_references_is_refused_before_it_is_followed() {
    let link = |at: usize| (format!("a{at}"), json!({ "$ref": format!("#/$defs/a{}", at + 1) }));
    let mut defs: serde_json::Map<String, Json> = (0..9_000).map(link).collect();
    defs.insert("a9000".into(), json!({}));
    let problem = ArgsSchema::compile(&json!({ "$ref": "#/$defs/a0", "$defs": defs })).unwrap_err();
    assert_eq!(problem, "more than 64 references follow each other in it");
}
