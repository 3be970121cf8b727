//! `sluice policy import`: converts a policy of the older `rules:` dialect.

use clap::Args;
use serde::Serialize;
use sluice_policy::{Format, load};
use sluice_policy_import::{Note, import};

use super::show_problems;
use crate::input::read_source;
use crate::output::{BAD, Done, HELD, STRONG, count_noun, print, print_json, remark, visible};

#[derive(Debug, Args)]
pub(crate) struct ImportPolicy {
    /// The policy to import, in YAML; `-` reads standard input
    file: String,
    /// Print {"policy", "notes"} as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'r> {
    policy: serde_json::Value,
    notes: &'r [Note],
}

impl ImportPolicy {
    pub(crate) fn run(&self) -> anyhow::Result<Done> {
        let source = read_source(&self.file)?;
        if load(&source.text, Format::Yaml).is_ok() {
            remark(&format!(
                "{BAD}error{BAD:#}: this is a policy of ours already, and need not be imported\nhint: sluice policy check {}\n",
                visible(&self.file)
            ))?;
            return Ok(Done::WithProblems);
        }
        let imported = match import(&source.text) {
            Ok(imported) => imported,
            Err(problems) => return show_problems(&source, &problems, self.json),
        };
        let lost = imported.notes.iter().filter(|note| note.lost).count();
        if self.json {
            let policy = serde_json::from_str(&imported.policy)?;
            print_json(&Report { policy, notes: &imported.notes })?;
        } else {
            print(&imported.policy)?;
            remark(&draw_notes(&source.name, &imported.notes, lost))?;
        }
        Ok(Done::well_if(lost == 0))
    }
}

fn draw_notes(file: &str, notes: &[Note], lost: usize) -> String {
    let file = visible(file);
    let line = |note: &Note| {
        let word =
            if note.lost { format!("{BAD}lost{BAD:#}") } else { format!("{HELD}note{HELD:#}") };
        let (line, column, message) = (note.line, note.column, visible(&note.message));
        format!("{STRONG}{file}:{line}:{column}{STRONG:#}: {word}: {message}\n")
    };
    let mut text: Vec<_> = notes.iter().map(line).collect();
    if lost > 0 {
        let things = count_noun(lost, "thing");
        text.push(format!("{things} could not be carried over: read the result before using it\n"));
    }
    text.concat()
}
