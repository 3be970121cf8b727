//! `sluice scan`: reports what a server's tools can do, with a recommended policy.

use anyhow::{Context as _, anyhow, bail};
use clap::{ArgGroup, Args, ValueEnum};
use sluice_config::span;
use sluice_scan::Scan;

use super::server::headers;
use crate::{
    logging::{self, LogFormat},
    output::{Done, Screen, print, print_bytes, print_json, print_json_text, remark},
    scan::{self, Manner, NextSteps, Target},
    wrap::Place,
};
use sluice_config::Environment;

#[derive(Debug, Args)]
#[command(
    override_usage = "sluice scan [OPTIONS] -- COMMAND…\n       sluice scan [OPTIONS] --url URL",
    group(ArgGroup::new("place").required(true).args(["command", "url"]))
)]
pub(crate) struct ScanCommand {
    /// The server's URL, instead of a command
    #[arg(long)]
    url: Option<String>,
    /// A header to send, such as `Authorization: env:NAME`; a value may be `env:NAME` or `file:PATH`
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    /// The same as `--format json`
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// List every tool, however many there are
    #[arg(long)]
    all: bool,
    /// Time limit for the whole scan
    #[arg(long, value_name = "SPAN", default_value = "2m")]
    timeout: String,
    /// The server's command and its arguments
    #[arg(last = true, conflicts_with_all = ["url", "headers"])]
    command: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One screen, for people
    Table,
    /// Everything, for programs
    Json,
    /// For issues and pull requests
    Markdown,
    /// Only the recommended policy
    Policy,
}

impl ScanCommand {
    pub(crate) fn run(self) -> anyhow::Result<Done> {
        let environment = Environment::of_process();
        logging::start_at("warn", LogFormat::Text, &environment);
        let Some(timeout) = span::read(&self.timeout) else {
            bail!("`--timeout` must be more than zero: {}", span::EXPECTED);
        };
        let place = match &self.url {
            Some(url) => {
                Place::Url { url: url.clone(), headers: headers(&self.headers, &environment)? }
            }
            None => Place::Command(self.command.clone()),
        };
        let waiting = Some(scan::display_place(&place));
        let target = Target { place, env: Vec::new(), timeout, waiting };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("the runtime cannot be started")?;
        let (listing, leaving) = runtime.block_on(scan::ask(&target, &environment))?;
        let scan =
            Scan::of(&listing).map_err(|error| anyhow!("the server cannot be scanned: {error}"));
        let shown = scan.and_then(|scan| self.show(&scan, &target.place, &environment));
        // The report is printed first; only then is the server given time to exit.
        runtime.block_on(leaving.end());
        shown
    }

    fn show(&self, scan: &Scan, place: &Place, environment: &Environment) -> anyhow::Result<Done> {
        let next_steps = NextSteps::of(place, &self.headers);
        let format = if self.json { Format::Json } else { self.format };
        match format {
            Format::Table => {
                let manner = Manner { screen: Screen::of(environment), all: self.all };
                print(&scan::page(scan, &next_steps, manner))?;
            }
            Format::Json => print_json(&scan::json(scan)?)?,
            Format::Markdown => {
                print_bytes(scan::markdown(scan, &next_steps).as_bytes())?;
            }
            Format::Policy => {
                let suggested = scan.policy();
                print_json_text(&suggested.policy)?;
                for line in &suggested.effect {
                    remark(&format!("{line}\n"))?;
                }
            }
        }
        Ok(Done::well_if(!scan.has_findings()))
    }
}
