//! `sluice policy check`: reports all problems of a policy.

use clap::Args;
use serde::Serialize;
use sluice_policy::Problem;

use super::{draw, print_report};
use crate::input::read_source;
use crate::output::{Done, GOOD, count_noun, print_json, visible};

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The policy: JSON, or YAML by its ending; `-` reads standard input
    file: String,
    /// Print {"ok", "problems"} as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
pub(super) struct CheckReport<'r> {
    pub(super) ok: bool,
    pub(super) problems: &'r [Problem],
}

impl Check {
    pub(crate) fn run(&self) -> anyhow::Result<Done> {
        let source = read_source(&self.file)?;
        let (problems, tests) = match source.policy() {
            Ok(policy) => source.failing_tests(&policy),
            Err(problems) => (problems, 0),
        };
        let ok = problems.is_empty();
        if self.json {
            print_json(&CheckReport { ok, problems: &problems })?;
            return Ok(Done::well_if(ok));
        }
        if ok {
            let tests = match tests {
                0 => "no tests of its own".into(),
                tests => format!("{} passed", count_noun(tests, "test")),
            };
            let name = visible(&source.name);
            return print_report(&format!("{GOOD}ok{GOOD:#}: {name} ({tests})\n"), true);
        }
        print_report(&draw(&source, &problems), false)
    }
}
