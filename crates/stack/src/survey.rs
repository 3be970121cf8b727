//! Survey of all servers that the clients of a machine use. A server that several
//! clients use is one group.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use sluice_classify::Category;

use crate::{
    adopt::Front,
    client::Client,
    entry::Entry,
    file::{ConfigFile, FileState, Problem},
    locations::{Candidate, Folders},
    memory::{Ability, Memory, SeenEntry},
};

/// The maximum number of project folders, from Claude Code's file, whose `.mcp.json` is read.
const MOST_PROJECTS: usize = 500;

/// The contents of all client files of a machine.
#[derive(Debug, Default)]
pub struct Configured {
    pub files: Vec<ConfigFile>,
    pub problems: Vec<Problem>,
    /// The files that were looked for.
    pub looked: Vec<(Client, PathBuf)>,
}

impl Configured {
    /// Reads every candidate file. A broken file does not stop the others.
    pub fn read(places: &Folders, front: &Front) -> Configured {
        Configured::read_in(places, std::slice::from_ref(&places.folder), front)
    }

    /// Reads the files for several current folders at once.
    pub fn read_in(places: &Folders, folders: &[PathBuf], front: &Front) -> Configured {
        let mut configured = Configured::default();
        for folder in folders {
            let places = Folders { folder: folder.clone(), ..places.clone() };
            for candidate in places.candidates() {
                configured.look(&candidate, front);
            }
        }
        let projects: Vec<PathBuf> =
            configured.files.iter().flat_map(ConfigFile::projects).take(MOST_PROJECTS).collect();
        for folder in projects {
            configured.look(&Folders::project(&folder), front);
        }
        configured
    }

    fn look(&mut self, candidate: &Candidate, front: &Front) {
        if self.looked.iter().any(|(_, path)| *path == candidate.path) {
            return;
        }
        self.looked.push((candidate.client, candidate.path.clone()));
        match candidate.read(front) {
            FileState::Nothing => {}
            // Two paths may lead to one file.
            FileState::File(file) if self.files.iter().any(|other| other.real == file.real) => {}
            FileState::File(file) => self.files.push(*file),
            FileState::Broken(problem) => self.problems.push(problem),
        }
    }

    /// The files whose content is known. Files of other folders were not looked for, and broken
    /// ones could not be parsed.
    fn known_files(&self) -> BTreeSet<String> {
        let broken: BTreeSet<&PathBuf> = self.problems.iter().map(|one| &one.path).collect();
        let paths = self.looked.iter().map(|(_, path)| path);
        paths.filter(|path| !broken.contains(path)).map(|path| path.display().to_string()).collect()
    }

    /// All servers, file by file.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.files.iter().flat_map(|file| &file.entries)
    }
}

/// The advice for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Advice {
    /// It only reads, or is adopted already.
    Proceed,
    /// It can do harm, which a policy limits.
    WithRules,
    /// Its abilities are unknown, or its definitions look suspicious.
    AskFirst,
}

impl Advice {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Advice::Proceed => "proceed",
            Advice::WithRules => "connect with rules",
            Advice::AskFirst => "ask first",
        }
    }
}

/// One server, in all files that configure it.
#[derive(Debug)]
pub struct Group<'e> {
    pub identity: String,
    /// The name that most of its entries have.
    pub name: String,
    pub entries: Vec<&'e Entry>,
    pub ability: Option<Ability>,
    /// Its name in the running gateway, if it is routed through that.
    pub registered: Option<String>,
    /// Whether none of its entries existed at the last run.
    pub is_new: bool,
    pub advice: Advice,
}

impl Group<'_> {
    /// Whether all its entries go through Sluicegate.
    pub fn is_adopted(&self) -> bool {
        self.registered.is_some() || self.entries.iter().all(|entry| entry.wrapped.is_some())
    }

    /// Whether it is disabled in every client.
    pub fn is_disabled(&self) -> bool {
        self.entries.iter().all(|entry| entry.is_disabled)
    }

    /// The worst that any of its tools can do.
    pub fn worst(&self) -> Option<Category> {
        self.ability.as_ref().and_then(Ability::worst)
    }

    /// Its clients, without duplicates.
    pub fn clients(&self) -> Vec<Client> {
        let mut clients: Vec<_> = self.entries.iter().map(|entry| entry.client).collect();
        clients.sort();
        clients.dedup();
        clients
    }
}

/// All servers of a machine, the worst first.
#[derive(Debug)]
pub struct Survey<'e> {
    pub groups: Vec<Group<'e>>,
    /// Servers that have been removed since the last run.
    pub gone: Vec<String>,
}

impl<'e> Survey<'e> {
    /// Combines the configured servers with stored data. `known` returns the abilities of a server,
    /// `registered` its name in the running gateway.
    pub fn new(
        configured: &'e Configured,
        memory: &Memory,
        known: impl Fn(&Entry) -> Option<Ability>,
        registered: impl Fn(&Entry) -> Option<String>,
    ) -> Survey<'e> {
        let mut of_identity: BTreeMap<String, Vec<&Entry>> = BTreeMap::new();
        for entry in configured.entries() {
            of_identity.entry(entry.identity()).or_default().push(entry);
        }
        let before: BTreeSet<&String> = memory.seen.iter().map(|seen| &seen.identity).collect();
        let mut groups = Vec::with_capacity(of_identity.len());
        for (identity, entries) in of_identity {
            let first = entries.first();
            let mut group = Group {
                name: common_name(&entries),
                ability: first.and_then(|entry| known(entry)),
                registered: first.and_then(|entry| registered(entry)),
                is_new: !before.is_empty() && !before.contains(&identity),
                advice: Advice::AskFirst,
                entries,
                identity,
            };
            group.advice = advice(&group);
            groups.push(group);
        }
        groups.sort_by(|a, b| rank(b).cmp(&rank(a)).then_with(|| a.name.cmp(&b.name)));
        Survey { gone: find_removed(configured, memory), groups }
    }
}

/// Sorts the most dangerous first; unknown servers come before those that only read.
fn rank(group: &Group<'_>) -> (bool, Option<Category>, usize) {
    let tools = group.ability.as_ref().map_or(0, |ability| ability.tools.len());
    let worst = match &group.ability {
        None => Some(Category::Write),
        Some(ability) => ability.worst(),
    };
    (!group.is_disabled(), worst, tools)
}

fn advice(group: &Group<'_>) -> Advice {
    let Some(ability) = &group.ability else {
        return if group.is_adopted() { Advice::Proceed } else { Advice::AskFirst };
    };
    let is_suspect = ability.findings() > 0 || !ability.changes.changed.is_empty();
    match ability.worst() {
        _ if is_suspect => Advice::AskFirst,
        _ if group.is_adopted() => Advice::Proceed,
        // Information from others is not a reason to continue without a policy.
        None if ability.is_hearsay => Advice::AskFirst,
        Some(_) if ability.is_hearsay => Advice::WithRules,
        None | Some(Category::Read | Category::Other) => Advice::Proceed,
        Some(_) => Advice::WithRules,
    }
}

fn common_name(entries: &[&Entry]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in entries {
        *counts.entry(&entry.name).or_default() += 1;
    }
    // Among equals the first one, so that the result is stable.
    let most = entries.iter().rev().max_by_key(|entry| counts.get(entry.name.as_str()));
    most.map(|entry| entry.name.clone()).unwrap_or_default()
}

/// Names of servers that were removed from a file that was read.
fn find_removed(configured: &Configured, memory: &Memory) -> Vec<String> {
    let now: Vec<SeenEntry> = configured.entries().map(Entry::to_seen).collect();
    let now: BTreeSet<_> = now.iter().map(|seen| (&seen.file, &seen.keys)).collect();
    let files = configured.known_files();
    let before = memory.seen.iter().filter(|seen| files.contains(&seen.file));
    let gone = before.filter(|seen| !now.contains(&(&seen.file, &seen.keys)));
    gone.filter_map(|seen| seen.keys.last().cloned()).collect()
}

impl Memory {
    /// Stores where servers are configured now, for the next run.
    pub fn look(&mut self, configured: &Configured) {
        let files = configured.known_files();
        self.seen.retain(|seen| !files.contains(&seen.file));
        self.seen.extend(configured.entries().map(Entry::to_seen));
    }
}
