//! Reads tool definitions in each supported format.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use sluice_classify::Definition;
use sluice_wire::json::{Bounds, Document, Value};

/// One JSON text of a file.
#[derive(Debug)]
pub(super) struct Source {
    document: Document,
    /// The position in the file, for messages.
    place: String,
    /// The server name to use if the text contains none.
    server: String,
}

/// One tool of a server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'d> {
    pub(super) server: &'d str,
    pub(super) definition: Definition<'d>,
}

/// The JSON texts of a file: a single one, or one per line.
pub(super) fn documents(name: &str, text: Vec<u8>) -> anyhow::Result<Vec<Source>> {
    let server = Path::new(name).file_stem().filter(|_| name != "-");
    let server = server.map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    // The definitions come from the user's own disk; the classifier has its own bounds against
    // hostile ones.
    let bounds = Bounds {
        bytes: usize::MAX,
        depth: 512,
        string: usize::MAX,
        members: usize::MAX,
        nodes: usize::MAX,
        ..Bounds::default()
    };
    let first = text.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty());
    let is_lines = first.is_some_and(|line| Document::parse(line, &bounds).is_ok());
    if !is_lines && first.is_some() {
        let document = Document::parse(text, &bounds)
            .with_context(|| format!("`{name}` is neither JSON nor JSON line by line"))?;
        return Ok(vec![Source { document, place: format!("`{name}`"), server }]);
    }
    let lines = text.split(|byte| *byte == b'\n').enumerate();
    let lines = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
    let read = lines.map(|(index, line)| {
        let place = format!("line {} of `{name}`", index + 1);
        let document =
            Document::parse(line, &bounds).with_context(|| format!("{place} is not valid JSON"))?;
        Ok(Source { document, place, server: server.clone() })
    });
    read.collect()
}

impl Source {
    /// The tools that the text defines.
    pub(super) fn rows(&self) -> anyhow::Result<Vec<Row<'_>>> {
        let root = self.document.root();
        let server = root.get("server").and_then(Value::as_str).unwrap_or(&self.server);
        if let Some(name) = root.get("tool").and_then(Value::as_str) {
            return Ok(vec![Row { server, definition: row(name, root) }]);
        }
        let result = root.get("result").unwrap_or(root);
        let tools = result.get("tools").unwrap_or(result).items();
        let definitions = tools.and_then(|tools| {
            tools.map(Definition::from_tool).collect::<Option<Vec<Definition<'_>>>>()
        });
        let definitions = definitions.ok_or_else(|| {
            anyhow!(
                "{} has neither a `tool` nor a list of tools with names\nhint: give lines of `{{\"server\", \"tool\", \"description\", \"input_schema\", \"annotations\"}}`, or a server's answer to `tools/list`",
                self.place
            )
        })?;
        Ok(definitions.into_iter().map(|definition| Row { server, definition }).collect())
    }
}

fn row<'d>(name: &'d str, root: Value<'d>) -> Definition<'d> {
    let text = |key| root.get(key).and_then(Value::as_str);
    Definition {
        name,
        title: text("title"),
        description: text("description"),
        input_schema: root.get("input_schema").or_else(|| root.get("inputSchema")),
        annotations: root.get("annotations"),
    }
}
