//! `sluice stack hook`: installs hooks in clients that ask the user before a call to a server that
//! was not accepted.

mod check;

use std::{collections::BTreeSet, fmt::Write as _};

use anyhow::{anyhow, bail};
use clap::Args;
use sluice_stack::{Entry, Fingerprints, HookFile, Hooked, Memory};

use super::machine::{Machine, now};
use crate::output::{Done, FAINT, GOOD, complain, fit, print, quote_for_shell, remark, visible};

/// The width of a command, in columns.
const WIDTH: usize = 78;

/// The similarity, from 0 to 1, from which a name is suggested for a mistyped one.
const ALIKE: f64 = 0.6;

#[derive(Debug, Args)]
pub(crate) struct Hook {
    /// Install the hook in Claude Code, Cursor and Gemini CLI, as far as they are used here
    #[arg(long, group = "do")]
    install: bool,
    /// Remove the hook
    #[arg(long, group = "do")]
    uninstall: bool,
    /// Accept these servers: allow calls to them from now on
    #[arg(long, value_name = "SERVER", num_args = 1.., group = "do")]
    accept: Vec<String>,
    /// Also accept servers that are in no file, such as those of plug-ins, by name
    #[arg(long, requires = "accept")]
    unlisted: bool,
    /// Answer a client's hook, whose question is on standard input
    #[arg(long, value_name = "CLIENT", group = "do", hide = true)]
    check: Option<String>,
}

impl Hook {
    pub(crate) fn run(self, machine: Machine) -> anyhow::Result<Done> {
        if let Some(client) = self.check {
            return check::check(machine, client);
        }
        let machine = &machine;
        if self.install {
            install(machine)
        } else if self.uninstall {
            uninstall(machine)
        } else if self.accept.is_empty() {
            status(machine)
        } else {
            accept(machine, &self.accept, self.unlisted)
        }
    }
}

/// The hook files of the clients that are in use on this machine.
fn files(machine: &Machine) -> anyhow::Result<Vec<HookFile>> {
    let mut files = Vec::new();
    for client in HookFile::CLIENTS {
        files.extend(HookFile::read(client, &machine.places)?);
    }
    Ok(files)
}

fn install(machine: &Machine) -> anyhow::Result<Done> {
    let files = files(machine)?;
    if files.is_empty() {
        bail!(
            "neither Claude Code nor Cursor nor Gemini CLI is used here\nhint: only these have hooks"
        );
    }
    let front = machine.front()?;
    let command =
        format!("{} --data {}", quote_for_shell(&front.program), quote_for_shell(&front.data));
    machine.directory()?.stack_folder("backups")?;
    let is_first = !files.iter().any(HookFile::has_ours);
    for file in &files {
        let hooked = file.install(&command, &machine.backups(), &now())?;
        let state = match hooked {
            Hooked::Done(_) => "installed in",
            Hooked::Already => "already in",
        };
        remark(&format!(
            "{GOOD}ok{GOOD:#}: the hook is {state} {}\n",
            describe_file(machine, file)
        ))?;
    }
    if is_first {
        let fingerprints = machine.fingerprints()?;
        let configured = machine.read_configured()?;
        let count = machine
            .remember(|memory| Ok(accept_entries(memory, configured.entries(), &fingerprints)))?;
        remark(&format!(
            "{count} configured now may be called as before\nyou are asked about any that is added later\n"
        ))?;
    }
    Ok(Done::Well)
}

/// Accepts these servers; returns their number.
fn accept_entries<'e>(
    memory: &mut Memory,
    entries: impl Iterator<Item = &'e Entry>,
    fingerprints: &Fingerprints,
) -> String {
    let mut identities = BTreeSet::new();
    for entry in entries {
        memory.accept(entry, fingerprints);
        identities.insert(entry.identity());
    }
    let count = identities.len();
    if count == 1 { "1 server".into() } else { format!("{count} servers") }
}

fn uninstall(machine: &Machine) -> anyhow::Result<Done> {
    machine.directory()?.stack_folder("backups")?;
    for file in files(machine)? {
        if let Hooked::Done(_) = file.uninstall(&machine.backups(), &now())? {
            remark(&format!(
                "{GOOD}ok{GOOD:#}: the hook is taken out of {}\n",
                describe_file(machine, &file)
            ))?;
        }
    }
    Ok(Done::Well)
}

fn status(machine: &Machine) -> anyhow::Result<Done> {
    let mut text = String::new();
    for client in HookFile::CLIENTS {
        let state = match HookFile::read(client, &machine.places)? {
            None => format!("{FAINT}not used here{FAINT:#}"),
            Some(file) if file.is_installed() => format!("{GOOD}installed{GOOD:#}"),
            Some(_) => "not installed".to_owned(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:14}  {state}", client.title());
    }
    print(&text)?;
    remark(
        "hint: `sluice stack hook --install` has clients ask before they call a server that is new\n",
    )?;
    Ok(Done::Well)
}

fn accept(machine: &Machine, names: &[String], unlisted: bool) -> anyhow::Result<Done> {
    let fingerprints = machine.fingerprints()?;
    let configured = machine.read_configured()?;
    let known: BTreeSet<&str> = configured.entries().map(|entry| entry.name.as_str()).collect();
    let unknown = names.iter().find(|name| !known.contains(name.as_str()));
    if let Some(name) = unknown.filter(|_| !unlisted) {
        complain(&anyhow!(
            "no server `{name}` is configured\nhint: {}`--unlisted` lets one pass that is in no file, by its name alone",
            near(name, &known)
        ));
        return Ok(Done::WithProblems);
    }
    machine.remember(|memory| {
        for name in names {
            let mut found = configured.entries().filter(|entry| entry.name == *name).peekable();
            if found.peek().is_some() {
                let found: Vec<&Entry> = found.collect();
                report_accepted(machine, &found)?;
                accept_entries(memory, found.into_iter(), &fingerprints);
                continue;
            }
            // The server may come from a plug-in or an account.
            let name = visible(name);
            remark(&format!("note: no file here has a server `{name}`; it passes by its name\n"))?;
            memory.accepted_names.insert(name);
        }
        Ok(())
    })?;
    remark(&format!("{GOOD}ok{GOOD:#}: calls to {} pass the hook\n", visible(&names.join(", "))))?;
    Ok(Done::Well)
}

/// The start of a hint that suggests the most similar name.
fn near(name: &str, known: &BTreeSet<&str>) -> String {
    let alike = |other: &&&str| strsim::normalized_damerau_levenshtein(name, other) > ALIKE;
    let near: Vec<_> = known.iter().filter(alike).map(|name| format!("`{name}`")).collect();
    if near.is_empty() { String::new() } else { format!("there is {}; ", near.join(", ")) }
}

/// Lists the accepted servers, because one name may match several.
fn report_accepted(machine: &Machine, entries: &[&Entry]) -> anyhow::Result<()> {
    for entry in entries {
        let file = visible(&machine.display_path(&entry.file));
        let place = fit(&visible(&entry.transport.to_masked()), WIDTH);
        remark(&format!("`{}` in {file}\n  {FAINT}{place}{FAINT:#}\n", visible(&entry.name)))?;
    }
    Ok(())
}

fn describe_file(machine: &Machine, file: &HookFile) -> String {
    format!("{} ({})", file.client, visible(&machine.display_path(&file.path)))
}
