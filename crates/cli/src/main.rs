//! `sluice`: the command line. Parses arguments, calls the other crates, and turns results
//! into text and an exit code.
//!
//! This crate is large because there are sixteen commands, each with its arguments, its tables and
//! its JSON. Other crates do the work, except for the wiring of `up` and `wrap`.

mod api;
mod backup;
mod clients;
mod clock;
mod command;
mod core_dumps;
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

use clap_complete::CompleteEnv;

fn main() -> ExitCode {
    core_dumps::turn_off(&sluice_config::Environment::of_process());
    // A shell that asks for completions gets them, and nothing else happens.
    CompleteEnv::with_factory(command::completed_line).var(command::COMPLETE).complete();
    let arguments = match command::read() {
        Ok(arguments) => arguments,
        Err(error) => return command::misread(error),
    };
    match command::run(arguments) {
        Ok(done) => done.into(),
        Err(error) => {
            output::complain(&error);
            output::Done::Misused.into()
        }
    }
}
