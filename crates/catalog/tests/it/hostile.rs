//! Definitions and questions that were written to do harm.

use sluice_catalog::{Query, Taken};
use sluice_classify::{Category, FindingKind};

use crate::scratch::Scratch;

#[test]
fn huge_definitions_are_bounded() {
    let mut scratch = Scratch::new();
    let properties: Vec<String> =
        (0..10_000).map(|number| format!(r#""p{number}": {{"type": "string"}}"#)).collect();
    let text = format!(
        r#"{{"tools": [{{"name": "a", "description": "{}", "inputSchema": {{"properties": {{{}}}}}}}]}}"#,
        "delete ".repeat(150_000),
        properties.join(",")
    );
    scratch.import("s.json", &text).well();
    let server = scratch.catalog.server("s").unwrap().unwrap();
    let tool = scratch.catalog.tool(&server, "a").unwrap().unwrap();
    assert!(tool.description.unwrap().len() <= 4096);
    assert!(tool.traits.findings.count(FindingKind::Oversized) > 0);
    assert!(tool.evidence.iter().all(|one| one.quote.len() <= 80));
}

#[test]
fn deep_schemas_are_refused_and_the_next_line_is_taken() {
    let mut scratch = Scratch::new();
    let deep = format!("{}{}", r#"{"items":"#.repeat(5_000), "1".to_owned() + &"}".repeat(5_000));
    let text = format!(
        "{{\"server\": \"a\", \"tools\": [{{\"name\": \"x\", \"inputSchema\": {deep}}}]}}\n{{\"server\": \"b\", \"tools\": []}}\n"
    );
    let ran = scratch.import("lines.jsonl", &text);
    assert!(ran.problems[0].contains("nested deeper"), "{:?}", ran.problems);
    assert_eq!(ran.imported.servers, 1);
}

#[test]
fn names_may_be_anything_and_are_found_again() {
    let mut scratch = Scratch::new();
    let names = [
        r"\u001b[31mred",
        r"a\u0000b",
        r"<script>",
        r"x/y",
        "长亭",
        r"\u202eevil",
        r"'; DROP TABLE tool; --",
        r"\ue000",
    ];
    let tools: Vec<String> = names.iter().map(|name| format!(r#"{{"name": "{name}"}}"#)).collect();
    let text = format!(r#"{{"server": "../..", "tools": [{}]}}"#, tools.join(","));
    scratch.import("s.jsonl", &text).well();
    let server = scratch.catalog.server("../..").unwrap().unwrap();
    assert!(server.slug.starts_with("x-"), "{}", server.slug);
    let tools = scratch.catalog.tools(&server).unwrap();
    assert_eq!(tools.len(), names.len());
    for tool in &tools {
        let taken = scratch.catalog.take(&format!("../../{}", tool.name)).unwrap();
        assert!(matches!(taken, Taken::Tool(_, found) if found.name == tool.name), "{tool:?}");
    }
    // It can be taken out of the index again, whatever is in it.
    scratch.import("s.jsonl", r#"{"server": "../..", "tools": []}"#).well();
    assert_eq!(scratch.catalog.server("../..").unwrap().unwrap().tools(), Some(0));
}

#[test]
fn no_question_is_an_error() {
    let scratch = Scratch::new();
    let long = "delete ".repeat(100_000);
    for words in [
        "\"",
        "'",
        "*",
        "(",
        ")",
        "AND",
        "OR NOT",
        "NEAR(a b)",
        "a:b",
        "text:x",
        "-x",
        "^x",
        "\u{0}",
        "a\u{0}b",
        "x\" OR \"y",
        "{a b}: c",
        "+",
        "\u{e004}",
        "\u{202e}",
        "ﬁ İ ẞ",
        "a*",
        "删除",
        &long,
    ] {
        let query = Query { words: words.to_owned(), limit: 10, ..Query::default() };
        let found = scratch.catalog.search(&query);
        assert!(found.is_ok(), "{words:?}: {found:?}");
        assert!(scratch.catalog.take(words).is_ok() && scratch.catalog.near_servers(words).is_ok());
    }
}

#[test]
fn a_description_cannot_pass_for_another_category() {
    let mut scratch = Scratch::new();
    // The marks of categories are private characters, which words cannot have.
    let marks: String = (0xe000..0xe010).filter_map(char::from_u32).collect();
    let text = format!(r#"{{"tools": [{{"name": "get_wombat", "description": "Gets {marks}"}}]}}"#);
    scratch.import("s.json", &text).well();
    let query =
        |categories| Query { words: "wombat".into(), categories, limit: 10, ..Query::default() };
    assert_eq!(scratch.catalog.search(&query(vec![Category::Read])).unwrap().tools.len(), 1);
    assert!(scratch.catalog.search(&query(vec![Category::Financial])).unwrap().tools.is_empty());
}
