//! `sluice policy diff`: compares two policies.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use sluice_config::Source;
use sluice_policy::{Change, Direction, PolicyDiff, diff};
use sluice_store::Name;

use super::{
    bases::{ServerPolicies, with_policies},
    load_policy,
};
use crate::{
    input::{self, read_source},
    output::{BAD, Done, FAINT, HELD, STRONG, count_noun, print, print_json, visible},
};

#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// The current policy
    a: String,
    /// The new policy
    b: String,
    /// A saved `tools/list` result: compare these tools
    #[arg(long, value_name = "FILE")]
    tools: Option<String>,
    /// The server whose policies they may extend
    #[arg(long, value_name = "NAME", value_parser = Name::new)]
    server: Option<Name>,
    /// Exit with 1 if there is a difference
    #[arg(long)]
    exit_code: bool,
    /// Print the differences as JSON
    #[arg(long)]
    json: bool,
}

/// The differences with the number of changes in each direction.
#[derive(Serialize)]
struct Report<'d> {
    tighter: usize,
    looser: usize,
    #[serde(flatten)]
    diff: &'d PolicyDiff,
}

impl Diff {
    pub(crate) fn run(&self, data: Option<PathBuf>) -> anyhow::Result<Done> {
        let (a, b) = (read_source(&self.a)?, read_source(&self.b)?);
        with_policies(data, self.server.as_ref(), &[&a, &b], |among| self.diff(&a, &b, among))
    }

    fn diff(&self, a: &Source, b: &Source, among: Option<&ServerPolicies>) -> anyhow::Result<Done> {
        let tools = self.tools.as_deref().map(input::tools).transpose()?;
        let load = |source| load_policy(source, among, self.json);
        let (Some(before), Some(after)) = (load(a)?, load(b)?) else {
            return Ok(Done::WithProblems);
        };
        let diff = diff(&before, &after, tools.as_deref());
        let (tighter, looser) = (diff.count(Direction::Tighter), diff.count(Direction::Looser));
        if self.json {
            print_json(&Report { tighter, looser, diff: &diff })?;
        } else {
            print(&draw_diff(&diff))?;
        }
        Ok(Done::well_if(!self.exit_code || diff.is_empty()))
    }
}

fn draw_diff(diff: &PolicyDiff) -> String {
    let mut text: Vec<String> = Vec::new();
    for tool in &diff.tools {
        let name = visible(&tool.tool);
        text.push(format!("{STRONG}{name}{STRONG:#}: {} → {}\n", tool.before, tool.after));
        text.extend(tool.changes.iter().map(line));
    }
    if !diff.other.is_empty() {
        text.push(format!("{STRONG}not about one tool{STRONG:#}\n"));
        text.extend(diff.other.iter().map(line));
    }
    if text.is_empty() {
        text.push("No difference was found.\n".into());
    }
    let mut changes = diff.tools.iter().flat_map(|tool| &tool.changes);
    if changes.any(|change| change.effect == "arguments") {
        text.push(format!(
            "{FAINT}Whether a call is touched by a change marked `arguments` depends on what it sends.{FAINT:#}\n"
        ));
    }
    let count = count_noun(diff.tools.len(), "tool");
    text.push(format!("{count} changed, {} unchanged", diff.unchanged));
    if !diff.is_empty() {
        let changes = |direction| count_noun(diff.count(direction), "change");
        let (tighter, looser) = (changes(Direction::Tighter), changes(Direction::Looser));
        text.push(format!(": {tighter} tighter, {looser} looser"));
    }
    text.push("\n".into());
    text.extend(diff.notes.iter().map(|note| format!("note: {note}\n")));
    text.concat()
}

fn line(change: &Change) -> String {
    // Reviewers must not miss changes that allow more.
    let style = match (change.direction, change.effect) {
        (Direction::Looser, _) => HELD,
        (_, "denied") => BAD,
        _ => STRONG,
    };
    format!(
        "  {style}{:<7} {:<9}{style:#} {}  {FAINT}{}{FAINT:#}\n",
        change.direction.name(),
        change.effect,
        visible(&change.detail),
        visible(&change.rule)
    )
}
