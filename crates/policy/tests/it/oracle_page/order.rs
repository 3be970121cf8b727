//! Tests of the order of judgement, the rule ids and the messages.

use crate::oracle::{Approval, Facts, judge as judge_with};
use serde_json::{Value, json};

use super::{check, judge, known, line, schema};

/// A predicate with one condition.
fn pred(path: &str, op: &str, value: Value) -> Value {
    json!({ "conditions": [{ "path": path, "op": op, "value": value }] })
}

#[test]
fn hiding_comes_before_everything() {
    let policy = json!({ "default": "deny", "hide": ["t"], "tools": { "t": { "action": "deny", "reason": "No." } } });
    let verdict = judge(&policy, "t", json!({}));
    assert_eq!((line(&verdict).as_str(), verdict.message), ("hide (hidden)", None));
}

#[test]
fn validate_args_comes_before_require() {
    let require = json!([pred("args.x", "exists", json!(true))]);
    check(
        json!({ "validate_args": { "must": "y" }, "require": require }),
        json!({}),
        "deny /tools/t/validate_args",
    );
    check(
        json!({ "validate_args": { "must": "y" }, "require": require }),
        json!({ "y": 1 }),
        "deny /tools/t/require/args.x-exists",
    );
    check(json!({ "validate_args": {} }), json!({}), "deny /tools/t/validate_args");
}

#[test]
fn validate_args_true_takes_the_tools_own_schema() {
    let policy = json!({ "default": "allow", "tools": { "t": { "validate_args": true, "reason": "Bad." } } });
    let facts =
        Facts::Known { category: "other".to_owned(), input_schema: Some(json!({ "must": "y" })) };
    assert_eq!(line(&judge_with(&policy, "t", &json!({ "y": 1 }), &facts, &schema)), "allow");
    let verdict = judge_with(&policy, "t", &json!({}), &facts, &schema);
    assert_eq!(
        (line(&verdict).as_str(), verdict.message.as_deref()),
        ("deny /tools/t/validate_args", Some("Bad."))
    );
    for facts in [Facts::NoList, Facts::NotInList, known("other")] {
        assert_eq!(
            line(&judge_with(&policy, "t", &json!({ "y": 1 }), &facts, &schema)),
            "deny /tools/t/validate_args"
        );
    }
}

#[test]
fn the_policy_level_switch_is_a_default() {
    let facts =
        Facts::Known { category: "other".to_owned(), input_schema: Some(json!({ "must": "y" })) };
    let ask = |policy: Value| line(&judge_with(&policy, "t", &json!({}), &facts, &schema));
    assert_eq!(ask(json!({ "default": "allow", "validate_args": true })), "deny /validate_args");
    let off = json!({ "validate_args": false });
    assert_eq!(
        ask(json!({ "default": "allow", "validate_args": true, "tools": { "t": off } })),
        "allow"
    );
    let both = json!({ "default": "allow", "validate_args": true, "tools": { "t": off, "*": { "validate_args": true } } });
    assert_eq!(ask(both), "deny /tools/*/validate_args");
}

#[test]
fn require_names_the_first_failing_condition_and_speaks_its_words() {
    let rule = json!({ "reason": "R", "require": [
        { "conditions": [{ "path": "args.a", "op": "eq", "value": 1 }, { "path": "args.b.c", "op": "gt", "value": 1 }], "on_deny": "D" },
        pred("args.z", "exists", json!(true)) ] });
    let policy = json!({ "default": "deny", "tools": { "t": rule } });
    let verdict = judge(&policy, "t", json!({ "a": 1, "b": { "c": 1 } }));
    assert_eq!(
        (line(&verdict).as_str(), verdict.message.as_deref()),
        ("deny /tools/t/require/args.b.c-gt", Some("D"))
    );
    let verdict = judge(&policy, "t", json!({ "a": 1, "b": { "c": 2 } }));
    assert_eq!(
        (line(&verdict).as_str(), verdict.message.as_deref()),
        ("deny /tools/t/require/args.z-exists", Some("R"))
    );
    assert_eq!(line(&judge(&policy, "t", json!({ "a": 1, "b": { "c": 2 }, "z": 0 }))), "allow");
}

#[test]
fn deny_if_names_its_first_condition() {
    let two = json!([{ "conditions": [{ "path": "args.a", "op": "eq", "value": 1 }, { "path": "args.b", "op": "eq", "value": 2 }] }]);
    check(json!({ "deny_if": two }), json!({ "a": 1, "b": 2 }), "deny /tools/t/deny_if/args.a-eq");
    check(json!({ "deny_if": two }), json!({ "a": 1, "b": 3 }), "allow");
    check(json!({ "deny_if": [{ "conditions": [] }] }), json!({}), "deny /tools/t/deny_if");
    check(json!({ "require": [{ "conditions": [] }] }), json!({}), "allow");
    let mixed = json!({ "require": [pred("args.a", "eq", json!(1))], "action": "deny" });
    check(mixed, json!({ "a": 2 }), "deny /tools/t/require/args.a-eq");
}

#[test]
fn one_condition_that_cannot_be_judged_denies_even_if_another_is_false() {
    let two = json!([{ "conditions": [{ "path": "args.a", "op": "eq", "value": 1 }, { "path": "args.b", "op": "gt", "value": 2 }],
        "on_deny": "D" }]);
    check(
        json!({ "deny_if": two }),
        json!({ "a": 7, "b": "3" }),
        "deny /tools/t/deny_if/args.b-gt(type)",
    );
    let policy = json!({ "default": "deny", "tools": { "t": { "deny_if": two } } });
    assert_eq!(judge(&policy, "t", json!({ "a": 7, "b": "3" })).message.as_deref(), Some("D"));
}

#[test]
fn the_named_denial_does_not_depend_on_the_order_of_keys() {
    let deny = json!({ "action": "deny" });
    let mut policy = json!({ "default": "deny", "all_tools": deny, "tools": { "@other": deny, "t*": deny, "*": deny, "t/~x": deny } });
    for (drop, expected) in [
        ("", "deny /tools/t~1~0x/deny_if"),
        ("t/~x", "deny /tools/*/deny_if"),
        ("*", "deny /tools/t*/deny_if"),
        ("t*", "deny /tools/@other/deny_if"),
    ] {
        policy["tools"].as_object_mut().map(|tools| tools.remove(drop));
        assert_eq!(line(&judge(&policy, "t/~x", json!({}))), expected);
    }
    policy["tools"] = json!({ "t/~x": {} });
    assert_eq!(line(&judge(&policy, "t/~x", json!({}))), "deny /all_tools/deny_if");
}

#[test]
fn steps_come_before_entries() {
    let policy = json!({ "default": "deny", "tools": { "t": { "action": "deny" }, "*": { "require": [pred("args.a", "exists", json!(true))] } } });
    assert_eq!(line(&judge(&policy, "t", json!({}))), "deny /tools/*/require/args.a-exists");
}

#[test]
fn approval_asks_where_any_predicate_of_when_holds() {
    let when = json!([pred("args.a", "gt", json!(100)), pred("args.b", "eq", json!(true))]);
    let rule = json!({ "approval": { "when": when, "message": "M" }, "reason": "R" });
    check(rule.clone(), json!({ "a": 5 }), "allow");
    check(rule.clone(), json!({ "a": 5, "b": true }), "hold /tools/t/approval");
    check(rule.clone(), json!({ "a": "5", "b": true }), "deny /tools/t/approval(type)");
    check(rule.clone(), json!({ "A": 5 }), "deny /tools/t/approval(look-alike)");
    let policy = json!({ "default": "deny", "tools": { "t": rule } });
    assert_eq!(judge(&policy, "t", json!({ "b": true })).message.as_deref(), Some("M"));
    assert_eq!(judge(&policy, "t", json!({ "a": "5" })).message.as_deref(), Some("R"));
    check(json!({ "approval": { "when": [] } }), json!({}), "allow");
    check(json!({ "approval": true }), json!({}), "hold /tools/t/approval");
}

#[test]
fn several_approvals_take_the_most_approvers_and_the_shortest_expiry() {
    let policy = json!({ "default": "deny",
        "tools": { "t": { "approval": { "approvers": 2, "expires": "2h" } }, "*": { "approval": { "approvers": 3, "expires": "1d" } } },
        "all_tools": { "approval": { "expires": "30s", "when": [pred("args.a", "exists", json!(true))] } } });
    let verdict = judge(&policy, "t", json!({}));
    assert_eq!(line(&verdict), "hold /tools/t/approval");
    assert_eq!(verdict.approval, Some(Approval { approvers: 3, expires_seconds: 7200 }));
    let verdict = judge(&policy, "t", json!({ "a": 1 }));
    assert_eq!(verdict.approval, Some(Approval { approvers: 3, expires_seconds: 30 }));
}

#[test]
fn a_problem_in_a_later_when_beats_an_earlier_approval() {
    let policy = json!({ "default": "deny", "tools": { "t": { "action": "approve" } },
        "all_tools": { "approval": { "when": [pred("args.a", "gt", json!(1))] } } });
    assert_eq!(line(&judge(&policy, "t", json!({ "a": null }))), "deny /all_tools/approval(type)");
}
