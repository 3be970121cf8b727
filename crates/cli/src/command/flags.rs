//! The flags of `sluice up` and `sluice config` that override the configuration file.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use sluice_config::{Overrides, parse_address};

/// The settings given on the command line.
#[derive(Debug, Args)]
pub(crate) struct ConfigFlags {
    /// The configuration file [default: sluice.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address of the agent listener [default: 127.0.0.1:8787]
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    listen: Option<SocketAddr>,
    /// Address of the admin listener [default: 127.0.0.1:8788]
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    admin: Option<SocketAddr>,
}

impl ConfigFlags {
    /// Adds the data directory, which is a flag of every command.
    pub(crate) fn into_overrides(self, data: Option<PathBuf>) -> Overrides {
        let ConfigFlags { config, listen, admin } = self;
        Overrides { config, listen, admin, data }
    }
}
