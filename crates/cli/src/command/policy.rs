//! `sluice policy`: checks, tests, explains, compares and activates policies.

mod bases;
mod check;
mod diff;
mod explain;
mod history;
mod import;
mod list;
mod put;
mod remove;
mod rollback;
mod show;
mod suggest;
mod test;

use std::path::PathBuf;

use clap::Subcommand;

use self::bases::ServerPolicies;
use crate::output::{BAD, Done, count_noun, print, print_json, problem, remark, visible};
use sluice_config::Source;
use sluice_policy::{Policy, Problem};

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Find every problem in a policy
    Check(check::Check),
    /// Run the tests in policy files
    Test(test::Test),
    /// Explain what a policy does with a call
    Explain(explain::Explain),
    /// Convert a policy from the older `rules:` dialect
    Import(import::ImportPolicy),
    /// Show what changes if policy B replaces policy A
    Diff(diff::Diff),
    /// Suggest a policy for a server's tools
    Suggest(suggest::Suggest),
    /// Activate a policy on a server
    Put(put::Put),
    /// List the active policies
    List(list::List),
    /// Print an active policy
    Show(show::ShowPolicy),
    /// List the versions of a policy, the newest first
    History(history::History),
    /// Activate an earlier version of a policy
    Rollback(rollback::Rollback),
    /// Deactivate a policy; its versions are kept
    Remove(remove::RemovePolicy),
    /// Print the JSON Schema of policies, for editors
    Schema,
}

pub(crate) fn run(command: PolicyCommand, data: Option<PathBuf>) -> anyhow::Result<Done> {
    match command {
        PolicyCommand::Check(check) => check.run(data),
        PolicyCommand::Test(test) => test.run(data),
        PolicyCommand::Explain(explain) => explain.run(data),
        PolicyCommand::Import(import) => import.run(),
        PolicyCommand::Diff(diff) => diff.run(data),
        PolicyCommand::Suggest(suggest) => suggest.run(data),
        PolicyCommand::Put(put) => put.run(data),
        PolicyCommand::List(list) => list.run(data),
        PolicyCommand::Show(show) => show.run(data),
        PolicyCommand::History(history) => history.run(data),
        PolicyCommand::Rollback(rollback) => rollback.run(data),
        PolicyCommand::Remove(remove) => remove.run(data),
        PolicyCommand::Schema => {
            print_json(&sluice_policy::file::json_schema())?;
            Ok(Done::Well)
        }
    }
}

/// Compiles a policy for a command, and prints its problems if it has any.
fn load_policy(
    source: &Source,
    among: Option<&ServerPolicies>,
    json: bool,
) -> anyhow::Result<Option<Policy>> {
    match bases::compile(source, among) {
        Ok(policy) => Ok(Some(policy)),
        Err(problems) => show_problems(source, &problems, json).map(|_| None),
    }
}

/// Prints the problems that stop a command; with `--json`, in the format of `check --json`.
fn show_problems(source: &Source, problems: &[Problem], json: bool) -> anyhow::Result<Done> {
    if json {
        print_json(&check::CheckReport { ok: false, problems, warnings: &[] })?;
    } else {
        remark(&draw(source, problems))?;
    }
    Ok(Done::WithProblems)
}

/// Beyond this number, problems are only counted: nobody reads that many, and one mistake often
/// causes many.
const MOST_DRAWN: usize = 50;

/// Draws the problems in their context, with a total.
pub(super) fn draw(source: &Source, problems: &[Problem]) -> String {
    let shown = problems.iter().take(MOST_DRAWN);
    let text: String = shown.map(|one| problem(&source.name, &source.text, one)).collect();
    let more = problems.len().saturating_sub(MOST_DRAWN);
    let more = match more {
        0 => String::new(),
        more => format!("… and {more} more; `--json` lists all\n"),
    };
    let count = count_noun(problems.len(), "problem");
    format!("{text}{more}{BAD}{count}{BAD:#} in {}\n", visible(&source.name))
}

/// Writes a report to standard output, and returns its exit status.
fn print_report(text: &str, well: bool) -> anyhow::Result<Done> {
    print(text)?;
    Ok(Done::well_if(well))
}
