//! What a policy means does not depend on how it is written down.

use std::hash::{DefaultHasher, Hash, Hasher};

use proptest::{prelude::*, sample::select};
use serde_json::{Map, Value, json};
use sluice_policy::{Format, Policy, Problem, load};

use super::{World, hold, loaded, said};
use crate::generate::{
    call::{Attempt, attempts},
    policy::policy,
};

/// The same value with the keys of every object in another order.
fn shuffled(value: &Value, seed: u64) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| shuffled(item, seed)).collect(),
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_cached_key(|(key, _)| {
                let mut hasher = DefaultHasher::new();
                (seed, key).hash(&mut hasher);
                hasher.finish()
            });
            let members = members.into_iter();
            let members = members.map(|(key, value)| (key.clone(), shuffled(value, seed)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// Both policies say the same of all calls.
fn same(
    world: &World,
    one: &Policy,
    other: &Policy,
    attempts: &[Attempt],
) -> Result<(), TestCaseError> {
    for attempt in attempts {
        let facts = world.facts(attempt);
        prop_assert_eq!(said(one, attempt, facts), said(other, attempt, facts));
    }
    Ok(())
}

#[test]
fn the_order_of_keys_never_matters() {
    let world = World::new();
    hold(500, (policy(), any::<u64>(), attempts(20)), |(text, seed, attempts)| {
        let other = shuffled(&text, seed);
        let (one, other) = (loaded(&text), loaded(&other));
        prop_assert_eq!(one.is_some(), other.is_some());
        let (Some(one), Some(other)) = (one, other) else { return Ok(()) };
        same(&world, &one, &other, &attempts)
    });
}

#[test]
fn yaml_and_json_mean_the_same() {
    let world = World::new();
    hold(500, (policy(), attempts(20)), |(value, attempts)| {
        let json = value.to_string();
        let Ok(one) = load(json.as_bytes(), Format::Json) else { return Ok(()) };
        for yaml in [json, block(&value, 0)] {
            let other = load(yaml.as_bytes(), Format::Yaml);
            let other = other
                .map_err(|problems| TestCaseError::fail(format!("{problems:?} in\n{yaml}")))?;
            same(&world, &one, &other, &attempts)?;
        }
        Ok(())
    });
}

/// The value in YAML's block style, with scalars as JSON writes them.
fn block(value: &Value, depth: usize) -> String {
    let indent = "  ".repeat(depth);
    let lines: Vec<_> = match value {
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| format!("\n{indent}{}: {}", json!(key), block(value, depth + 1)))
            .collect(),
        Value::Array(items) => {
            items.iter().map(|item| format!("\n{indent}- {}", block(item, depth + 1))).collect()
        }
        _ => Vec::new(),
    };
    if lines.is_empty() { value.to_string() } else { lines.concat() }
}

/// One way to spoil a policy.
fn spoil() -> impl Strategy<Value = (&'static str, Value)> {
    select(&["default", "hide", "toolz", "all_tools", "mode", "version", "resources", "tests"][..])
        .prop_flat_map(|key| {
            let values = vec![
                json!(1),
                json!("x"),
                json!([1]),
                json!(["@reads"]),
                json!({ "limits": [{ "counter": "", "window": 0, "max": -1 }] }),
                json!({ "require": [{ "conditions": [{ "path": "a", "op": "is", "value": null }] }] }),
                json!(null),
            ];
            (Just(key), select(values))
        })
}

#[test]
fn problems_are_the_same_in_yaml_and_json() {
    hold(500, (policy(), spoil()), |(mut text, (key, value))| {
        text[key] = value;
        let text = text.to_string();
        let messages = |format| {
            let found = load(text.as_bytes(), format).err().unwrap_or_default();
            let message = |problem: Problem| (problem.message, problem.hint, problem.line);
            found.into_iter().map(message).collect::<Vec<_>>()
        };
        prop_assert_eq!(messages(Format::Json), messages(Format::Yaml), "in {}", text);
        Ok(())
    });
}
