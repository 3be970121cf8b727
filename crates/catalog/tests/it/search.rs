//! Searching by words and traits, and looking up.

use sluice_catalog::{Hit, Query, Taken};
use sluice_classify::{Category, Risk, SignalKind};

use crate::scratch::Scratch;

const LINES: &str = r#"
{"server": "zoo-one", "tools": [
 {"name": "list_wombats", "description": "Lists all wombats of the quagga family"},
 {"name": "deleteWombat", "description": "Deletes a wombat"},
 {"name": "run_wombat_query", "description": "Runs SQL", "inputSchema": {"properties": {"sql": {"type": "string"}}}}]}
{"server": "zoo-two", "tools": [
 {"name": "wombat"}, {"name": "pay_wombat", "description": "Pays for a wombat", "inputSchema": {"properties": {"amount": {"type": "number"}, "url": {"type": "string"}}}}]}
"#;

fn zoo() -> Scratch {
    let mut scratch = Scratch::new();
    let lines = LINES.trim().replace("\n ", " ");
    scratch.import("zoo.jsonl", &lines).well();
    scratch
}

fn query(words: &str) -> Query {
    Query { words: words.into(), limit: 50, ..Query::default() }
}

fn names(hits: &[Hit]) -> Vec<&str> {
    hits.iter().map(|hit| hit.tool.as_str()).collect()
}

#[test]
fn words_are_found_in_names_descriptions_and_servers() {
    let zoo = zoo();
    let found = |words: &str| {
        let found = zoo.catalog.search(&query(words)).unwrap();
        let mut names: Vec<String> = found.tools.into_iter().map(|hit| hit.tool).collect();
        names.sort();
        names.join(" ")
    };
    assert_eq!(found("quagga"), "list_wombats");
    assert_eq!(found("delete wombat zoo"), "deleteWombat");
    // Plural and case do not matter, and all words must be there.
    assert_eq!(found("WOMBATS zoo two"), "pay_wombat wombat");
    assert_eq!(found("quagga nowhere"), "");
}

#[test]
fn the_tool_that_is_called_so_comes_first() {
    let found = zoo().catalog.search(&query("wombat")).unwrap();
    assert_eq!(found.tools[0].tool, "wombat");
    assert_eq!(found.tools.len(), 5);
}

#[test]
fn servers_are_found_by_their_names_unless_traits_are_asked_for() {
    let zoo = zoo();
    let servers = |query: &Query| -> Vec<String> {
        let found = zoo.catalog.search(query).unwrap();
        found.servers.into_iter().map(|server| server.name).collect()
    };
    // The shipped index has a zoo of its own, which comes after those that were imported.
    assert_eq!(servers(&query("zoo"))[..2], ["zoo-one", "zoo-two"]);
    assert!(servers(&Query { risks: vec![Risk::Low], ..query("zoo") }).is_empty());
}

#[test]
fn traits_narrow_what_is_found() {
    let zoo = zoo();
    let found = |query: Query| zoo.catalog.search(&query).unwrap().tools;
    let by_category = found(Query { categories: vec![Category::Destructive], ..query("wombat") });
    assert_eq!(names(&by_category), ["deleteWombat"]);
    let by_risk = found(Query { risks: vec![Risk::Critical], ..query("wombat") });
    assert_eq!(names(&by_risk), ["pay_wombat", "deleteWombat"]);
    let by_signal = found(Query { signals: vec![SignalKind::FreeFormCode], ..query("wombat") });
    assert_eq!(names(&by_signal), ["run_wombat_query"]);
    let neither =
        Query { categories: vec![Category::Read], risks: vec![Risk::Critical], ..query("wombat") };
    assert!(found(neither).is_empty());
    // Without words, everything of a kind.
    let alone =
        found(Query { categories: vec![Category::Financial], limit: 3, ..Query::default() });
    assert_eq!(alone.len(), 3);
    assert!(alone.iter().all(|hit| hit.traits.category == Category::Financial));
}

#[test]
fn results_come_page_by_page() {
    let zoo = zoo();
    let page = |offset| zoo.catalog.search(&Query { limit: 2, offset, ..query("wombat") }).unwrap();
    let all = zoo.catalog.search(&query("wombat")).unwrap();
    let paged: Vec<Hit> = [0, 2, 4].into_iter().flat_map(|offset| page(offset).tools).collect();
    assert_eq!(paged, all.tools);
    assert!(page(0).more && page(2).more && !page(4).more && !all.more);
}

#[test]
fn names_are_taken_as_servers_and_tools() {
    let zoo = zoo();
    let take = |text: &str| zoo.catalog.take(text).unwrap();
    assert!(matches!(take("zoo-one"), Taken::Server(server) if server.name == "zoo-one"));
    assert!(matches!(take("ZOO-ONE"), Taken::Server(_)));
    assert!(matches!(take("zoo-two/wombat"), Taken::Tool(_, tool) if tool.name == "wombat"));
    assert!(matches!(take("zoo-two/wombet"), Taken::NoTool(_, tool) if tool == "wombet"));
    assert_eq!(take("zoo-three"), Taken::Nothing);
    let Taken::NoTool(server, name) = take("zoo-two/wombet") else { panic!() };
    assert_eq!(zoo.catalog.near_tools(&server, &name).unwrap(), ["wombat"]);
    assert_eq!(zoo.catalog.near_servers("zoo-onw").unwrap()[0], "zoo-one");
    assert!(zoo.catalog.near_servers("qqqqqqqqqqqq").unwrap().is_empty());
}

#[test]
fn related_tools_are_those_called_the_same_elsewhere() {
    let mut zoo = zoo();
    zoo.import("third.json", r#"{"tools": [{"name": "WOMBAT"}, {"name": "wombat_list"}]}"#).well();
    let related = |server: &str, tool: &str| {
        let server = zoo.catalog.server(server).unwrap().unwrap();
        let tool = zoo.catalog.tool(&server, tool).unwrap().unwrap();
        let hits = zoo.catalog.related_tools(&server, &tool).unwrap();
        hits.into_iter().map(|hit| format!("{}/{}", hit.server, hit.tool)).collect::<Vec<_>>()
    };
    assert_eq!(related("zoo-two", "wombat"), ["third/WOMBAT"]);
    assert_eq!(related("third", "wombat_list"), ["zoo-one/list_wombats"]);
}
