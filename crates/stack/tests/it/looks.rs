//! What is new and what is gone from one look to the next.

use sluice_stack::{Memory, Survey};

use crate::machine::{Machine, adopt_all};

const FILE: &str = ".cursor/mcp.json";

/// What is new and gone since the last look, which this one becomes.
fn look(machine: &Machine, memory: &mut Memory) -> (Vec<String>, Vec<String>) {
    let configured = machine.configured();
    let survey = Survey::new(&configured, memory, |_| None, |_| None);
    let new = survey.groups.iter().filter(|group| group.is_new);
    let found = (new.map(|group| group.name.clone()).collect(), survey.gone.clone());
    memory.look(&configured);
    found
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn servers_come_and_go_by_whatever_name() {
    let machine = Machine::with(
        FILE,
        r#"{"mcpServers": {"a/b#c": {"command": "1"}, "d": {"command": "2"}}}"#,
    );
    let mut memory = Memory::default();
    assert_eq!(look(&machine, &mut memory), (names(&[]), names(&[])));
    assert_eq!(look(&machine, &mut memory), (names(&[]), names(&[])));
    machine.write(FILE, br#"{"mcpServers": {"d": {"command": "2"}, "e": {"command": "3"}}}"#);
    assert_eq!(look(&machine, &mut memory), (names(&["e"]), names(&["a/b#c"])));
    assert_eq!(look(&machine, &mut memory), (names(&[]), names(&[])));
}

#[test]
fn one_url_with_other_headers_is_another_server() {
    let entry = |header: &str| {
        format!(r#"{{"url": "https://h.example/mcp", "headers": {{"Authorization": "{header}"}}}}"#)
    };
    let (one, other) = (entry("Bearer one"), entry("Bearer other"));
    let machine = Machine::with(
        FILE,
        &format!(r#"{{"mcpServers": {{"work": {one}, "home": {other}, "same": {one}}}}}"#),
    );
    let lower = one.replace("Authorization", "authorization");
    machine.write(".claude.json", format!(r#"{{"mcpServers": {{"work": {lower}}}}}"#).as_bytes());
    let servers = || {
        let configured = machine.configured();
        let survey = Survey::new(&configured, &Memory::default(), |_| None, |_| None);
        let group = |group: &sluice_stack::Group<'_>| (group.name.clone(), group.entries.len());
        survey.groups.iter().map(group).collect::<Vec<_>>()
    };
    let expected = [("home".to_owned(), 1), ("work".to_owned(), 3)];
    assert_eq!(servers(), expected);
    // Behind Sluicegate they are the same two.
    assert_eq!(adopt_all(&machine), Vec::<String>::new());
    assert_eq!(servers(), expected);
}

#[test]
fn a_file_that_is_broken_for_a_while_has_lost_nothing() {
    let text = r#"{"mcpServers": {"a": {"command": "1"}}}"#;
    let machine = Machine::with(FILE, text);
    machine.write(".claude.json", br#"{"mcpServers": {"b": {"command": "2"}}}"#);
    let mut memory = Memory::default();
    look(&machine, &mut memory);
    machine.write(FILE, b"{");
    assert_eq!(look(&machine, &mut memory), (names(&[]), names(&[])));
    machine.write(FILE, text.as_bytes());
    assert_eq!(look(&machine, &mut memory), (names(&[]), names(&[])));
}
