//! Reads the inputs that arguments name: policies, tool lists, inline JSON.

use std::{
    fs::File,
    io::{self, Read as _},
};

use anyhow::{Context as _, anyhow};
use sluice_config::{MOST_POLICY, Source};
use sluice_policy::ToolFacts;
use sluice_wire::json::{Bounds, Document};

use crate::output::{remark, visible};

/// The largest list of tools, in bytes. It is larger than a call, and comes from the user's own
/// disk.
const MOST_TOOLS: u64 = 64 << 20;

/// Reads a policy's file, or standard input for `-`.
pub(crate) fn read_source(name: &str) -> anyhow::Result<Source> {
    Ok(Source { name: name.to_owned(), text: read(name, MOST_POLICY)? })
}

/// Reads a file, or standard input for `-`, up to `most` bytes.
pub(crate) fn read(name: &str, most: u64) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    let read = if name == "-" {
        io::stdin().take(most).read_to_end(&mut text)
    } else {
        File::open(name).and_then(|file| file.take(most).read_to_end(&mut text))
    };
    read.with_context(|| format!("cannot read `{name}`"))?;
    Ok(text)
}

/// Reads a saved `tools/list` result.
pub(crate) fn tools(name: &str) -> anyhow::Result<Vec<ToolFacts>> {
    let text = read(name, MOST_TOOLS)?;
    let bounds = Bounds { bytes: 64 << 20, members: 1 << 20, nodes: 16 << 20, ..Bounds::default() };
    let document =
        Document::parse(text, &bounds).with_context(|| format!("`{name}` is not valid JSON"))?;
    let root = document.root();
    if root.get("result").unwrap_or(root).get("nextCursor").is_some_and(|cursor| !cursor.is_null())
    {
        let name = visible(name);
        remark(&format!("note: `{name}` has a `nextCursor`: it is one page of a longer list\n"))?;
    }
    ToolFacts::from_list(root).ok_or_else(|| {
        anyhow!(
            "`{name}` is no list of tools, each with its own name\nhint: save a server's answer to `tools/list` there"
        )
    })
}

/// Reads JSON given as an argument.
pub(crate) fn json(what: &str, text: &str) -> anyhow::Result<Document> {
    Document::parse(text, &Bounds::default()).with_context(|| format!("{what} is not valid JSON"))
}
