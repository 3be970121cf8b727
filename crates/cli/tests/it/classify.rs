//! `sluice classify`.

use serde_json::Value;

use crate::sluice::{Folder, Ran};

fn lines(ran: &Ran) -> Vec<Value> {
    ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const ROWS: &str = r#"{"server": "a", "tool": "get_page", "description": "Gets a page", "input_schema": {"properties": {"url": {"type": "string"}}}}

{"server": "b", "tool": "delete_page"}
{"server": "a", "tool": "rеad_page", "annotations": {"destructiveHint": true}}
{"server": "a", "tool": "read_page"}
"#;

#[test]
fn lines_are_classified_in_their_order() {
    let folder = Folder::with("tools.jsonl", ROWS);
    let ran = folder.run(&["classify", "tools.jsonl"]).exits(0);
    let said = lines(&ran);
    let tools: Vec<_> = said.iter().map(|line| (&line["server"], &line["tool"])).collect();
    assert_eq!(tools.len(), 4);
    assert_eq!(said[0]["category"], "Read");
    assert_eq!(said[0]["risk"], "low");
    assert!(said[0]["confidence"].as_f64().unwrap() > 0.9);
    assert_eq!(said[0]["signals"][0]["kind"], "url");
    assert_eq!(said[1]["server"], "b");
    assert_eq!(said[1]["category"], "Destructive");
    let reason = &said[1]["reasons"][0];
    assert_eq!((&reason["part"], &reason["quote"]), (&"name".into(), &"delete".into()));
    assert_eq!((&reason["start"], &reason["end"]), (&0.into(), &6.into()));
    assert_eq!(said[2]["reasons"][0]["quote"], "destructiveHint");
    // Tools of one server are siblings, wherever they stand.
    assert_eq!(said[3]["findings"][0]["kind"], "look-alike");
}

#[test]
fn answers_to_tools_list_are_taken_in_each_form() {
    let tools = r#"{"tools": [{"name": "run_it"}, {"name": "pay_it"}]}"#;
    let folder =
        Folder::with("files.json", &format!("{{\"jsonrpc\": \"2.0\",\n\"result\": {tools}}}\n"));
    folder.write("bare.json", "[{\"name\": \"get_it\"}]");
    let said = lines(&folder.run(&["classify", "files.json", "bare.json"]).exits(0));
    let said: Vec<_> =
        said.iter().map(|line| (line["server"].clone(), line["category"].clone())).collect();
    let expected = [("files", "Execute"), ("files", "Financial"), ("bare", "Read")];
    assert_eq!(said, expected.map(|(server, category)| (server.into(), category.into())));
    let ran = folder.shell("sluice classify < files.json").exits(0);
    assert_eq!(lines(&ran)[0]["server"], "");
}

#[test]
fn unreadable_input_is_wrong_use_and_names_the_line() {
    let folder = Folder::with("bad.jsonl", "{\"server\": \"a\", \"tool\": \"b\"}\n{\"tool\n");
    let ran = folder.run(&["classify", "bad.jsonl"]).exits(2);
    assert_eq!(ran.out, "");
    assert!(ran.err.contains("line 2 of `bad.jsonl`"), "{}", ran.err);
    folder.write("none.json", "{\"server\": \"a\"}");
    let ran = folder.run(&["classify", "none.json"]).exits(2);
    assert!(ran.err.contains("hint: "), "{}", ran.err);
    folder.run(&["classify", "absent.json"]).exits(2);
    folder.write("empty.jsonl", "\n");
    assert_eq!(folder.run(&["classify", "empty.jsonl"]).exits(0).out, "");
}

/// The output is data for programs, but people will look at it in a terminal.
#[test]
fn no_control_character_is_written() {
    let row = r#"{"server": "a", "tool": "x", "description": "ok \u001b[31m \u0007 delete"}"#;
    let folder = Folder::with("tools.jsonl", row);
    let ran = folder.run(&["classify", "tools.jsonl"]).exits(0);
    assert!(!ran.out.contains(|c: char| c.is_control() && c != '\n'), "{:?}", ran.out);
    assert_eq!(lines(&ran)[0]["findings"][0]["kind"], "hidden-characters");
}
