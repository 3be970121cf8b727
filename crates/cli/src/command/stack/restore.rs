//! `sluice stack restore`: clients' files become what they were.

use clap::Args;
use sluice_stack::{Outcome, Undo};

use super::machine::{Machine, now};
use crate::output::{BAD, Done, FAINT, GOOD, HELD, complain, print, remark, visible};

#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// Show what would be put back, and write nothing
    #[arg(long)]
    dry_run: bool,
}

impl Restore {
    pub(crate) fn run(self, machine: &Machine) -> anyhow::Result<Done> {
        let undone = Undo::all(&machine.backups())?;
        if undone.is_empty() {
            remark("there is nothing to restore: no client's file has been rewritten\n")?;
            return Ok(Done::Well);
        }
        let mut done = Done::Well;
        for undo in &undone {
            if !self.dry_run {
                if let Err(error) = undo.apply(&now()) {
                    complain(&error.into());
                    done = Done::WithProblems;
                    continue;
                }
            }
            print(&drawn(machine, undo))?;
            if !undo.refused.is_empty() {
                done = Done::WithProblems;
            }
        }
        if self.dry_run {
            remark(&format!("{FAINT}nothing is written: this was a dry run{FAINT:#}\n"))?;
        }
        Ok(done)
    }
}

fn drawn(machine: &Machine, undo: &Undo) -> String {
    let file = visible(&machine.shown(&undo.file));
    let names: Vec<_> = undo.names.iter().map(|name| visible(name)).collect();
    let names = names.join(", ");
    let mut text = match undo.outcome {
        Outcome::Exact => format!("{GOOD}as it was{GOOD:#}    {file}: {names}\n"),
        Outcome::InPart => format!(
            "{GOOD}put back{GOOD:#}     {file}: {names}\n             it was changed meanwhile: everything else in it stays\n"
        ),
        Outcome::Nothing if undo.refused.is_empty() => {
            format!("{FAINT}nothing left{FAINT:#} {file}: somebody has put it back already\n")
        }
        Outcome::Nothing => format!("{HELD}left{HELD:#}         {file}\n"),
    };
    for (name, why) in &undo.refused {
        text += &format!("{BAD}not restored{BAD:#} {}: {why}\n", visible(name));
    }
    if !undo.refused.is_empty() {
        let kept = undo.backups.first().map(|folder| machine.shown(&folder.join("original")));
        let kept = visible(&kept.unwrap_or_default());
        text += &format!("hint: the file as it was is kept in {kept}\n");
    }
    text
}
