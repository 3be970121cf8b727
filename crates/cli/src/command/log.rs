//! `sluice log`: the audit log of a running gateway, or of a data directory on which
//! none runs.

mod export;
mod line;
mod verify;

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use self::line::Lines;
use crate::{
    api::{Gateway, Question, with_log},
    output::{Done, print, print_json, print_json_text, print_part},
};

/// The interval between polls for new records.
const PAUSE: Duration = Duration::from_millis(500);
/// Records per page of the API.
const PAGE: usize = 1_000;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Log {
    #[command(flatten)]
    filters: Filters,
    /// How many of the newest records
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Keep printing new records
    #[arg(long, short)]
    follow: bool,
    /// Print {"records"} as JSON; with `--follow`, one record per line
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check that no record of the log was changed or removed
    Verify(verify::Verify),
    /// Write the log to standard output, oldest first
    Export(Box<export::ExportLog>),
}

/// Selects records.
#[derive(Debug, Args)]
struct Filters {
    /// Only records since then: a duration such as 24h, or a time such as 2027-01-31T12:00:00Z
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only records before then
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// Only records of this server
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// Only records of this grant, by id or label
    #[arg(long, value_name = "GRANT")]
    grant: Option<String>,
    /// Only records of this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only records with this outcome: allow, deny, hide, hold, `shadow_deny` or error
    #[arg(long)]
    outcome: Option<String>,
    /// Only records of this kind: decision, outcome, auth, approval, admin or drift
    #[arg(long)]
    kind: Option<String>,
    /// Only records of this request
    #[arg(long, value_name = "ID")]
    request: Option<String>,
}

impl Filters {
    fn query(&self) -> Vec<(&'static str, String)> {
        let asked = [
            ("since", &self.since),
            ("until", &self.until),
            ("server", &self.server),
            ("grant", &self.grant),
            ("tool", &self.tool),
            ("outcome", &self.outcome),
            ("kind", &self.kind),
            ("request", &self.request),
        ];
        asked.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
    }
}

/// Records, oldest first, and the cursor of the newest.
struct Newest {
    records: Vec<Value>,
    place: String,
}

impl Log {
    pub(crate) fn run(self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        with_log(data, |gateway| match &self.command {
            Some(Command::Verify(verify)) => verify.run(gateway),
            Some(Command::Export(export)) => export.run(gateway),
            None if self.follow => self.follow(gateway),
            None => self.show(gateway),
        })
    }

    fn show(&self, gateway: &Gateway) -> anyhow::Result<Done> {
        let Newest { records, .. } = self.newest(gateway)?;
        if self.json {
            print_json(&json!({ "records": records }))?;
        } else if records.is_empty() {
            print("no such records\n")?;
        } else {
            print(&Lines::new().draw(&records))?;
        }
        Ok(Done::Well)
    }

    /// Prints the existing records, then new ones, until nobody reads the output any more.
    fn follow(&self, gateway: &Gateway) -> anyhow::Result<Done> {
        let mut lines = Lines::new();
        let Newest { records, mut place } = self.newest(gateway)?;
        let mut is_read = self.print_some(&mut lines, &records)?;
        while is_read {
            let mut query = self.filters.query();
            query.push(("after", place.clone()));
            let mut answer =
                gateway.ask(Question { query: &query, ..Question::get(&["audit"]) })?;
            let records = take_records(&mut answer);
            place = newest(&answer).unwrap_or(place);
            is_read = self.print_some(&mut lines, &records)?;
            if records.is_empty() {
                gateway.pause(PAUSE);
            }
        }
        Ok(Done::Well)
    }

    fn print_some(&self, lines: &mut Lines, records: &[Value]) -> anyhow::Result<bool> {
        if self.json {
            let lines: Vec<_> = records.iter().map(|record| record.to_string() + "\n").collect();
            return Ok(print_json_text(&lines.concat())?);
        }
        Ok(print_part(&lines.draw(records))?)
    }

    /// Fetches the newest records, page by page.
    fn newest(&self, gateway: &Gateway) -> anyhow::Result<Newest> {
        let mut records = Vec::new();
        let mut place = None;
        let mut cursor: Option<String> = None;
        while records.len() < self.limit {
            let mut query = self.filters.query();
            query.push(("limit", (self.limit - records.len()).min(PAGE).to_string()));
            query.extend(cursor.map(|cursor| ("cursor", cursor)));
            let mut answer =
                gateway.ask(Question { query: &query, ..Question::get(&["audit"]) })?;
            records.extend(take_records(&mut answer));
            // The first page holds the newest record.
            place = place.or_else(|| newest(&answer));
            cursor = answer.get("next").and_then(Value::as_str).map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        records.reverse();
        // If no record matches, following starts at the beginning of the log.
        Ok(Newest { records, place: place.unwrap_or_else(|| "0".to_owned()) })
    }
}

/// The records of an answer.
fn take_records(answer: &mut Value) -> Vec<Value> {
    match answer.get_mut("records").map(Value::take) {
        Some(Value::Array(records)) => records,
        _ => Vec::new(),
    }
}

/// The cursor of the newest record in an answer.
fn newest(answer: &Value) -> Option<String> {
    answer.get("newest").and_then(Value::as_str).map(str::to_owned)
}
