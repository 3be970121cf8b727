//! `sluice up`: the gateway.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

use super::{flags::ConfigFlags, policy::draw};
use crate::{
    logging::{self, LogFormat},
    output::{Done, remark},
    up,
};
use sluice_config::{Config, Environment, LoadError};

#[derive(Debug, Args)]
pub(crate) struct Up {
    #[command(flatten)]
    flags: ConfigFlags,
    /// Add a demo server (notes and a ledger) with a policy and a grant, all named `demo`
    #[arg(long)]
    demo: bool,
    /// Start although records that were written are missing; the loss is recorded in the log
    #[arg(long)]
    accept_loss: bool,
    /// Format of log lines
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log: LogFormat,
}

impl Up {
    pub(crate) fn run(self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        let environment = Environment::of_process();
        logging::start(self.log, &environment);
        let overrides = self.flags.into_overrides(data);
        let config = match Config::load(&overrides, &environment) {
            Ok(config) => config,
            Err(LoadError::Problems(files)) => {
                let text: String =
                    files.iter().map(|file| draw(&file.source, &file.problems)).collect();
                remark(&text)?;
                return Ok(Done::Misused);
            }
            Err(error) => return Err(error.into()),
        };
        up::raise_descriptors();
        // Listeners and calls have their own threads. This runtime reloads files and runs periodic
        // tasks.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("the runtime cannot be started")?;
        runtime.block_on(up::run(up::GatewayStart {
            config,
            overrides,
            environment,
            demo: self.demo,
            accept_loss: self.accept_loss,
        }))?;
        Ok(Done::Well)
    }
}
