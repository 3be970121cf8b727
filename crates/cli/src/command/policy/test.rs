//! `sluice policy test`: runs the tests in policy files.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use sluice_policy::{Policy, Problem, TestResult, ToolFacts};

use super::{
    bases::{ServerPolicies, compile, with_policies},
    draw, print_report,
};
use crate::input::{self, read_source};
use crate::output::{BAD, Done, FAINT, GOOD, STRONG, count_noun, print_json, visible};
use sluice_config::Source;
use sluice_store::Name;

#[derive(Debug, Args)]
pub(crate) struct Test {
    /// Policies: JSON, or YAML by their endings
    #[arg(required = true)]
    files: Vec<String>,
    /// A saved `tools/list` result, for tests that depend on the definitions of tools
    #[arg(long, value_name = "FILE")]
    tools: Option<String>,
    /// The server whose policies they may extend
    #[arg(long, value_name = "NAME", value_parser = Name::new)]
    server: Option<Name>,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    ok: bool,
    files: Vec<FileReport>,
}

#[derive(Serialize)]
struct FileReport {
    file: String,
    ok: bool,
    /// Problems that kept the tests from running.
    problems: Vec<Problem>,
    tests: Vec<TestReport>,
}

#[derive(Serialize)]
struct TestReport {
    name: String,
    ok: bool,
    line: usize,
    outcome: &'static str,
    rule: Option<String>,
    failure: Option<String>,
}

impl Test {
    pub(crate) fn run(&self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        let sources: Vec<_> =
            self.files.iter().map(|file| read_source(file)).collect::<anyhow::Result<_>>()?;
        let all: Vec<_> = sources.iter().collect();
        with_policies(data, self.server.as_ref(), &all, |among| self.test(&sources, among))
    }

    fn test(&self, sources: &[Source], among: Option<&ServerPolicies>) -> anyhow::Result<Done> {
        let tools = self.tools.as_deref().map(input::tools).transpose()?;
        let mut text = String::new();
        let mut report = Report { ok: true, files: Vec::new() };
        for (file, source) in self.files.iter().zip(sources) {
            let (results, problems) = match compile(source, among) {
                Ok(policy) => (run_tests(&policy, tools.as_deref()), Vec::new()),
                Err(problems) => (Vec::new(), problems),
            };
            let ok = problems.is_empty() && results.iter().all(|test| test.failure.is_none());
            report.ok &= ok;
            text.push_str(&if problems.is_empty() {
                draw_results(&source.name, &results)
            } else {
                draw(source, &problems)
            });
            let tests = results.into_iter().map(|result| report_of(source, result)).collect();
            report.files.push(FileReport { file: file.clone(), ok, problems, tests });
        }
        if self.json {
            print_json(&report)?;
            return Ok(Done::well_if(report.ok));
        }
        print_report(&text, report.ok)
    }
}

fn run_tests(policy: &Policy, tools: Option<&[ToolFacts]>) -> Vec<TestResult> {
    tools.map_or_else(|| policy.run_tests(), |tools| policy.run_tests_on(tools))
}

fn report_of(source: &Source, result: TestResult) -> TestReport {
    TestReport {
        ok: result.failure.is_none(),
        line: Problem::at(&source.text, result.offset, String::new()).line,
        outcome: result.outcome.name(),
        rule: result.rule,
        name: result.name,
        failure: result.failure,
    }
}

fn draw_results(file: &str, results: &[TestResult]) -> String {
    let line = |test: &TestResult| {
        let name = visible(&test.name);
        match &test.failure {
            None => format!("  {GOOD}✓{GOOD:#} {name}\n"),
            Some(why) => format!("  {BAD}✗{BAD:#} {name}\n      {}\n", visible(why)),
        }
    };
    let lines: String = results.iter().map(line).collect();
    let failed = results.iter().filter(|test| test.failure.is_some()).count();
    let sum = match (results.len(), failed) {
        (0, _) => format!("{FAINT}no tests: add some under `tests`{FAINT:#}"),
        (all, 0) => format!("{} passed", count_noun(all, "test")),
        (all, failed) => format!("{failed} of {} failed", count_noun(all, "test")),
    };
    let file = visible(file);
    format!("{STRONG}{file}{STRONG:#}\n{lines}  {sum}\n")
}
