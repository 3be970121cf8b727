//! `sluice stack adopt`: servers of clients go through Sluicegate from then on.

mod told;

use std::{
    collections::BTreeMap,
    io::{IsTerminal as _, stdin},
};

use anyhow::bail;
use clap::Args;
use sluice_stack::{Adoption, Backup, Client, ConfigFile, Configured, Entry, Front, Memory, Plan};

use super::{
    drafts::{self, Draft},
    known,
    listing::ListError,
    machine::{Machine, now},
    scan,
};
use crate::{
    output::{Done, FAINT, GOOD, HELD, STRONG, complain, print_json, remark, visible},
    wrap,
};

#[derive(Debug, Args)]
pub(crate) struct Adopt {
    /// Servers, by the names they have in their clients
    #[arg(value_name = "SERVER", required_unless_present_any = ["all", "client"])]
    servers: Vec<String>,
    /// Only in this client
    #[arg(long, value_name = "CLIENT", value_parser = client)]
    client: Option<Client>,
    /// All servers
    #[arg(long, conflicts_with = "servers")]
    all: bool,
    /// Also servers that do not tell their tools, with a policy by categories
    #[arg(long)]
    unseen: bool,
    /// Print what changes as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    consent: Consent,
}

/// Whether the user is asked before anything is written.
#[derive(Debug, Args)]
struct Consent {
    /// Show what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Write without asking
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
}

fn client(text: &str) -> Result<Client, String> {
    let ids: Vec<_> = Client::ALL.iter().map(|client| client.id()).collect();
    Client::from_id(text).ok_or_else(|| format!("it must be one of {}", ids.join(", ")))
}

/// What a server is called, and the policy it is put under.
struct Terms {
    name: String,
    draft: Draft,
}

impl Adopt {
    pub(crate) fn run(self, machine: &Machine) -> anyhow::Result<Done> {
        let configured = machine.configured()?;
        let mut open = self.chosen(&configured)?;
        open.retain(|entry| entry.wrapped.is_none() && known::registered(machine, entry).is_none());
        if open.is_empty() {
            remark(&format!("{GOOD}ok{GOOD:#}: all of them go through Sluicegate already\n"))?;
            return Ok(Done::Well);
        }
        let mut memory = machine.memory()?;
        let terms = self.terms(machine, &mut memory, &open)?;
        let front = machine.front()?;
        let work = work(&configured, &open, &terms, &front)?;
        let adopted: usize = work.iter().map(|(_, adoption)| adoption.adopted.len()).sum();
        let done = Done::well_if(adopted == open.len());
        if work.is_empty() {
            return Ok(done);
        }
        if self.json {
            print_json(&told::as_json(&work, &terms, !self.consent.dry_run))?;
        } else {
            told::preview(machine, &work, &terms)?;
        }
        told::warn_of_build(&front)?;
        if !self.consent.is_given(work.len())? {
            // A dry run has done what it was asked for.
            return Ok(if self.consent.dry_run { done } else { Done::WithProblems });
        }
        memory.look(&configured);
        let fingerprints = machine.fingerprints()?;
        for entry in work.iter().flat_map(|(_, adoption)| &adoption.written) {
            memory.accept(entry, &fingerprints);
        }
        let written = write(machine, &work, &terms, &memory)?;
        Ok(if done == Done::Well { written } else { done })
    }

    /// The entries that were asked for.
    fn chosen<'c>(&self, configured: &'c Configured) -> anyhow::Result<Vec<&'c Entry>> {
        let is_here = |entry: &&Entry| self.client.is_none_or(|client| entry.client == client);
        let here: Vec<&Entry> = configured.entries().filter(is_here).collect();
        if self.servers.is_empty() {
            let used: Vec<&Entry> = here.into_iter().filter(|entry| !entry.is_disabled).collect();
            if used.is_empty() {
                bail!("no server is configured there\nhint: `sluice stack` says where it looks");
            }
            return Ok(used);
        }
        for name in &self.servers {
            if !here.iter().any(|entry| entry.name == *name) {
                let mut names: Vec<_> = here.iter().map(|entry| entry.name.as_str()).collect();
                names.sort_unstable();
                names.dedup();
                bail!("no server `{name}` is configured\nhint: there are {}", names.join(", "));
            }
        }
        Ok(here.into_iter().filter(|entry| self.servers.contains(&entry.name)).collect())
    }

    /// The name and policy of each server, by its identity. Servers that were not
    /// asked before are asked first; those that do not answer are left out.
    fn terms(
        &self,
        machine: &Machine,
        memory: &mut Memory,
        open: &[&Entry],
    ) -> anyhow::Result<BTreeMap<String, Terms>> {
        let servers = scan::distinct(open.iter().copied());
        let mut unknown = servers.clone();
        unknown.retain(|entry| memory.ability(entry).is_none());
        let failed = if unknown.is_empty() {
            Vec::new()
        } else {
            remark("Asking servers what tools they have, to write their policies:\n")?;
            scan::all(machine, memory, &unknown)?
        };
        let mut terms = BTreeMap::new();
        for entry in servers {
            let identity = entry.identity();
            if let Some(failed) = failed.iter().find(|failed| failed.identity == identity)
                && let Some(why) = self.objection(&failed.error)
            {
                not_adopted(entry, &why)?;
                continue;
            }
            let wanted = wrap::name::made(&entry.name)?;
            let name = memory.name(entry, wanted.as_str());
            let draft = drafts::draft(machine, &name, memory.ability(entry).as_ref());
            terms.insert(identity, Terms { name, draft });
        }
        Ok(terms)
    }

    /// Why a server that did not tell its tools is not adopted.
    fn objection(&self, error: &ListError) -> Option<String> {
        let first = error.to_string().lines().next().map(str::to_owned).unwrap_or_default();
        match error {
            ListError::SignIn => Some(first),
            _ if self.unseen => None,
            _ => Some(format!("{first}\nhint: `--unseen` adopts it with a policy by categories")),
        }
    }
}

impl Consent {
    /// Whether files may be written.
    fn is_given(&self, files: usize) -> anyhow::Result<bool> {
        if self.dry_run {
            remark(&format!("{FAINT}nothing is written: this was a dry run{FAINT:#}\n"))?;
            return Ok(false);
        }
        if self.yes {
            return Ok(true);
        }
        if !stdin().is_terminal() {
            remark(
                "nothing is written\nhint: add `--yes` to write this, or run it on a terminal\n",
            )?;
            return Ok(false);
        }
        let which = if files == 1 { "this file" } else { "these files" };
        remark(&format!("{STRONG}Rewrite {which}?{STRONG:#} [y/N] "))?;
        let mut answer = String::new();
        stdin().read_line(&mut answer)?;
        let is_yes = ["y", "yes"].contains(&answer.trim().to_lowercase().as_str());
        if !is_yes {
            remark("nothing is written\n")?;
        }
        Ok(is_yes)
    }
}

/// The files as they would be, where anything in them changes.
fn work<'c>(
    configured: &'c Configured,
    open: &[&'c Entry],
    terms: &BTreeMap<String, Terms>,
    front: &Front,
) -> anyhow::Result<Vec<(&'c ConfigFile, Adoption<'c>)>> {
    let mut work = Vec::new();
    for file in &configured.files {
        let adoption = file.adopt(&plans(file, open, terms), front);
        for (entry, error) in &adoption.refused {
            not_adopted(entry, &error.to_string())?;
        }
        if !adoption.adopted.is_empty() {
            work.push((file, adoption));
        }
    }
    Ok(work)
}

fn not_adopted(entry: &Entry, why: &str) -> anyhow::Result<()> {
    let name = visible(&entry.name);
    let lines: Vec<_> = why.lines().map(visible).collect();
    Ok(remark(&format!(
        "{HELD}not adopted{HELD:#}: `{name}` in {}: {}\n",
        entry.client,
        lines.join("\n")
    ))?)
}

fn plans<'e>(
    file: &'e ConfigFile,
    open: &[&'e Entry],
    terms: &BTreeMap<String, Terms>,
) -> Vec<Plan<'e>> {
    let of_file = open.iter().copied().filter(|entry| entry.file == file.path);
    let plan = |entry: &'e Entry| {
        let terms = terms.get(&entry.identity())?;
        let policy = terms.draft.path.display().to_string();
        Some(Plan { entry, name: terms.name.clone(), policy })
    };
    of_file.filter_map(plan).collect()
}

fn write(
    machine: &Machine,
    work: &[(&ConfigFile, Adoption<'_>)],
    terms: &BTreeMap<String, Terms>,
    memory: &Memory,
) -> anyhow::Result<Done> {
    for terms in terms.values() {
        terms.draft.write(machine)?;
    }
    machine.remember(memory)?;
    machine.directory()?.stack_folder("backups")?;
    let mut done = Done::Well;
    let mut written: Vec<(Client, Backup)> = Vec::new();
    let mut count = 0;
    for (file, adoption) in work {
        match file.write(adoption, &machine.backups(), &now()) {
            Ok(backup) => {
                count += adoption.adopted.len();
                written.push((file.client, backup));
            }
            Err(error) => {
                complain(&error.into());
                done = Done::WithProblems;
            }
        }
    }
    if !written.is_empty() {
        told::done(machine, count, &written)?;
    }
    Ok(done)
}
