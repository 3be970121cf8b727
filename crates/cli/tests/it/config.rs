//! `sluice config`, and the reference page about the file.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::json;

use crate::sluice::Folder;

const BAD: &str = r#"lisen = "127.0.0.1:1"

[servers.stripe]
url = "https://mcp.example.com/mcp"
headers = { Authorization = "Bearer sekret", X-Key = "env:SLUICE_TEST_NOT_SET" }
timeout = 60

[policies.careful]
server = "strip"
file = "policy.json"

[grants.alice]
servers = ["stripe"]
policy = "careful"
tokn = "sg_sekret"
token = "sg_sekret"
"#;

#[test]
fn every_problem_of_every_file_is_shown_and_no_secret() {
    let folder = Folder::with("sluice.toml", BAD);
    folder.write("policy.json", r#"{ "version": "1", "default": "dney" }"#);
    let ran = folder.run(&["config"]).exits(2);
    for part in [
        "sluice.toml:1:1",
        "unknown key `lisen`",
        "did you mean `listen`?",
        "environment variable `SLUICE_TEST_NOT_SET` is not set",
        "for seconds, write \"60s\"",
        "no server is named `strip`",
        "did you mean `stripe`?",
        "a token has at least 16 characters",
        "6 problems in sluice.toml",
        "policy.json:1:30",
        "did you mean `deny`?",
        "1 problem in policy.json",
    ] {
        assert!(ran.err.contains(part), "no {part:?} in:\n{}", ran.err);
    }
    assert!(!ran.err.contains("sekret"), "{}", ran.err);
    assert!(ran.out.is_empty());
}

#[test]
fn programs_get_the_same_as_json() {
    let folder = Folder::with("a.toml", "listen = 1\n");
    let report = folder.run(&["config", "--config", "a.toml", "--json"]).exits(2).json();
    let problem = json!({
        "file": "a.toml",
        "line": 1,
        "column": 10,
        "message": "`listen` must be an address and a port such as `127.0.0.1:8787`, found `1`",
        "hint": "write \"127.0.0.1:1\"",
    });
    let expected = json!({ "ok": false, "problems": [problem], "config": null, "files": [] });
    assert_eq!(report, expected);
}

#[test]
fn mistakes_in_the_syntax_are_all_shown() {
    let text = "listen = \"127.0.0.1:1\n[grants.g]\ntoken = \"sg_sekret\npolicy = = 2\n[grants.h]\ntoken = sg_sekret\n";
    let ran = Folder::with("sluice.toml", text).run(&["config"]).exits(2);
    for part in ["sluice.toml:1:22", "sluice.toml:3:19", "sluice.toml:4:10", "sluice.toml:6:9"] {
        assert!(ran.err.contains(part), "no {part:?} in:\n{}", ran.err);
    }
    assert!(!ran.err.contains("sekret"), "{}", ran.err);
}

#[test]
fn a_policy_whose_tests_fail_is_a_problem() {
    let config =
        "[servers.demo]\nbuiltin = \"demo\"\n[policies.p]\nserver = \"demo\"\nfile = \"p.json\"\n";
    let folder = Folder::with("sluice.toml", config);
    let test = r#"{ "name": "it runs", "call": { "tool": "x" }, "expect": "allow" }"#;
    folder
        .write("p.json", &format!(r#"{{ "version": "1", "default": "deny", "tests": [{test}] }}"#));
    let ran = folder.run(&["config"]).exits(2);
    assert!(ran.err.contains("test `it runs` fails"), "{}", ran.err);
}

#[test]
fn a_file_that_is_named_must_be_there() {
    let folder = Folder::new();
    let ran = folder.run(&["config", "--config", "missing.toml"]).exits(2);
    assert!(ran.err.contains("cannot read configuration file `missing.toml`"), "{}", ran.err);
    folder.run(&["config", "--data", "d"]).exits(0);
}

#[test]
fn flags_win_over_the_file() {
    let folder = Folder::with("sluice.toml", "listen = \"127.0.0.1:1\"\ndata = \"file\"\n");
    let config = |arguments: &str| {
        let line = format!("SLUICE_DATA=variable sluice config --json {arguments}");
        folder.shell(&line).exits(0).json()["config"].clone()
    };
    assert_eq!(config("")["data"], "variable");
    let flags = config("--data flag --listen localhost:2 --admin [::1]:3");
    assert_eq!(flags["data"], "flag");
    assert_eq!(flags["listen"], "127.0.0.1:2");
    assert_eq!(flags["admin"], "[::1]:3");
    let ran = folder.run(&["config", "--listen", "8787"]).exits(2);
    assert!(ran.err.contains("write `127.0.0.1:8787`"), "{}", ran.err);
    let ran = folder.run(&["config", "--admin", "127.0.0.1:1", "--data", "d"]).exits(2);
    assert!(ran.err.contains("cannot share the address `127.0.0.1:1`"), "{}", ran.err);
}

#[test]
fn the_printed_configuration_can_be_read_again() {
    let options = "{ a = [1, 2.5, \"b\"], c = { d = true } }";
    let text = format!("data = \"d\"\n[servers.demo]\nbuiltin = \"demo\"\noptions = {options}\n");
    let folder = Folder::with("sluice.toml", &text);
    let shown = folder.run(&["config"]).exits(0).out;
    folder.write("sluice.toml", &shown);
    assert_eq!(folder.run(&["config"]).exits(0).out, shown);
    let options =
        &folder.run(&["config", "--json"]).exits(0).json()["config"]["servers"]["demo"]["options"];
    assert_eq!(*options, json!({ "a": [1, 2.5, "b"], "c": { "d": true } }));
}

fn reference() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/config.md");
    fs::read_to_string(page).unwrap()
}

#[test]
fn the_example_of_the_reference_is_valid() {
    let page = reference();
    let example = page.split("\n```toml\n").nth(1).unwrap().split("\n```").next().unwrap();
    let folder = Folder::with("sluice.toml", example);
    folder.shell("mkdir policies").exits(0);
    folder.write("policies/look-only.json", r#"{ "version": "1", "default": "deny" }"#);
    folder.write("policies/careful.yaml", "version: \"1\"\ndefault: deny\n");
    folder.write("alice-token", "sg_token-of-alice\n");
    let ran = folder.shell("STRIPE_MCP_AUTH='Bearer sekret' sluice config").exits(0);
    assert!(!ran.out.contains("sekret") && !ran.out.contains("token-of-alice"), "{}", ran.out);
    // What is shown has the file's own shape.
    for part in [
        "keep = \"90d\"",
        "[servers.stripe.headers]\nauthorization = \"…\"",
        "id = \"file:alice-laptop\"",
    ] {
        assert!(ran.out.contains(part), "no {part:?} in:\n{}", ran.out);
    }
}

/// The file's own list of keys, as it is suggested for one that is unknown.
#[test]
fn the_reference_has_every_key() {
    let tables = [
        "store",
        "telemetry",
        "tls",
        "limits",
        "audit",
        "upstreams",
        "servers.a",
        "policies.a",
        "grants.a",
    ];
    let text = tables.map(|table| format!("[{table}]\nqqqqqqqq = 1\n")).concat();
    let folder = Folder::with("sluice.toml", &format!("qqqqqqqq = 1\n{text}"));
    let report = folder.run(&["config", "--json"]).exits(2).json();
    let hints =
        report["problems"].as_array().unwrap().iter().filter_map(|one| one["hint"].as_str());
    let keys: BTreeSet<_> = hints
        .filter_map(|hint| hint.strip_prefix("known keys: "))
        .flat_map(|keys| keys.split(", "))
        .collect();
    assert!(keys.len() > 40, "{keys:?}");
    let page = reference();
    let is_missing =
        |key: &&str| !page.contains(&format!("`{key}`")) && !page.contains(&format!("`[{key}"));
    let missing: Vec<_> = keys.into_iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "docs/reference/config.md says nothing of {missing:?}");
}
