//! `sluice policy diff`: compares two policies.

use clap::Args;
use sluice_policy::{Change, PolicyDiff, diff};

use super::load_policy;
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
    /// Print the differences as JSON
    #[arg(long)]
    json: bool,
}

impl Diff {
    pub(crate) fn run(&self) -> anyhow::Result<Done> {
        let (a, b) = (read_source(&self.a)?, read_source(&self.b)?);
        let tools = self.tools.as_deref().map(input::tools).transpose()?;
        let (Some(before), Some(after)) =
            (load_policy(&a, self.json)?, load_policy(&b, self.json)?)
        else {
            return Ok(Done::WithProblems);
        };
        let diff = diff(&before, &after, tools.as_deref());
        if self.json {
            print_json(&diff)?;
        } else {
            print(&draw_diff(&diff))?;
        }
        Ok(Done::Well)
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
    text.push(format!("{count} changed, {} unchanged\n", diff.unchanged));
    text.extend(diff.notes.iter().map(|note| format!("note: {note}\n")));
    text.concat()
}

fn line(change: &Change) -> String {
    // Reviewers must not miss changes that allow more.
    let style = match change.effect {
        "allowed" | "loosened" => HELD,
        "denied" => BAD,
        _ => STRONG,
    };
    format!(
        "  {style}{:<9}{style:#} {}  {FAINT}{}{FAINT:#}\n",
        change.effect,
        visible(&change.detail),
        visible(&change.rule)
    )
}
