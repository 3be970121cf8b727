//! `sluice policy check`.

use serde_json::json;

use crate::sluice::Folder;

const GOOD: &str = r#"{ "version": "1", "default": "deny", "tools": { "eval": {} } }"#;

const BAD: &str = r#"{
  "version": "1",
  "default": "dney",
  "tools": {
    "eval": { "limit": [], "deny_if": [{ "conditions": [{ "path": "args.code", "op": "=~", "value": "x" }] }] }
  }
}
"#;

#[test]
fn a_good_policy_is_ok() {
    let folder = Folder::with("policy.json", GOOD);
    let ran = folder.run(&["policy", "check", "policy.json"]).exits(0);
    assert_eq!(ran.out, "ok: policy.json (no tests of its own)\n");
    let ran = folder.run(&["policy", "check", "policy.json", "--json"]).exits(0);
    assert_eq!(ran.json(), json!({ "ok": true, "problems": [] }));
}

#[test]
fn every_problem_is_shown_at_its_place() {
    let folder = Folder::with("policy.json", BAD);
    let ran = folder.run(&["policy", "check", "policy.json"]).exits(1);
    for part in [
        "policy.json:3:14",
        r#"3 |   "default": "dney","#,
        "              ^^^^^^",
        "did you mean `deny`?",
        "policy.json:5:15",
        "unknown key `limit`",
        "did you mean `limits`?",
        "unknown operator `=~`",
        "did you mean `regex`?",
        "3 problems in policy.json",
    ] {
        assert!(ran.out.contains(part), "no {part:?} in:\n{}", ran.out);
    }
}

#[test]
fn programs_get_the_same_as_json() {
    let folder = Folder::with("policy.json", BAD);
    let report = folder.run(&["policy", "check", "policy.json", "--json"]).exits(1).json();
    assert_eq!(report["ok"], json!(false));
    let first = json!({
        "line": 3,
        "column": 14,
        "message": "`default` must be one of `allow`, `deny`, found `dney`",
        "hint": "did you mean `deny`?",
    });
    assert_eq!(report["problems"][0], first);
    assert_eq!(report["problems"].as_array().unwrap().len(), 3);
}

#[test]
fn yaml_is_read_by_its_ending() {
    let folder = Folder::with("policy.yaml", "version: \"1\"\ndefault: deny\ntools:\n  eval: {}\n");
    folder.run(&["policy", "check", "policy.yaml"]).exits(0);
    folder.write("policy.yml", "version: 1\ndefault: deny\n");
    let ran = folder.run(&["policy", "check", "policy.yml"]).exits(1);
    assert!(ran.out.contains("put it in quotes: \"1\""), "{}", ran.out);
}

#[test]
fn a_failing_test_is_a_problem() {
    let text = r#"{ "version": "1", "default": "deny", "tests": [
        { "name": "it runs", "call": { "tool": "eval" }, "expect": "allow" } ] }"#;
    let folder = Folder::with("policy.json", text);
    let report = folder.run(&["policy", "check", "policy.json", "--json"]).exits(1).json();
    let message = "test `it runs` fails: expected `allow`, got `deny` by `(default deny)`";
    assert_eq!(report["problems"][0]["message"], json!(message));
    assert_eq!(report["problems"][0]["line"], json!(2));
}

#[test]
fn an_unreadable_policy_file_is_wrong_use() {
    let ran = Folder::new().run(&["policy", "check", "missing.json"]).exits(2);
    assert!(ran.err.contains("cannot read `missing.json`"), "{}", ran.err);
    assert!(ran.out.is_empty());
    Folder::new().run(&["policy", "check"]).exits(2);
    Folder::new().run(&["policy", "chekc", "x"]).exits(2);
}

#[test]
fn usual_mistakes_in_the_text_have_a_hint() {
    for (name, text, part) in [
        ("a.json", "{ \"version\": \"1\",\n  \"default\": \"deny\",\n}", "2:20"),
        ("a.json", "{ \"version\": \"1\", }", "trailing comma"),
        ("a.json", "{ \"version\": \"1,\n }", "not closed"),
        ("a.json", "{ \"default\": \"\\d\" }", "write a backslash as"),
        ("a.json", "# policy", "write the policy in YAML"),
        ("a.json", "version: \"1\"", "`.yaml`"),
        ("a.json", "\u{feff}{}", "without a byte order mark"),
        ("a.json", "", "the policy is empty"),
        ("a.yaml", "version: \"1\"\ntools:\n\teval: {}\n", "spaces, not tabs"),
        ("a.yaml", "tools:\n  @read: {}\n", "in quotes"),
        ("a.yaml", "tools:\n  *_x: {}\n", "in quotes"),
        ("a.yaml", "version: \"1\"\ndefault: deny\ntools:\n  eval:\n", "write {}"),
        (
            "a.yaml",
            "all_tools: { limits: [{ counter: c, window: hr, max: 1 }] }",
            "did you mean `hour`?",
        ),
        (
            "a.yaml",
            "all_tools: { limits: [{ counter: c, window: fortnight, max: 1 }] }",
            "in seconds",
        ),
        (
            "a.yaml",
            "all_tools: { limits: [{ counter: c, window: \"30\", max: 1 }] }",
            "take the quotes away",
        ),
        (
            "a.yaml",
            "all_tools: { deny_if: [{ conditions: [{ path: Args.x, op: exists }] }] }",
            "write `args.x`",
        ),
        ("a.yaml", "default: block", "did you mean `deny`?"),
    ] {
        let ran = Folder::with(name, text).run(&["policy", "check", name]).exits(1);
        assert!(ran.out.contains(part), "no {part:?} for {text:?} in:\n{}", ran.out);
    }
}

#[test]
fn the_verdict_survives_a_reader_that_leaves() {
    let folder = Folder::with("policy.json", "{}");
    let line = "{ sluice policy check policy.json; echo $? > code; } | true; cat code";
    let ran = folder.shell(line).exits(0);
    assert_eq!(ran.out, "1\n");
}

#[test]
fn standard_input_may_be_either_format() {
    let folder = Folder::with("a.yaml", "version: \"1\"\ndefault: deny\n");
    folder.write("a.json", GOOD);
    folder.shell("sluice policy check - < a.yaml").exits(0);
    folder.shell("sluice policy check - < a.json").exits(0);
}

#[test]
fn reading_stops_at_the_bound() {
    let ran = Folder::new().shell("yes '{' | sluice policy check -").exits(1);
    assert!(ran.out.contains("longer than 1 MiB"), "{}", ran.out);
}

#[test]
fn tests_may_not_make_loading_slow() {
    let test = r#"{ "name": "t", "call": { "tool": "x", "times": 10000 }, "expect": "deny" }"#;
    let tests = [test; 11].join(",");
    let policy = format!(r#"{{ "version": "1", "default": "deny", "tests": [{tests}] }}"#);
    let ran =
        Folder::with("policy.json", &policy).run(&["policy", "check", "policy.json"]).exits(1);
    assert!(ran.out.contains("more than 100000 calls"), "{}", ran.out);
}

#[test]
fn nothing_in_a_policy_can_steer_the_terminal() {
    let text = "{ \"\\u001b[2J\": \"\u{202e}\u{9b}2J\", \"\u{9b}\": 1 }";
    let ran = Folder::with("policy.json", text).run(&["policy", "check", "policy.json"]).exits(1);
    assert!(!ran.out.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{:?}", ran.out);
}
