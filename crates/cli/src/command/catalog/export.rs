//! `sluice catalog export`.

use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
};

use anyhow::anyhow;
use clap::Args;
use serde_json::json;
use sluice_admin::known::to_tool_seen;
use sluice_catalog::{
    Catalog, Tool,
    site::{self, Recommend, Recommended, Written},
};
use sluice_policy::{suggest_entry, suggest_policy};

use crate::output::{Done, FAINT, GOOD, count_noun, print_json, remark, visible};

#[derive(Debug, Args)]
pub(crate) struct ExportSite {
    /// Write web pages to this folder, which must be new, empty, or written by this command
    #[arg(long, value_name = "DIR", required = true)]
    html: PathBuf,
    /// Only this server, by name or slug
    #[arg(long, value_name = "SERVER")]
    server: Option<String>,
    /// Print {"index", "servers", "tools"} as JSON
    #[arg(long)]
    json: bool,
}

impl ExportSite {
    pub(crate) fn run(&self, catalog: &Catalog) -> anyhow::Result<Done> {
        let only = self.server.as_deref().map(|name| {
            let missing = || anyhow!("there is no server `{name}` in the catalogue\nhint: `sluice catalog search` finds servers by words");
            catalog.server(name)?.ok_or_else(missing)
        });
        let only = only.transpose()?;
        let total = match &only {
            Some(_) => 1,
            None => catalog.stats()?.servers,
        };
        let is_terminal = io::stderr().is_terminal();
        let mut told = None;
        let recommend = Recommend { policy: recommend_policy, entry: recommend_entry };
        let folder = self.html.clone();
        let written = site::write(catalog, only.as_ref(), folder, recommend, |so_far| {
            let percent = so_far.servers * 100 / total.max(1);
            if is_terminal && told.replace(percent) != Some(percent) {
                // Failing to print progress must not stop the export.
                let _ = remark(&progress(percent, so_far));
            }
        });
        if is_terminal {
            remark("\r\u{1b}[K")?;
        }
        let written = written?;
        let index = self.html.join("index.html").display().to_string();
        if self.json {
            let Written { servers, tools } = written;
            print_json(&json!({ "index": index, "servers": servers, "tools": tools }))?;
        } else {
            let pages = count_noun(written.servers + written.tools, "page");
            let place = visible(&index);
            remark(&format!("{GOOD}ok{GOOD:#}: {pages}, to begin with {place}\n"))?;
        }
        Ok(Done::Well)
    }
}

fn recommend_policy(tools: &[&Tool]) -> Recommended {
    let suggested = suggest_policy(tools.iter().map(|tool| to_tool_seen(tool)));
    Recommended { text: suggested.policy, effect: suggested.effect }
}

fn recommend_entry(tool: &Tool) -> Recommended {
    let suggested = suggest_entry(to_tool_seen(tool));
    let entry = json!({ tool.name.as_str(): suggested.entry });
    Recommended { text: format!("{entry:#}"), effect: vec![suggested.effect.to_owned()] }
}

fn progress(percent: u64, so_far: Written) -> String {
    let tools = count_noun(so_far.tools, "tool");
    format!("\r{FAINT}{percent:>3} %  {tools}{FAINT:#}\u{1b}[K")
}
