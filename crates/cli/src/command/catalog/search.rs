//! `sluice catalog search`.

use std::io::{self, IsTerminal as _};

use clap::{Args, ValueEnum};
use sluice_admin::known::KnownFound;
use sluice_catalog::{Catalog, Query, SearchResults, Server};
use sluice_classify::{Category, Risk, SignalKind};

use super::page::of_risk;
use crate::output::{
    Cell, Done, FAINT, HELD, Screen, print, print_json, remark, shorten, table, visible, wide,
};
use sluice_config::Environment;

/// Servers that are shown above the tools.
const MOST_SERVERS: usize = 5;

/// Columns of a line besides the names of a tool and its server, or of a server and its source.
const BESIDES: usize = 28;
const BESIDES_SERVER: usize = 22;

#[derive(Debug, Args)]
pub(crate) struct Search {
    /// Words in the name of a server or tool, or in an imported description
    words: Vec<String>,
    /// Only tools of this category; may be repeated
    #[arg(long, value_parser = category)]
    category: Vec<Category>,
    /// Only tools of this risk; may be repeated
    #[arg(long)]
    risk: Vec<RiskWord>,
    /// Only tools with this signal; may be repeated, then with all of them
    #[arg(long, value_parser = signal)]
    signal: Vec<SignalKind>,
    /// Maximum number of results
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
    /// Number of results to skip
    #[arg(long, default_value_t = 0)]
    offset: u16,
    /// Print {"servers", "tools", "more"} as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum RiskWord {
    Low,
    Medium,
    High,
    Critical,
}

impl From<RiskWord> for Risk {
    fn from(word: RiskWord) -> Risk {
        match word {
            RiskWord::Low => Risk::Low,
            RiskWord::Medium => Risk::Medium,
            RiskWord::High => Risk::High,
            RiskWord::Critical => Risk::Critical,
        }
    }
}

fn category(text: &str) -> Result<Category, String> {
    let names = || Category::ALL.map(Category::name).join(", ");
    Category::from_name(&text.to_lowercase()).ok_or_else(|| format!("it is one of {}", names()))
}

fn signal(text: &str) -> Result<SignalKind, String> {
    let names = || SignalKind::ALL.map(SignalKind::name).join(", ");
    SignalKind::from_name(text).ok_or_else(|| format!("it is one of {}", names()))
}

impl Search {
    pub(crate) fn run(&self, catalog: &Catalog) -> anyhow::Result<Done> {
        let found = catalog.search(&Query {
            words: self.words.join(" "),
            categories: self.category.clone(),
            risks: self.risk.iter().map(|word| Risk::from(*word)).collect(),
            signals: self.signal.clone(),
            offset: self.offset.into(),
            limit: self.limit.into(),
        })?;
        if self.json {
            print_json(&KnownFound::from(&found))?;
        } else {
            print(&draw(&found, width()))?;
        }
        let nothing = found.servers.is_empty() && found.tools.is_empty();
        if nothing && !self.json {
            remark("nothing fits\nhint: use fewer or other words, or fewer filters\n")?;
        }
        if found.more && !self.json {
            let next = usize::from(self.offset) + found.tools.len().max(found.servers.len());
            remark(&format!("{FAINT}more fit: add words, or `--offset {next}`{FAINT:#}\n"))?;
        }
        Ok(Done::well_if(!nothing))
    }
}

/// The width of the terminal. Output that goes elsewhere is not cut, so that names stay complete.
fn width() -> usize {
    if io::stdout().is_terminal() {
        Screen::of(&Environment::of_process()).width
    } else {
        usize::MAX
    }
}

fn draw(found: &SearchResults, width: usize) -> String {
    let mut text = String::new();
    if !found.servers.is_empty() {
        let rows: Vec<_> = found
            .servers
            .iter()
            .take(MOST_SERVERS)
            .map(|server| server_row(server, width))
            .collect();
        text += &table(["SERVER", "TOOLS", "WORST", "FROM"], &rows);
        if found.servers.len() > MOST_SERVERS {
            text = format!("{text}{FAINT}and more; `--json` shows them{FAINT:#}\n");
        }
    }
    if found.tools.is_empty() {
        return text;
    }
    if !text.is_empty() {
        text.push('\n');
    }
    // The servers' names get the columns that the tools' names leave free.
    let tool_width = found.tools.iter().map(|hit| wide(&visible(&hit.tool))).max();
    let names = width.saturating_sub(BESIDES);
    let tool_width = tool_width.unwrap_or_default().clamp(4, (names / 2).max(4));
    let rows: Vec<_> = found
        .tools
        .iter()
        .map(|hit| {
            let traits = hit.traits;
            let style = of_risk(traits.risk());
            let warning = if traits.findings.total() > 0 { "!" } else { "" };
            [
                Cell::new(&shorten(&hit.tool, tool_width)),
                Cell::new(&shorten(&hit.server, names.saturating_sub(tool_width))),
                Cell::with_style(traits.category.name(), style),
                Cell::with_style(traits.risk().name(), style),
                Cell::with_style(warning, HELD),
            ]
        })
        .collect();
    text + &table(["TOOL", "SERVER", "CATEGORY", "RISK", ""], &rows)
}

fn server_row(server: &Server, width: usize) -> [Cell; 4] {
    // The user types the name next, so it gets the most space.
    let names = width.saturating_sub(BESIDES_SERVER);
    let name_width = wide(&visible(&server.name)).min(names / 5 * 3);
    let worst = server.worst();
    let style = worst.map_or(FAINT, |worst| of_risk(worst.into()));
    let tools = server.tools().map_or_else(|| "?".to_owned(), |tools| tools.to_string());
    [
        Cell::new(&shorten(&server.name, name_width)),
        Cell::new(&format!("{tools:>5}")),
        Cell::with_style(worst.map_or("-", Category::name), style),
        Cell::new(&shorten(&server.source, names / 5 * 2)),
    ]
}
