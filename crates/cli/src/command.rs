//! The commands: one file each, with its arguments beside what it does.

mod completions;
mod policy;

use clap::{Parser, Subcommand};

use crate::output::Done;

/// The gateway between AI agents and the tools they call.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check, test, explain, import and compare policies
    #[command(subcommand)]
    Policy(policy::Command),
    /// Print a completion script for a shell
    Completions(completions::Completions),
}

/// Does what the arguments ask for.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Done> {
    match arguments.command {
        Command::Policy(command) => policy::run(command),
        Command::Completions(completions) => completions.run(),
    }
}
