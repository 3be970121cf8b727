//! `sluice policy test`.

use serde_json::json;

use crate::sluice::Folder;

const POLICY: &str = r#"{ "version": "1", "default": "deny", "tools": { "eval": { "rate_limit": "2/minute" } },
  "tests": [
    { "name": "two pass", "call": { "tool": "eval", "times": 2 }, "expect": "allow" },
    { "name": "a third passes", "call": { "tool": "eval", "times": 3 }, "expect": "allow" },
    { "name": "by this rule", "call": { "tool": "x" }, "expect": "deny", "rule": "/tools/x" } ] }"#;

#[test]
fn each_test_is_told_and_a_failure_exits_with_one() {
    let folder = Folder::with("policy.json", POLICY);
    let ran = folder.run(&["policy", "test", "policy.json"]).exits(1);
    let expected = "policy.json
  ✓ two pass
  ✗ a third passes
      expected `allow`, got `deny` by `/tools/eval/limits/eval_rate`
  ✗ by this rule
      expected rule `/tools/x`, got `deny` by `(default deny)`
  2 of 3 tests failed
";
    assert_eq!(ran.out, expected);
}

#[test]
fn several_files_and_json() {
    let folder = Folder::with("a.json", POLICY);
    folder.write("b.yaml", "version: \"1\"\ndefault: deny\n");
    let report = folder.run(&["policy", "test", "a.json", "b.yaml", "--json"]).exits(1).json();
    assert_eq!(report["ok"], json!(false));
    assert_eq!(
        report["files"][0]["tests"][0],
        json!({ "name": "two pass", "ok": true, "line": 3, "outcome": "allow", "rule": null, "failure": null })
    );
    assert_eq!(report["files"][1]["ok"], json!(true));
    folder.run(&["policy", "test", "b.yaml"]).exits(0);
}

#[test]
fn a_policy_with_problems_is_not_tested() {
    let folder = Folder::with("policy.json", "{}");
    let ran = folder.run(&["policy", "test", "policy.json"]).exits(1);
    assert!(ran.out.contains("`version` is missing"), "{}", ran.out);
}

#[test]
fn tests_that_rest_on_definitions_take_a_list_of_tools() {
    let policy = r#"{ "version": "1", "default": "deny", "tools": { "@read": {} },
      "tests": [ { "name": "pages are read", "call": { "tool": "get_page" }, "expect": "allow" } ] }"#;
    let folder = Folder::with("policy.json", policy);
    let list = r#"{ "tools": [ { "name": "get_page", "inputSchema": { "type": "object" } } ] }"#;
    folder.write("tools.json", list);
    let ran = folder.run(&["policy", "test", "policy.json"]).exits(1);
    assert!(ran.out.contains("rests on the definition of `get_page`"), "{}", ran.out);
    // Such a policy is not put in force either, and `check` says why.
    let ran = folder.run(&["policy", "check", "policy.json"]).exits(1);
    assert!(ran.out.contains("rests on the definition of `get_page`"), "{}", ran.out);
    folder.run(&["policy", "test", "policy.json", "--tools", "tools.json"]).exits(0);
}
