//! `sluice open`: signs the owner of the data directory in, in a browser on this machine.

use std::{
    io::IsTerminal as _,
    path::PathBuf,
    process::{Command, Stdio},
};

use clap::Args;
use serde::Deserialize;
use serde_json::json;

use crate::{
    api::{Question, with_gateway},
    output::{Done, print, print_json, remark, visible},
};

/// What shows a URL in a browser, by operating system.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

#[derive(Debug, Args)]
pub(crate) struct Open {
    /// Only print the link
    #[arg(long)]
    no_browser: bool,
    /// Print the link as JSON
    #[arg(long)]
    json: bool,
}

/// The answer of `POST /api/v1/session/links`.
#[derive(Debug, Deserialize)]
struct Link {
    path: String,
    expires_at: String,
}

impl Open {
    pub(crate) fn run(&self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        with_gateway(data, |gateway| {
            let answer = gateway.ask(Question::post(&["session", "links"]))?;
            let link: Link = serde_json::from_value(answer)?;
            let url = gateway.page_url(&link.path);
            if self.json {
                print_json(&json!({ "url": url, "expires_at": link.expires_at }))?;
                return Ok(Done::Well);
            }
            print(&format!("{}\n", visible(&url)))?;
            remark("The link works once, within ten minutes, in a browser on this machine.\n")?;
            // A program that reads the link shows it itself.
            if !self.no_browser && std::io::stdout().is_terminal() {
                show(&url);
            }
            Ok(Done::Well)
        })
    }
}

/// Shows the URL in a browser, if there is one.
fn show(url: &str) {
    let mut opener = Command::new(OPENER);
    opener.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // The link is printed, so nothing is lost without a browser.
    let _ = opener.status();
}
