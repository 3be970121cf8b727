//! `sluice doctor`: what only a person can decide about a data directory.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use sluice_config::{Environment, Overrides};
use sluice_store::{Actor, Clock, Durability, Store, StoreConfig, StoreError, describe_clock};

use crate::{
    data::DataDirectory,
    output::{Done, print, print_json},
};

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Confirm that the system clock is right, after it has jumped
    #[arg(long)]
    trust_clock: bool,
    /// Print {"ok", "clock"} as JSON
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(crate) fn run(&self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        let overrides = Overrides { data, ..Overrides::default() };
        let directory = sluice_config::data_directory(&overrides, &Environment::of_process())?;
        if !Store::exists(&directory) {
            anyhow::bail!(
                "`{}` holds no data of a gateway\nhint: name its data directory with `--data`",
                directory.display()
            );
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut was_ahead = None;
        if self.trust_clock {
            was_ahead = runtime.block_on(trust_clock(&directory))?;
        }
        let ahead = runtime.block_on(look(&directory))?;
        self.show(ahead, was_ahead)?;
        Ok(Done::well_if(ahead.is_none()))
    }

    fn show(&self, ahead: Option<i64>, was_ahead: Option<i64>) -> anyhow::Result<()> {
        if self.json {
            let clock = json!({ "trusted": ahead.is_none(), "ahead_ms": ahead.unwrap_or(0) });
            return print_json(&json!({ "ok": ahead.is_none(), "clock": clock }));
        }
        let clock = match (ahead, was_ahead) {
            (None, Some(was)) => format!("trusted from now on; it was {}", describe_clock(was)),
            (None, None) => "ok".to_owned(),
            (Some(ahead), _) => format!(
                "{}: it is not followed, and no record is pruned\nhint: set it right, or confirm it with `sluice doctor --trust-clock`",
                describe_clock(ahead)
            ),
        };
        Ok(print(&format!("system clock: {clock}\n"))?)
    }
}

async fn look(directory: &Path) -> anyhow::Result<Option<i64>> {
    sluice_config::private::check(directory)?;
    Ok(Store::open_read_only(directory, None)?.clock_ahead().await?)
}

/// Confirms the clock; a running gateway notices.
async fn trust_clock(directory: &Path) -> anyhow::Result<Option<i64>> {
    let data = DataDirectory::open(directory)?;
    let store = Store::open(StoreConfig {
        directory: directory.to_owned(),
        durability: Durability::Power,
        key: data.master_key()?,
        clock: Clock::System,
        retention: None,
        accept_loss: false,
    })?;
    let trusted = store.trust_clock(Actor::local("local", "sluice doctor")).await;
    let closed: Result<(), StoreError> = store.close().await;
    let ahead = trusted?;
    closed?;
    Ok(ahead)
}
