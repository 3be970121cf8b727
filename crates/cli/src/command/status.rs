//! `sluice status`: the running gateway, and the active versions.

use std::{fmt::Write as _, path::PathBuf};

use clap::Args;
use serde::Deserialize;

use sluice_store::describe_clock;

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
    #[serde(default)]
    head_exports: Vec<HeadExport>,
}

#[derive(Debug, Deserialize)]
struct HeadExport {
    target: String,
    exported_at: Option<String>,
    failures: u64,
    last_error: Option<String>,
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
    log: Log,
    clock_ahead_ms: Option<i64>,
    #[serde(default)]
    scrub: Scrub,
}

#[derive(Debug, Default, Deserialize)]
struct Scrub {
    checked: u64,
    finished_at: Option<String>,
    faults: u64,
    first_fault: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Log {
    full: bool,
    used: u64,
    max: u64,
    refused: u64,
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
            let Store { ok, log, clock_ahead_ms, scrub, .. } = &answer.store;
            let is_well = *ok && !log.full && clock_ahead_ms.is_none() && scrub.faults == 0;
            let are_exported = answer.head_exports.iter().all(|one| one.last_error.is_none());
            Ok(Done::well_if(answer.problems.is_empty() && is_well && are_exported))
        })
    }
}

/// How full the audit log is.
fn draw_log(log: &Log) -> String {
    let Log { full, used, max, refused } = *log;
    let part = used.saturating_mul(100) / max.max(1);
    let text = format!("{part} % of `audit.max_size` must be kept");
    match (full, refused) {
        (true, _) => format!("{BAD}full: calls are refused{BAD:#}; {text}"),
        (false, 0) => text,
        (false, refused) => format!("{text}; {BAD}{refused} records refused{BAD:#}"),
    }
}

/// Whether the system clock is trusted.
fn draw_clock(ahead: Option<i64>) -> String {
    match ahead {
        None => format!("{GOOD}ok{GOOD:#}"),
        Some(ahead) => format!("{BAD}{}{BAD:#}: see `sluice doctor`", describe_clock(ahead)),
    }
}

/// What the check of the store in the background has found.
fn draw_scrub(scrub: &Scrub) -> String {
    let Scrub { checked, finished_at, faults, first_fault } = scrub;
    match (first_fault, finished_at) {
        (Some(first), _) => {
            let first = visible(first);
            format!(
                "{BAD}{faults} faults in the store{BAD:#}, the first: {first}; see `sluice log verify`"
            )
        }
        (None, Some(at)) => format!("{GOOD}ok{GOOD:#}, the whole store at {}", visible(at)),
        (None, None) => format!("no fault in {checked} records so far"),
    }
}

/// How the export of signed heads to one place goes.
fn draw_export(export: &HeadExport) -> String {
    let HeadExport { target, exported_at, failures, last_error } = export;
    let last = exported_at.as_deref().map_or_else(|| "never".into(), visible);
    let target = visible(target);
    match last_error {
        None => format!("{GOOD}exported{GOOD:#} to `{target}` at {last}"),
        Some(error) => {
            let error = visible(error);
            format!(
                "{BAD}not exported to `{target}`: {error}{BAD:#}; {failures} failures, last success: {last}"
            )
        }
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
        ("log", draw_log(&answer.store.log)),
        ("clock", draw_clock(answer.store.clock_ahead_ms)),
        ("scrub", draw_scrub(&answer.store.scrub)),
        ("servers", servers.to_string()),
        ("grants", grants),
    ] {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {name:<8} {value}");
    }
    for export in &answer.head_exports {
        let _ = writeln!(text, "  {:<8} {}", "head", draw_export(export));
    }
    if !policies.is_empty() {
        let row = |one: &Policy| [&one.server, &one.name, &one.version].map(|text| Cell::new(text));
        let rows: Vec<_> = policies.iter().map(row).collect();
        text.push('\n');
        text += &table(["SERVER", "POLICY", "VERSION"], &rows);
    }
    text
}
