//! Properties of every policy, in whichever format it is written; and how the
//! other targets put a question to one.

use serde_json::{Value, json};
use sluice_policy::{
    Amount, Call, Decision, Explanation, Facts, Format, Limit, Outcome, Policy, Problem,
    ServerRequest, Timestamp, ToolFacts, explain, judge, load, shows,
};
use sluice_wire::json::{Bounds, Document};

/// Longest text whose own tests are run; they may ask for many calls.
const TESTED: usize = 1024;

const AT: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// Loads `data` twice, and judges a few calls if it is a policy.
pub(crate) fn check(data: &[u8], format: Format) {
    match (load(data, format), load(data, format)) {
        (Ok(policy), Ok(again)) => {
            judge_all(&policy, &again);
            if data.len() <= TESTED {
                assert_eq!(policy.run_tests(), again.run_tests());
            }
        }
        (Err(problems), Err(again)) => {
            assert_eq!(problems, again);
            check_problems(data, &problems);
        }
        _ => panic!("one text loads and does not"),
    }
}

/// There are some, each at a place in the text, in order of place.
fn check_problems(data: &[u8], problems: &[Problem]) {
    assert!(!problems.is_empty());
    assert!(problems.is_sorted_by_key(|problem| problem.bytes.start));
    for problem in problems {
        assert!(problem.bytes.start <= problem.bytes.end, "{problem:?}");
        assert!(problem.bytes.end <= data.len(), "{problem:?}");
        assert!(problem.line >= 1 && problem.column >= 1, "{problem:?}");
        assert!(!problem.message.is_empty());
    }
}

fn judge_all(policy: &Policy, again: &Policy) {
    let definitions = document(
        r#"[{"name":"t","annotations":{"readOnlyHint":true},"inputSchema":{"required":["a"]}},
            {"name":"delete","annotations":{"destructiveHint":true}}]"#,
    );
    let tools = ToolFacts::from_list(definitions.root()).expect("a list of tools");
    let arguments = [
        document("{}"),
        document(
            r#"{"a":1,"b":"/tmp/x","c":"https://example.com/","items":[{"id":1},{"id":"x"}]}"#,
        ),
        document(r#"{"a":-1e400,"A":null,"b":{"a":[]},"items":[],"amount":0.1}"#),
    ];
    for tool in ["t", "delete", "a", "eval", ""] {
        for facts in [Facts::find(Some(&tools), tool), Facts::NoList, Facts::NotInList] {
            assert_eq!(shows(Some(policy), tool, facts), shows(Some(again), tool, facts));
            for args in arguments.iter().map(Some).chain([None]) {
                let call = call(tool, args);
                let explanation = explain_call(policy, &call, facts);
                assert_eq!(explanation, explain_call(again, &call, facts));
                check_explanation(policy, &call, facts, &explanation);
            }
        }
    }
    for name in ["", "file:///a/../b", "a", "x/y"] {
        assert_eq!(policy.permits_resource(name), again.permits_resource(name));
        assert_eq!(policy.permits_prompt(name), again.permits_prompt(name));
        assert_eq!(policy.permits_unknown_method(name), again.permits_unknown_method(name));
    }
    for request in ServerRequest::ALL {
        assert_eq!(policy.permits_server_request(request), again.permits_server_request(request));
    }
}

/// The explanation is the decision.
fn check_explanation(
    policy: &Policy,
    call: &Call<'_>,
    facts: Facts<'_>,
    explanation: &Explanation,
) {
    let outcome = match judge(Some(policy), call, facts, AT).under_enforcement() {
        Decision::Deny(denial) => denial.outcome(),
        Decision::Hold(_) => Outcome::Hold,
        Decision::Allow(allow) if allow.admit(reading, |_| Amount::ZERO).is_ok() => Outcome::Allow,
        Decision::Allow(_) => Outcome::Deny,
    };
    assert_eq!(explanation.outcome, outcome);
    assert_eq!(explanation.rule.is_none(), outcome == Outcome::Allow);
    let shown = shows(Some(policy), call.tool, facts);
    assert!(shown || matches!(outcome, Outcome::Deny | Outcome::Hide), "{explanation:?}");
}

fn explain_call(policy: &Policy, call: &Call<'_>, facts: Facts<'_>) -> Explanation {
    explain(Some(policy), call, facts, AT, reading, |_| Amount::ZERO)
}

fn reading(limit: &Limit) -> Amount {
    Amount::whole(limit.counter().len() as u64)
}

fn call<'c>(tool: &'c str, args: Option<&'c Document>) -> Call<'c> {
    Call::new(tool, args.map(Document::root)).expect("arguments are an object")
}

fn document(text: &str) -> Document {
    Document::parse(text, &Bounds::default()).expect("a document")
}

/// A policy whose tools `req` and `den` require and deny that `args.v` meets
/// this operator; `None` if the value is not one that the operator takes.
pub(crate) fn with_operator(operator: &str, value: &Value) -> Option<Policy> {
    let condition = json!({ "path": "args.v", "op": operator, "value": value });
    let predicates = json!([{ "conditions": [condition] }]);
    let tools = json!({ "req": { "require": predicates }, "den": { "deny_if": predicates } });
    let policy = json!({ "version": "1", "default": "deny", "tools": tools });
    load(policy.to_string().as_bytes(), Format::Json).ok()
}

/// Whether the operator holds for this text; `None` if it cannot be judged.
pub(crate) fn holds(policy: &Policy, text: &str) -> Option<bool> {
    let args = document(&json!({ "v": text }).to_string());
    let rule = |tool| explain_call(policy, &call(tool, Some(&args)), Facts::NoList).rule;
    let (required, denied) = (rule("req"), rule("den"));
    let unjudged = |rule: &Option<String>| rule.as_ref().is_some_and(|r| r.ends_with("(type)"));
    assert_eq!(unjudged(&required), unjudged(&denied));
    if unjudged(&required) {
        return None;
    }
    assert_ne!(required.is_none(), denied.is_none(), "one of them must be denied");
    Some(required.is_none())
}
