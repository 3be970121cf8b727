//! `sluice log`: one row a call, its filters, and following.

use std::io::{BufRead as _, BufReader};

use serde_json::Value;
use sluice_testkit::{Upstream, mcp_server};

use crate::{sluice::Folder, up::Up};

const TOKEN: &str = "sg_a_token_for_log_tests";
const POLICY: &str = r#"{"version": "1", "default": "deny", "tools": {
    "list_notes": {},
    "run_report": {},
    "delete_note": {"action": "deny", "reason": "Notes are kept for the auditors."},
    "add_note": {"approval": true}
}}"#;

const CONFIG: &str = "[servers.notes]\nbuiltin = \"demo\"\n\
    [policies.p]\nserver = \"notes\"\nfile = \"policy.json\"\n\
    [grants.g]\nservers = [\"notes\"]\npolicy = \"p\"\ntoken = \"sg_a_token_for_log_tests\"\n";

fn folder() -> Folder {
    let folder = Folder::with("policy.json", POLICY);
    folder.write("sluice.toml", CONFIG);
    folder
}

fn call(up: &Up, tool: &str, args: &str) -> i32 {
    up.run(&["call", "notes", tool, "--args", args, "--token", TOKEN]).code
}

/// Rows of `sluice log` with more arguments, without records of the gateway itself.
fn rows(up: &Up, more: &[&str]) -> Vec<Value> {
    let shown = up.run(&[&["log", "--json"], more].concat()).exits(0).json();
    let rows = shown["records"].as_array().unwrap().iter();
    rows.filter(|row| row["kind"] != "admin").cloned().collect()
}

/// Four calls: one that works, one whose tool fails, one denied and one held.
fn four_calls(up: &Up) {
    assert_eq!(call(up, "list_notes", "{}"), 0);
    assert_eq!(call(up, "run_report", r#"{"expression": "nonsense("}"#), 1);
    assert_eq!(call(up, "delete_note", r#"{"id": "note-1"}"#), 1);
    assert_eq!(call(up, "add_note", r#"{"text": "x"}"#), 1);
    up.wait_until("both outcomes are recorded", || rows(up, &["--kind", "outcome"]).len() == 2);
}

#[test]
fn a_call_is_one_row_with_its_decision_and_its_outcome() {
    let folder = folder();
    let up = folder.up(&[]);
    four_calls(&up);
    let found = rows(&up, &[]);
    let summary: Vec<_> = found
        .iter()
        .map(|row| {
            let text = |pointer: &str| row.pointer(pointer).and_then(Value::as_str).unwrap_or("-");
            [text("/kind"), text("/tool"), text("/outcome"), text("/result/outcome")].join(" ")
        })
        .collect();
    let expected = [
        "decision list_notes allow allow",
        "decision run_report allow error",
        "decision delete_note deny -",
        "decision add_note hold -",
    ];
    assert_eq!(summary, expected, "{found:?}");
    let failed = found[1]["result"]["message"].as_str().unwrap();
    assert!(failed.starts_with("the server answered that the call failed"), "{failed}");
    assert_eq!(found[2]["message"], "Notes are kept for the auditors.");
    assert_eq!(found[3]["message"], "A human must approve this call.");
    assert_eq!(rows(&up, &["--records"]).len(), 6);

    let table = up.run(&["log"]).exits(0).out;
    assert_eq!(table.lines().filter(|line| line.contains(" call ")).count(), 4, "{table}");
    let line = |tool: &str| table.lines().find(|line| line.contains(tool)).unwrap();
    assert!(line("list_notes").contains("ok"), "{table}");
    assert!(line("run_report").contains("error"), "{table}");
    assert!(line("run_report").contains("the server answered that"), "{table}");
    assert!(line("delete_note").contains("Notes are kept"), "{table}");
    // Rows are counted, not records.
    assert_eq!(
        up.run(&["log", "--limit", "3", "--json"]).json()["records"][0]["tool"],
        "run_report"
    );
}

#[test]
fn a_row_is_whole_although_a_filter_matches_one_of_its_records() {
    let folder = folder();
    let up = folder.up(&[]);
    four_calls(&up);
    let only = |more: &[&str]| match &*rows(&up, more) {
        [row] => row.clone(),
        other => panic!("{more:?}: {other:?}"),
    };
    let failed = only(&["--outcome", "error"]);
    assert_eq!((&failed["tool"], &failed["outcome"]), (&"run_report".into(), &"allow".into()));
    assert_eq!(failed["result"]["outcome"], "error");
    assert_eq!(rows(&up, &["--outcome", "allow"]).len(), 2);
    let denied = only(&["--rule", "/tools/delete_note/deny_if"]);
    assert_eq!(denied["tool"], "delete_note");
    assert!(rows(&up, &["--rule", "/tools/nothing"]).is_empty());
    assert!(rows(&up, &["--principal", "nobody"]).is_empty());
}

#[test]
fn following_shows_each_call_once() {
    let folder = folder();
    let up = folder.up(&[]);
    let mut command = up.command(&["log", "--follow", "--json"]);
    let mut following = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().contains("gateway started"));
    four_calls(&up);
    let mut found: Vec<Value> =
        lines.take(4).map(|line| serde_json::from_str(&line).unwrap()).collect();
    following.kill().unwrap();
    following.wait().unwrap();
    found.sort_by_key(|row| row["at"].as_str().unwrap().to_owned());
    let tools: Vec<_> = found.iter().map(|row| row["tool"].as_str().unwrap()).collect();
    assert_eq!(tools, ["list_notes", "run_report", "delete_note", "add_note"]);
    assert_eq!(found[0]["result"]["outcome"], "allow");
    assert_eq!(found[1]["result"]["outcome"], "error");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_calls_of_one_session_are_found() {
    let upstream = Upstream::start(mcp_server("[]")).await.unwrap();
    let folder = Folder::with("policy.json", r#"{"version": "1", "default": "allow"}"#);
    folder.write(
        "sluice.toml",
        &CONFIG.replace("builtin = \"demo\"", &format!("url = {:?}", upstream.url())),
    );
    tokio::task::block_in_place(|| {
        let up = folder.up(&[]);
        // Each `sluice call` has a session of its own.
        assert_eq!([call(&up, "one", "{}"), call(&up, "two", "{}")], [0, 0]);
        let rows = |more: &[&str]| rows(&up, &[&["--tool", "two"], more].concat());
        let session = rows(&[])[0]["session"].as_str().unwrap().to_owned();
        assert_eq!(rows(&["--session", &session]).len(), 1);
        let table = up.run(&["log", "--session", &session]).exits(0).out;
        assert!(table.contains("two") && !table.contains("one"), "{table}");
    });
}
