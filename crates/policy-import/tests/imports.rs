//! Importing the older dialect: each file under `imports/` shows one behaviour.
//!
//! Beside `x.yaml` stands `x.json`: the policy it becomes with its notes, or its
//! problems. Run with `UPDATE_GOLDENS=1` to write those files anew, and read the
//! difference.

#![cfg(test)]

use std::{collections::HashMap, env, fs, path::Path};

use serde_json::{Value, json};
use sluice_policy::{Amount, Call, Decision, Facts, Format, Limit, Policy, Timestamp, judge, load};
use sluice_policy_import::import;
use sluice_wire::json::{Bounds, Document};

/// Fewer files than this means that some were lost, not that all is well.
const AT_LEAST: usize = 25;

#[test]
fn every_import_comes_out_as_written_down() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/imports");
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    assert!(files.len() >= AT_LEAST, "only {} files found", files.len());
    let failures: Vec<_> = files.iter().filter_map(|file| check(file).err()).collect();
    assert!(failures.is_empty(), "{} imports differ:\n{}", failures.len(), failures.join("\n"));
}

fn check(file: &Path) -> Result<(), String> {
    let name = file.file_stem().unwrap().display();
    let found = format!("{:#}\n", outcome(&fs::read(file).unwrap()));
    let golden = file.with_extension("json");
    if env::var_os("UPDATE_GOLDENS").is_some() {
        fs::write(&golden, &found).unwrap();
    }
    let wanted = fs::read_to_string(&golden).unwrap_or_default();
    if found == wanted { Ok(()) } else { Err(format!("{name}: got {found}")) }
}

/// What comes of a text; a policy must also load.
fn outcome(text: &[u8]) -> Value {
    match import(text) {
        Err(problems) => json!({ "problems": problems }),
        Ok(imported) => {
            let problems = load(imported.policy.as_bytes(), Format::Json).err();
            assert_eq!(problems, None, "{}", imported.policy);
            let policy: Value = serde_json::from_str(&imported.policy).unwrap();
            assert_eq!(imported.policy, format!("{policy:#}\n"));
            json!({ "policy": policy, "notes": imported.notes })
        }
    }
}

/// Calls made one after the other within one minute, each with `allow` or what
/// kept it from passing.
fn judged(text: &str, calls: &[(&str, Value)]) -> Vec<&'static str> {
    let imported = import(text.as_bytes()).unwrap();
    let policy = load(imported.policy.as_bytes(), Format::Json).unwrap();
    let mut counters = HashMap::new();
    calls.iter().map(|(tool, args)| call(&policy, &mut counters, tool, args)).collect()
}

fn call(
    policy: &Policy,
    counters: &mut HashMap<String, Amount>,
    tool: &str,
    args: &Value,
) -> &'static str {
    let args = Document::parse(args.to_string(), &Bounds::default()).unwrap();
    let call = Call::new(tool, Some(args.root())).unwrap();
    let at = Timestamp::from_rfc3339("2026-01-01T00:00:00Z").unwrap();
    let allow = match judge(Some(policy), &call, Facts::find(None, tool), at) {
        Decision::Deny(denial) => return denial.outcome().name(),
        Decision::Hold(_) => return "hold",
        Decision::Allow(allow) => allow,
    };
    let reading = |limit: &Limit| counters.get(limit.counter()).copied().unwrap_or_default();
    if allow.admit(reading, |_| Amount::ZERO).is_err() {
        return "limit";
    }
    for charge in allow.charges() {
        let counter = counters.entry(charge.limit.counter().to_owned()).or_default();
        *counter = counter.checked_add(charge.amount).unwrap();
    }
    "allow"
}

/// The policy under `imports/` of that name.
fn file(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/imports");
    fs::read_to_string(folder.join(name).with_extension("yaml")).unwrap()
}

#[test]
fn less_than_ten_lets_nine_calls_through() {
    let calls = vec![("create_issue", json!({})); 10];
    let judged = judged(&file("less_than_is_a_limit_of_one_less"), &calls);
    assert_eq!(judged.iter().filter(|outcome| **outcome == "allow").count(), 9);
    assert_eq!(judged.last(), Some(&"limit"));
}

#[test]
fn steps_of_ten_fit_nine_times_under_ninety_five() {
    let calls = vec![("render", json!({})); 12];
    let judged = judged(&file("a_fixed_increment_divides_the_max"), &calls);
    assert_eq!(judged.iter().filter(|outcome| **outcome == "allow").count(), 9);
}

#[test]
fn spending_stops_short_of_the_bound() {
    let pay = |amount| ("create_charge", json!({ "amount": amount }));
    let calls = [pay(999_999), pay(1), pay(0), ("create_charge", json!({}))];
    let judged = judged(&file("an_amount_is_added_from_an_argument"), &calls);
    assert_eq!(judged, ["allow", "limit", "allow", "deny"]);
}

#[test]
fn a_reading_before_the_call_lets_one_more_through() {
    let calls = vec![("deploy", json!({})); 6];
    let text = file("a_counter_read_by_another_rule_of_the_tool_is_a_second_limit");
    assert_eq!(judged(&text, &calls), ["allow", "allow", "allow", "allow", "allow", "limit"]);
}

#[test]
fn the_wildcard_lists_no_tool() {
    let calls = [("read_file", json!({})), ("write_file", json!({}))];
    assert_eq!(judged(&file("the_wildcard_becomes_all_tools"), &calls), ["allow", "deny"]);
}

#[test]
fn a_missing_argument_fails_a_negation() {
    let push = |args| ("push", args);
    let calls = [
        push(json!({ "branch": "feat", "note": "n", "tag": "t" })),
        push(json!({ "branch": "main", "note": "n", "tag": "t" })),
        push(json!({ "note": "n", "tag": "t" })),
        push(json!({ "branch": "feat", "note": null, "tag": "t" })),
    ];
    let judged = judged(&file("negations_pass_only_what_is_there"), &calls);
    assert_eq!(judged, ["allow", "deny", "deny", "deny"]);
}

#[test]
fn digits_are_ascii_as_they_were() {
    let push = |branch: &str| ("push", json!({ "branch": branch, "remote": "origin" }));
    let calls = [push("feat/12-a.b"), push("feat/١٢-a"), push("feat/12-ä")];
    assert_eq!(judged(&file("patterns_keep_their_meaning"), &calls), ["allow", "deny", "deny"]);
}

#[test]
fn rules_of_one_tool_all_count() {
    let charge =
        |amount, currency| ("create_charge", json!({ "amount": amount, "currency": currency }));
    let calls = [charge(50_000, "usd"), charge(50_001, "usd"), charge(1, "gbp"), charge(0, "eur")];
    let judged = judged(&file("all_rules_of_a_tool_must_pass"), &calls);
    assert_eq!(judged, ["allow", "deny", "deny", "deny"]);
}

#[test]
fn a_policy_that_would_not_load_is_refused() {
    let condition = "          - { path: args.a, op: gt, value: 0 }\n";
    let text = format!(
        "version: \"1\"\ntools:\n  t:\n    rules:\n      - name: many\n        conditions:\n{}",
        condition.repeat(101)
    );
    let problems = import(text.as_bytes()).unwrap_err();
    let messages: Vec<_> = problems.iter().map(|problem| &*problem.message).collect();
    assert_eq!(messages.len(), 1);
    assert!(messages.concat().contains("at most 100"), "{messages:?}");
}

#[test]
fn imported_approvals_hold_what_the_rules_meant() {
    let policy = r#"
version: "1"
tools:
  refund:
    rules:
      - { action: require_approval, conditions: [{ path: args.amount, op: gt, value: 100 }, { path: args.to, op: eq, value: x }] }
      - { action: require_approval, conditions: [{ path: args.to, op: eq, value: y }] }
      - { conditions: [{ path: args.amount, op: lte, value: 1000 }] }
  drop: { rules: [{ action: require_approval }] }
"#;
    let refund = |amount: u32, to: &str| ("refund", json!({ "amount": amount, "to": to }));
    let calls = [
        refund(100, "x"),
        refund(101, "x"),
        refund(101, "z"),
        refund(1, "y"),
        refund(1001, "y"),
        ("drop", json!({})),
    ];
    assert_eq!(judged(policy, &calls), ["allow", "hold", "allow", "hold", "deny", "hold"]);
}
