//! `sluice stack adopt`: routes servers of clients through Sluicegate.

mod mend;
mod messages;
mod terms;

use std::{
    collections::BTreeMap,
    io::{IsTerminal as _, stdin},
};

use anyhow::bail;
use clap::Args;
use sluice_stack::{
    AdoptError, Adoption, Backup, Client, ConfigFile, Configured, Entry, Front, Plan, Transport,
};

use self::terms::Terms;
use super::{
    known,
    machine::{Machine, now},
};
use crate::output::{Done, FAINT, GOOD, STRONG, complain, print, print_json, remark};

#[derive(Debug, Args)]
pub(crate) struct Adopt {
    #[command(flatten)]
    which: Which,
    /// Also servers whose tools cannot be listed, with a policy by category
    #[arg(long)]
    unseen: bool,
    /// Print the changes as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    consent: Consent,
}

/// Selects the servers to adopt.
#[derive(Debug, Args)]
struct Which {
    /// Servers, by their names in the clients
    #[arg(value_name = "SERVER", required_unless_present_any = ["all", "client"])]
    servers: Vec<String>,
    /// Only in this client
    #[arg(long, value_name = "CLIENT", value_parser = client)]
    client: Option<Client>,
    /// All servers
    #[arg(long, conflicts_with = "servers")]
    all: bool,
    /// Also servers in project files, which others may use too
    #[arg(long, conflicts_with = "servers")]
    projects: bool,
}

/// Whether the user must confirm before anything is written.
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

/// The new content of each file that changes.
type Work<'c> = Vec<(&'c ConfigFile, Adoption<'c>)>;
/// The name and policy of each server, by its identity.
type AllTerms<'c> = BTreeMap<String, Terms<'c>>;

const OF_PROJECT: &str =
    "it is in a file of a project\nhint: name it, or add `--projects`, to adopt it all the same";
const DISABLED: &str = "it is disabled in its client\nhint: name it to adopt it all the same";

/// A server that is not adopted, and why.
struct Refused<'c> {
    entry: &'c Entry,
    why: String,
}

impl Adopt {
    pub(crate) fn run(self, machine: &Machine) -> anyhow::Result<Done> {
        if !self.consent.dry_run {
            // Creates the key now, so that later runs recognise the servers stored here.
            machine.fingerprints()?;
        }
        let configured = machine.read_configured()?;
        let is_open = |entry: &&Entry| {
            entry.wrapped.is_none() && known::name_in_gateway(machine, entry).is_none()
        };
        let (mut open, adopted): (Vec<_>, Vec<_>) =
            self.which.choose_entries(&configured)?.into_iter().partition(is_open);
        let is_whole = self.restore_policies(machine, &adopted)?;
        let mut refused = self.which.take_unnamed(&mut open);
        let wanted = open.len();
        if open.is_empty() && refused.is_empty() && is_whole {
            remark(&format!("{GOOD}ok{GOOD:#}: all of them go through Sluicegate already\n"))?;
        }
        refused.extend(take_unadoptable(&mut open));
        let terms = self.terms(machine, &open, &mut refused)?;
        let front = machine.front()?;
        let work = work(&configured, &open, &terms, &front, &mut refused);
        messages::report_refused(&refused)?;
        let adopted: usize = work.iter().map(|(_, adoption)| adoption.adopted.len()).sum();
        let mut done = Done::well_if(adopted == wanted && is_whole);
        let mut written = Vec::new();
        if !work.is_empty() {
            self.preview(machine, &work, &terms)?;
            messages::warn_of_projects(machine, &work)?;
            messages::warn_of_build(&front)?;
            if self.consent.is_given(work.len())? {
                written = write(machine, &configured, &work, &terms)?;
            }
            // A dry run has succeeded at this point.
            if written.len() < work.len() && !self.consent.dry_run {
                done = Done::WithProblems;
            }
        }
        if self.json {
            let told = messages::AdoptReport { work: &work, terms: &terms, refused: &refused };
            print_json(&told.json(&written, self.consent.dry_run))?;
        }
        Ok(done)
    }

    /// Shows the changes before asking for confirmation.
    fn preview(
        &self,
        machine: &Machine,
        work: &Work<'_>,
        terms: &AllTerms<'_>,
    ) -> anyhow::Result<()> {
        let text = messages::preview(machine, work, terms);
        match self.json {
            // Standard output gets a single JSON document, at the end.
            true if self.consent.is_asked() => remark(&text)?,
            true => {}
            false => print(&text)?,
        }
        Ok(())
    }
}

impl Which {
    /// The entries that the user selected.
    fn choose_entries<'c>(&self, configured: &'c Configured) -> anyhow::Result<Vec<&'c Entry>> {
        let is_here = |entry: &&Entry| self.client.is_none_or(|client| entry.client == client);
        let here: Vec<&Entry> = configured.entries().filter(is_here).collect();
        if self.servers.is_empty() {
            if here.is_empty() {
                bail!("no server is configured there\nhint: `sluice stack` says where it looks");
            }
            return Ok(here);
        }
        for name in &self.servers {
            if !here.iter().any(|entry| entry.name == *name) {
                let mut names: Vec<_> = here.iter().map(|entry| entry.name.as_str()).collect();
                names.sort_unstable();
                names.dedup();
                if names.is_empty() {
                    bail!(
                        "no server `{name}` is configured, nor any other\nhint: `sluice stack` says where it looks"
                    );
                }
                bail!("no server `{name}` is configured\nhint: there are {}", names.join(", "));
            }
        }
        Ok(here.into_iter().filter(|entry| self.servers.contains(&entry.name)).collect())
    }

    /// Removes the entries that are adopted only if they are named, and returns them.
    fn take_unnamed<'c>(&self, open: &mut Vec<&'c Entry>) -> Vec<Refused<'c>> {
        if !self.servers.is_empty() {
            return Vec::new();
        }
        let is_meant = self.projects || self.client == Some(Client::Project);
        let why = |entry: &Entry| match () {
            () if entry.is_of_project && !is_meant => Some(OF_PROJECT),
            () if entry.is_disabled => Some(DISABLED),
            () => None,
        };
        let passed = open.extract_if(.., |entry| why(entry).is_some());
        passed
            .map(|entry| Refused { entry, why: why(entry).unwrap_or_default().to_owned() })
            .collect()
    }
}

impl Consent {
    /// Whether confirmation is needed and there is a terminal to ask on.
    fn is_asked(&self) -> bool {
        !self.yes && !self.dry_run && stdin().is_terminal()
    }

    /// Whether files may be written.
    fn is_given(&self, files: usize) -> anyhow::Result<bool> {
        if self.dry_run {
            remark(&format!("{FAINT}nothing is written: this was a dry run{FAINT:#}\n"))?;
            return Ok(false);
        }
        if self.yes {
            return Ok(true);
        }
        if !self.is_asked() {
            remark(
                "nothing is written\nhint: add `--yes` to write this, or run it on a terminal\n",
            )?;
            return Ok(false);
        }
        let which = if files == 1 { "this file" } else { "these files" };
        let is_yes = is_yes(&format!("Rewrite {which}?"))?;
        if !is_yes {
            remark("nothing is written\n")?;
        }
        Ok(is_yes)
    }
}

/// Asks the user on the terminal.
fn is_yes(question: &str) -> anyhow::Result<bool> {
    remark(&format!("{STRONG}{question}{STRONG:#} [y/N] "))?;
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// Removes the entries that can never be adopted, before any server is started: those that somebody
/// else put behind `sluice wrap`, and those that are not servers.
fn take_unadoptable<'c>(open: &mut Vec<&'c Entry>) -> Vec<Refused<'c>> {
    let error = |entry: &Entry| match entry.transport {
        _ if entry.is_wrap() => Some(AdoptError::Wrap),
        Transport::Unclear => Some(AdoptError::Unclear),
        _ => None,
    };
    let taken = open.extract_if(.., |entry| error(entry).is_some());
    let refused = |entry| Some(Refused { entry, why: error(entry)?.to_string() });
    taken.filter_map(refused).collect()
}

fn work<'c>(
    configured: &'c Configured,
    open: &[&'c Entry],
    terms: &AllTerms<'_>,
    front: &Front,
    refused: &mut Vec<Refused<'c>>,
) -> Work<'c> {
    let mut work = Vec::new();
    for file in &configured.files {
        let adoption = file.adopt(&plans(file, open, terms), front);
        let not = adoption.refused.iter();
        refused.extend(not.map(|(entry, error)| Refused { entry, why: error.to_string() }));
        if !adoption.adopted.is_empty() {
            work.push((file, adoption));
        }
    }
    work
}

fn plans<'e>(file: &'e ConfigFile, open: &[&'e Entry], terms: &AllTerms<'_>) -> Vec<Plan<'e>> {
    let of_file = open.iter().copied().filter(|entry| entry.file == file.path);
    let plan = |entry: &'e Entry| {
        let terms = terms.get(&entry.identity())?;
        let policy = terms.draft.path.display().to_string();
        Some(Plan { entry, name: terms.name.clone(), policy })
    };
    of_file.filter_map(plan).collect()
}

/// Writes all files; returns those that were written.
fn write(
    machine: &Machine,
    configured: &Configured,
    work: &Work<'_>,
    terms: &AllTerms<'_>,
) -> anyhow::Result<Vec<(Client, Backup)>> {
    let fingerprints = machine.fingerprints()?;
    machine.remember(|memory| {
        for terms in terms.values() {
            if memory.name(terms.entry, &terms.name) != terms.name {
                bail!("another `sluice stack adopt` ran meanwhile\nhint: run the command again");
            }
        }
        memory.look(configured);
        for entry in work.iter().flat_map(|(_, adoption)| &adoption.written) {
            memory.accept(entry, &fingerprints);
        }
        Ok(())
    })?;
    for terms in terms.values() {
        terms.draft.write(machine)?;
    }
    machine.directory()?.stack_folder("backups")?;
    let mut written: Vec<(Client, Backup)> = Vec::new();
    let mut count = 0;
    for (file, adoption) in work {
        match file.write(adoption, &machine.backups(), &now()) {
            Ok(backup) => {
                count += adoption.adopted.len();
                written.push((file.client, backup));
            }
            Err(error) => complain(&error.into()),
        }
    }
    if !written.is_empty() {
        messages::report_done(machine, count, &written)?;
    }
    Ok(written)
}
