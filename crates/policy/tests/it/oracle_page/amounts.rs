//! Tests of limits: counters, amounts, scopes, windows and fit.

use crate::oracle::{Decimal, admit};
use serde_json::{Value, json};

use super::{check, judge, known, line, schema};

/// A rule with one limit on counter `c` that takes its amount from `args.n`.
fn spending() -> Value {
    json!({ "limits": [{ "counter": "c", "window": "day", "max": 100, "increment_from": "args.n" }] })
}

/// No calls are in flight.
fn none(_: &str) -> Decimal {
    Decimal::from(0)
}

/// The rule that refuses step 8, if any, with every counter at this reading.
fn refused(policy: &Value, args: Value, reading: &str) -> Option<String> {
    let reading = Decimal::parse(reading).unwrap();
    admit(policy, "t", &args, &known("other"), &schema, &|_| reading.clone(), &none)
        .map(|(rule, _)| rule)
}

/// Parses arguments from their text on the wire.
fn wire(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn amounts_must_be_non_negative_numbers_of_sane_size() {
    for (args, amount) in [
        (r#"{"n": 0}"#, "0"),
        (r#"{"n": -0.0}"#, "0"),
        (r#"{"n": 2.50}"#, "2.5"),
        (r#"{"n": 0.000000000000000001}"#, "0.000000000000000001"),
        (r#"{"n": 0.10000000000000000000000000}"#, "0.1"),
        (
            r#"{"n": 340282366920938463463374607431768211455}"#,
            "340282366920938463463374607431768211455",
        ),
    ] {
        let policy = json!({ "default": "deny", "tools": { "t": spending() } });
        let verdict = judge(&policy, "t", wire(args));
        assert_eq!(verdict.outcome, "allow", "{args}");
        assert_eq!(verdict.charges[0].amount.to_string(), amount);
    }
    for args in [
        r"{}",
        r#"{"n": null}"#,
        r#"{"n": -1}"#,
        r#"{"n": "1"}"#,
        r#"{"n": true}"#,
        r#"{"n": [1]}"#,
        r#"{"n": 0.0000000000000000001}"#,
        r#"{"n": 340282366920938463463374607431768211456}"#,
        r#"{"n": 1e999999999999999999999}"#,
    ] {
        check(spending(), wire(args), "deny /tools/t/limits/c");
    }
    check(spending(), json!({ "n": 1, "N": 1 }), "deny /tools/t/limits/c(look-alike)");
}

#[test]
fn a_limit_admits_what_brings_it_up_to_max() {
    let policy = json!({ "default": "deny", "tools": { "t": spending() } });
    let own = Some("/tools/t/limits/c".to_owned());
    assert_eq!(refused(&policy, json!({ "n": 1 }), "99"), None);
    assert_eq!(refused(&policy, wire(r#"{"n": 1.000000000000000001}"#), "99"), own);
    assert_eq!(refused(&policy, json!({ "n": 0 }), "100"), None);
    assert_eq!(refused(&policy, json!({ "n": 1 }), "100"), own);
    assert_eq!(refused(&policy, json!({}), "0"), own);
    let policy = json!({ "default": "deny", "tools": { "t": { "rate_limit": "0/minute" } } });
    assert_eq!(refused(&policy, json!({}), "0"), Some("/tools/t/limits/t_rate".to_owned()));
}

#[test]
fn one_call_charges_a_shared_counter_once_and_must_fit_the_smallest_max() {
    let limit = |max: u64| json!({ "limits": [{ "counter": "c", "window": 90, "max": max, "scope": "server" }] });
    let policy = json!({ "default": "deny", "tools": { "t": limit(10), "t*": limit(7) }, "all_tools": limit(5) });
    let charges = judge(&policy, "t", json!({})).charges;
    assert_eq!(charges.len(), 1);
    assert_eq!(
        (charges[0].scope.as_str(), charges[0].window.as_str(), charges[0].max.to_string()),
        ("server", "90", "5".to_owned())
    );
    assert_eq!(refused(&policy, json!({}), "4"), None);
    assert_eq!(refused(&policy, json!({}), "5"), Some("/all_tools/limits/c".to_owned()));
    assert_eq!(refused(&policy, json!({}), "7"), Some("/tools/t*/limits/c".to_owned()));
    assert_eq!(refused(&policy, json!({}), "10"), Some("/tools/t/limits/c".to_owned()));
}

#[test]
fn charges_come_in_naming_order_and_messages_from_the_limit() {
    let policy = json!({ "default": "deny", "all_tools": { "rate_limit": "9/minute", "reason": "All." },
        "tools": { "t": { "reason": "R", "limits": [{ "counter": "c", "window": "hour", "max": 1, "scope": "principal", "on_deny": "Slow." }],
            "rate_limit": "2/minute" } } });
    let charges = judge(&policy, "t", json!({})).charges;
    let counters: Vec<&str> = charges.iter().map(|charge| charge.counter.as_str()).collect();
    assert_eq!(counters, ["c", "t_rate", "all_tools_rate"]);
    let words = |full: &'static str| {
        let reading = move |counter: &str| Decimal::from(if counter == full { 1000 } else { 0 });
        admit(&policy, "t", &json!({}), &known("other"), &schema, &reading, &none)
            .and_then(|(_, message)| message)
    };
    assert_eq!(words("c").as_deref(), Some("Slow."));
    assert_eq!(words("t_rate").as_deref(), Some("R"));
    assert_eq!(words("all_tools_rate").as_deref(), Some("All."));
    assert_eq!(words("none"), None);
}

#[test]
fn a_max_of_any_size_is_no_problem() {
    let policy = wire(
        r#"{"default": "deny", "tools": {"t": {"limits": [{"counter": "c", "window": "day", "max": 1e999999999999}]}}}"#,
    );
    assert_eq!(refused(&policy, json!({}), "1000000"), None);
    let policy = wire(
        r#"{"default": "deny", "tools": {"t": {"limits": [{"counter": "c", "window": "day", "max": 0.99999999999999999999}]}}}"#,
    );
    assert_eq!(refused(&policy, json!({}), "0"), Some("/tools/t/limits/c".to_owned()));
}

#[test]
fn limits_come_after_approval() {
    let policy = json!({ "default": "deny", "tools": { "t": { "action": "approve", "limits": spending()["limits"] } } });
    let verdict = judge(&policy, "t", json!({ "n": 4 }));
    assert_eq!((line(&verdict).as_str(), verdict.charges.len()), ("hold /tools/t/approval", 1));
    let verdict = judge(&policy, "t", json!({}));
    assert_eq!((line(&verdict).as_str(), verdict.charges.len()), ("hold /tools/t/approval", 0));
}

#[test]
fn a_place_is_taken_for_each_entry_that_applies() {
    let policy = json!({ "default": "deny",
        "all_tools": { "concurrent": { "max": 4, "scope": "server" } },
        "tools": { "t": { "concurrent": 2 }, "t*": { "concurrent": { "max": 3, "on_deny": "Wait." } },
            "u": { "concurrent": 1 } } });
    let leases = judge(&policy, "t", json!({})).leases;
    let found: Vec<_> = leases.iter().map(|lease| (&*lease.rule, &*lease.scope)).collect();
    let expected = [
        ("/tools/t/concurrent", "grant"),
        ("/tools/t*/concurrent", "grant"),
        ("/all_tools/concurrent", "server"),
    ];
    assert_eq!(found, expected);
    let admitted = |in_flight: u64| {
        let in_flight = move |_: &str| Decimal::from(in_flight);
        admit(&policy, "t", &json!({}), &known("other"), &schema, &none, &in_flight)
    };
    assert_eq!(admitted(1), None);
    assert_eq!(admitted(2), Some(("/tools/t/concurrent".into(), None)));
}

#[test]
fn limits_of_an_entry_come_before_its_places() {
    let policy = json!({ "default": "deny", "tools": {
        "t": { "concurrent": 1, "rate_limit": "1/minute" }, "t*": { "concurrent": 0 } } });
    let named = |used: u64, in_flight: u64| {
        let used = move |_: &str| Decimal::from(used);
        let in_flight = move |_: &str| Decimal::from(in_flight);
        admit(&policy, "t", &json!({}), &known("other"), &schema, &used, &in_flight)
            .map(|(rule, _)| rule)
    };
    assert_eq!(named(1, 1).as_deref(), Some("/tools/t/limits/t_rate"));
    assert_eq!(named(0, 1).as_deref(), Some("/tools/t/concurrent"));
    assert_eq!(named(0, 0).as_deref(), Some("/tools/t*/concurrent"));
}
