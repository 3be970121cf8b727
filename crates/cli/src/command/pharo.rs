//! `sluice pharo`: the Pharo Smalltalk Interop MCP server over stdio.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use clap::Args;
use sluice_builtin::serve_stdio;
use sluice_config::span;
use sluice_pharo::Options;

use crate::{output::Done, pharo, standard};
use sluice_config::Environment;

#[derive(Debug, Args)]
pub(crate) struct Pharo {
    /// The port that the image listens on [default: `PHARO_SIS_PORT`, else 8086]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// The host that runs the image [default: localhost]
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// How long one call may take [default: 30s]
    #[arg(long, value_name = "SPAN", value_parser = read_span)]
    timeout: Option<Duration>,
    /// Return failures in the image as tool errors (`isError`)
    #[arg(long)]
    tool_errors: bool,
}

fn read_span(text: &str) -> Result<Duration, String> {
    span::read(text).ok_or_else(|| format!("expected {}", span::EXPECTED))
}

impl Pharo {
    pub(crate) fn run(self) -> anyhow::Result<Done> {
        let server = Arc::new(sluice_pharo::Pharo::new(&self.options()?)?);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("the runtime cannot be started")?;
        let ended = runtime
            .block_on(async { serve_stdio(server, standard::input()?, standard::output()?).await });
        // A blocked read of standard input must not delay the exit.
        runtime.shutdown_background();
        match ended {
            // The client has closed its end, which is not an error.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Done::Well),
            ended => Ok(ended.map(|()| Done::Well)?),
        }
    }

    fn options(self) -> anyhow::Result<Options> {
        let defaults = match self.port {
            // The environment is ignored here, even if its value is invalid.
            Some(port) => Options { port, ..Options::default() },
            None => pharo::defaults(&Environment::of_process())?,
        };
        Ok(Options {
            host: self.host.unwrap_or(defaults.host),
            port: defaults.port,
            timeout: self.timeout.unwrap_or(defaults.timeout),
            tool_errors: self.tool_errors,
        })
    }
}
