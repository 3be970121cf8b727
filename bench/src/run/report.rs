//! The result: a table on stdout while it grows, and a JSON file.

use std::{fs, path::Path, process::Command};

use serde::Serialize;

use super::{
    Arguments,
    row::{Row, Series},
};
use crate::{clock, era::Era};

/// All results of one run, and the machine.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Milliseconds since the Unix epoch.
    began_at: i64,
    commit: Option<String>,
    version: Option<String>,
    processor: Option<String>,
    cores: usize,
    kernel: Option<String>,
    rounds: u32,
    seconds: f64,
    era: Era,
    sse: bool,
    rows: Vec<Row>,
}

impl Report {
    /// Notes the machine and the settings, and prints the table's head.
    pub(super) fn begin(arguments: &Arguments) -> anyhow::Result<Report> {
        let report = Report {
            began_at: clock::epoch_millis(),
            commit: run_command(Command::new("git").args(["rev-parse", "--short", "HEAD"])),
            version: run_command(Command::new(&arguments.sluice).arg("-V")),
            processor: processor(),
            cores: std::thread::available_parallelism()?.get(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .ok()
                .map(|text| text.trim().to_owned()),
            rounds: arguments.rounds,
            seconds: arguments.seconds,
            era: arguments.era,
            sse: arguments.sse,
            rows: Vec::new(),
        };
        println!(
            "{} cores of {}; {} rounds of {} s; medians; ratios within a round, their range in brackets",
            report.cores,
            report.processor.as_deref().unwrap_or("an unknown processor"),
            report.rounds,
            report.seconds
        );
        println!(
            "{:<11} {:<30} {:>8} {:>9} {:>9} {:>9} {:>22}  promise",
            "scenario", "what", "unit", "direct", "beside", "gateway", "ratio"
        );
        Ok(report)
    }

    /// Adds and prints rows.
    pub(super) fn add(&mut self, rows: Vec<Row>) {
        rows.iter().for_each(print);
        self.rows.extend(rows);
    }

    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        Ok(fs::write(path, serde_json::to_string_pretty(self)? + "\n")?)
    }

    /// Prints how many promises were kept.
    pub(super) fn end(&self) {
        let kept: Vec<_> = self.rows.iter().filter_map(Row::is_kept).collect();
        let broken = kept.iter().filter(|kept| !**kept).count();
        println!("{} promises, {broken} not kept", kept.len());
    }
}

fn print(row: &Row) {
    let shown = |series: &Option<Series>| series.as_ref().map(|s| number(s.median()));
    let ratio = row.ratio.as_ref().map(|ratio| {
        let (least, most) = ratio.range();
        format!("{:.2} ({least:.2}–{most:.2})", ratio.median())
    });
    let promise = row
        .promise
        .zip(row.is_kept())
        .map(|(promise, kept)| format!("{promise} {}", if kept { "kept" } else { "NOT KEPT" }));
    println!(
        "{:<11} {:<30} {:>8} {:>9} {:>9} {:>9} {:>22}  {}",
        row.scenario,
        row.what,
        row.unit,
        shown(&row.direct).unwrap_or_default(),
        shown(&row.beside).unwrap_or_default(),
        number(row.gateway.median()),
        ratio.unwrap_or_default(),
        promise.unwrap_or_default()
    );
}

/// Formats a number with its significant digits.
fn number(value: f64) -> String {
    if value.abs() < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// The output of a command, if it succeeds.
fn run_command(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
