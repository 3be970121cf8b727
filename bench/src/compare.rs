//! Prints two results of `run` side by side. Ratios within a run can be compared; times and rates
//! only if machine and load were the same.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::Args;
use serde_json::Value;

/// Two files that `run` wrote.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    before: PathBuf,
    after: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (before, after) = (read(&arguments.before)?, read(&arguments.after)?);
    let head = format!(
        "{:<11} {:<30} {:>8} {:>10} {:>10} {:>8} {:>14} {:>14}",
        "scenario", "what", "unit", "before", "after", "change", "ratio before", "ratio after"
    );
    let lines = rows(&after).iter().filter_map(|new| {
        let old = rows(&before).iter().find(|old| same(old, new))?;
        Some(line(old, new))
    });
    let table: Vec<_> = [head].into_iter().chain(lines).collect();
    match writeln!(io::stdout(), "{}", table.join("\n")) {
        // The reader has closed the pipe, which is not an error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

fn read(path: &Path) -> anyhow::Result<Value> {
    let text = fs::read_to_string(path).with_context(|| format!("`{}`", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("`{}`", path.display()))
}

fn rows(result: &Value) -> &[Value] {
    result.get("rows").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn same(one: &Value, other: &Value) -> bool {
    ["scenario", "what"].iter().all(|key| one.get(key) == other.get(key))
}

fn line(old: &Value, new: &Value) -> String {
    let word = |key: &str| new.get(key).and_then(Value::as_str).unwrap_or_default();
    let (before, after) = (median(old, "gateway"), median(new, "gateway"));
    let change = before.zip(after).map(|(before, after)| (after / before - 1.0) * 100.0);
    let shown = |number: Option<f64>| number.map(|n| format!("{n:.2}")).unwrap_or_default();
    format!(
        "{:<11} {:<30} {:>8} {:>10} {:>10} {:>8} {:>14} {:>14}",
        word("scenario"),
        word("what"),
        word("unit"),
        shown(before),
        shown(after),
        change.map(|percent| format!("{percent:+.1}%")).unwrap_or_default(),
        shown(median(old, "ratio")),
        shown(median(new, "ratio"))
    )
}

fn median(row: &Value, column: &str) -> Option<f64> {
    row.get(column)?.get("median")?.as_f64()
}
