//! The check that a client's hook runs: whether the server about to be called was accepted.
//!
//! Clients continue with the call unless the hook exits with code 2. Every failure of the check
//! therefore exits with that code.

use std::{
    io::{Read as _, stdin},
    path::PathBuf,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use serde_json::Value;
use sluice_stack::{
    Answer, Client, Configured, Entry, Fingerprints, HookCall, HookFile, HookQuestion, Memory,
    Problem,
};

use crate::{
    command::stack::{known, machine::Machine},
    output::{Done, fit, print, quote_for_shell, visible},
};

/// The largest input from a client, in bytes.
const LONGEST: u64 = 16 << 20;
/// The time limit of a check, because a client that waits too long continues with the call.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// The stack size in bytes, enough for the deepest nesting that is parsed.
const STACK: usize = 64 << 20;
/// Variables in which clients tell their hooks where the session started.
const PROJECTS: [&str; 2] = ["CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR"];
/// The longest name in an answer, in columns, and the number of names.
const LONGEST_NAME: usize = 60;
const MOST_NAMES: usize = 10;

/// Answers a client. Every failure exits with code 2, on which every client refuses the call.
pub(super) fn check(machine: Machine, client: String) -> anyhow::Result<Done> {
    let (sender, answered) = mpsc::channel();
    thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || sender.send(answer(&machine, &client)))
        .context("the check cannot be started")?;
    let answer = answered.recv_timeout(CHECK_TIMEOUT).map_err(|error| match error {
        RecvTimeoutError::Timeout => anyhow!("the check took too long"),
        // A panic ends the thread and its side of the channel.
        RecvTimeoutError::Disconnected => anyhow!("the check failed"),
    })??;
    print(&format!("{answer}\n"))?;
    Ok(Done::Well)
}

fn answer(machine: &Machine, client: &str) -> anyhow::Result<String> {
    let client = Client::from_id(client)
        .filter(|client| HookFile::CLIENTS.contains(client))
        .ok_or_else(|| anyhow!("`{client}` has no hooks"))?;
    let mut said = Vec::new();
    stdin().take(LONGEST).read_to_end(&mut said).context("the hook's question cannot be read")?;
    let said: Value = serde_json::from_slice(&said).context("the hook's question is not JSON")?;
    let folders = folders(machine, &said);
    let configured = Configured::read_in(&machine.places, &folders, &machine.front()?);
    let (memory, fingerprints) = (machine.memory()?, machine.fingerprints()?);
    let check = CallCheck {
        machine,
        memory: &memory,
        fingerprints: &fingerprints,
        configured: &configured,
        folders: &folders,
        client,
    };
    Ok(check.answer(&HookQuestion::read(client, &said)).to_client_json(client))
}

/// The folders that a client works in; the configuration of each of them counts.
fn folders(machine: &Machine, said: &Value) -> Vec<PathBuf> {
    let roots = said.get("workspace_roots").and_then(Value::as_array).into_iter().flatten();
    let told = said.get("cwd").into_iter().chain(roots).filter_map(Value::as_str);
    // An agent may have changed directory since its session started.
    let began = PROJECTS.iter().filter_map(|name| machine.environment.path(name));
    let mut folders = vec![machine.places.folder.clone()];
    folders.extend(told.map(PathBuf::from).chain(began).map(|one| machine.places.folder.join(one)));
    folders
}

/// The inputs of a decision.
struct CallCheck<'a> {
    machine: &'a Machine,
    memory: &'a Memory,
    fingerprints: &'a Fingerprints,
    configured: &'a Configured,
    folders: &'a [PathBuf],
    client: Client,
}

impl CallCheck<'_> {
    fn answer(&self, asked: &HookQuestion) -> Answer {
        match asked {
            HookQuestion::Other => Answer::Pass,
            HookQuestion::Session => self.answer_session(),
            HookQuestion::Call(call) => self.answer_call(call),
        }
    }

    /// Servers that this client may use here, including disabled ones: clients enable them without
    /// asking.
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.configured.entries().filter(|entry| self.is_read(entry.client))
    }

    fn is_read(&self, by: Client) -> bool {
        by == self.client || by == Client::Project
    }

    /// A file that this client reads here but we cannot parse, so its servers are unknown.
    fn problem(&self) -> Option<&Problem> {
        let is_here = |problem: &&Problem| match problem.scope.folder() {
            Some(folder) => self.folders.iter().any(|here| here.starts_with(folder)),
            None => true,
        };
        let problems = self.configured.problems.iter();
        problems.filter(|problem| self.is_read(problem.client)).find(is_here)
    }

    fn is_accepted(&self, entry: &Entry) -> bool {
        // In a project's entry, others may have changed more than the URL or command.
        self.memory.is_accepted(entry, self.fingerprints)
            || (!entry.is_of_project && known::name_in_gateway(self.machine, entry).is_some())
    }

    fn answer_session(&self) -> Answer {
        let new = self.entries().filter(|entry| !self.is_accepted(entry));
        let names: Vec<_> = new.map(|entry| short_name(&entry.name)).collect();
        if names.is_empty() {
            return self.problem().map_or(Answer::Pass, |one| Answer::Tell(self.unread(one)));
        }
        let more = match names.len().saturating_sub(MOST_NAMES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let names: Vec<_> = names.into_iter().take(MOST_NAMES).collect();
        Answer::Tell(format!(
            "Sluicegate: new MCP servers, not reviewed yet: {}{more}. List them with `sluice stack`, adopt them with `sluice stack adopt`, or let them pass with `sluice stack hook --accept NAME`.",
            names.join(", ")
        ))
    }

    fn answer_call(&self, call: &HookCall) -> Answer {
        if let Some(problem) = self.problem() {
            return Answer::Ask(self.unread(problem));
        }
        let of_call: Vec<&Entry> = self.entries().filter(|entry| call.is_of(entry)).collect();
        if let Some(new) = of_call.iter().find(|entry| !self.is_accepted(entry)) {
            let (name, word) = (short_name(&new.name), argument(&new.name));
            return Answer::Ask(format!(
                "Sluicegate: MCP server `{name}` is new and has not been reviewed. Adopt it with `sluice stack adopt {word}`, or let it pass with `sluice stack hook --accept {word}`."
            ));
        }
        let name = call.server().unwrap_or_else(|| "of this tool".to_owned());
        if !of_call.is_empty() || self.memory.accepted_names.contains(&visible(&name)) {
            return Answer::Pass;
        }
        Answer::Ask(format!(
            "Sluicegate: MCP server `{}` is not in any file that Sluicegate reads, so nothing is known about it. Let it pass with `sluice stack hook --unlisted --accept {}`.",
            short_name(&name),
            argument(&name)
        ))
    }

    fn unread(&self, problem: &Problem) -> String {
        format!(
            "Sluicegate: `{}` cannot be read, so the MCP servers in it are unknown. `sluice stack` shows the error.",
            short_name(&self.machine.display_path(&problem.path))
        )
    }
}

/// Shortens an untrusted name for a text that people and agents read.
fn short_name(name: &str) -> String {
    fit(&visible(name), LONGEST_NAME)
}

/// Quotes an untrusted name for a command to copy, so that it cannot run anything else.
fn argument(name: &str) -> String {
    if short_name(name) == name && !name.starts_with('-') {
        quote_for_shell(name)
    } else {
        "NAME".to_owned()
    }
}
