//! A policy's own tests: what they know of tools, and that a test which rests on an
//! unknown definition fails and says so.

use sluice_policy::{Format, Policy, TestResult, ToolFacts, load};
use sluice_wire::json::{Bounds, Document};

const LIST: &str = r#"[
    { "name": "get_page", "annotations": { "readOnlyHint": true }, "inputSchema": {} },
    { "name": "delete_page", "annotations": { "destructiveHint": true }, "inputSchema": { "required": ["id"] } }
]"#;

fn policy(tests: &str) -> Policy {
    let text = format!(
        r#"{{ "version": "1", "default": "deny",
          "tools": {{ "@read": {{}}, "@destructive": {{ "action": "hide" }}, "@write": {{ "validate_args": true }} }},
          "tests": [ {tests} ] }}"#
    );
    load(text.as_bytes(), Format::Json).unwrap()
}

fn list() -> Vec<ToolFacts> {
    let list = Document::parse(LIST, &Bounds::default()).unwrap();
    ToolFacts::from_list(list.root()).unwrap()
}

/// One test's failure; `None` if it passes.
#[track_caller]
fn failure(results: Vec<TestResult>) -> Option<String> {
    let [result] = <[TestResult; 1]>::try_from(results).unwrap();
    result.failure
}

#[test]
fn a_test_that_rests_on_an_unknown_definition_fails_and_says_so() {
    for expect in ["allow", "deny", "hide"] {
        let test =
            format!(r#"{{ "name": "n", "call": {{ "tool": "get_page" }}, "expect": "{expect}" }}"#);
        let why = failure(policy(&test).run_tests()).unwrap();
        assert!(why.contains("rests on the definition of `get_page`"), "{why}");
        assert!(why.contains("`category`") && why.contains("--tools"), "{why}");
    }
}

#[test]
fn an_unknown_definition_may_be_what_a_test_expects() {
    let test = r#"{ "name": "n", "call": { "tool": "get_page" }, "expect": "deny", "rule": "(unknown tool)" }"#;
    assert_eq!(failure(policy(test).run_tests()), None);
}

#[test]
fn a_category_says_what_the_tool_is() {
    for (category, expect) in
        [("read", "allow"), ("destructive", "hide"), ("execute", "deny"), ("other", "deny")]
    {
        let test = format!(
            r#"{{ "name": "n", "call": {{ "tool": "t", "category": "{category}" }}, "expect": "{expect}" }}"#
        );
        assert_eq!(failure(policy(&test).run_tests()), None, "{category}");
    }
}

/// A category does not say which arguments a tool takes.
#[test]
fn a_category_is_not_a_schema() {
    let test = r#"{ "name": "n", "call": { "tool": "t", "category": "write" }, "expect": "deny",
                    "rule": "/tools/@write/validate_args" }"#;
    let why = failure(policy(test).run_tests()).unwrap();
    assert!(why.contains("rests on the definition of `t`") && why.contains("--tools"), "{why}");
    assert!(!why.contains("`category`"), "{why}");
}

#[test]
fn a_list_of_tools_says_what_they_are() {
    let test = |tool: &str, expect: &str| {
        let test =
            format!(r#"{{ "name": "n", "call": {{ "tool": "{tool}" }}, "expect": "{expect}" }}"#);
        failure(policy(&test).run_tests_on(&list()))
    };
    assert_eq!(test("get_page", "allow"), None);
    assert_eq!(test("delete_page", "hide"), None);
    let why = test("purge_page", "deny").unwrap();
    assert!(why.contains("rests on the definition of `purge_page`"), "{why}");
}

/// `sluice scan --json` and the API hold each definition beside its assessment.
#[test]
fn reports_of_tools_are_lists_too() {
    let report = r#"{ "server": { "name": "x" }, "tools": [
        { "name": "drop", "category": "destructive", "definition":
            { "name": "drop", "annotations": { "destructiveHint": true }, "inputSchema": { "required": ["id"] } } },
        { "name": "odd", "definition": { "name": "other" }, "annotations": { "readOnlyHint": true } } ] }"#;
    let document = Document::parse(report, &Bounds::default()).unwrap();
    let facts = ToolFacts::from_list(document.root()).unwrap();
    let found: Vec<_> = facts.iter().map(|tool| (tool.name(), tool.category().name())).collect();
    // A member of a definition that happens to be called so is not taken for one.
    assert_eq!(found, [("drop", "destructive"), ("odd", "other")]);
}

#[test]
fn a_test_and_the_list_must_agree_on_the_category() {
    let test = r#"{ "name": "n", "call": { "tool": "delete_page", "category": "read" }, "expect": "hide" }"#;
    let why = failure(policy(test).run_tests_on(&list())).unwrap();
    assert!(why.contains("`read`") && why.contains("`destructive`"), "{why}");
    let same = test.replace("\"read\"", "\"destructive\"");
    assert_eq!(failure(policy(&same).run_tests_on(&list())), None);
    let unlisted = test.replace("delete_page", "purge_page").replace("\"hide\"", "\"allow\"");
    assert_eq!(failure(policy(&unlisted).run_tests_on(&list())), None);
}
