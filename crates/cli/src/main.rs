//! `sluice`: the command line. Reads arguments, calls the crates that know, and
//! turns what they say into text and an exit code.

mod api;
mod clock;
mod command;
mod config;
#[cfg_attr(not(test), expect(dead_code, reason = "`sluice up` opens it"))]
mod data;
mod environment;
mod input;
mod output;
#[cfg(test)]
mod scratch;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let arguments = command::Arguments::parse();
    match command::run(arguments) {
        Ok(done) => done.into(),
        Err(error) => {
            output::complain(&error);
            output::Done::Misused.into()
        }
    }
}
