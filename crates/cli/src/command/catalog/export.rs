//! `sluice catalog export`.

use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
};

use anyhow::anyhow;
use clap::Args;
use sluice_catalog::Catalog;

use super::site;
use crate::output::{Done, FAINT, GOOD, counted, remark, visible};

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Write web pages to this folder, which must be new, empty, or made by this command
    #[arg(long, value_name = "DIR", required = true)]
    html: PathBuf,
    /// Only this server, by its name or slug
    #[arg(long, value_name = "SERVER")]
    server: Option<String>,
}

impl Export {
    pub(crate) fn run(&self, catalog: &Catalog) -> anyhow::Result<Done> {
        let only = self.server.as_deref().map(|name| {
            let missing = || anyhow!("there is no server `{name}` in the catalogue\nhint: `sluice catalog search` finds servers by words");
            catalog.server(name)?.ok_or_else(missing)
        });
        let only = only.transpose()?;
        let is_terminal = io::stderr().is_terminal();
        let written = site::write(catalog, only.as_ref(), self.html.clone(), |so_far| {
            if is_terminal {
                let tools = counted(so_far.tools, "tool");
                // Progress that cannot be shown is no reason to stop.
                let _ = remark(&format!("\r{FAINT}{tools}{FAINT:#}\u{1b}[K"));
            }
        })?;
        let clear = if is_terminal { "\r\u{1b}[K" } else { "" };
        let pages = counted(written.servers + written.tools, "page");
        let place = visible(&self.html.join("index.html").display().to_string());
        remark(&format!("{clear}{GOOD}ok{GOOD:#}: {pages}, to begin with {place}\n"))?;
        Ok(Done::Well)
    }
}
