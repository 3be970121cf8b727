//! The engine and the oracle say the same, about everything.

use std::{cell::RefCell, collections::BTreeMap};

use proptest::{prelude::*, test_runner::RngSeed};
use serde_json::{Value, json};
use sluice_policy::{Policy, ServerRequest, shows};

use super::{Said, World, hold_from, loaded, said};
use crate::{
    generate::{
        call::{Attempt, attempts},
        policy::policy,
        pool,
    },
    oracle::{self, Decimal},
};

/// Calls judged by each generated policy.
const CALLS: usize = 40;
const POLICIES: u32 = 2_500;

/// What was generated, to show that the comparison means something.
#[derive(Default)]
struct Tally {
    policies: u32,
    loaded: u32,
    outcomes: BTreeMap<String, u32>,
}

#[test]
fn the_engine_agrees_with_the_oracle() {
    let (seed, policies) = match asked_for() {
        Some(policies) => (RngSeed::Random, policies),
        None => (RngSeed::Fixed(1), POLICIES),
    };
    let world = World::new();
    let tally = RefCell::new(Tally::default());
    hold_from(seed, policies, (policy(), attempts(CALLS)), |(text, attempts)| {
        tally.borrow_mut().policies += 1;
        let Some(policy) = loaded(&text) else { return Ok(()) };
        tally.borrow_mut().loaded += 1;
        compare_access(&policy, &text)?;
        for attempt in &attempts {
            let kind = compare(&world, &policy, &text, attempt)?;
            *tally.borrow_mut().outcomes.entry(kind).or_default() += 1;
        }
        Ok(())
    });
    tally.into_inner().check();
}

/// How many policies the environment asks for.
#[expect(clippy::disallowed_methods, reason = "this is the edge: a test's own setting")]
fn asked_for() -> Option<u32> {
    std::env::var("SLUICEGATE_LAWS").ok()?.parse().ok()
}

impl Tally {
    /// Nearly all policies load, and calls end in every way there is.
    fn check(&self) {
        assert!(self.loaded * 5 >= self.policies * 4, "{} of {}", self.loaded, self.policies);
        let calls: u32 = self.outcomes.values().sum();
        for (kind, per_mille) in [
            ("allow", 150),
            ("hold", 30),
            ("hidden", 40),
            ("default deny", 30),
            ("unknown tool", 20),
            ("validate_args", 30),
            ("require", 40),
            ("deny_if", 20),
            ("type", 50),
            ("look-alike", 8),
            ("amount", 15),
            ("limit", 30),
            ("concurrent", 12),
        ] {
            let found = self.outcomes.get(kind).copied().unwrap_or_default();
            let enough = u64::from(found) * 1000 >= u64::from(calls) * per_mille;
            assert!(enough, "only {found} of {calls} end in {kind}: {:?}", self.outcomes);
        }
    }
}

/// Compares one call, and says how it ends.
fn compare(
    world: &World,
    policy: &Policy,
    text: &Value,
    attempt: &Attempt,
) -> Result<String, TestCaseError> {
    let facts = world.oracle_facts(attempt);
    let args = attempt.args.clone().unwrap_or_else(|| json!({}));
    let mut verdict = oracle::judge(text, attempt.tool, &args, &facts, &fits);
    verdict.charges.sort_by(|a, b| a.counter.cmp(&b.counter));
    verdict.leases.sort_by(|a, b| a.rule.cmp(&b.rule));
    let refused = matches!(verdict.outcome, "allow" | "hold").then(|| {
        let reading = |counter: &str| Decimal::parse(attempt.reads(counter)).unwrap();
        let in_flight = |rule: &str| Decimal::parse(attempt.in_progress(rule)).unwrap();
        oracle::admit(text, attempt.tool, &args, &facts, &fits, &reading, &in_flight)
    });
    let wanted = Said { verdict, refused: refused.flatten() };
    let found = said(policy, attempt, world.facts(attempt));
    prop_assert_eq!(&found, &wanted, "engine, then oracle, on {} under {}", args, text);
    let shown = shows(Some(policy), attempt.tool, world.facts(attempt));
    let wanted_shown = oracle::listed_in_view(text, attempt.tool, &facts);
    prop_assert_eq!(shown, wanted_shown, "list under {}", text);
    Ok(kind(&found))
}

fn kind(said: &Said) -> String {
    let rule = said.verdict.rule.as_deref().unwrap_or_default();
    let has = |part: &str| rule.contains(part);
    let refused = said.refused.as_ref().map(|(rule, _)| rule.as_str());
    let kind = match said.verdict.outcome {
        "allow" if refused.is_some_and(|rule| rule.ends_with("/concurrent")) => "concurrent",
        "allow" if said.refused.is_some() => "limit",
        "allow" => "allow",
        "hold" => "hold",
        _ if rule.starts_with('(') => rule.trim_matches(['(', ')']),
        _ if rule.ends_with("(type)") => "type",
        _ if rule.ends_with("(look-alike)") => "look-alike",
        _ if has("/validate_args") => "validate_args",
        _ if has("/require/") => "require",
        _ if has("/deny_if") => "deny_if",
        _ if has("/limits/") => "amount",
        _ => rule,
    };
    kind.to_owned()
}

/// Compares what is not a tool call.
fn compare_access(policy: &Policy, text: &Value) -> Result<(), TestCaseError> {
    for uri in pool::URIS {
        let wanted = oracle::resource_allowed(text, uri);
        prop_assert_eq!(policy.permits_resource(uri), wanted, "{} under {}", uri, text);
    }
    for name in pool::PROMPTS {
        let wanted = oracle::prompt_allowed(text, name);
        prop_assert_eq!(policy.permits_prompt(name), wanted, "{} under {}", name, text);
    }
    for request in ServerRequest::ALL {
        let wanted = oracle::server_request_allowed(text, request.name());
        prop_assert_eq!(policy.permits_server_request(request), wanted, "{:?}", request);
    }
    for method in pool::METHODS {
        let wanted = oracle::method_allowed(text, method);
        prop_assert_eq!(policy.permits_unknown_method(method), wanted, "{} under {}", method, text);
    }
    Ok(())
}

/// As much of JSON Schema as the generated schemas use.
/// Arguments with a number too long to be checked fit no schema.
pub(super) fn fits(schema: &Value, args: &Value) -> Option<bool> {
    satisfies(schema, args).map(|fits| fits && !has_huge_number(args))
}

fn has_huge_number(value: &Value) -> bool {
    match value {
        // The pool's numbers are within e39, or at e400 and beyond.
        Value::Number(number) => {
            let text = number.as_str();
            text.split_once('e').is_some_and(|(_, exponent)| {
                exponent.parse::<i64>().map_or(true, |exponent| !(-400..400).contains(&exponent))
            })
        }
        Value::Array(items) => items.iter().any(has_huge_number),
        Value::Object(members) => members.values().any(has_huge_number),
        _ => false,
    }
}

fn satisfies(schema: &Value, value: &Value) -> Option<bool> {
    if schema.get("$ref").is_some() {
        return None;
    }
    let of_type = match schema.get("type") {
        None => true,
        Some(name) => match name.as_str()? {
            "object" => value.is_object(),
            "number" => value.is_number(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            _ => return None,
        },
    };
    let number = Decimal::of(value);
    let bound = |key| schema.get(key).and_then(Decimal::of).zip(number.clone());
    let in_range = bound("maximum").is_none_or(|(bound, number)| number <= bound)
        && bound("minimum").is_none_or(|(bound, number)| number >= bound);
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let complete = required.filter_map(Value::as_str).all(|key| value.get(key).is_some());
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let mut fits = of_type && in_range && complete;
    for (key, schema) in properties {
        if let Some(member) = value.get(key) {
            fits &= satisfies(schema, member)?;
        }
    }
    Some(fits)
}
