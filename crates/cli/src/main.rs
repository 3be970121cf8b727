//! `sluice`: the command line. Parses arguments, calls the other crates, and turns results
//! into text and an exit code.
//!
//! This crate is large because there are sixteen commands, each with its arguments, its tables and
//! its JSON. Other crates do the work, except for the wiring of `up` and `wrap`.

mod api;
mod clients;
mod clock;
mod command;
mod data;
mod input;
mod logging;
mod output;
mod pharo;
mod scan;
#[cfg(test)]
mod scratch;
mod standard;
mod up;
mod wrap;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let arguments = match command::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return command::misread(&error),
    };
    match command::run(arguments) {
        Ok(done) => done.into(),
        Err(error) => {
            output::complain(&error);
            output::Done::Misused.into()
        }
    }
}
