//! `sluice policy`: working with policies before they are in force.

mod check;
mod diff;
mod explain;
mod import;
mod test;

use clap::Subcommand;

use crate::{
    input::Source,
    output::{BAD, Done, print, problem},
};
use sluice_policy::{Policy, Problem};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Find every problem in a policy
    Check(check::Check),
    /// Run the tests that policies carry
    Test(test::Test),
    /// Say what a policy does with a call, and why
    Explain(explain::Explain),
    /// Turn a policy in the older `rules:` dialect into one of ours
    Import(import::Import),
    /// Show what changes when policy B takes the place of policy A
    Diff(diff::Diff),
    /// Print the JSON Schema of policies, for editors
    Schema,
}

pub(crate) fn run(command: Command) -> anyhow::Result<Done> {
    match command {
        Command::Check(check) => check.run(),
        Command::Test(test) => test.run(),
        Command::Explain(explain) => explain.run(),
        Command::Import(import) => import.run(),
        Command::Diff(diff) => diff.run(),
        Command::Schema => {
            crate::output::print_json(&sluice_policy::file::json_schema())?;
            Ok(Done::Well)
        }
    }
}

/// Compiles a policy that a command works with, showing its problems if it has any.
fn loaded(source: &Source) -> anyhow::Result<Option<Policy>> {
    match source.policy() {
        Ok(policy) => Ok(Some(policy)),
        Err(problems) => {
            crate::output::remark(&drawn(source, &problems))?;
            Ok(None)
        }
    }
}

/// Problems at their places, and how many there are.
fn drawn(source: &Source, problems: &[Problem]) -> String {
    let text: String =
        problems.iter().map(|one| problem(&source.name, &source.text, one)).collect();
    let count = counted(problems.len(), "problem");
    format!("{text}{BAD}{count}{BAD:#} in {}\n", source.name)
}

/// `1 problem`, `2 problems`.
fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Writes a report to standard output, and gives the exit code for it.
fn reported(text: &str, well: bool) -> anyhow::Result<Done> {
    print(text)?;
    Ok(Done::well_if(well))
}
