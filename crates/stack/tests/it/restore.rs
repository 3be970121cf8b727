//! Restoring files that somebody has changed since they were rewritten.

use sluice_stack::{Client, HookFile, Undo};

use crate::machine::{Machine, NOW, adopt_all, restore_all};

const FILE: &str = ".claude.json";
const TEXT: &str = r#"{
  "n": 1,
  "mcpServers": {
    "a": { "command": "npx", "args": ["-y", "a"], "env": { "K": "v" } },
    "b": { "type": "http", "url": "https://h/mcp", "headers": { "X": "v" } },
    "c": { "command": "c" }
  }
}
"#;

fn adopted(path: &str, text: &str) -> Machine {
    let machine = Machine::with(path, text);
    assert_eq!(adopt_all(&machine), Vec::<String>::new());
    machine
}

#[test]
fn edits_of_others_stay() {
    let machine = adopted(FILE, TEXT);
    let edited = machine.text(FILE).replace("\"n\": 1", "\"n\": 2 /* more */");
    machine.write(FILE, edited.as_bytes());
    assert_eq!(restore_all(&machine), Vec::<String>::new());
    assert_eq!(machine.text(FILE), TEXT.replace("\"n\": 1", "\"n\": 2 /* more */"));
    // It is done: another edit is nobody's business.
    machine.write(FILE, b"{}");
    assert_eq!(restore_all(&machine), Vec::<String>::new());
    assert_eq!(machine.text(FILE), "{}");
}

#[test]
fn a_client_may_write_its_file_anew() {
    let machine = adopted(FILE, TEXT);
    let mut value: serde_json::Value = serde_json::from_str(&machine.text(FILE)).unwrap();
    value["n"] = 7.into();
    machine.write(FILE, serde_json::to_string(&value).unwrap().as_bytes());
    assert_eq!(restore_all(&machine), Vec::<String>::new());
    let now: serde_json::Value = serde_json::from_str(&machine.text(FILE)).unwrap();
    let mut expected: serde_json::Value = serde_json::from_str(TEXT).unwrap();
    expected["n"] = 7.into();
    assert_eq!(now, expected);
}

#[test]
fn other_parts_of_an_entry_may_be_changed() {
    let machine = adopted(FILE, TEXT);
    let edited = machine.text(FILE).replace("\"K\": \"v\"", "\"K\": \"w\", \"L\": \"x\"");
    machine.write(FILE, edited.as_bytes());
    assert_eq!(restore_all(&machine), Vec::<String>::new());
    assert_eq!(machine.text(FILE), TEXT.replace("\"K\": \"v\"", "\"K\": \"w\", \"L\": \"x\""));
}

#[test]
fn what_cannot_be_put_back_is_left_and_said() {
    let machine = adopted(FILE, TEXT);
    let edited = machine
        .text(FILE)
        .replace("\"--\", \"c\"", "\"--\", \"other\"")
        .replace("\"SLUICE_HEADER_X\": \"v\"", "\"SLUICE_HEADER_X\": \"w\"");
    machine.write(FILE, edited.as_bytes());
    let refused = restore_all(&machine);
    let changed = "its entry has been changed since";
    assert_eq!(refused, [format!("b: {changed}"), format!("c: {changed}")]);
    let text = machine.text(FILE);
    assert!(text.contains(r#""a": { "command": "npx", "args": ["-y", "a"]"#), "{text}");
    assert!(text.contains("\"--\", \"other\"") && text.contains("\"w\""), "{text}");
    // Put right by hand, it can be restored after all.
    machine.write(FILE, text.replace("\"other\"", "\"c\"").as_bytes());
    assert_eq!(restore_all(&machine), [format!("b: {changed}")]);
    assert!(
        machine.text(FILE).contains(r#""c": { "command": "c", "args": [] }"#)
            || machine.text(FILE).contains(r#""c": { "command": "c" }"#)
    );
}

#[test]
fn servers_that_were_removed_need_not_be_put_back() {
    let machine = adopted(FILE, TEXT);
    machine.write(FILE, br#"{"mcpServers": {}}"#);
    assert_eq!(restore_all(&machine), Vec::<String>::new());
    assert_eq!(machine.text(FILE), r#"{"mcpServers": {}}"#);
}

#[test]
fn a_file_that_cannot_be_read_is_restored_once_it_can() {
    let hook = r#"{"hooks": {"x": []}}"#;
    let toml = "[mcp_servers.a]\ncommand = \"a\"\n";
    for (file, text, from, to, at) in [
        (FILE, TEXT, "\"n\": 1,", "\"n\": 1", "2:9"),
        (".codex/config.toml", toml, "command = ", "command ", "3:9"),
    ] {
        let machine = adopted(file, text);
        let whole = machine.text(file);
        let broken = whole.replace(from, to);
        machine.write(file, broken.as_bytes());
        let refused = restore_all(&machine);
        let why = format!("a: its file cannot be read at {at}: ");
        assert!(refused.first().unwrap().starts_with(&why), "{refused:?}");
        assert_eq!(machine.text(file), broken);
        machine.write(file, whole.as_bytes());
        assert_eq!(restore_all(&machine), Vec::<String>::new());
        assert_eq!(machine.text(file), text);
    }
    let machine = Machine::with(".gemini/settings.json", hook);
    let file = HookFile::read(Client::Gemini, &machine.places).unwrap().unwrap();
    file.install("sluice", &machine.backups(), NOW).unwrap();
    let whole = machine.text(".gemini/settings.json");
    machine.write(".gemini/settings.json", b"{");
    assert_eq!(restore_all(&machine).len(), 1);
    machine.write(".gemini/settings.json", whole.as_bytes());
    assert_eq!(restore_all(&machine), Vec::<String>::new());
    assert_eq!(machine.text(".gemini/settings.json"), hook);
}

#[test]
fn a_file_that_is_gone_is_not_made_again() {
    let machine = adopted(FILE, TEXT);
    std::fs::remove_file(machine.path(FILE)).unwrap();
    assert_eq!(restore_all(&machine).len(), 3);
    assert!(!machine.path(FILE).exists());
}

#[test]
fn several_rewrites_are_undone_together() {
    let machine = adopted(FILE, TEXT);
    let more =
        machine.text(FILE).replace("\"c\": {", "\"d\": { \"command\": \"d\" },\n    \"c\": {");
    machine.write(FILE, more.as_bytes());
    assert_eq!(adopt_all(&machine).len(), 3, "all but the new one are held already");
    assert_eq!(restore_all(&machine), Vec::<String>::new());
    let expected = TEXT.replace("\"c\": {", "\"d\": { \"command\": \"d\" },\n    \"c\": {");
    assert_eq!(machine.text(FILE), expected);
}

#[test]
fn what_is_left_is_kept_where_it_was_not_yet_ours() {
    let machine = adopted(FILE, TEXT);
    let more =
        machine.text(FILE).replace("\"c\": {", "\"d\": { \"command\": \"d\" },\n    \"c\": {");
    machine.write(FILE, more.as_bytes());
    adopt_all(&machine);
    let edited = machine.text(FILE).replace("\"--\", \"c\"", "\"--\", \"other\"");
    machine.write(FILE, edited.as_bytes());
    let (undone, _) = Undo::all(&machine.backups()).unwrap();
    let [left] = undone[0].refused.as_slice() else { panic!("{undone:?}") };
    assert_eq!(left.name, "c");
    assert_eq!(std::fs::read_to_string(&left.kept).unwrap(), TEXT);
}

#[test]
fn tables_are_put_back_among_other_tables() {
    let file = ".codex/config.toml";
    let text = "[mcp_servers.a]\ncommand = \"a\" # mine\n\n[mcp_servers.b]\nurl = \"https://h/mcp?k=v\"\nhttp_headers = { X = \"v\" }\n";
    let machine = adopted(file, text);
    let edited = format!("model = \"m\"\n\n{}\n[projects.\"/x\"]\ntrust = 1\n", machine.text(file));
    machine.write(file, edited.as_bytes());
    assert_eq!(restore_all(&machine), Vec::<String>::new());
    let expected = format!("model = \"m\"\n\n{text}\n[projects.\"/x\"]\ntrust = 1\n");
    assert_eq!(machine.text(file), expected);
}
