//! `sluice config`: checks the configuration and prints the effective settings.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::{flags::ConfigFlags, policy::draw};
use crate::output::{Done, print, print_json, remark};
use sluice_config::{Config, Environment, FileProblems, LoadError, Shown};

#[derive(Debug, Args)]
pub(crate) struct ShowConfig {
    #[command(flatten)]
    flags: ConfigFlags,
    /// Print {"ok", "problems", "config", "files"} as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'r> {
    ok: bool,
    problems: Vec<PlacedProblem<'r>>,
    config: Option<Shown>,
    /// The files that are watched for changes.
    files: Vec<String>,
}

#[derive(Serialize)]
struct PlacedProblem<'r> {
    file: &'r str,
    line: usize,
    column: usize,
    message: &'r str,
    hint: Option<&'r str>,
}

impl ShowConfig {
    pub(crate) fn run(self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        let overrides = self.flags.into_overrides(data);
        match Config::load(&overrides, &Environment::of_process()) {
            Ok(config) => show(&config, self.json),
            Err(LoadError::Problems(files)) => refuse(&files, self.json),
            Err(error) => Err(error.into()),
        }
    }
}

fn show(config: &Config, json: bool) -> anyhow::Result<Done> {
    let shown = Shown::of(config);
    if json {
        let files = config.files.iter().map(|file| file.path.display().to_string()).collect();
        print_json(&Report { ok: true, problems: Vec::new(), config: Some(shown), files })?;
    } else {
        print(&toml::to_string(&shown)?)?;
    }
    Ok(Done::Well)
}

fn refuse(files: &[FileProblems], json: bool) -> anyhow::Result<Done> {
    if json {
        let problems = files.iter().flat_map(place_problems).collect();
        print_json(&Report { ok: false, problems, config: None, files: Vec::new() })?;
    } else {
        draw_problems(files)?;
    }
    Ok(Done::Misused)
}

/// Prints the problems of a configuration.
pub(crate) fn draw_problems(files: &[FileProblems]) -> anyhow::Result<Done> {
    let text: String = files.iter().map(|file| draw(&file.source, &file.problems)).collect();
    remark(&text)?;
    Ok(Done::Misused)
}

fn place_problems(file: &FileProblems) -> impl Iterator<Item = PlacedProblem<'_>> {
    file.problems.iter().map(|one| PlacedProblem {
        file: &file.source.name,
        line: one.line,
        column: one.column,
        message: &one.message,
        hint: one.hint.as_deref(),
    })
}
