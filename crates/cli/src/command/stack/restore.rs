//! `sluice stack restore`: reverts clients' files to what they were.

use std::{collections::BTreeSet, fmt::Write as _, path::Path};

use clap::Args;
use serde_json::{Value, json};
use sluice_stack::{Configured, Entry, Outcome, Undo};

use super::machine::{Machine, now};
use crate::output::{
    BAD, Done, FAINT, GOOD, HELD, complain, print, print_json, quote_for_shell, remark, visible,
};

#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// Show what would be restored, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Restore {
    pub(crate) fn run(self, machine: &Machine) -> anyhow::Result<Done> {
        let (undone, damaged) = Undo::all(&machine.backups())?;
        let configured = machine.read_configured()?;
        let elsewhere = elsewhere(machine, &configured);
        if undone.is_empty() && damaged.is_empty() && elsewhere.is_empty() && !self.json {
            remark("there is nothing to restore: no client's file has been rewritten\n")?;
            return Ok(Done::Well);
        }
        let mut done = Done::well_if(damaged.is_empty() && elsewhere.is_empty());
        let problems: Vec<_> = damaged.iter().map(ToString::to_string).collect();
        for error in damaged {
            complain(&error.into());
        }
        let mut told = Vec::new();
        for undo in &undone {
            let applied = if self.dry_run { Ok(()) } else { undo.apply(&now()) };
            if let Err(error) = applied {
                complain(&error.into());
                done = Done::WithProblems;
                continue;
            }
            if self.json {
                told.push(as_json(undo));
            } else {
                print(&draw(machine, undo))?;
            }
            if !undo.refused.is_empty() {
                done = Done::WithProblems;
            }
        }
        tell_of(&elsewhere)?;
        if self.json {
            let elsewhere: Vec<Value> = elsewhere.iter().map(Elsewhere::json).collect();
            print_json(
                &json!({ "files": told, "problems": problems, "elsewhere": elsewhere, "dry_run": self.dry_run }),
            )?;
        } else if self.dry_run {
            remark(&format!("{FAINT}nothing is written: this was a dry run{FAINT:#}\n"))?;
        }
        Ok(done)
    }
}

/// An entry that was adopted with another data directory, where its backup is.
struct Elsewhere<'c> {
    entry: &'c Entry,
    data: &'c str,
}

impl Elsewhere<'_> {
    fn json(&self) -> Value {
        let Elsewhere { entry, data } = self;
        json!({ "name": entry.name, "client": entry.client.id(), "file": entry.file.display().to_string(), "data": data })
    }
}

/// Finds such entries. It leaves out project files: others may have written the directory there,
/// and files from it must not be restored as if they were backups.
fn elsewhere<'c>(machine: &Machine, configured: &'c Configured) -> Vec<Elsewhere<'c>> {
    let entries = configured.entries().filter(|entry| !entry.is_of_project);
    let all = entries.filter_map(|entry| Some(Elsewhere { entry, data: entry.data()? }));
    all.filter(|one| Path::new(one.data) != machine.data).collect()
}

fn tell_of(elsewhere: &[Elsewhere<'_>]) -> anyhow::Result<()> {
    for Elsewhere { entry, data } in elsewhere {
        remark(&format!(
            "{BAD}not restored{BAD:#} {}: in {}, it was adopted with another data directory\n",
            visible(&entry.name),
            entry.client,
        ))?;
        remark(&format!(
            "hint: `sluice --data {} stack restore`\n",
            visible(&quote_for_shell(data))
        ))?;
    }
    Ok(())
}

fn as_json(undo: &Undo) -> Value {
    let refused = undo.refused.iter().map(|left| {
        json!({ "name": left.name, "why": left.why, "kept": left.kept.display().to_string() })
    });
    json!({
        "client": undo.client,
        "file": undo.file.display().to_string(),
        "outcome": match undo.outcome {
            Outcome::Exact => "exact",
            Outcome::InPart => "in part",
            Outcome::Nothing => "nothing",
        },
        "restored": undo.names,
        "refused": refused.collect::<Vec<_>>(),
        "backups": undo.backups.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
    })
}

fn draw(machine: &Machine, undo: &Undo) -> String {
    let file = visible(&machine.display_path(&undo.file));
    let names: Vec<_> = undo.names.iter().map(|name| visible(name)).collect();
    let names = names.join(", ");
    let mut text = match undo.outcome {
        Outcome::Exact => format!("{GOOD}as it was{GOOD:#}    {file}: {names}\n"),
        Outcome::InPart => format!(
            "{GOOD}put back{GOOD:#}     {file}: {names}\n             it was changed meanwhile: everything else in it stays\n"
        ),
        Outcome::Nothing if undo.refused.is_empty() => {
            format!("{FAINT}nothing left{FAINT:#} {file}: it is already reverted\n")
        }
        Outcome::Nothing => format!("{HELD}left{HELD:#}         {file}\n"),
    };
    for left in &undo.refused {
        let (name, why) = (visible(&left.name), visible(&left.why));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{BAD}not restored{BAD:#} {name}: {why}");
    }
    // Servers that were adopted together share one backup.
    let kept: BTreeSet<_> = undo.refused.iter().map(|left| &left.kept).collect();
    for kept in kept {
        let file = visible(&machine.display_path(kept));
        let of_kept = undo.refused.iter().filter(|left| left.kept == *kept);
        let names: Vec<_> = of_kept.map(|left| visible(&left.name)).collect();
        let _ = writeln!(text, "hint: the file with {} as it was is {file}", names.join(", "));
    }
    text
}
