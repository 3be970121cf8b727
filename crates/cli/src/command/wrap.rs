//! `sluice wrap`: a gateway over stdio, for a client that starts a command.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use clap::{ArgGroup, Args};
use sluice_http::{HttpUpstream, address::Reach};
use sluice_store::{Bridge, Name};

use super::{policy::draw, server::headers};
use crate::{
    input::read_source,
    logging::{self, LogFormat},
    output::{Done, remark},
    wrap::{self, Place, WrapStart},
};
use sluice_config::{Environment, Overrides, secret};

#[derive(Debug, Args)]
#[command(
    override_usage = "sluice wrap --policy FILE [OPTIONS] -- COMMAND…\n       sluice wrap --policy FILE [OPTIONS] --url URL",
    group(ArgGroup::new("place").required(true).args(["command", "url"]))
)]
pub(crate) struct Wrap {
    /// The policy to enforce
    #[arg(long, value_name = "FILE")]
    policy: String,
    /// The server's name in counters and the audit log [default: made from the command or URL]
    #[arg(long, value_parser = Name::new)]
    name: Option<Name>,
    /// The server's URL, instead of a command; may be `env:NAME` or `file:PATH`
    #[arg(long)]
    url: Option<String>,
    /// A header to send, such as `Authorization: Bearer env:NAME`; a value may be `env:NAME` or `file:PATH`
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Present a legacy server in another era, for a client that supports only the modern era
    #[arg(long, value_name = "ERA")]
    bridge: Option<Offer>,
    /// The server's command and its arguments
    #[arg(last = true, conflicts_with_all = ["url", "headers"])]
    command: Vec<String>,
}

/// The values of `--bridge`, which are those of `bridge` in `sluice.toml`.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Offer {
    /// Answer `server/discover` on behalf of a legacy server
    Modern,
}

impl Wrap {
    pub(crate) fn run(self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        let environment = Environment::of_process();
        // The server writes its errors to the same stream, so our log stays quiet.
        logging::start_at("warn", LogFormat::Text, &environment);
        if self.policy == "-" {
            bail!("the policy must be a file: standard input is the client's");
        }
        let source = read_source(&self.policy)?;
        let problems = match source.policy_without_server() {
            Ok(policy) => source.failing_tests(&policy).0,
            Err(problems) => problems,
        };
        if !problems.is_empty() {
            remark(&draw(&source, &problems))?;
            return Ok(Done::Misused);
        }
        let overrides = Overrides { data, ..Overrides::default() };
        let data = sluice_config::data_directory(&overrides, &environment)?;
        let place = match self.url {
            Some(url) => {
                let headers = headers(&self.headers, &environment)?;
                Place::Url { url: address(&url, &environment)?, headers }
            }
            None => Place::Command(self.command),
        };
        let bridge = self.bridge.map_or_else(Bridge::default, |Offer::Modern| Bridge::Modern);
        let start = WrapStart { name: self.name, place, bridge, source, data, environment };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("the runtime cannot be started")?;
        let done = runtime.block_on(wrap::run(start));
        // A blocked read of standard input must not delay the exit.
        runtime.shutdown_background();
        done
    }
}

/// The URL, read from the environment or a file if it holds a secret.
fn address(given: &str, environment: &Environment) -> anyhow::Result<String> {
    let url = secret::read_argument(given, environment)
        .map_err(|message| anyhow!("`--url`: {message}"))?;
    if url.expose() != given && HttpUpstream::new(url.expose(), Reach::default()).is_err() {
        bail!(
            "what `{given}` names is not the URL of a server: it must be `http://` or `https://`, a host and a path"
        );
    }
    Ok(url.expose().to_owned())
}
