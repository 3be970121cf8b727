//! `sluice policy explain`.

use serde_json::json;

use crate::sluice::Folder;

const POLICY: &str = r#"{ "version": "1", "default": "deny",
  "hide": ["drop"],
  "tools": {
    "pay": {
      "limits": [{ "counter": "money", "window": "day", "max": 100.5, "increment_from": "args.amount" }],
      "approval": { "when": [{ "conditions": [{ "path": "args.amount", "op": "gt", "value": 50 }] }], "expires": "2h", "approvers": 2 } },
    "@read": { "validate_args": true } } }"#;

const TOOLS: &str = r#"{ "jsonrpc": "2.0", "id": 1, "result": { "tools": [
    { "name": "pay", "inputSchema": { "type": "object" } },
    { "name": "look", "annotations": { "readOnlyHint": true },
      "inputSchema": { "type": "object", "required": ["at"] } } ] } }"#;

fn explain(arguments: &[&str]) -> serde_json::Value {
    let folder = Folder::with("policy.json", POLICY);
    folder.write("tools.json", TOOLS);
    let fixed = ["policy", "explain", "policy.json", "--tools", "tools.json", "--json"];
    folder.run(&[&fixed, arguments].concat()).exits(0).json()
}

#[test]
fn an_allowed_call_shows_its_charges_exactly() {
    let told = explain(&["--tool", "pay", "--args", r#"{"amount": 0.10}"#, "--used", "money=99.9"]);
    assert_eq!(told["outcome"], json!("allow"));
    assert_eq!(told["rule"], json!(null));
    let charges = r#"[{"counter":"money","scope":"grant","window":"day","amount":0.1,"max":100.5,"used":99.9}]"#;
    assert_eq!(told["charges"].to_string(), charges);
    assert_eq!(told["trace"].as_array().unwrap().last().unwrap()["step"], json!("decision"));
}

#[test]
fn a_full_counter_denies() {
    let told = explain(&["--tool", "pay", "--args", r#"{"amount": 0.61}"#, "--used", "money=99.9"]);
    assert_eq!(told["outcome"], json!("deny"));
    assert_eq!(told["rule"], json!("/tools/pay/limits/money"));
    assert_eq!(told["charges"], json!([]));
}

#[test]
fn calls_in_progress_are_given_by_the_rule() {
    let policy =
        r#"{ "version": "1", "default": "deny", "tools": { "eval": { "concurrent": 2 } } }"#;
    let folder = Folder::with("policy.json", policy);
    let fixed = ["policy", "explain", "policy.json", "--json", "--tool", "eval", "--used"];
    let explain = |used: &str| folder.run(&[&fixed[..], &[used]].concat());
    let told = explain("/tools/eval/concurrent=1").exits(0).json();
    assert_eq!(told["outcome"], json!("allow"));
    let told = explain("/tools/eval/concurrent=2").exits(0).json();
    assert_eq!(told["outcome"], json!("deny"));
    assert_eq!(told["rule"], json!("/tools/eval/concurrent"));
    assert_eq!(told["charges"], json!([]));
    let step = &told["trace"][1];
    assert_eq!(step["step"], json!("concurrent"));
    assert_eq!(step["detail"], json!("calls of this grant in progress: 2, at most 2"));
    let wrong = explain("/tools/evil/concurrent=2").exits(2);
    assert!(wrong.err.contains("hint: there are: /tools/eval/concurrent"), "{wrong:?}");
}

#[test]
fn a_held_call_shows_its_terms() {
    let told = explain(&["--tool", "pay", "--args", r#"{"amount": 51}"#]);
    assert_eq!(told["outcome"], json!("hold"));
    assert_eq!(told["approvers"], json!(2));
    assert_eq!(told["expires_seconds"], json!(7200));
}

#[test]
fn definitions_come_from_a_tools_list() {
    let told = explain(&["--tool", "look", "--args", r#"{"at": 1}"#]);
    assert_eq!(told["outcome"], json!("allow"));
    let told = explain(&["--tool", "look"]);
    assert_eq!(told["rule"], json!("/tools/@read/validate_args"));
    let told = explain(&["--tool", "elsewhere"]);
    assert_eq!(told["rule"], json!("(unknown tool)"));
    let told = explain(&["--tool", "drop"]);
    assert_eq!(told["outcome"], json!("hide"));
}

#[test]
fn programs_get_json_also_for_a_policy_with_problems() {
    let folder = Folder::with("policy.json", "{}");
    let ran = folder.run(&["policy", "explain", "policy.json", "--tool", "x", "--json"]).exits(1);
    assert_eq!(ran.json()["ok"], json!(false));
}

#[test]
fn people_get_sentences() {
    let folder = Folder::with("policy.json", POLICY);
    let ran = folder.run(&["policy", "explain", "policy.json", "--tool", "pay"]).exits(0);
    assert!(ran.out.starts_with("This call of pay is denied by (unknown tool).\n"), "{}", ran.out);
    assert!(ran.out.contains("--tools"), "{}", ran.out);
    folder.write("tools.json", TOOLS);
    let known = ["policy", "explain", "policy.json", "--tools", "tools.json", "--tool", "pay"];
    let held = [&known[..], &["--args", r#"{"amount": 51}"#]].concat();
    let held = folder.run(&held).exits(0).out;
    let sentence = "This call of pay is held by /tools/pay/approval: it is refused, and waits for the approval of 2 different people for at most 2 hours.\n";
    assert!(held.starts_with(sentence), "{held}");
}

#[test]
fn wrong_use_says_what_is_wrong() {
    let folder = Folder::with("policy.json", POLICY);
    for (arguments, part) in [
        (
            &["--args", "{a"][..],
            "--args is not valid JSON: expected a key in double quotes at byte 1",
        ),
        (&["--args", "[1]"], "`arguments` must be an object, found list"),
        (&["--used", "money"], "COUNTER=N"),
        (&["--used", "monet=1"], "the policy has no counter `monet`"),
        (&["--used", "money=-1"], "must not be negative"),
        (&["--at", "noon"], "2026-01-31T12:00:00Z"),
        (&["--tools", "policy.json"], "not a list of tools"),
    ] {
        let fixed = ["policy", "explain", "policy.json", "--tool", "pay"];
        let ran = folder.run(&[&fixed, arguments].concat()).exits(2);
        assert!(ran.err.contains(part), "no {part:?} in {}", ran.err);
    }
}
