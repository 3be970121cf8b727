//! Cases that only the caller of the engine sees: no policy at all, consent, shadow mode,
//! and arguments that are not an object.

use sluice_policy::{
    Call, Consent, Decision, Denial, Facts, Format, Objection, Outcome, Policy, Timestamp, judge,
    load, shows,
};
use sluice_wire::json::{Bounds, Document};

const AT: Timestamp = Timestamp::from_millis(0);

fn policy(text: &str) -> Policy {
    load(text.as_bytes(), Format::Json).unwrap()
}

fn denial<'p>(policy: Option<&'p Policy>, tool: &str, facts: Facts<'_>) -> Denial<'p> {
    match judge(policy, &Call::new(tool, None).unwrap(), facts, AT) {
        Decision::Deny(denial) => denial,
        other => panic!("expected a denial, got {other:?}"),
    }
}

#[test]
fn without_a_policy_nothing_is_allowed_or_listed() {
    let denial = denial(None, "eval", Facts::NoList);
    assert_eq!((&*denial.rule, denial.outcome()), ("(no policy)", Outcome::Deny));
    assert!(!denial.is_in_shadow());
    assert!(!shows(None, "eval", Facts::NoList));
}

#[test]
fn shadow_mode_still_refuses_tools_that_are_or_may_be_hidden() {
    let policy = policy(
        r#"{ "version": "1", "default": "deny", "mode": "shadow", "hide": ["drop", "@destructive"] }"#,
    );
    let hidden = denial(Some(&policy), "drop", Facts::NoList);
    assert_eq!(hidden.outcome(), Outcome::Hide);
    assert!(!hidden.is_in_shadow() && hidden.is_unavailable());
    for facts in [Facts::NoList, Facts::NotInList] {
        let maybe = denial(Some(&policy), "wipe", facts);
        assert_eq!((&*maybe.rule, maybe.is_in_shadow()), ("(unknown tool)", false));
        assert!(!shows(Some(&policy), "wipe", facts));
    }
}

#[test]
fn shadow_mode_forwards_calls_that_are_only_denied() {
    let policy = policy(
        r#"{ "version": "1", "default": "deny", "mode": "shadow", "tools": { "a": { "action": "deny" } } }"#,
    );
    for (tool, unavailable) in [("a", false), ("b", true)] {
        let call = Call::new(tool, None).unwrap();
        let Decision::Allow(allow) = judge(Some(&policy), &call, Facts::NoList, AT) else {
            panic!("{tool} is forwarded");
        };
        let Some(Objection::Deny(denial)) = allow.objection() else { panic!("{tool} is denied") };
        assert!(denial.is_in_shadow(), "{tool}");
        assert_eq!(denial.is_unavailable(), unavailable, "{tool}");
    }
}

#[test]
fn consent_lets_a_held_call_go_on_to_its_limits() {
    let policy = policy(
        r#"{ "version": "1", "default": "deny", "tools": { "pay": { "approval": true, "rate_limit": "1/day" } } }"#,
    );
    let call = Call::new("pay", None).unwrap();
    assert!(matches!(judge(Some(&policy), &call, Facts::NoList, AT), Decision::Hold(_)));
    let approved = call.with_consent(Consent::Given);
    let Decision::Allow(allow) = judge(Some(&policy), &approved, Facts::NoList, AT) else {
        panic!("an approved call is allowed");
    };
    assert_eq!(allow.charges().count(), 1);
}

#[test]
fn arguments_are_an_object_or_absent() {
    for text in ["null", "[]", "1", "\"x\"", "true"] {
        let document = Document::parse(text, &Bounds::default()).unwrap();
        let error = Call::new("t", Some(document.root())).unwrap_err().to_string();
        assert!(error.starts_with("`arguments` must be an object"), "{error}");
    }
}
