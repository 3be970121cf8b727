//! `sluice catalog stats`.

use clap::Args;
use serde_json::{Map, Value, json};
use sluice_catalog::Catalog;
use sluice_classify::Category;

use super::page::of_risk;
use crate::output::{Cell, Columns, Done, FAINT, count_noun, print, print_json};

/// Sources listed by name.
const MOST_SOURCES: usize = 8;
/// Characters of the longest bar.
const BAR: u64 = 32;

#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// Print all counts as JSON
    #[arg(long)]
    json: bool,
}

impl Stats {
    pub(crate) fn run(&self, catalog: &Catalog) -> anyhow::Result<Done> {
        let stats = catalog.stats()?;
        if self.json {
            print_json(&shape(&stats))?;
        } else {
            print(&draw(&stats))?;
        }
        Ok(Done::Well)
    }
}

fn shape(stats: &sluice_catalog::Stats) -> Value {
    let map = |pairs: Vec<(String, u64)>| -> Map<String, Value> {
        pairs.into_iter().map(|(name, count)| (name, json!(count))).collect()
    };
    let categories = stats.categories.iter().map(|(one, count)| (one.name().to_owned(), *count));
    let signals = stats.signals.iter().map(|(one, count)| (one.name().to_owned(), *count));
    json!({
        "servers": stats.servers,
        "imported": stats.imported,
        "without_tools": stats.unknown,
        "tools": stats.tools,
        "with_findings": stats.with_findings,
        "categories": map(categories.collect()),
        "signals": map(signals.collect()),
        "sources": map(stats.sources.clone()),
    })
}

fn draw(stats: &sluice_catalog::Stats) -> String {
    let servers = count_noun(stats.servers, "server");
    let (imported, tools) = (stats.imported, count_noun(stats.tools, "tool"));
    let unknown = match stats.unknown {
        0 => String::new(),
        unknown => format!("{} whose tools are not known\n", count_noun(unknown, "server")),
    };
    let parts = [
        format!("{servers}, {imported} of them imported; {tools}\n{unknown}"),
        categories(stats),
        signals(stats),
        sources(stats),
    ];
    parts.join("\n")
}

/// Tools of each category, the worst first, with bars.
fn categories(stats: &sluice_catalog::Stats) -> String {
    let most = stats.categories.iter().map(|(_, tools)| *tools).max().unwrap_or(1).max(1);
    let row = |(category, tools): &(Category, u64)| {
        let bar = "█".repeat(usize::try_from((tools * BAR).div_ceil(most)).unwrap_or_default());
        let style = of_risk((*category).into());
        [
            Cell::with_style(category.name(), style),
            Cell::new(&format!("{tools:>8}")),
            Cell::new(&percent(*tools, stats.tools)),
            Cell::with_style(&bar, style),
        ]
    };
    Columns::new().lines(&stats.categories.iter().rev().map(row).collect::<Vec<_>>())
}

fn signals(stats: &sluice_catalog::Stats) -> String {
    let of_kinds = stats.signals.iter().map(|(kind, tools)| (kind.name(), *tools));
    let all = of_kinds.chain([("signs of poisoning", stats.with_findings)]);
    let rows: Vec<_> = all
        .map(|(name, tools)| {
            let share = percent(tools, stats.tools);
            [Cell::new(name), Cell::new(&format!("{tools:>8}")), Cell::new(&share)]
        })
        .collect();
    format!("{FAINT}tools with{FAINT:#}\n") + &Columns::new().lines(&rows)
}

fn sources(stats: &sluice_catalog::Stats) -> String {
    let row = |(source, servers): &(String, u64)| {
        [Cell::new(&format!("{servers:>8}")), Cell::new(source)]
    };
    let rows: Vec<_> = stats.sources.iter().take(MOST_SOURCES).map(row).collect();
    let rows = Columns::new().lines(&rows);
    let left: u64 = stats.sources.iter().skip(MOST_SOURCES).map(|(_, servers)| servers).sum();
    let others = if left > 0 { format!("{left:>8}  other places\n") } else { String::new() };
    format!("{FAINT}servers from{FAINT:#}\n{rows}{others}")
}

/// A percentage with one decimal.
fn percent(part: u64, of: u64) -> String {
    let thousandths = (part * 1_000 + of / 2) / of.max(1);
    format!("{:>3}.{} %", thousandths / 10, thousandths % 10)
}
