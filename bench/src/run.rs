//! The whole measurement: starts everything, measures each scenario, prints a table as it goes and
//! writes all numbers as JSON.

mod config;
mod gateway;
mod parts;
mod prefill;
mod report;
mod rounds;
mod row;
mod scenario;

use std::{fs, path::PathBuf, time::Duration};

use anyhow::Context as _;
use clap::Args;

use crate::era::Era;
use report::Report;
use scenario::Scenario;

/// What to measure, and for how long.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    /// The gateway's program, as it is shipped (a release build)
    #[arg(long)]
    sluice: PathBuf,
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Scenario::ALL)]
    scenarios: Vec<Scenario>,
    /// Number of rounds; ratios are taken within a round, medians over all rounds
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds for each target in each round
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    #[arg(long, value_enum, default_value_t = Era::Legacy)]
    era: Era,
    /// The upstream answers calls as server-sent events
    #[arg(long)]
    sse: bool,
    /// Calls per second in open loop; keep it well below the gateway's maximum
    #[arg(long, default_value_t = 2_000)]
    rate: u32,
    /// Bytes of a large answer
    #[arg(long, default_value_t = 1 << 20)]
    large: usize,
    #[arg(long, default_value_t = 100_000)]
    grants: usize,
    #[arg(long, default_value_t = 1_000)]
    policies: usize,
    #[arg(long, default_value_t = 5_000)]
    tools: usize,
    /// Number of audit records before the first call
    #[arg(long, default_value_t = 10_000_000)]
    rows: usize,
    /// Servers and tools of the generated catalogue
    #[arg(long, default_value_t = 43_000)]
    catalog_servers: usize,
    #[arg(long, default_value_t = 1_000_000)]
    catalog_tools: usize,
    #[arg(long, default_value_t = 10_000)]
    listen_streams: usize,
    #[arg(long, default_value_t = 5_000)]
    get_streams: usize,
    /// Bytes of an answer that is read beside other calls
    #[arg(long, default_value_t = 1 << 30)]
    huge: usize,
    /// The npm folder with `supergateway` and `mcp-proxy`, which `stdio` compares with
    #[arg(long, default_value = "target/bridges")]
    bridges: PathBuf,
    /// For configurations and data directories; 10 million records need 10 GB
    #[arg(long, default_value = "target/bench")]
    work: PathBuf,
    /// The output file for the numbers
    #[arg(long, default_value = "target/bench.json")]
    json: PathBuf,
}

impl Arguments {
    fn span(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    fs::create_dir_all(&arguments.work)
        .with_context(|| format!("`{}` cannot be made", arguments.work.display()))?;
    let mut report = Report::begin(arguments)?;
    for scenario in &arguments.scenarios {
        let rows = scenario.run(arguments);
        report.add(rows.with_context(|| format!("scenario `{}`", scenario.word()))?);
        // The results so far are written even if a later scenario fails.
        report.write(&arguments.json)?;
    }
    report.end();
    Ok(())
}
