//! How long classifying takes, definitions already parsed: 100,000 tools a
//! second on one core is the aim.

use divan::{Bencher, black_box, counter::ItemsCount};
use sluice_classify::{Definition, Siblings, classify};
use sluice_wire::json::{Bounds, Document};

fn main() {
    divan::main();
}

/// Tools as servers define them: some terse, some wordy, some with many parameters.
const TOOLS: &str = r#"[
  { "name": "get_issue", "description": "Get the details of one issue in a project.",
    "inputSchema": { "type": "object", "properties": {
      "project": { "type": "string", "description": "The project's key" },
      "issue": { "type": "integer", "description": "The issue's number" } } } },
  { "name": "create_pull_request", "description": "Create a new pull request in a repository. The head branch must have been pushed; a draft can be marked ready later.",
    "inputSchema": { "type": "object", "properties": {
      "owner": { "type": "string" }, "repo": { "type": "string" },
      "title": { "type": "string", "description": "Title of the pull request" },
      "body": { "type": "string", "description": "What changes, and why" },
      "head": { "type": "string" }, "base": { "type": "string" },
      "draft": { "type": "boolean" } } },
    "annotations": { "readOnlyHint": false } },
  { "name": "execute_sql", "description": "Execute a SQL statement on the connected database and return the rows. Long results are cut at 1,000 rows; use LIMIT and OFFSET to page through them. Statements that change data are committed at once.",
    "inputSchema": { "type": "object", "properties": {
      "sql": { "type": "string", "description": "The statement" },
      "parameters": { "type": "array", "items": { "type": "string" } } } } },
  { "name": "manage_volume", "description": "Manage block storage volumes: create, resize, attach, detach or delete them.",
    "inputSchema": { "type": "object", "properties": {
      "action": { "type": "string", "enum": ["list", "create", "resize", "attach", "detach", "delete"] },
      "id": { "type": "string" }, "size": { "type": "integer" }, "region": { "type": "string" } } } },
  { "name": "transferFunds", "description": "Transfer money from one account to another.",
    "inputSchema": { "type": "object", "properties": {
      "from": { "type": "string" }, "recipient": { "type": "string" },
      "amount": { "type": "number" }, "currency": { "type": "string" } } } },
  { "name": "search_notes" },
  { "name": "delete-webhook", "description": "Permanently delete a webhook by ID.",
    "inputSchema": { "type": "object", "properties": { "webhook_id": { "type": "string" } } },
    "annotations": { "destructiveHint": true } },
  { "name": "send_message", "description": "Sends a message to a channel or a person. Use list_channels to find the channel's id first. Mentions are written as <@user>; links are not expanded unless `unfurl` is set. Returns the message's timestamp, which replies need.",
    "inputSchema": { "type": "object", "properties": {
      "channel": { "type": "string", "description": "Where to send it" },
      "text": { "type": "string", "description": "What to say" },
      "thread": { "type": "string" }, "unfurl": { "type": "boolean" } } } }
]"#;

#[divan::bench]
fn tools(bencher: Bencher<'_, '_>) {
    let document = Document::parse(TOOLS, &Bounds::default()).expect("the tools are JSON");
    let items = document.root().items().expect("the tools are a list");
    let tools: Vec<Definition<'_>> = items.filter_map(Definition::from_tool).collect();
    let siblings = Siblings::new("bench", &tools);
    bencher.counter(ItemsCount::new(tools.len())).bench_local(|| {
        for tool in black_box(&tools) {
            black_box(classify(tool, &siblings));
        }
    });
}

/// A description as long as a message may be.
#[divan::bench]
fn hostile(bencher: Bencher<'_, '_>) {
    let description = "Reads the notes, and then some. ".repeat(1 << 15);
    let tool = Definition {
        name: "get_notes",
        title: None,
        description: Some(&description),
        input_schema: None,
        annotations: None,
    };
    let siblings = Siblings::default();
    bencher.bench_local(|| black_box(classify(black_box(&tool), &siblings)));
}
