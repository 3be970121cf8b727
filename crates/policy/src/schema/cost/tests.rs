//! Schemas that are cheap, and schemas that are not.

use serde_json::{Map, Value as Json, json};

use super::{Cost, DEEPEST};

/// The depth to which arguments are checked.
fn depth(schema: &Json) -> usize {
    Cost::of(schema).unwrap().steps.len() - 1
}

fn check_unusable(schema: &Json, expected: &str) {
    let problem = Cost::of(schema).unwrap_err();
    assert!(problem.contains(expected), "{problem}");
}

/// `links` definitions, each made from a reference to the next.
fn chain(links: usize, link: impl Fn(Json) -> Json) -> Json {
    let mut defs: Map<String, Json> = (0..links)
        .map(|at| (format!("a{at}"), link(json!({ "$ref": format!("#/$defs/a{}", at + 1) }))))
        .collect();
    defs.insert(format!("a{links}"), json!({ "type": "string" }));
    json!({ "$ref": "#/$defs/a0", "$defs": defs })
}

#[test]
fn plain_schemas_are_checked_to_any_depth() {
    for schema in [
        json!(true),
        json!({}),
        json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": {} } }),
        json!({ "properties": { "a": { "$ref": "#/$defs/x%20y~1z" } }, "$defs": { "x y/z": {} } }),
        json!({ "type": "object", "additionalProperties": { "$ref": "#" } }),
        json!({ "items": [{ "enum": [1, 2] }], "dependencies": { "a": ["b"], "c": {} } }),
    ] {
        assert_eq!(depth(&schema), DEEPEST, "{schema}");
    }
}

#[test]
fn a_recursive_filter_is_checked_deeply_enough() {
    let filter = json!({ "$ref": "#/$defs/n", "$defs": { "n": { "oneOf": [
        { "properties": { "op": { "const": "and" },
                          "c": { "type": "array", "items": { "$ref": "#/$defs/n" } } } },
        { "properties": { "op": { "const": "or" },
                          "c": { "type": "array", "items": { "$ref": "#/$defs/n" } } } },
        { "type": "string" }
    ] } } });
    assert!(depth(&filter) >= 10, "{}", depth(&filter));
    assert!(depth(&filter) < DEEPEST);
}

#[test]
fn chains_are_bounded_by_their_length() {
    assert_eq!(depth(&chain(50, |next| next)), DEEPEST);
    check_unusable(&chain(64, |next| next), "follow each other");
    check_unusable(&chain(5_000, |next| next), "follow each other");
    check_unusable(&chain(5_000, |next| json!({ "not": next })), "follow each other");
}

#[test]
fn a_chain_that_goes_down_into_the_arguments_is_no_chain() {
    assert_eq!(depth(&chain(5_000, |next| json!({ "properties": { "a": next } }))), DEEPEST);
}

#[test]
fn cycles_for_one_value_are_unusable() {
    check_unusable(&json!({ "$ref": "#" }), "follow each other");
    check_unusable(&json!({ "anyOf": [{}, { "not": { "$ref": "#" } }] }), "follow each other");
    check_unusable(&chain(2, |next| json!({ "allOf": [next, { "$ref": "#" }] })), "follow");
}

#[test]
fn doubling_is_unusable() {
    let double = |next: Json| json!({ "allOf": [next, next] });
    assert_eq!(depth(&chain(8, double)), DEEPEST);
    check_unusable(&chain(25, double), "too long");
}

#[test]
fn doubling_at_each_level_bounds_the_depth() {
    let branch = json!({ "properties": { "a": { "$ref": "#" } } });
    let depth = depth(&json!({ "anyOf": [branch, branch] }));
    assert!((10..=17).contains(&depth), "{depth}");
}

#[test]
fn the_stack_bounds_the_depth() {
    let mut schema = json!({ "properties": { "a": { "$ref": "#" } } });
    for _ in 0..30 {
        schema = json!({ "allOf": [schema] });
    }
    assert_eq!(depth(&schema), 15);
}

#[test]
fn unevaluated_keywords_count_their_subschemas_again() {
    let nested = |next: Json| json!({ "allOf": [next], "unevaluatedProperties": false });
    assert_eq!(depth(&chain(5, nested)), DEEPEST);
    check_unusable(&chain(25, nested), "too long");
    let nested = |next: Json| json!({ "anyOf": [next], "unevaluatedItems": false });
    check_unusable(&chain(25, nested), "too long");
}

#[test]
fn long_lists_of_values_count() {
    let values: Vec<usize> = (0..200_000).collect();
    check_unusable(&json!({ "enum": values }), "too long");
    check_unusable(&json!({ "properties": { "a": { "const": values } } }), "too long");
}

#[test]
fn references_that_cannot_be_followed_make_a_schema_unusable() {
    check_unusable(&json!({ "$ref": "https://example.com/a" }), "not a reference within it");
    check_unusable(&json!({ "$ref": "" }), "not a reference within it");
    check_unusable(&json!({ "$ref": "#name", "$anchor": "name" }), "not a reference within it");
    check_unusable(&json!({ "$ref": "#/%zz" }), "not a reference within it");
    check_unusable(&json!({ "$ref": "#/$defs/a" }), "leads nowhere");
    check_unusable(&json!({ "$dynamicRef": "#" }), "`$dynamicRef`");
    check_unusable(&json!({ "items": { "$recursiveRef": "#" } }), "`$recursiveRef`");
    let named = json!({ "$id": "x", "$defs": { "a": {} } });
    check_unusable(&json!({ "not": named }), "`$id`");
    check_unusable(&json!({ "$ref": "#/$defs/n/$defs/a", "$defs": { "n": named } }), "`$id`");
}

#[test]
fn there_are_only_so_many_places_and_patterns() {
    let many = |count: usize, schema: &Json| {
        let properties: Map<String, Json> =
            (0..count).map(|at| (at.to_string(), schema.clone())).collect();
        json!({ "properties": properties })
    };
    assert_eq!(depth(&many(500, &json!({ "pattern": "a" }))), DEEPEST);
    check_unusable(&many(501, &json!({ "pattern": "a" })), "500 patterns");
    check_unusable(&many(20_000, &json!({})), "20000 subschemas");
}

#[test]
fn arguments_are_bounded_by_depth_and_by_size() {
    let cost = Cost::of(&json!({ "items": { "type": "string" } })).unwrap();
    assert_eq!(cost.refuse(DEEPEST, 100_000), None);
    assert!(cost.refuse(DEEPEST + 1, 1).unwrap().contains("nested too deeply"));
    let branches: Vec<Json> = (0..200).map(|at| json!({ "const": at })).collect();
    let cost = Cost::of(&json!({ "items": { "anyOf": branches } })).unwrap();
    assert_eq!(cost.refuse(1, 1_000), None);
    assert!(cost.refuse(1, 100_000).unwrap().contains("too large"));
}
