//! Reads the inputs that arguments name: policies, tool lists, inline JSON.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use anyhow::{Context as _, anyhow};
use sluice_config::{MOST_POLICY, Source};
use sluice_policy::{ToolFacts, file::check::nearest};
use sluice_wire::json::{Bounds, Document, Value};

use sluice_store::Name;

use crate::{
    api::{Gateway, Question},
    output::{remark, visible},
};

/// The largest list of tools, in bytes. It is larger than a call, and comes from the user's own
/// disk.
const MOST_TOOLS: u64 = 64 << 20;

/// Where policies come from.
const WHERE_POLICIES: &str = "\nhint: `sluice init` writes a configuration and a policy to start from, `sluice policy suggest SERVER` a policy for a server";

/// Reads a policy's file, or standard input for `-`.
pub(crate) fn read_source(name: &str) -> anyhow::Result<Source> {
    Ok(Source { name: name.to_owned(), text: read_or_hint(name, MOST_POLICY, WHERE_POLICIES)? })
}

/// Reads a file, or standard input for `-`, up to `most` bytes.
pub(crate) fn read(name: &str, most: u64) -> anyhow::Result<Vec<u8>> {
    read_or_hint(name, most, "")
}

/// The same with a hint for a file that is not there and like no other.
fn read_or_hint(name: &str, most: u64, where_to: &str) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    let read = if name == "-" {
        io::stdin().take(most).read_to_end(&mut text)
    } else {
        File::open(name).and_then(|file| file.take(most).read_to_end(&mut text))
    };
    read.map_err(|error| {
        let hint = hint_at_file(name, &error, where_to);
        anyhow!(error).context(format!("cannot read `{name}`{hint}"))
    })?;
    Ok(text)
}

/// What to name instead of a file that cannot be read.
fn hint_at_file(name: &str, error: &io::Error, where_to: &str) -> String {
    match error.kind() {
        io::ErrorKind::IsADirectory => "\nhint: it is a folder; name a file in it".to_owned(),
        io::ErrorKind::NotFound => {
            let path = Path::new(name);
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let names: Vec<_> =
                entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
            let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
            match nearest(file, names.iter().map(String::as_str)) {
                Some(near) => {
                    format!("\nhint: did you mean `{}`?", path.with_file_name(near).display())
                }
                None => where_to.to_owned(),
            }
        }
        _ => String::new(),
    }
}

fn tools_bounds() -> Bounds {
    Bounds { bytes: 64 << 20, members: 1 << 20, nodes: 16 << 20, ..Bounds::default() }
}

/// Reads the tools of a server: a saved `tools/list` result, or what `scan --json`,
/// `server tools --json` or the API write.
pub(crate) fn tools(name: &str) -> anyhow::Result<Vec<ToolFacts>> {
    let text = read(name, MOST_TOOLS)?;
    let document = Document::parse(text, &tools_bounds())
        .with_context(|| format!("`{name}` is not valid JSON"))?;
    let root = document.root();
    if root.get("result").unwrap_or(root).get("nextCursor").is_some_and(|cursor| !cursor.is_null())
    {
        let name = visible(name);
        remark(&format!("note: `{name}` has a `nextCursor`: it is one page of a longer list\n"))?;
    }
    refuse_undefined(name, root)?;
    ToolFacts::from_list(root).ok_or_else(|| {
        anyhow!("`{name}` is not a list of tools, each with its own name\nhint: {HOW_TO_GET_TOOLS}")
    })
}

/// The tools of a server of the running gateway.
pub(crate) fn server_tools(gateway: &Gateway, server: &Name) -> anyhow::Result<Vec<ToolFacts>> {
    let answer = gateway.ask(Question::get(&["servers", server.as_str(), "tools"]))?;
    let document = Document::parse(answer.to_string(), &tools_bounds())
        .context("the gateway's list of tools cannot be read")?;
    ToolFacts::from_list(document.root())
        .with_context(|| format!("two tools of server `{server}` have one name"))
}

const HOW_TO_GET_TOOLS: &str = "`sluice server tools NAME --definitions` writes such a file; \
                                a server's answer to `tools/list` and `sluice scan --json` will do too";

/// Refuses lists of something else: tools would be judged by their names alone.
fn refuse_undefined(name: &str, root: Value<'_>) -> anyhow::Result<()> {
    let result = root.get("result").unwrap_or(root);
    let tools = result.get("tools").unwrap_or(result);
    for tool in tools.items().into_iter().flatten() {
        let has = |key: &&str| tool.get(key).is_some();
        if has(&"inputSchema") || has(&"definition") {
            continue;
        }
        if let Some(key) = ["input_schema", "parameters", "category", "risk"].into_iter().find(has)
        {
            let tool = tool.get("name").and_then(Value::as_str).unwrap_or("?");
            return Err(anyhow!(
                "`{name}` does not hold the definitions of tools: `{}` has `{key}` and no `inputSchema`\nhint: {HOW_TO_GET_TOOLS}",
                visible(tool)
            ));
        }
    }
    Ok(())
}

/// Reads JSON given as an argument.
pub(crate) fn json(what: &str, text: &str) -> anyhow::Result<Document> {
    Document::parse(text, &Bounds::default()).with_context(|| format!("{what} is not valid JSON"))
}
