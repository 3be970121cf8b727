//! Each form that can be imported, what is said of bad ones, and importing again.

use std::{
    io::{self, Read as _},
    path::Path,
};

use sluice_catalog::{Before, Event, Standing};

use crate::scratch::Scratch;

const TOOLS: &str =
    r#""tools": [{"name": "get_x", "description": "Gets x"}, {"name": "delete_x"}]"#;

#[test]
fn answers_to_tools_list_are_taken_in_each_form() {
    for text in [
        format!("{{{TOOLS}}}"),
        format!(r#"{{"jsonrpc": "2.0", "id": 1, "result": {{{TOOLS}}}}}"#),
        format!("{{\n  {}\n}}", TOOLS.replace(", ", ",\n  ")),
        TOOLS.trim_start_matches("\"tools\": ").to_owned(),
    ] {
        let mut scratch = Scratch::new();
        let ran = scratch.import("my-server.json", &text).well();
        assert_eq!((ran.imported.servers, ran.imported.tools, ran.imported.new), (1, 2, 1));
        assert_eq!(scratch.tools("my-server"), ["delete_x: destructive", "get_x: read"]);
        let server = scratch.catalog.server("my-server").unwrap().unwrap();
        assert_eq!(server.standing, Standing::Own);
        // The user's own descriptions are kept.
        let tool = scratch.catalog.tool(&server, "get_x").unwrap().unwrap();
        assert_eq!(tool.description.as_deref(), Some("Gets x"));
    }
}

#[test]
fn lines_of_servers_are_taken_and_bad_ones_told_with_their_place() {
    let mut scratch = Scratch::new();
    let line = |server: &str| format!(r#"{{"server": "{server}", "source": "here", {TOOLS}}}"#);
    let text = format!(
        "{}\n\n{{\"server\": \n{}\n{{\"server\": \"c\"}}\n[1, 2]\n3\n{}",
        line("a"),
        line("b"),
        line("d")
    );
    let ran = scratch.import("lines.jsonl", &text);
    assert_eq!(ran.imported.servers, 3);
    let names: Vec<&str> = ran.changes.iter().map(|change| change.server.as_str()).collect();
    assert_eq!(names, ["a", "b", "d"]);
    let places: Vec<&str> =
        ran.problems.iter().map(|problem| problem.split(" of ").next().unwrap()).collect();
    assert_eq!(places, ["line 3", "line 5", "line 6", "line 7"], "{:?}", ran.problems);
    assert!(ran.problems[0].contains("not valid JSON"), "{:?}", ran.problems);
    assert!(ran.problems[1].contains("no list of `tools`"), "{:?}", ran.problems);
}

#[test]
fn a_bad_first_line_does_not_hide_what_the_others_are() {
    let mut scratch = Scratch::new();
    let text = format!("oops\n{{\"server\": \"a\", {TOOLS}}}\n");
    let ran = scratch.import("lines.jsonl", &text);
    assert_eq!((ran.imported.servers, ran.problems.len()), (1, 1));
    assert!(ran.problems[0].starts_with("line 1 of "), "{:?}", ran.problems);
}

const ENTRY: &str = r#"{"$schema": "https://example.com/server.schema.json", "name": "io.example/one",
  "description": "Does one thing", "version": "1.2.0", "repository": {"url": "https://example.com/r", "source": "git"},
  "packages": [{"registryType": "npm", "identifier": "@example/one", "version": "1.2.0", "transport": {"type": "stdio"}}],
  "remotes": [{"type": "streamable-http", "url": "https://example.com/mcp"}]}"#;

#[test]
fn registry_entries_make_servers_known_without_tools() {
    let list = format!(
        r#"{{"servers": [{{"server": {ENTRY}, "_meta": {{"io.modelcontextprotocol.registry/official": {{"isLatest": true}}}}}},
            {{"server": {}, "_meta": {{"io.modelcontextprotocol.registry/official": {{"isLatest": false}}}}}},
            {{"server": {{"version": "1"}}}}], "metadata": {{"count": 3}}}}"#,
        ENTRY.replace("1.2.0", "1.1.0")
    );
    for (text, older, problems) in
        [(ENTRY.to_owned(), 0, 0), (format!("[{ENTRY}]"), 0, 0), (list, 1, 1)]
    {
        let mut scratch = Scratch::new();
        let ran = scratch.import("server.json", &text);
        assert_eq!(ran.problems.len(), problems, "{:?}", ran.problems);
        assert_eq!((ran.imported.servers, ran.imported.older), (1, older), "{text}");
        let server = scratch.catalog.server("io.example/one").unwrap().unwrap();
        assert_eq!(server.version.as_deref(), Some("1.2.0"));
        assert_eq!((server.tools(), server.slug.as_str()), (None, "io-example-one"));
        assert!(server.about.unwrap().contains("npm:@example/one"));
    }
}

#[test]
fn an_entry_of_a_registry_leaves_known_tools_as_they_are() {
    let mut scratch = Scratch::new();
    let lines = format!("{{\"server\": \"io.example/one\", {TOOLS}}}");
    scratch.import("lines.jsonl", &lines).well();
    scratch.import("server.json", ENTRY).well();
    assert_eq!(scratch.tools("io.example/one").len(), 2);
    let server = scratch.catalog.server("io.example/one").unwrap().unwrap();
    assert_eq!(server.description.as_deref(), Some("Does one thing"));
    // And definitions leave what the registry has said.
    scratch.import("lines.jsonl", &lines).well();
    let server = scratch.catalog.server("io.example/one").unwrap().unwrap();
    assert_eq!((server.tools(), server.version.as_deref()), (Some(2), Some("1.2.0")));
}

#[test]
fn an_entry_that_says_less_leaves_what_was_said_before() {
    let mut scratch = Scratch::new();
    scratch.import("server.json", ENTRY).well();
    let shorter = r#"{"name": "io.example/one", "remotes": [{"type": "sse", "url": "https://example.com/sse"}]}"#;
    scratch.import("server.json", shorter).well();
    let server = scratch.catalog.server("io.example/one").unwrap().unwrap();
    assert_eq!(server.description.as_deref(), Some("Does one thing"));
    assert_eq!(server.version.as_deref(), Some("1.2.0"));
    assert!(server.about.unwrap().contains("example.com/sse"));
}

#[test]
fn importing_again_replaces_the_server_and_says_what_changed() {
    let mut scratch = Scratch::new();
    let ran = scratch.import("s.json", &format!("{{{TOOLS}}}")).well();
    assert_eq!(ran.changes[0].before, Before::Nothing);
    let again = scratch.import("s.json", &format!("{{ {TOOLS} }}")).well();
    let change = &again.changes[0];
    assert_eq!(change.before, Before::Imported);
    assert!(change.added.is_empty() && change.removed.is_empty() && change.changed.is_empty());
    let other = r#"{"tools": [{"name": "get_x", "description": "Gets y"}, {"name": "run_x"}]}"#;
    let ran = scratch.import("s.json", other).well();
    let change = &ran.changes[0];
    assert_eq!(change.added, ["run_x"]);
    assert_eq!(change.removed, ["delete_x"]);
    assert_eq!(change.changed, ["get_x"]);
    assert_eq!(scratch.tools("s"), ["run_x: execute", "get_x: read"]);
}

#[test]
fn an_import_replaces_the_shipped_server() {
    let mut scratch = Scratch::new();
    let shipped = scratch.catalog.servers("", 1).unwrap().remove(0);
    assert_eq!(shipped.standing, Standing::Shipped);
    let before = scratch.catalog.stats().unwrap();
    let line = format!("{{\"server\": \"{}\", {TOOLS}}}", shipped.name);
    let ran = scratch.import("lines.jsonl", &line).well();
    assert_eq!(ran.changes[0].before, Before::Shipped);
    let now = scratch.catalog.server(&shipped.name).unwrap().unwrap();
    assert_eq!(
        (now.standing, now.slug.clone(), now.tools()),
        (Standing::Own, shipped.slug.clone(), Some(2))
    );
    let after = scratch.catalog.stats().unwrap();
    assert_eq!((after.servers, after.imported), (before.servers, 1));
    assert_eq!(after.tools, before.tools - u64::from(shipped.tools().unwrap()) + 2);
}

#[test]
fn tools_without_a_name_of_their_own_are_passed_over() {
    let mut scratch = Scratch::new();
    let long = "n".repeat(300);
    let text = format!(
        r#"{{"tools": [{{"name": "a"}}, {{"title": "x"}}, {{"name": "a"}}, {{"name": ""}}, {{"name": "{long}"}}, 3]}}"#
    );
    let ran = scratch.import("s.json", &text);
    assert_eq!(ran.problems.len(), 5, "{:?}", ran.problems);
    assert!(ran.problems[1].contains("tool 3: `a` is there already"), "{:?}", ran.problems);
    assert_eq!(scratch.tools("s").len(), 1);
}

#[test]
fn a_page_of_a_longer_list_is_reported() {
    let mut scratch = Scratch::new();
    let ran = scratch.import("s.json", &format!(r#"{{{TOOLS}, "nextCursor": "x"}}"#));
    assert!(ran.problems[0].contains("one page of a longer list"), "{:?}", ran.problems);
    assert_eq!(scratch.tools("s").len(), 2);
}

#[test]
fn invalid_definitions_are_reported_and_change_nothing() {
    let mut scratch = Scratch::new();
    let before = scratch.catalog.stats().unwrap();
    for text in ["", "{", "3", "{}", "[]\nx", "{\"tools\": 3}", "\u{feff}{}", "<html>"] {
        let ran = scratch.import("x.json", text);
        assert_eq!(ran.imported.servers, u64::from(text.starts_with("[]")), "{text}: {ran:?}");
    }
    scratch.import("x.json", "{\"tools\": []}").well();
    assert_eq!(scratch.catalog.stats().unwrap().tools, before.tools);
}

#[test]
fn a_list_that_is_too_large_to_be_read_whole_is_read_entry_by_entry() {
    let mut scratch = Scratch::new();
    let words = "word ".repeat(200_000);
    let entry = |number: u32| {
        format!(
            "{{\"server\": {{\"name\": \"io.example/s{number}\", \"description\": \"{words}\", \"version\": \"1\"}}}}"
        )
    };
    let mut entries: Vec<String> = (0..34).map(entry).collect();
    entries.insert(1, "{\"server\": {\"version\": \"1\"}}".to_owned());
    let text = format!("{{\n\"metadata\": {{}},\n\"servers\": [\n{}\n]}}", entries.join(",\n"));
    assert!(text.len() > 32 << 20);
    let ran = scratch.import("registry.json", &text);
    assert_eq!(ran.imported.servers, 34);
    assert!(ran.problems[0].starts_with("entry 2 of "), "{:?}", ran.problems);
    let server = scratch.catalog.server("io.example/s33").unwrap().unwrap();
    assert_eq!(server.description.map(|text| text.len()), Some(4096));
}

#[test]
fn folders_and_devices_are_refused() {
    let mut scratch = Scratch::new();
    let folder = scratch.folder.path().to_owned();
    for path in [folder.as_path(), &folder.join("nothing"), std::path::Path::new("/dev/null")] {
        let error = scratch.catalog.import(path, None, &mut |_| {}).unwrap_err();
        assert!(error.to_string().starts_with("cannot read `"), "{error}");
    }
}

#[test]
fn a_pipe_of_any_length_can_be_imported() {
    let line = |name: &str| format!("{{\"server\": \"{name}\", \"tools\": []}}\n");
    let far = || io::repeat(b'x').take(33 << 20);
    let long = io::Cursor::new(line("one")).chain(far());
    let stream = long.chain(io::Cursor::new(format!("\n{}", line("two"))));
    let mut scratch = Scratch::new();
    let label = Path::new("standard input");
    let mut problems = Vec::new();
    let mut tell = |event: Event<'_>| {
        if let Event::Problem(problem) = event {
            problems.push(problem.to_string());
        }
    };
    let imported = scratch.catalog.import_stream(stream, label, None, &mut tell).unwrap();
    assert_eq!((imported.servers, imported.problems), (2, 1));
    // One document that is too long.
    let imported = scratch.catalog.import_stream(far(), label, None, &mut tell).unwrap();
    assert_eq!((imported.servers, imported.problems), (0, 1));
    let expected = [
        "line 2 of `standard input`: it is longer than 32 MiB",
        "`standard input`: it is longer than 32 MiB",
    ];
    assert_eq!(problems, expected);
}
