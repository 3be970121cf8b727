//! `sluice policy test`: runs the tests in policy files.

use clap::Args;
use serde::Serialize;
use sluice_policy::{Problem, TestResult};

use super::{draw, print_report};
use crate::input::read_source;
use crate::output::{BAD, Done, FAINT, GOOD, STRONG, count_noun, print_json, visible};
use sluice_config::Source;

#[derive(Debug, Args)]
pub(crate) struct Test {
    /// Policies: JSON, or YAML by their endings
    #[arg(required = true)]
    files: Vec<String>,
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
    pub(crate) fn run(&self) -> anyhow::Result<Done> {
        let mut text = String::new();
        let mut report = Report { ok: true, files: Vec::new() };
        for file in &self.files {
            let source = read_source(file)?;
            let (results, problems) = match source.policy() {
                Ok(policy) => (policy.run_tests(), Vec::new()),
                Err(problems) => (Vec::new(), problems),
            };
            let ok = problems.is_empty() && results.iter().all(|test| test.failure.is_none());
            report.ok &= ok;
            text.push_str(&if problems.is_empty() {
                draw_results(&source.name, &results)
            } else {
                draw(&source, &problems)
            });
            let tests = results.into_iter().map(|result| report_of(&source, result)).collect();
            report.files.push(FileReport { file: file.clone(), ok, problems, tests });
        }
        if self.json {
            print_json(&report)?;
            return Ok(Done::well_if(report.ok));
        }
        print_report(&text, report.ok)
    }
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
