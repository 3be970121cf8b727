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
fn entries_that_cannot_be_restored_are_left_and_reported() {
    let machine = adopted(FILE, TEXT);
    let edited = machine
        .text(FILE)
        .replace("\"--\", \"c\"", "\"--\", \"other\"")
        .replace("\"SLUICE_HEADER_X\": \"v\"", "\"SLUICE_HEADER_X\": \"w\"");
    machine.write(FILE, edited.as_bytes());
    let refused = restore_all(&machine);
    let changed = |keys| format!("its entry has been changed since: {keys}");
    let b = format!("b: {}", changed("`env.SLUICE_HEADER_X`"));
    assert_eq!(refused, [b.clone(), format!("c: {}", changed("`args`"))]);
    let text = machine.text(FILE);
    assert!(text.contains(r#""a": { "command": "npx", "args": ["-y", "a"]"#), "{text}");
    assert!(text.contains("\"--\", \"other\"") && text.contains("\"w\""), "{text}");
    // Put right by hand, it can be restored after all.
    machine.write(FILE, text.replace("\"other\"", "\"c\"").as_bytes());
    assert_eq!(restore_all(&machine), [b]);
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
fn an_entry_left_alone_names_its_oldest_backup() {
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

const CODEX: &str = ".codex/config.toml";

/// A Codex file before and after it was adopted and written anew, and restored.
#[track_caller]
fn check_tables(original: &str, written_anew: impl Fn(&str) -> String, expected: &str) {
    let machine = adopted(CODEX, original);
    machine.write(CODEX, written_anew(&machine.text(CODEX)).as_bytes());
    assert_eq!(restore_all(&machine), Vec::<String>::new());
    assert_eq!(machine.text(CODEX), expected);
}

#[test]
fn a_table_that_codex_writes_anew_is_put_back() {
    let original = "model = \"m\" # mine\n\n[mcp_servers.b]\nurl = \"https://h/mcp?k=v\"\nhttp_headers = { X = \"v\" }\nstartup_timeout_sec = 5 # slow\n\n[tui]\nx = 1\n";
    let anew = |text: &str| {
        let env =
            "env = { SLUICE_UPSTREAM_URL = \"https://h/mcp?k=v\", SLUICE_HEADER_X = \"v\" }\n";
        assert!(text.contains(env), "{text}");
        let table = "\n[mcp_servers.b.env]\nSLUICE_HEADER_X = \"v\"\nSLUICE_UPSTREAM_URL = 'https://h/mcp?k=v'\n\n[mcp_servers.other]\ncommand = \"o\"\n";
        text.replace(env, "").replace("# slow\n", &format!("# slow\n{table}"))
    };
    let expected = original.replace("# slow\n", "# slow\n\n[mcp_servers.other]\ncommand = \"o\"\n");
    check_tables(original, anew, &expected);
    // The same with the line ends of Windows.
    let crlf = |text: &str| text.replace('\n', "\r\n");
    let anew = |text: &str| crlf(&anew(&text.replace("\r\n", "\n")));
    check_tables(&crlf(original), anew, &crlf(&expected));
}

#[test]
fn headers_in_a_table_of_their_own_are_put_back() {
    let original = "[mcp_servers.b]\nurl = \"https://h/mcp\"\nbearer_token_env_var = \"T\"\n\n[mcp_servers.b.http_headers]\nX = \"v\"\n\"a b\" = \"w\"\n";
    let anew = |text: &str| {
        // Everything in one line, as a formatter might have it.
        let pairs = text
            .replace("[mcp_servers.b]\n", "")
            .replace("\n\n[mcp_servers.b.env]\n", "\nenv = { ");
        let pairs = pairs.trim_end().replace('\n', ", ").replace("env = { , ", "env = { ");
        format!("mcp_servers = {{ b = {{ {pairs} }} }} }}\n")
    };
    let expected = "mcp_servers = { b = { url = \"https://h/mcp\", bearer_token_env_var = \"T\", http_headers = { \"X\" = \"v\", \"a b\" = \"w\" } } }\n";
    check_tables(original, anew, expected);
}

#[test]
fn dotted_keys_are_put_back() {
    let original = "[mcp_servers]\nb.url = \"https://h/mcp\"\nb.http_headers = { X = \"v\" }\n";
    let anew = |text: &str| {
        let inline =
            "b.env = { SLUICE_UPSTREAM_URL = \"https://h/mcp\", SLUICE_HEADER_X = \"v\" }\n";
        assert!(text.contains(inline), "{text}");
        let dotted =
            "b.env.SLUICE_HEADER_X = \"v\"\nb.env.SLUICE_UPSTREAM_URL = \"https://h/mcp\"\n";
        text.replace(inline, dotted)
    };
    check_tables(original, anew, original);
}

#[test]
fn a_command_without_arguments_is_put_back_without_them() {
    let original = "[mcp_servers.a]\ncommand = \"a\"\n";
    check_tables(original, |text| text.replace(" = ", "="), "[mcp_servers.a]\ncommand = \"a\"\n");
}

#[test]
fn a_table_that_means_something_else_is_left() {
    let original = "[mcp_servers.b]\nurl = \"https://h/mcp\"\nhttp_headers = { X = \"v\" }\n";
    let machine = adopted(CODEX, original);
    let edited = machine.text(CODEX).replace("X = \"v\"", "X = \"w\"");
    machine.write(CODEX, edited.as_bytes());
    let refused = restore_all(&machine);
    assert_eq!(refused, ["b: its entry has been changed since: `env.SLUICE_HEADER_X`"]);
    assert_eq!(machine.text(CODEX), edited);
}
