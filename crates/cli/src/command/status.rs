//! `sluice status`: the running gateway, and the active versions.

use std::{fmt::Write as _, path::PathBuf};

use clap::Args;
use serde::Deserialize;

use crate::{
    api::{Question, with_gateway},
    output::{BAD, Cell, Done, GOOD, STRONG, print, print_json, table, visible},
};

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Print what `GET /api/v1/status` answers
    #[arg(long)]
    json: bool,
}

/// The answer of `GET /api/v1/status`.
#[derive(Debug, Deserialize)]
struct Answer {
    version: String,
    started_at: String,
    listen: String,
    admin: String,
    config: Config,
    servers: usize,
    policies: Vec<Policy>,
    grants: Option<usize>,
    store: Store,
    problems: Vec<serde::de::IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct Config {
    version: String,
    loaded_at: String,
    last_reload: Option<Reload>,
}

#[derive(Debug, Deserialize)]
struct Reload {
    at: String,
    ok: bool,
}

#[derive(Debug, Deserialize)]
struct Policy {
    server: String,
    name: String,
    version: String,
}

#[derive(Debug, Deserialize)]
struct Store {
    ok: bool,
    last_error: Option<String>,
}

impl Status {
    pub(crate) fn run(&self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        with_gateway(data, |gateway| {
            let status = gateway.ask(Question::get(&["status"]))?;
            let answer = Answer::deserialize(&status)?;
            if self.json {
                print_json(&status)?;
            } else {
                print(&draw(&answer))?;
                gateway.warn_of_files()?;
            }
            Ok(Done::well_if(answer.problems.is_empty() && answer.store.ok))
        })
    }
}

fn draw(answer: &Answer) -> String {
    let Answer { version, started_at, listen, admin, config, servers, policies, .. } = answer;
    let mut text = format!(
        "{STRONG}Sluicegate {}{STRONG:#}, running since {}\n",
        visible(version),
        visible(started_at)
    );
    let reload = match &config.last_reload {
        Some(Reload { at, ok: false }) => {
            format!("{BAD}; the reload at {} failed{BAD:#}", visible(at))
        }
        Some(_) | None => String::new(),
    };
    let store = match &answer.store {
        Store { ok: true, .. } => format!("{GOOD}ok{GOOD:#}"),
        Store { last_error, .. } => {
            let error = last_error.as_deref().unwrap_or("it cannot be written");
            format!("{BAD}{}{BAD:#}", visible(error))
        }
    };
    let grants = answer.grants.map_or_else(|| "unknown".into(), |count| count.to_string());
    let config = format!(
        "version {}, since {}{reload}",
        visible(&config.version),
        visible(&config.loaded_at)
    );
    for (name, value) in [
        ("agents", visible(listen)),
        ("admin", visible(admin)),
        ("config", config),
        ("store", store),
        ("servers", servers.to_string()),
        ("grants", grants),
    ] {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {name:<8} {value}");
    }
    if !policies.is_empty() {
        let row = |one: &Policy| [&one.server, &one.name, &one.version].map(|text| Cell::new(text));
        let rows: Vec<_> = policies.iter().map(row).collect();
        text.push('\n');
        text += &table(["SERVER", "POLICY", "VERSION"], &rows);
    }
    text
}
