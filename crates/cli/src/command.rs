//! The commands: one file each, with its arguments beside what it does.

mod completions;
mod config;
mod policy;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::output::Done;

/// The gateway between AI agents and the tools they call.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    /// The data directory [default: `SLUICE_DATA`, else `data` of sluice.toml, else the user's own]
    #[arg(long, global = true, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check, test, explain, import and compare policies
    #[command(subcommand)]
    Policy(policy::Command),
    /// Show the configuration that would be in force, or what is wrong with it
    Config(config::Show),
    /// Print a completion script for a shell
    Completions(completions::Completions),
}

/// Does what the arguments ask for.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Done> {
    match arguments.command {
        Command::Policy(command) => policy::run(command),
        Command::Config(show) => show.run(arguments.data),
        Command::Completions(completions) => completions.run(),
    }
}
