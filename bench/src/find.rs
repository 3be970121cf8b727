//! A process that serves a catalogue: opens it, runs a mix of queries, and prints how long each
//! took and how much memory is resident.

use std::path::PathBuf;

use anyhow::ensure;
use clap::Args;
use serde::{Deserialize, Serialize};
use sluice_catalog::{Catalog, Query};
use sluice_classify::{Category, Risk, SignalKind};

use crate::{clock, load::Tally, process};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The catalogue's file
    catalog: PathBuf,
    /// How many times all queries are run
    #[arg(long, default_value_t = 20)]
    times: u32,
}

/// A measurement.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// In milliseconds.
    pub(crate) opened: f64,
    /// In microseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// The median of the slowest query, and its text.
    pub(crate) slowest: f64,
    pub(crate) slowest_is: String,
    /// The peak, in MiB.
    pub(crate) memory: f64,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let start = clock::now();
    let catalog = Catalog::open_to_write(&arguments.catalog)?;
    let opened = start.elapsed().as_secs_f64() * 1000.0;
    let questions = questions();
    let mut tally = Tally::new()?;
    let mut slowest = (0.0, String::new());
    for question in &questions {
        // The first run fills the cache, and is not counted.
        catalog.search(question)?;
        let mut times = Vec::new();
        for _ in 0..arguments.times {
            let asked = clock::now();
            let found = catalog.search(question)?;
            let span = asked.elapsed();
            ensure!(found.tools.len() <= question.limit, "more than was asked for");
            tally.add(span)?;
            times.push(span.as_secs_f64() * 1e6);
        }
        times.sort_by(f64::total_cmp);
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        if median > slowest.0 {
            slowest = (median, format!("{question:?}"));
        }
    }
    let measured = Measured {
        opened,
        p50: tally.micros(0.5),
        p99: tally.micros(0.99),
        slowest: slowest.0,
        slowest_is: slowest.1,
        memory: process::memory(std::process::id())?.peak,
    };
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}

/// Typical queries: common and rare words, alone, combined and filtered.
fn questions() -> Vec<Query> {
    let query = |words: &str| Query { words: words.into(), limit: 20, ..Query::default() };
    let mut questions = Vec::new();
    for words in [
        "get",
        "list",
        "create",
        "delete",
        "search",
        "get list",
        "create update",
        "get delete",
        "delete user",
        "list invoices",
        "send message",
        "run query",
        "acme",
        "acme 4211",
        "s04211",
        "zebra",
        "nothing is called so",
        "delete zebra",
        "get the details of one user by its id",
        "refund payment order",
        "webhook secret",
        "update",
        "user",
        "deploy cluster",
        "a",
    ] {
        questions.push(query(words));
    }
    for words in ["", "get", "delete", "user", "zebra", "list invoices"] {
        for category in [Category::Read, Category::Execute, Category::Financial] {
            questions.push(Query { categories: vec![category], ..query(words) });
        }
        questions.push(Query { risks: vec![Risk::Critical], ..query(words) });
        for signal in [SignalKind::Url, SignalKind::FreeFormCode] {
            questions.push(Query { signals: vec![signal], ..query(words) });
        }
        let narrow =
            Query { risks: vec![Risk::High], signals: vec![SignalKind::Url], ..query(words) };
        questions.push(narrow);
    }
    questions
}
