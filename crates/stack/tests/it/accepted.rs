//! Which servers pass the hooks: those that were accepted, as they were then.

use sluice_stack::{Fingerprints, Memory};

use crate::machine::{Machine, adopt_all, front, plans};

const FILE: &str = ".mcp.json";

/// The memory that accepts all servers of a machine.
fn accepting(machine: &Machine) -> Memory {
    let mut memory = Memory::default();
    for entry in machine.configured().entries() {
        memory.accept(entry, &fingerprints());
    }
    memory
}

fn fingerprints() -> Fingerprints {
    Fingerprints::new(b"a key")
}

fn passes(memory: &Memory, machine: &Machine) -> bool {
    machine.configured().entries().all(|entry| memory.is_accepted(entry, &fingerprints()))
}

fn config(entry: &str) -> String {
    format!("{{\"mcpServers\": {{\"a\": {entry}}}}}")
}

#[track_caller]
fn check(before: &str, after: &str, expected: bool) {
    let path = format!("code/{FILE}");
    let machine = Machine::with(&path, &config(before));
    let memory = accepting(&machine);
    machine.write(&path, config(after).as_bytes());
    assert_eq!(passes(&memory, &machine), expected, "{before} {after}");
}

#[test]
fn a_server_passes_as_it_was_accepted_and_not_as_another() {
    let entry = r#"{"command": "x", "args": ["{\"a\":1}"], "env": {"K": "v"}}"#;
    check(entry, entry, true);
    check(entry, r#"{"env":{"K":"v"}, "args":["{\"a\":1}"], "command":"x"}"#, true);
    check(entry, &entry.replace("\"env\"", "\"disabled\": true, \"env\""), true);
    for other in [
        entry.replace("a\\\":1", "a\\\":2"),
        entry.replace("\"v\"", "\"w\""),
        entry.replace("\"K\"", "\"NODE_OPTIONS\""),
        entry.replace("\"env\"", "\"cwd\": \"/tmp\", \"env\""),
        entry.replace("\"env\"", "\"envFile\": \"evil\", \"env\""),
    ] {
        check(entry, &other, false);
    }
    let url = r#"{"url": "https://h/?k=v", "headers": {"X": "v"}}"#;
    check(url, &url.replace("k=v", "k=w"), false);
    check(url, &url.replace(": \"v\"", ": \"w\""), false);
}

#[test]
fn a_server_of_one_project_is_not_that_of_another() {
    let entry = config(r#"{"command": "./run"}"#);
    let mut machine = Machine::with("code/.mcp.json", &entry);
    let memory = accepting(&machine);
    machine.write("other/.mcp.json", entry.as_bytes());
    assert!(passes(&memory, &machine));
    machine.places.folder = machine.path("other");
    assert!(!passes(&memory, &machine));
}

#[test]
fn a_command_that_looks_like_ours_is_not_ours() {
    let ours = r#"{"command": "/usr/bin/sluice", "args": ["wrap", "--data", "/data", "--policy", "/data/stack/policies/held.json", "--name", "held", "--", "x"]}"#;
    let seen = |entry: &str| {
        let machine = Machine::with(".cursor/mcp.json", &config(entry));
        let configured = machine.configured();
        let one = configured.entries().next().unwrap();
        assert!(!Memory::default().is_accepted(one, &fingerprints()), "{entry}");
        (one.wrapped.is_some(), one.transport.to_masked())
    };
    assert_eq!(seen(ours), (true, "x".into()));
    for (from, to) in [
        ("/usr/bin/sluice", "./sluice"),
        ("/usr/bin/sluice", "sluice"),
        ("\"/data\"", "\"/other\""),
        ("/data/stack/policies/held.json", "./allow.json"),
        ("policies/held.json", "policies/../../../allow.json"),
        ("\"--name\"", "\"--policy\", \"./allow.json\", \"--name\""),
        ("\"held\", ", "\"held\", \"--policy=./allow.json\", "),
    ] {
        let (is_wrapped, shown) = seen(&ours.replace(from, to));
        assert!(!is_wrapped && shown.contains(" wrap "), "{from} {to}: {shown}");
    }
}

#[test]
fn adopted_entries_can_be_accepted_before_they_are_written() {
    let machine =
        Machine::with(".cursor/mcp.json", &config(r#"{"url": "https://h/?k=v", "headers": {}}"#));
    let configured = machine.configured();
    let mut memory = Memory::default();
    for file in &configured.files {
        let adoption = file.adopt(&plans(&file.entries), &front());
        adoption.written.iter().for_each(|entry| memory.accept(entry, &fingerprints()));
    }
    assert!(!passes(&memory, &machine));
    adopt_all(&machine);
    assert!(passes(&memory, &machine));
    let kept = serde_json::to_string(&memory).unwrap();
    assert!(!kept.contains("k=v"), "{kept}");
}
