//! `sluice-bench`: measures the whole gateway, in comparison with a proxy that only forwards.
//!
//! Each part can be started by itself; `run` starts all of them and measures.

mod clock;
mod compare;
mod era;
mod find;
mod image;
mod listen;
mod load;
mod misuse;
mod passthrough;
mod process;
mod run;
mod streams;
mod target;
mod upstream;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "sluice-bench", about, version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// An MCP server that answers at once and costs little
    Upstream(upstream::Arguments),
    /// A test double of the HTTP port of a Pharo image
    Image(image::Arguments),
    /// A proxy that parses nothing: the lower bound of any proxy's cost
    Passthrough(passthrough::Arguments),
    /// Sends calls to one target and checks every answer
    Load(load::Arguments),
    /// Opens a catalogue and runs a mix of queries
    Find(find::Arguments),
    /// Starts everything, measures round by round, prints a table and writes JSON
    Run(run::Arguments),
    /// Shows two results of `run` side by side
    Compare(compare::Arguments),
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    process::raise_descriptor_limit()?;
    match command {
        Command::Upstream(arguments) => upstream::run(&arguments),
        Command::Image(arguments) => image::run(&arguments),
        Command::Passthrough(arguments) => passthrough::run(&arguments),
        Command::Load(arguments) => load::run(&arguments),
        Command::Find(arguments) => find::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
    }
}
