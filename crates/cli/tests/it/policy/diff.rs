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
fn rules_about_no_tool_are_compared_too() {
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

fn limited(rate: &str) -> String {
    format!(
        r#"{{ "version": "1", "default": "deny", "tools": {{ "a": {{ "rate_limit": "{rate}" }} }} }}"#
    )
}

#[test]
fn a_limit_is_compared_by_its_rate() {
    for (before, after, effect, direction) in [
        ("30/minute", "30/hour", "limited", "tighter"),
        ("30/hour", "30/minute", "loosened", "looser"),
        ("30/minute", "20/minute", "limited", "tighter"),
        ("30/day", "40/hour", "loosened", "looser"),
        ("10/day", "10/month", "limited", "tighter"),
        ("10/minute", "300/hour", "changed", "other"),
        ("10/7", "10/60", "changed", "other"),
    ] {
        let report = diff(&limited(before), &limited(after), r#"[{"name": "a"}]"#);
        let changes = report["tools"][0]["changes"].as_array().unwrap();
        assert_eq!(changes.len(), 1, "{before} to {after}: {report}");
        let found = (&changes[0]["effect"], &changes[0]["direction"]);
        assert_eq!(found, (&json!(effect), &json!(direction)), "{before} to {after}");
    }
    let report = diff(&limited("30/minute"), &limited("30/hour"), r#"[{"name": "a"}]"#);
    let change = &report["tools"][0]["changes"][0];
    let limit = |window: &str| json!({ "counter": "a_rate", "scope": "grant", "window": window, "max": 30, "increment_from": null });
    assert_eq!((&change["before"], &change["after"]), (&limit("minute"), &limit("hour")));
    assert_eq!((&report["tighter"], &report["looser"]), (&json!(1), &json!(0)));
}

#[test]
fn another_spelling_is_no_difference() {
    let policy = |number: &str, list: &str, schema: &str| {
        format!(
            r#"{{ "version": "1", "default": "deny", "tools": {{ "a": {{ "validate_args": {schema},
              "limits": [{{ "counter": "c", "window": "day", "max": {number} }}],
              "require": [{{ "conditions": [{{ "path": "args.n", "op": "lte", "value": {number} }},
                {{ "path": "args.s", "op": "in", "value": {list} }}] }}] }} }} }}"#
        )
    };
    let a = policy("5", r#"["x", 1, "y"]"#, r#"{ "required": ["n"], "minProperties": 1 }"#);
    let b = policy("5.0", r#"["y", "x", 1.0]"#, r#"{ "minProperties": 1.0, "required": ["n"] }"#);
    let report = diff(&a, &b, r#"[{"name": "a"}]"#);
    assert_eq!((&report["tools"], &report["other"]), (&json!([]), &json!([])));
    let c = policy("6", r#"["x", 1, "y"]"#, r#"{ "required": ["n"], "minProperties": 1 }"#);
    assert_eq!(diff(&a, &c, r#"[{"name": "a"}]"#)["tools"].as_array().unwrap().len(), 1);
}

#[test]
fn tighter_and_looser_are_told_apart_with_old_and_new_values() {
    let report = diff(
        r#"{ "version": "1", "default": "deny", "tools": { "a": {
            "require": [{ "conditions": [{ "path": "args.n", "op": "lte", "value": 10 }] }] }, "b": {} },
            "server_requests": ["roots", "sampling"], "resources": { "allow": ["a://*"] } }"#,
        r#"{ "version": "1", "default": "deny", "tools": { "a": {
            "require": [{ "conditions": [{ "path": "args.n", "op": "lte", "value": 5 }] }] } },
            "server_requests": ["roots"], "resources": { "allow": ["a://*", "b://*"] } }"#,
        r#"[{"name": "a"}, {"name": "b"}]"#,
    );
    let directions = |changes: &Value| -> Vec<String> {
        let changes = changes.as_array().unwrap().iter();
        changes.map(|change| change["direction"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(directions(&report["tools"][0]["changes"]), ["tighter", "looser"]);
    assert_eq!(directions(&report["tools"][1]["changes"]), ["tighter"]);
    let denied = &report["tools"][1]["changes"][0];
    assert_eq!((&denied["before"], &denied["after"]), (&json!("allowed"), &json!("denied")));
    assert_eq!(directions(&report["other"]), ["looser", "tighter"]);
    let requests = &report["other"][1];
    assert_eq!(requests["before"], json!(["roots", "sampling"]));
    assert_eq!(requests["after"], json!(["roots"]));
    assert_eq!((&report["tighter"], &report["looser"]), (&json!(3), &json!(2)));
}

#[test]
fn the_exit_code_says_whether_there_is_a_difference() {
    let folder = Folder::with("a.json", &limited("1/day"));
    folder.write("b.json", &limited("2/day"));
    folder.write("c.json", &limited("1/86400"));
    folder.run(&["policy", "diff", "a.json", "b.json"]).exits(0);
    let ran = folder.run(&["policy", "diff", "a.json", "b.json", "--exit-code"]).exits(1);
    assert!(ran.out.contains("looser  loosened"), "{}", ran.out);
    assert!(ran.out.contains("0 changes tighter, 1 change looser"), "{}", ran.out);
    folder.run(&["policy", "diff", "a.json", "c.json", "--exit-code"]).exits(0);
    folder.run(&["policy", "diff", "a.json", "b.json", "--exit-code", "--json"]).exits(1);
}

#[test]
fn places_for_calls_in_progress_are_compared() {
    let policy = |a: &str, b: &str, c: &str, all: &str| {
        format!(
            r#"{{ "version": "1", "default": "deny", "all_tools": {all}, "tools": {{ "a": {a}, "b": {b}, "c": {c} }} }}"#
        )
    };
    let before = policy(
        r#"{ "concurrent": 3 }"#,
        r#"{ "concurrent": { "max": 2, "scope": "grant", "on_deny": "x" } }"#,
        r#"{ "concurrent": 1 }"#,
        "{}",
    );
    let after = policy(
        r#"{ "concurrent": 2 }"#,
        r#"{ "concurrent": 2 }"#,
        "{}",
        r#"{ "concurrent": { "max": 9, "scope": "server" } }"#,
    );
    let report = diff(&before, &after, r#"[{"name": "a"}, {"name": "b"}, {"name": "c"}]"#);
    let pair = |effect: &str, rule: &str| (effect.to_owned(), rule.to_owned());
    let all = pair("limited", "/all_tools/concurrent");
    assert_eq!(changes(&report, "a"), [pair("limited", "/tools/a/concurrent"), all.clone()]);
    assert_eq!(changes(&report, "b"), std::slice::from_ref(&all));
    assert_eq!(changes(&report, "c"), [all, pair("loosened", "/tools/c/concurrent")]);
    let first = &report["tools"][0]["changes"][0];
    assert_eq!(first["direction"], "tighter");
    assert_eq!(first["detail"], "at most 2 calls of `a` (grant) at a time, was 3");
    assert_eq!(first["before"], json!({ "scope": "grant", "max": 3 }));
    assert_eq!(report["tools"][2]["changes"][1]["direction"], "looser");
}
