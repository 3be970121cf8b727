//! The access of a tool holds for each of its calls, whatever their arguments.

use proptest::prelude::*;
use serde_json::json;
use sluice_policy::{
    Amount, Call, Decision, Facts, Policy, ToolAccess, Treatment, find_access, judge, shows,
};
use sluice_wire::json::Document;

use super::{
    World,
    chains::{chains, load_chain},
    hold, loaded,
};
use crate::generate::{
    call::{Attempt, attempts},
    policy::policy,
};

/// The decision on a call with empty counters, and its rule. In shadow mode, calls pass.
fn decide(policy: &Policy, attempt: &Attempt, facts: Facts<'_>) -> (&'static str, String) {
    let document = attempt.document();
    let call = Call::new(attempt.tool, document.as_ref().map(Document::root)).unwrap();
    match judge(Some(policy), &call, facts, attempt.at()) {
        Decision::Deny(denial) => (denial.outcome().name(), denial.rule.into_owned()),
        Decision::Hold(terms) => ("hold", terms.rule.to_owned()),
        Decision::Allow(allow) => {
            let allow = allow.without_shadow();
            match allow.admit(|_| Amount::ZERO, |_| Amount::ZERO) {
                Ok(()) => ("allow", String::new()),
                Err(denial) => ("deny", denial.rule.into_owned()),
            }
        }
    }
}

fn check(policy: &Policy, attempt: &Attempt, facts: Facts<'_>) -> Result<(), TestCaseError> {
    let access = find_access(Some(policy), attempt.tool, facts);
    let (outcome, rule) = decide(policy, attempt, facts);
    let context = format!("{access:?}, and the call: {outcome} by {rule}");
    match access.outcome {
        // An amount can be missing, or too large for an empty counter.
        Treatment::Allow => {
            let is_limit = outcome == "deny" && rule.contains("/limits/");
            prop_assert!(outcome == "allow" || is_limit, "{}", context);
            prop_assert!(access.conditions.is_empty());
        }
        Treatment::Deny => prop_assert!(outcome != "allow" && outcome != "hide", "{}", context),
        Treatment::Hide => prop_assert_eq!((outcome, rule), ("hide", access.rule)),
        Treatment::Hold => prop_assert!(["hold", "deny"].contains(&outcome), "{}", context),
        Treatment::Depends => {
            prop_assert!(outcome != "hide", "{}", context);
            prop_assert!(!access.conditions.is_empty());
        }
    }
    let shown = shows(Some(policy), attempt.tool, facts);
    prop_assert!(shown || !access.outcome.may_pass(), "{} is not shown", context);
    Ok(())
}

#[test]
fn what_is_said_of_a_tool_is_true_of_its_calls() {
    let world = World::new();
    hold(600, (policy(), attempts(20)), |(text, attempts)| {
        let Some(policy) = loaded(&text) else { return Ok(()) };
        attempts.iter().try_for_each(|attempt| check(&policy, attempt, world.facts(attempt)))
    });
}

#[test]
fn it_is_true_of_policies_that_extend_others_too() {
    let world = World::new();
    hold(300, (chains(), attempts(20)), |(texts, attempts)| {
        let Some((policy, _)) = load_chain(&texts) else { return Ok(()) };
        attempts.iter().try_for_each(|attempt| check(&policy, attempt, world.facts(attempt)))
    });
}

fn access(policy: &serde_json::Value, tool: &str) -> ToolAccess {
    find_access(Some(&loaded(policy).unwrap()), tool, Facts::NoList)
}

#[test]
fn each_treatment_is_named_with_its_rule() {
    let amount = json!([{"conditions": [{"path": "args.amount", "op": "lte", "value": 5}]}]);
    let policy = json!({"version": "1", "default": "deny", "tools": {
        "read": {"rate_limit": "10/minute"}, "drop": {"action": "deny"}, "gone": {"action": "hide"},
        "pay": {"action": "approve", "require": amount}, "buy": {"require": amount},
        "ask": {"approval": {"when": amount}}, "none": {"rate_limit": "0/minute"},
    }});
    for (tool, outcome, rule) in [
        ("read", "allow", "/tools/read"),
        ("drop", "deny", "/tools/drop/deny_if"),
        ("gone", "hide", "(hidden)"),
        ("pay", "hold", "/tools/pay/approval"),
        ("buy", "depends", "/tools/buy/require/args.amount-lte"),
        ("ask", "depends", "/tools/ask/approval"),
        ("none", "deny", "/tools/none/limits/none_rate"),
    ] {
        let access = access(&policy, tool);
        assert_eq!((access.outcome.name(), &*access.rule), (outcome, rule));
    }
    let limit = &access(&policy, "read").limits[0];
    assert_eq!(
        (&*limit.counter, &limit.max, &limit.window),
        ("read_rate", &json!(10), &json!("minute"))
    );
    assert_eq!(access(&policy, "pay").approvers, Some(1));
    assert_eq!(find_access(None, "read", Facts::NoList).rule, "(no policy)");
    let open = json!({"version": "1", "default": "allow"});
    assert_eq!(access(&open, "read").rule, "(default allow)");
}

#[test]
fn shadow_mode_lets_calls_pass_and_says_what_it_would_do() {
    let text = json!({"version": "1", "default": "deny", "mode": "shadow", "tools": {"read": {}}});
    assert_eq!(access(&text, "read").shadow, None);
    let unlisted = access(&text, "other");
    assert_eq!((unlisted.outcome, &*unlisted.rule), (Treatment::Allow, "(shadow mode)"));
    let shadow = unlisted.shadow.unwrap();
    assert_eq!((shadow.outcome, &*shadow.rule), (Treatment::Deny, "(default deny)"));
}
