//! `sluice policy diff`.

use serde_json::{Value, json};

use crate::sluice::Folder;

fn diff(before: &str, after: &str, tools: &str) -> Value {
    let folder = Folder::with("a.json", before);
    folder.write("b.json", after);
    folder.write("tools.json", tools);
    let arguments = ["policy", "diff", "a.json", "b.json", "--tools", "tools.json", "--json"];
    folder.run(&arguments).exits(0).json()
}

fn changes(report: &Value, tool: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let tools = report["tools"].as_array().unwrap();
    let Some(found) = tools.iter().find(|diff| diff["tool"] == tool) else { return Vec::new() };
    let changes = found["changes"].as_array().unwrap();
    changes.iter().map(|change| (text(&change["effect"]), text(&change["rule"]))).collect()
}

#[test]
fn tools_become_allowed_denied_and_limited() {
    let report = diff(
        r#"{ "version": "1", "default": "deny", "tools": { "a": {}, "b": {}, "c": { "rate_limit": "9/minute" }, "same": {} } }"#,
        r#"{ "version": "1", "default": "deny", "hide": ["a"], "tools": {
            "b": { "rate_limit": "5/hour" }, "c": { "rate_limit": "10/minute" }, "d": {}, "s*": {},
            "e": { "deny_if": [{ "conditions": [{ "path": "args.x", "op": "eq", "value": 1 }] }] } } }"#,
        r#"[{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}, {"name": "e"}, {"name": "same"}]"#,
    );
    let one = |effect: &str, rule: &str| vec![(effect.to_owned(), rule.to_owned())];
    assert_eq!(changes(&report, "a"), one("denied", "(hidden)"));
    assert_eq!(changes(&report, "b"), one("limited", "/tools/b/limits/b_rate"));
    assert_eq!(changes(&report, "c"), one("loosened", "/tools/c/limits/c_rate"));
    assert_eq!(changes(&report, "d"), one("allowed", "(default deny)"));
    let e = changes(&report, "e");
    assert_eq!(e[0], ("allowed".into(), "(default deny)".into()));
    assert_eq!(e[1], ("arguments".into(), "/tools/e/deny_if/args.x-eq".into()));
    assert_eq!(report["unchanged"], json!(1));
}

#[test]
fn categories_need_a_list_of_tools() {
    let folder = Folder::with("a.json", r#"{ "version": "1", "default": "deny" }"#);
    folder.write("b.json", r#"{ "version": "1", "default": "deny", "tools": { "@read": {} } }"#);
    let ran = folder.run(&["policy", "diff", "a.json", "b.json"]).exits(0);
    assert!(ran.out.contains("@read: denied → allowed"), "{}", ran.out);
    assert!(ran.out.contains("--tools"), "{}", ran.out);
    folder.write("tools.json", r#"{"tools": [{"name": "get_r"}, {"name": "set_w"}]}"#);
    let ran = folder.run(&["policy", "diff", "a.json", "b.json", "--tools", "tools.json"]).exits(0);
    assert!(ran.out.contains("get_r: denied → allowed"), "{}", ran.out);
    assert!(ran.out.contains("1 tool changed, 1 unchanged"), "{}", ran.out);
}

#[test]
fn without_a_list_patterns_are_compared_and_names_by_their_own_entries() {
    let folder = Folder::with(
        "a.json",
        r#"{ "version": "1", "default": "deny", "tools": { "get_*": {}, "pay": { "rate_limit": "1/day" } } }"#,
    );
    folder.write(
        "b.json",
        r#"{ "version": "1", "default": "deny", "tools": { "get_*": { "action": "deny" }, "@read": {}, "pay": { "rate_limit": "2/day" } } }"#,
    );
    let report = folder.run(&["policy", "diff", "a.json", "b.json", "--json"]).exits(0).json();
    assert_eq!(report["complete"], json!(false));
    let effect = |tool| changes(&report, tool)[0].0.clone();
    assert_eq!(effect("get_*"), "denied");
    assert_eq!(effect("@read"), "allowed");
    assert_eq!(effect("pay"), "loosened");
}

#[test]
fn approval_is_compared_by_what_it_asks() {
    let policy = |approval: &str| {
        format!(
            r#"{{ "version": "1", "default": "deny", "tools": {{ "a": {{ "approval": {approval} }} }} }}"#
        )
    };
    let compare = |a: &str, b: &str| diff(&policy(a), &policy(b), r#"[{"name": "a"}]"#);
    // An empty `when` asks for nothing, and one without conditions for every call.
    let report = compare("true", r#"{ "when": [] }"#);
    assert_eq!(report["tools"][0]["after"], json!("allowed"));
    let report = compare("true", r#"{ "when": [{ "conditions": [] }] }"#);
    assert_eq!(report["tools"], json!([]));
}

#[test]
fn windows_of_one_length_are_the_same() {
    let policy = |rate: &str| {
        format!(
            r#"{{ "version": "1", "default": "deny", "tools": {{ "a": {{ "rate_limit": "{rate}" }} }} }}"#
        )
    };
    let report = diff(&policy("5/minute"), &policy("5/60"), r#"[{"name": "a"}]"#);
    assert_eq!(report["tools"], json!([]));
}

#[test]
fn tools_that_the_list_lacks_are_named() {
    let report = diff(
        r#"{ "version": "1", "default": "deny", "tools": { "a": {}, "b": {} } }"#,
        r#"{ "version": "1", "default": "deny", "tools": { "a": {} } }"#,
        r#"[{"name": "a"}]"#,
    );
    assert_eq!(report["complete"], json!(false));
    assert!(report["notes"][0].as_str().unwrap().contains("`b`"), "{report}");
}

#[test]
fn what_is_not_about_a_tool_is_compared_too() {
    let report = diff(
        r#"{ "version": "1", "default": "deny" }"#,
        r#"{ "version": "1", "default": "allow", "mode": "shadow", "prompts": "deny" }"#,
        "[]",
    );
    let rules: Vec<_> =
        report["other"].as_array().unwrap().iter().map(|c| c["rule"].clone()).collect();
    assert_eq!(json!(rules), json!(["/mode", "/resources", "/server_requests", "(default deny)"]));
}

#[test]
fn a_policy_with_problems_is_not_compared() {
    let folder = Folder::with("a.json", "{}");
    let ran = folder.run(&["policy", "diff", "a.json", "a.json"]).exits(1);
    assert!(ran.err.contains("`version` is missing"), "{}", ran.err);
}
