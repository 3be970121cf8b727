//! `sluice log`: the audit log of a running gateway, or of a data directory on which
//! none runs.

mod calls;
mod export;
mod heads;
mod line;
mod verify;

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use clap::{Args, Subcommand, builder::PossibleValuesParser};
use serde_json::{Value, json};
use sluice_store::{Kind, Outcome};

use self::{
    calls::{Calls, ShownOutcomes},
    line::Lines,
};
use crate::{
    api::{Gateway, Question, with_log},
    output::{Done, print, print_json, print_json_text, print_part, remark, visible},
};

/// The interval between polls for new records.
const PAUSE: Duration = Duration::from_millis(500);
/// Records per page of the API.
const PAGE: usize = 1_000;
/// Requests that one question to the API names.
const REQUESTS: usize = 100;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Log {
    #[command(flatten)]
    filters: Filters,
    /// How many of the newest calls or records
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Keep printing new calls
    #[arg(long, short, conflicts_with = "until")]
    follow: bool,
    /// Show every record, not one row a call; `--kind` does so too
    #[arg(long)]
    records: bool,
    /// Print {"records"} as JSON; with `--follow`, one per line
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check that no record of the log was changed or removed, and print where it ends
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
    /// Only records with this rule, such as `(hidden)`
    #[arg(long, value_name = "RULE")]
    rule: Option<String>,
    /// Only records of this principal
    #[arg(long, value_name = "WHO")]
    principal: Option<String>,
    /// Only records of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only calls that were decided so, or ended so
    #[arg(long, value_parser = PossibleValuesParser::new(Outcome::ALL.map(Outcome::as_str)))]
    outcome: Option<String>,
    /// Only records of this kind
    #[arg(long, value_parser = PossibleValuesParser::new(Kind::ALL.map(Kind::as_str)))]
    kind: Option<String>,
    /// Only records of this request
    #[arg(long, value_name = "ID")]
    request: Option<String>,
}

impl Filters {
    /// Says which names of the filters nothing has; records may be older than that.
    fn explain_none(&self, gateway: &Gateway) -> anyhow::Result<()> {
        for (path, name) in [("servers", &self.server), ("grants", &self.grant)] {
            let Some(name) = name else { continue };
            if let Some(missing) = gateway.find_missing(&[path, name]) {
                let lines: Vec<_> = missing.lines().map(visible).collect();
                remark(&format!("note: {}\n", lines.join("\n")))?;
            }
        }
        Ok(())
    }

    fn query(&self) -> Vec<(&'static str, String)> {
        let asked = [
            ("since", &self.since),
            ("until", &self.until),
            ("server", &self.server),
            ("grant", &self.grant),
            ("tool", &self.tool),
            ("rule", &self.rule),
            ("principal", &self.principal),
            ("session", &self.session),
            ("outcome", &self.outcome),
            ("kind", &self.kind),
            ("request", &self.request),
        ];
        asked.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
    }
}

/// Rows, oldest first, and the cursor from which to follow the log.
struct Newest {
    rows: Vec<Value>,
    cursor: String,
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

    /// Whether decision and outcome of a call are shown as one.
    fn joins(&self) -> bool {
        !self.records && self.filters.kind.is_none()
    }

    fn show(&self, gateway: &Gateway) -> anyhow::Result<Done> {
        let Newest { rows, .. } = self.newest(gateway)?;
        if self.json {
            print_json(&json!({ "records": rows }))?;
        } else if rows.is_empty() {
            print("no such records\n")?;
            self.filters.explain_none(gateway)?;
        } else {
            print(&Lines::new(self.joins()).draw(&rows))?;
        }
        Ok(Done::Well)
    }

    /// Prints the existing records, then new ones, until nobody reads the output any more.
    fn follow(&self, gateway: &Gateway) -> anyhow::Result<Done> {
        let mut lines = Lines::new(self.joins());
        let Newest { rows, mut cursor } = self.newest(gateway)?;
        let mut is_read = self.print_some(&mut lines, &rows)?;
        let (mut unanswered, mut shown) = (Vec::new(), ShownOutcomes::default());
        while is_read {
            let mut query = self.filters.query();
            query.push(("after", cursor.clone()));
            let mut answer =
                gateway.ask(Question { query: &query, ..Question::get(&["audit"]) })?;
            let records = take_records(&mut answer);
            cursor = newest(&answer).unwrap_or(cursor);
            let is_idle = records.is_empty();
            let rows = if self.joins() {
                join_new(gateway, &mut unanswered, &mut shown, records)?
            } else {
                records
            };
            is_read = self.print_some(&mut lines, &rows)?;
            if is_idle {
                gateway.pause(PAUSE);
            }
        }
        Ok(Done::Well)
    }

    fn print_some(&self, lines: &mut Lines, rows: &[Value]) -> anyhow::Result<bool> {
        if self.json {
            let lines: Vec<_> = rows.iter().map(|row| row.to_string() + "\n").collect();
            return Ok(print_json_text(&lines.concat())?);
        }
        Ok(print_part(&lines.draw(rows))?)
    }

    /// Fetches the newest records, page by page. At least one page is read, for its cursor.
    fn newest(&self, gateway: &Gateway) -> anyhow::Result<Newest> {
        let (mut calls, mut records) = (Calls::default(), Vec::new());
        let mut start = None;
        let mut next: Option<String> = None;
        loop {
            let left = self.limit.saturating_sub(records.len() + calls.len());
            // A call has two records.
            let left = if self.joins() { left.saturating_mul(2) } else { left };
            let mut query = self.filters.query();
            query.push(("limit", left.clamp(1, PAGE).to_string()));
            query.extend(next.map(|next| ("cursor", next)));
            let mut answer =
                gateway.ask(Question { query: &query, ..Question::get(&["audit"]) })?;
            for record in take_records(&mut answer) {
                if self.joins() { calls.add(record) } else { records.push(record) }
            }
            // The first page holds the newest record.
            start = start.or_else(|| newest(&answer));
            next = answer.get("next").and_then(Value::as_str).map(str::to_owned);
            if next.is_none() || records.len() + calls.len() >= self.limit {
                break;
            }
        }
        if self.joins() {
            complete(gateway, &mut calls)?;
            records = calls.into_rows();
            records.reverse();
        }
        records.truncate(self.limit);
        records.reverse();
        let cursor = start.context("the gateway's answer has no cursor `newest`")?;
        Ok(Newest { rows: records, cursor })
    }
}

/// Joins new records into rows. Decisions without an outcome wait once for the next records.
fn join_new(
    gateway: &Gateway,
    unanswered: &mut Vec<Value>,
    shown: &mut ShownOutcomes,
    records: Vec<Value>,
) -> anyhow::Result<Vec<Value>> {
    let mut waited = Calls::default();
    let mut new = Calls::default();
    unanswered.drain(..).for_each(|decision| waited.add(decision));
    for record in records.into_iter().filter(|record| !shown.take(record)) {
        if waited.has(&record) { waited.add(record) } else { new.add(record) }
    }
    *unanswered = new.take_unanswered();
    for calls in [&mut waited, &mut new] {
        let lacking = calls.list_lacking();
        complete(gateway, calls)?;
        shown.note(lacking, calls);
    }
    let mut rows = waited.into_rows();
    rows.extend(new.into_rows());
    Ok(rows)
}

/// Fetches what is missing of calls because the filters leave it out.
fn complete(gateway: &Gateway, calls: &mut Calls) -> anyhow::Result<()> {
    for kind in [Kind::Decision, Kind::Outcome] {
        for requests in calls.incomplete(kind).chunks(REQUESTS) {
            let mut next = None;
            loop {
                let mut query = vec![
                    ("request", requests.join(",")),
                    ("kind", kind.as_str().to_owned()),
                    ("limit", PAGE.to_string()),
                ];
                query.extend(next.map(|next| ("cursor", next)));
                let mut answer =
                    gateway.ask(Question { query: &query, ..Question::get(&["audit"]) })?;
                for record in take_records(&mut answer) {
                    calls.complete(record);
                }
                next = answer.get("next").and_then(Value::as_str).map(str::to_owned);
                if next.is_none() {
                    break;
                }
            }
        }
    }
    Ok(())
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
