//! `sluice policy check`: reports all problems of a policy, and what has no effect in it.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use sluice_policy::{Policy, Problem, ToolFacts, find_warnings};
use sluice_store::Name;

use super::{bases::ServerPolicies, draw, print_report};
use crate::api::with_gateway;
use crate::input::{self, read_source, server_tools};
use crate::output::{Done, GOOD, HELD, count_noun, print_json, remark, visible, warning};
use sluice_config::Source;

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The policy: JSON, or YAML by its ending; `-` reads standard input
    file: String,
    /// Compare it with the tools of this server, whose policies it may extend
    #[arg(long, value_name = "NAME", value_parser = Name::new, conflicts_with = "tools")]
    server: Option<Name>,
    /// The policy's name on that server, if the file has another
    #[arg(long, value_parser = Name::new, requires = "server")]
    name: Option<Name>,
    /// Compare it with the tools in a saved `tools/list` result
    #[arg(long, value_name = "FILE")]
    tools: Option<String>,
    /// Fail if there are warnings
    #[arg(long)]
    strict: bool,
    /// Print {"ok", "problems"} as JSON, with "warnings" if there are any
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
pub(super) struct CheckReport<'r> {
    pub(super) ok: bool,
    pub(super) problems: &'r [Problem],
    #[serde(skip_serializing_if = "<[Problem]>::is_empty")]
    pub(super) warnings: &'r [Problem],
}

impl Check {
    pub(crate) fn run(&self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        let source = read_source(&self.file)?;
        match (&self.server, &self.tools) {
            (Some(server), _) => with_gateway(data, |gateway| {
                let tools = server_tools(gateway, server)?;
                let policies = ServerPolicies::read(gateway, server)?;
                let compiled = policies.compile_named(&source, self.name.as_ref());
                self.check(&source, compiled, Some(&tools))
            }),
            (None, Some(file)) => self.check(&source, source.policy(), Some(&input::tools(file)?)),
            (None, None) => self.check(&source, source.policy(), None),
        }
    }

    fn check(
        &self,
        source: &Source,
        compiled: Result<Policy, Vec<Problem>>,
        tools: Option<&[ToolFacts]>,
    ) -> anyhow::Result<Done> {
        let (problems, tests) = match compiled {
            Ok(policy) => source.failing_tests(&policy),
            Err(problems) => (problems, 0),
        };
        let mut warnings = find_warnings(&source.text, source.format(), tools);
        if !problems.is_empty() {
            // Warnings about a policy that does not load may be wrong.
            warnings.clear();
        }
        let ok = problems.is_empty() && (warnings.is_empty() || !self.strict);
        if self.json {
            print_json(&CheckReport { ok, problems: &problems, warnings: &warnings })?;
            return Ok(Done::well_if(ok));
        }
        if !problems.is_empty() {
            return print_report(&draw(source, &problems), false);
        }
        let drawn = draw_warnings(source, &warnings);
        let tests = match tests {
            0 => "no tests of its own".into(),
            tests => format!("{} passed", count_noun(tests, "test")),
        };
        let name = visible(&source.name);
        let verdict =
            if ok { format!("{GOOD}ok{GOOD:#}: {name} ({tests})\n") } else { String::new() };
        print_report(&(drawn + &verdict), ok)
    }
}

/// Shows the warnings of a policy that is put in force, and says whether it may be.
pub(super) fn show_warnings(
    source: &Source,
    tools: Option<&[ToolFacts]>,
    is_strict: bool,
) -> anyhow::Result<bool> {
    let warnings = find_warnings(&source.text, source.format(), tools);
    remark(&draw_warnings(source, &warnings))?;
    Ok(warnings.is_empty() || !is_strict)
}

/// Draws the warnings in their context, with a total.
fn draw_warnings(source: &Source, warnings: &[Problem]) -> String {
    if warnings.is_empty() {
        return String::new();
    }
    let drawn: String =
        warnings.iter().map(|one| warning(&source.name, &source.text, one)).collect();
    let count = count_noun(warnings.len(), "warning");
    format!("{drawn}{HELD}{count}{HELD:#} in {}\n", visible(&source.name))
}
