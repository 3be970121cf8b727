//! Reading what arguments name: policies, tool lists, JSON given in place.

use std::{
    fs,
    io::{self, Read as _},
};

use anyhow::{Context as _, anyhow};
use sluice_policy::{Format, Policy, Problem, ToolFacts, load};
use sluice_wire::json::{Bounds, Document};

/// A file's name and bytes.
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: Vec<u8>,
}

impl Source {
    /// Reads a file, or standard input for `-`.
    pub(crate) fn read(name: &str) -> anyhow::Result<Source> {
        let text = if name == "-" {
            let mut text = Vec::new();
            io::stdin().read_to_end(&mut text).map(|_| text)
        } else {
            fs::read(name)
        };
        let text = text.with_context(|| format!("cannot read `{name}`"))?;
        Ok(Source { name: name.to_owned(), text })
    }

    /// Compiles it as a policy.
    pub(crate) fn policy(&self) -> Result<Policy, Vec<Problem>> {
        load(&self.text, Format::of_file_name(&self.name))
    }
}

/// Reads a `tools/list` answer.
pub(crate) fn tools(name: &str) -> anyhow::Result<Vec<ToolFacts>> {
    let source = Source::read(name)?;
    // A list is larger than a call, and comes from the user's own disk.
    let bounds = Bounds { bytes: 64 << 20, members: 1 << 20, nodes: 16 << 20, ..Bounds::default() };
    let document = Document::parse(source.text, &bounds)
        .with_context(|| format!("`{name}` is not valid JSON"))?;
    ToolFacts::from_list(document.root()).ok_or_else(|| {
        anyhow!("`{name}` is no list of tools\nhint: save a server's answer to `tools/list` there")
    })
}

/// Reads JSON given as an argument.
pub(crate) fn json(what: &str, text: &str) -> anyhow::Result<Document> {
    Document::parse(text, &Bounds::default()).with_context(|| format!("{what} is not valid JSON"))
}
