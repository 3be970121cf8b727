//! `sluice stack hook`: clients ask before they call a server that nobody has
//! looked at.
//!
//! A check that fails must not let the call pass, and clients go on unless a hook
//! ends with exit code 2: so every failure ends with that.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    io::{Read as _, stdin},
};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use sluice_stack::{
    Answer, Asked, Called, Client, Configured, Entry, Fingerprints, HookFile, Hooked, Memory,
};

use super::{
    known,
    machine::{Machine, now},
};
use crate::output::{Done, FAINT, GOOD, print, remark, visible};

/// Bytes of what a client tells its hook.
const LONGEST: u64 = 16 << 20;

#[derive(Debug, Args)]
pub(crate) struct Hook {
    /// Put the hook into Claude Code, Cursor and Gemini CLI, as far as they are used here
    #[arg(long, group = "do")]
    install: bool,
    /// Take it out again
    #[arg(long, group = "do")]
    uninstall: bool,
    /// Let calls to these servers pass from now on
    #[arg(long, value_name = "SERVER", num_args = 1.., group = "do")]
    accept: Vec<String>,
    /// Answer a client's hook, whose question is on standard input
    #[arg(long, value_name = "CLIENT", group = "do", hide = true)]
    check: Option<String>,
}

impl Hook {
    pub(crate) fn run(self, machine: &Machine) -> anyhow::Result<Done> {
        if let Some(client) = self.check {
            return check(machine, &client);
        }
        if self.install {
            install(machine)
        } else if self.uninstall {
            uninstall(machine)
        } else if self.accept.is_empty() {
            status(machine)
        } else {
            accept(machine, &self.accept)
        }
    }
}

/// The files of hooks of the clients that are used here.
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
    let program = std::env::current_exe().context("this program's own path is not known")?;
    let command = format!(
        "{} --data {}",
        quoted(&program.display().to_string()),
        quoted(&machine.data.display().to_string())
    );
    machine.directory()?.stack_folder("backups")?;
    let mut memory = machine.memory()?;
    let is_first = !files.iter().any(HookFile::is_installed);
    for file in &files {
        let hooked = file.install(&command, &machine.backups(), &now())?;
        let state = match hooked {
            Hooked::Done(_) => "installed in",
            Hooked::Already => "already in",
        };
        remark(&format!("{GOOD}ok{GOOD:#}: the hook is {state} {}\n", shown(machine, file)))?;
    }
    if is_first {
        let configured = machine.configured()?;
        let count = accepted(&mut memory, configured.entries(), &machine.fingerprints()?);
        machine.remember(&memory)?;
        remark(&format!(
            "{count} configured now may be called as before\nyou are asked about any that is added later\n"
        ))?;
    }
    Ok(Done::Well)
}

/// Accepts these servers; how many there are.
fn accepted<'e>(
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
                shown(machine, &file)
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

fn accept(machine: &Machine, names: &[String]) -> anyhow::Result<Done> {
    let configured = machine.configured()?;
    let fingerprints = machine.fingerprints()?;
    let mut memory = machine.memory()?;
    for name in names {
        let mut found = configured.entries().filter(|entry| entry.name == *name).peekable();
        if found.peek().is_none() {
            // It may come with a plug-in, or from an account.
            let name = visible(name);
            remark(&format!("note: no file here has a server `{name}`; it passes by its name\n"))?;
            memory.accepted_names.insert(name);
        } else {
            accepted(&mut memory, found, &fingerprints);
        }
    }
    machine.remember(&memory)?;
    remark(&format!("{GOOD}ok{GOOD:#}: calls to {} pass the hook\n", visible(&names.join(", "))))?;
    Ok(Done::Well)
}

/// Answers a client. Whatever goes wrong ends with exit code 2, by which every
/// client refuses the call.
fn check(machine: &Machine, client: &str) -> anyhow::Result<Done> {
    let client = Client::from_id(client)
        .filter(|client| HookFile::CLIENTS.contains(client))
        .ok_or_else(|| anyhow!("`{client}` has no hooks"))?;
    let mut said = Vec::new();
    stdin().take(LONGEST).read_to_end(&mut said).context("the hook's question cannot be read")?;
    let said: serde_json::Value =
        serde_json::from_slice(&said).context("the hook's question is not JSON")?;
    // What holds in the folder that the client works in is what matters.
    let roots = said.get("workspace_roots").and_then(|roots| roots.get(0));
    let folder = said.get("cwd").or(roots).and_then(serde_json::Value::as_str);
    let folder = folder.map_or_else(|| machine.places.folder.clone(), Into::into);
    let configured = Configured::read_in(&machine.places, &[folder], &machine.front()?);
    let (memory, fingerprints) = (machine.memory()?, machine.fingerprints()?);
    let asked = Asked::read(client, &said);
    let check = Check {
        machine,
        memory: &memory,
        fingerprints: &fingerprints,
        configured: &configured,
        client,
    };
    let answer = check.answer(&asked);
    print(&format!("{}\n", answer.written(client)))?;
    Ok(Done::Well)
}

/// What an answer depends on.
struct Check<'a> {
    machine: &'a Machine,
    memory: &'a Memory,
    fingerprints: &'a Fingerprints,
    configured: &'a Configured,
    client: Client,
}

impl Check<'_> {
    fn answer(&self, asked: &Asked) -> Answer {
        match asked {
            Asked::Other => Answer::Pass,
            Asked::Session => self.told(),
            Asked::Call(call) => self.asked(call),
        }
    }

    /// Servers that this client uses here.
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        let is_used = |entry: &&Entry| {
            let is_read = entry.client == self.client || entry.client == Client::Project;
            !entry.is_disabled && is_read
        };
        self.configured.entries().filter(is_used)
    }

    fn is_accepted(&self, entry: &Entry) -> bool {
        self.memory.is_accepted(entry, self.fingerprints)
            || known::registered(self.machine, entry).is_some()
    }

    fn told(&self) -> Answer {
        let new = self.entries().filter(|entry| !self.is_accepted(entry));
        let names: Vec<_> = new.map(|entry| entry.name.as_str()).collect();
        if names.is_empty() {
            return Answer::Pass;
        }
        Answer::Tell(format!(
            "Sluicegate: new MCP servers that nobody has looked at: {}. Look with `sluice stack --scan`, adopt them with `sluice stack adopt`, or let them pass with `sluice stack hook --accept NAME`.",
            names.join(", ")
        ))
    }

    fn asked(&self, call: &Called) -> Answer {
        let of_call: Vec<&Entry> = self.entries().filter(|entry| call.is_of(entry)).collect();
        if let Some(new) = of_call.iter().find(|entry| !self.is_accepted(entry)) {
            let name = &new.name;
            return Answer::Ask(format!(
                "Sluicegate: MCP server `{name}` is new, and nobody has looked at it. Adopt it with `sluice stack adopt {name}`, or let it pass with `sluice stack hook --accept {name}`."
            ));
        }
        let name = call.server().unwrap_or_else(|| "of this tool".to_owned());
        if !of_call.is_empty() || self.memory.accepted_names.contains(&visible(&name)) {
            return Answer::Pass;
        }
        Answer::Ask(format!(
            "Sluicegate: MCP server `{name}` is in no file that Sluicegate reads, so that it cannot say what it does. Let it pass with `sluice stack hook --accept {name}`."
        ))
    }
}

fn shown(machine: &Machine, file: &HookFile) -> String {
    format!("{} ({})", file.client, visible(&machine.shown(&file.path)))
}

/// A word of a shell's line.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
