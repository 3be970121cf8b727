//! Tests of the shape, the sugar, and which entries apply.

use crate::oracle::{Approval, Facts, judge as judge_with, listed_in_view};
use serde_json::json;

use super::{check, judge, known, line, schema};

#[test]
fn the_example_caps_eval_and_denies_the_rest() {
    let policy = json!({ "version": "1", "default": "deny", "tools": {
        "eval": { "limits": [{ "counter": "eval_rate", "window": "minute", "max": 10, "scope": "grant" }] } } });
    let verdict = judge(&policy, "eval", json!({}));
    assert_eq!(verdict.outcome, "allow");
    let charge = &verdict.charges[0];
    assert_eq!(
        (charge.counter.as_str(), charge.scope.as_str(), charge.window.as_str()),
        ("eval_rate", "grant", "60")
    );
    assert_eq!((charge.amount.to_string(), charge.max.to_string()), ("1".into(), "10".into()));
    assert_eq!(line(&judge(&policy, "Eval", json!({}))), "deny (default deny)");
    assert_eq!(line(&judge(&policy, " eval", json!({}))), "deny (default deny)");
}

#[test]
fn an_empty_rule_allows() {
    check(json!({}), json!({}), "allow");
    check(json!({ "action": "allow" }), json!({}), "allow");
}

#[test]
fn action_deny_is_an_unconditional_deny_if_with_the_reason() {
    check(json!({ "action": "deny" }), json!({}), "deny /tools/t/deny_if");
    let policy =
        json!({ "default": "allow", "tools": { "t": { "action": "deny", "reason": "No." } } });
    assert_eq!(judge(&policy, "t", json!({})).message.as_deref(), Some("No."));
    let policy = json!({ "default": "allow", "all_tools": { "action": "deny" } });
    assert_eq!(line(&judge(&policy, "t", json!({}))), "deny /all_tools/deny_if");
}

#[test]
fn action_hide_adds_the_pattern_with_its_except() {
    let policy = json!({ "default": "allow", "tools": { "rm_*": { "action": "hide", "except": ["rm_ok"] } } });
    assert_eq!(line(&judge(&policy, "rm_all", json!({}))), "hide (hidden)");
    assert_eq!(line(&judge(&policy, "rm_ok", json!({}))), "allow");
    assert!(!listed_in_view(&policy, "rm_all", &known("other")));
    assert!(listed_in_view(&policy, "rm_ok", &known("other")));
    let policy = json!({ "default": "allow", "all_tools": { "action": "hide", "except": ["ok"] } });
    assert_eq!(line(&judge(&policy, "any", json!({}))), "hide (hidden)");
    assert_eq!(line(&judge(&policy, "ok", json!({}))), "allow");
}

#[test]
fn action_approve_is_approval_true() {
    check(json!({ "action": "approve" }), json!({}), "hold /tools/t/approval");
    let policy =
        json!({ "default": "deny", "tools": { "t": { "action": "approve", "reason": "Ask." } } });
    let verdict = judge(&policy, "t", json!({}));
    assert_eq!(verdict.approval, Some(Approval { approvers: 1, expires_seconds: 900 }));
    assert_eq!(verdict.message.as_deref(), Some("Ask."));
}

#[test]
fn rate_limit_is_one_limit_named_after_the_key() {
    for (written, window) in [
        (json!("10/minute"), "60"),
        (json!({ "max": 10, "window": 60 }), "60"),
        (json!("10/day"), "86400"),
        (json!("10/month"), "month"),
    ] {
        let policy = json!({ "default": "deny", "tools": { "Fs_*": { "rate_limit": written } } });
        let verdict = judge(&policy, "Fs_read", json!({}));
        let charge = &verdict.charges[0];
        assert_eq!((charge.counter.as_str(), charge.scope.as_str()), ("Fs_*_rate", "grant"));
        assert_eq!((charge.window.as_str(), charge.max.to_string()), (window, "10".to_owned()));
    }
    let policy = json!({ "default": "allow", "all_tools": { "rate_limit": "3/hour" } });
    let verdict = judge(&policy, "any", json!({}));
    assert_eq!(
        (verdict.charges[0].counter.as_str(), verdict.charges[0].window.as_str()),
        ("all_tools_rate", "3600")
    );
}

#[test]
fn patterns_match_whole_names() {
    let policy = json!({ "default": "deny", "tools": { "a*c*": {} } });
    for (tool, outcome) in
        [("ac", "allow"), ("abbc", "allow"), ("abcd", "allow"), ("ab", "deny"), ("xac", "deny")]
    {
        assert_eq!(judge(&policy, tool, json!({})).outcome, outcome, "{tool}");
    }
}

#[test]
fn categories_select_by_classification() {
    let policy = json!({ "default": "deny", "tools": { "@read": {}, "@write": { "action": "deny" } }, "hide": ["@destructive"] });
    for (category, expected) in [
        ("read", "allow"),
        ("write", "deny /tools/@write/deny_if"),
        ("destructive", "hide (hidden)"),
        ("financial", "deny (default deny)"),
    ] {
        assert_eq!(
            line(&judge_with(&policy, "t", &json!({}), &known(category), &schema)),
            expected
        );
    }
}

#[test]
fn every_matching_entry_applies_and_a_denial_anywhere_wins() {
    let denying = json!({ "default": "allow", "tools": { "t": {}, "*": { "action": "deny" } } });
    assert_eq!(line(&judge(&denying, "t", json!({}))), "deny /tools/*/deny_if");
    let policy = json!({ "default": "allow", "tools": { "t": { "action": "approve" } }, "all_tools": { "action": "deny" } });
    assert_eq!(line(&judge(&policy, "t", json!({}))), "deny /all_tools/deny_if");
}

#[test]
fn except_takes_tools_out_and_all_tools_does_not_list() {
    let policy =
        json!({ "default": "deny", "all_tools": {}, "tools": { "*": { "except": ["t"] } } });
    assert_eq!(line(&judge(&policy, "t", json!({}))), "deny (default deny)");
    assert_eq!(line(&judge(&policy, "u", json!({}))), "allow");
    let policy = json!({ "default": "allow", "all_tools": { "action": "deny", "except": ["t"] } });
    assert_eq!(line(&judge(&policy, "t", json!({}))), "allow");
}

#[test]
fn an_answer_that_depends_on_an_unknown_definition_is_a_denial() {
    let ask = |policy: &serde_json::Value, facts: Facts| {
        line(&judge_with(policy, "t", &json!({}), &facts, &schema))
    };
    let policy = json!({ "default": "allow", "tools": { "@read": {}, "t": {} } });
    assert_eq!(ask(&policy, Facts::NoList), "deny (unknown tool)");
    assert_eq!(ask(&policy, Facts::NotInList), "deny (unknown tool)");
    let policy = json!({ "default": "allow", "tools": { "@read": { "except": ["t"] } } });
    assert_eq!(ask(&policy, Facts::NoList), "allow");
    let policy = json!({ "default": "allow", "hide": ["@read", "t*"] });
    assert_eq!(ask(&policy, Facts::NoList), "hide (hidden)");
    let policy = json!({ "default": "deny", "hide": ["other"], "tools": { "t": {} } });
    assert_eq!(ask(&policy, Facts::NotInList), "deny (unknown tool)");
    assert_eq!(ask(&policy, Facts::NoList), "allow");
    let policy = json!({ "default": "deny", "tools": { "t": {}, "u": { "action": "hide" } } });
    assert_eq!(ask(&policy, Facts::NotInList), "deny (unknown tool)");
    let policy = json!({ "default": "deny", "tools": { "t": {} } });
    assert_eq!(ask(&policy, Facts::NotInList), "allow");
}
