//! The messages before and after servers are adopted.

use std::fmt::Write as _;

use anstyle::Style;
use serde_json::{Value, json};
use sluice_policy::Restriction;
use sluice_stack::{Backup, Client, Front, Scope};

use super::{AllTerms, Refused, Terms, Work};
use crate::{
    command::stack::machine::Machine,
    output::{BAD, FAINT, GOOD, HELD, STRONG, remark, visible, wrap_lines},
};

/// The width of a line about a policy, in columns.
const WIDTH: usize = 76;

/// Shows the changes to each file, and the policies.
pub(super) fn preview(machine: &Machine, work: &Work<'_>, terms: &AllTerms<'_>) -> String {
    let mut text = String::new();
    for (file, adoption) in work {
        let path = visible(&machine.display_path(&file.path));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{STRONG}--- {path}\n+++ {path}{STRONG:#}");
        for line in adoption.diff.lines() {
            let style = match line.chars().next() {
                Some('-') => BAD,
                Some('+') => GOOD,
                Some('@') => FAINT,
                _ => Style::new(),
            };
            let _ = writeln!(text, "{style}{}{style:#}", visible(line));
        }
        text.push('\n');
    }
    for terms in sort_by_name(terms) {
        let path = visible(&machine.display_path(&terms.draft.path));
        let state = if terms.draft.exists { " (there already, and stays)" } else { "" };
        let _ = writeln!(text, "{STRONG}policy {path}{STRONG:#}{state}");
        let mut lines = if terms.draft.exists { Vec::new() } else { terms.draft.effect.clone() };
        lines.extend(terms.draft.restriction.iter().flat_map(losses));
        for line in &lines {
            // Continuation lines are indented further.
            let _ = writeln!(text, "  {}", wrap_lines(&visible(line), WIDTH).join("\n    "));
        }
    }
    text
}

/// The tools and actions that clients lose, one per line.
fn losses(restriction: &Restriction) -> Vec<String> {
    let mut lines = Vec::new();
    if !restriction.hidden_tools.is_empty() {
        lines.push(format!("hides: {}", restriction.hidden_tools.join(", ")));
    }
    if !restriction.denied.is_empty() {
        lines.push(format!("denies, beside tools: {}", restriction.denied.join(", ")));
    }
    lines
}

fn sort_by_name<'t>(terms: &'t AllTerms<'_>) -> Vec<&'t Terms<'t>> {
    let mut sorted: Vec<_> = terms.values().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    sorted
}

/// Prints the servers that are not adopted, and why.
pub(super) fn report_refused(refused: &[Refused<'_>]) -> anyhow::Result<()> {
    for Refused { entry, why } in refused {
        let lines: Vec<_> = why.lines().map(visible).collect();
        remark(&format!(
            "{HELD}not adopted{HELD:#}: `{}` in {}: {}\n",
            visible(&entry.name),
            entry.client,
            lines.join("\n")
        ))?;
    }
    Ok(())
}

/// The same report as JSON.
pub(super) struct AdoptReport<'a, 'c> {
    pub(super) work: &'a Work<'c>,
    pub(super) terms: &'a AllTerms<'c>,
    pub(super) refused: &'a [Refused<'c>],
}

impl AdoptReport<'_, '_> {
    pub(super) fn json(&self, written: &[(Client, Backup)], is_dry_run: bool) -> Value {
        let files = self.work.iter().map(|(file, adoption)| {
            let names: Vec<_> = adoption.adopted.iter().map(|entry| &entry.name).collect();
            json!({ "client": file.client.id(), "file": file.path.display().to_string(), "adopted": names, "diff": adoption.diff })
        });
        let policies = sort_by_name(self.terms).into_iter().map(|Terms { name, draft, .. }| {
            let lost = draft.restriction.as_ref();
            let (hidden, denied) = (lost.map(|lost| &lost.hidden_tools), lost.map(|lost| &lost.denied));
            json!({ "name": name, "file": draft.path.display().to_string(), "exists": draft.exists, "effect": draft.effect, "hidden_tools": hidden, "denied": denied })
        });
        let refused = self.refused.iter().map(|Refused { entry, why }| {
            json!({ "name": entry.name, "client": entry.client.id(), "file": entry.file.display().to_string(), "why": why })
        });
        let written = written.iter().map(|(client, backup)| {
            json!({ "client": client.id(), "file": backup.manifest.file.display().to_string(), "backup": backup.folder.display().to_string() })
        });
        json!({
            "files": files.collect::<Vec<_>>(),
            "policies": policies.collect::<Vec<_>>(),
            "refused": refused.collect::<Vec<_>>(),
            "written": written.collect::<Vec<_>>(),
            "dry_run": is_dry_run,
        })
    }
}

/// Warns about project files: they are often committed, so others get paths of this machine.
pub(super) fn warn_of_projects(machine: &Machine, work: &Work<'_>) -> anyhow::Result<()> {
    for (file, _) in work.iter().filter(|(file, _)| file.scope != Scope::User) {
        let path = visible(&machine.display_path(&file.path));
        remark(&format!(
            "{BAD}warning{BAD:#}: {path} is of a project, and gets paths that only this machine has\n"
        ))?;
    }
    Ok(())
}

/// Warns about a development build: clients will start the path that is written to their files.
pub(super) fn warn_of_build(front: &Front) -> anyhow::Result<()> {
    let parts: Vec<_> = front.program.split('/').collect();
    let is_build =
        parts.iter().rev().skip(1).take(1).any(|part| ["debug", "release"].contains(part));
    if is_build {
        remark(&format!(
            "{BAD}warning{BAD:#}: `{}` is where this program was built\nhint: install it and run the installed one, because clients will start this path\n",
            visible(&front.program)
        ))?;
    }
    Ok(())
}

/// Prints what was done, and the remaining manual steps.
pub(super) fn report_done(
    machine: &Machine,
    count: usize,
    written: &[(Client, Backup)],
) -> anyhow::Result<()> {
    let plural = if count == 1 { "entry goes" } else { "entries go" };
    let backups = visible(&machine.display_path(&machine.backups()));
    let mut text = format!("{GOOD}ok{GOOD:#}: {count} {plural} through Sluicegate now\n");
    let _ = writeln!(text, "backups are in {backups}\n`sluice stack restore` reverts the files");
    text += "for this to take effect:\n";
    let mut clients: Vec<Client> = written.iter().map(|(client, _)| *client).collect();
    clients.sort();
    clients.dedup();
    for client in clients {
        let _ = writeln!(text, "  {}", client.restart());
    }
    Ok(remark(&text)?)
}
