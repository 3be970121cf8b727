//! The catalogue of the whole field: importing it, its size, and serving it.

mod field;

use std::{
    fs,
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};

use super::super::{
    Arguments,
    row::{Promise, Row},
};
use crate::{clock, find::Measured};

const SCENARIO: &str = "catalog";

/// One round only: long measurements do not vary much here.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Vec<Row>> {
    let folder = arguments.work.join("catalog");
    let _ = fs::remove_dir_all(&folder);
    let data = folder.join("data");
    fs::create_dir_all(&folder)?;
    let lines = folder.join("field.jsonl");
    let bytes = field::write(&lines, arguments.catalog_servers, arguments.catalog_tools)?;
    eprintln!("the generated catalogue has {} MB", bytes / 1_000_000);
    // Creating the file, with the shipped index, is measured separately.
    let sluice = || {
        let mut command = Command::new(&arguments.sluice);
        command.arg("--data").arg(&data).arg("catalog").stdout(Stdio::null());
        command
    };
    let start = clock::now();
    ensure!(sluice().arg("stats").status()?.success(), "`catalog stats` fails");
    let first = start.elapsed().as_secs_f64() * 1000.0;
    let start = clock::now();
    ensure!(sluice().arg("import").arg(&lines).status()?.success(), "`catalog import` fails");
    let rate = to_float(arguments.catalog_tools) / start.elapsed().as_secs_f64();
    let file = data.join("catalog.db");
    let size = fs::metadata(&file)?.len();
    let measured = measure(&file)?;
    eprintln!("the slowest query: {:.0} µs, {}", measured.slowest, measured.slowest_is);
    fs::remove_dir_all(&folder)?;
    let row = |what: &str, unit, number: f64| {
        Row::alone(SCENARIO, what, unit, [number].into_iter().collect())
    };
    Ok(vec![
        row("tools imported", "1/s", rate).promising(Promise::AtLeast(50_000.0)),
        row("file", "MB", to_float(usize::try_from(size)?) / 1e6).promising(Promise::AtMost(400.0)),
        row("search, p50", "µs", measured.p50),
        row("search, p99", "µs", measured.p99).promising(Promise::AtMost(10_000.0)),
        row("the slowest question's median", "µs", measured.slowest),
        row("opening", "ms", measured.opened).promising(Promise::AtMost(50.0)),
        row("first use", "ms", first),
        row("peak memory, serving", "MiB", measured.memory).promising(Promise::AtMost(100.0)),
    ])
}

/// Runs the queries in a separate process, so that its memory is that of serving alone.
fn measure(file: &std::path::Path) -> anyhow::Result<Measured> {
    let asked = Command::new(std::env::current_exe()?).arg("find").arg(file).output()?;
    let said = String::from_utf8_lossy(&asked.stderr);
    ensure!(asked.status.success(), "`find` fails: {said}");
    serde_json::from_slice(&asked.stdout).context("`find` says what cannot be read")
}

#[expect(clippy::cast_precision_loss, reason = "sizes and counts are far below 2^52")]
fn to_float(number: usize) -> f64 {
    number as f64
}
