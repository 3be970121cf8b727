//! State that is kept between runs: the abilities of servers, where they are configured,
//! and which of them the user has accepted.
//!
//! It contains no secrets: servers are stored by identity, and tools by name and the
//! digest of their definition.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use sluice_classify::Category;

use crate::{digest::Fingerprints, entry::Entry};

/// The longest name in policies and counters.
const LONGEST_NAME: usize = 32;

/// All stored state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Servers by their identity.
    pub servers: BTreeMap<String, Remembered>,
    /// The servers in each file at the last run.
    pub seen: Vec<SeenEntry>,
    /// The name of each server in policies and counters.
    pub names: BTreeMap<String, String>,
    /// Fingerprints of the accepted entries.
    pub accepted: BTreeSet<String>,
    /// Accepted servers that are in no file, by name.
    pub accepted_names: BTreeSet<String>,
}

/// The location of a server that was configured earlier.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SeenEntry {
    pub file: String,
    /// Its key path there.
    pub keys: Vec<String>,
    pub identity: String,
}

/// The data learnt from a server itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Remembered {
    /// Its command or URL, masked.
    pub transport: String,
    /// When it was scanned.
    pub scanned: String,
    pub tools: Vec<Tool>,
    /// The changes since the previous scan.
    pub changes: Changes,
}

/// The abilities of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ability {
    pub tools: Vec<Tool>,
    /// The source of this information, for people.
    pub source: String,
    /// Whether the information comes from others than the server itself.
    pub is_hearsay: bool,
    pub changes: Changes,
}

/// One tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tool {
    pub name: String,
    /// A category's name.
    pub category: String,
    pub risk: String,
    /// Signs that its definition was written to mislead.
    pub findings: usize,
    /// The digest of its definition.
    pub digest: String,
}

/// Tools that were added, removed, or changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Changes {
    pub added: Vec<String>,
    pub removed: Vec<String>,
    pub changed: Vec<String>,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }

    fn between(before: &[Tool], after: &[Tool]) -> Changes {
        let find =
            |tools: &[Tool], name: &str| tools.iter().find(|tool| tool.name == name).cloned();
        let names = |tools: Vec<&Tool>| tools.into_iter().map(|tool| tool.name.clone()).collect();
        let only = |these: &'_ [Tool], those: &[Tool]| -> Vec<String> {
            names(these.iter().filter(|tool| find(those, &tool.name).is_none()).collect())
        };
        let is_changed = |tool: &&Tool| {
            find(before, &tool.name).is_some_and(|other| other.digest != tool.digest)
        };
        Changes {
            added: only(after, before),
            removed: only(before, after),
            changed: names(after.iter().filter(is_changed).collect()),
        }
    }
}

impl Tool {
    /// Its category. An unknown name counts as execute, so that nothing looks less harmful than it
    /// was.
    pub fn category(&self) -> Category {
        Category::from_name(&self.category).unwrap_or(Category::Execute)
    }
}

impl Ability {
    /// The worst that any of its tools can do.
    pub fn worst(&self) -> Option<Category> {
        self.tools.iter().map(Tool::category).max()
    }

    /// The number of its tools in a category.
    pub fn count(&self, category: Category) -> usize {
        self.tools.iter().filter(|tool| tool.category() == category).count()
    }

    /// Signs that its definitions were written to mislead.
    pub fn findings(&self) -> usize {
        self.tools.iter().map(|tool| tool.findings).sum()
    }
}

impl Memory {
    /// Stores the tools that a server has listed.
    pub fn learn(&mut self, entry: &Entry, tools: Vec<Tool>, time: &str) {
        let known = self.servers.entry(entry.identity()).or_default();
        let is_first = known.scanned.is_empty();
        known.changes =
            if is_first { Changes::default() } else { Changes::between(&known.tools, &tools) };
        known.transport = entry.transport.to_masked();
        time.clone_into(&mut known.scanned);
        known.tools = tools;
    }

    /// The stored data of a server.
    pub fn ability(&self, entry: &Entry) -> Option<Ability> {
        let known = self.servers.get(&entry.identity())?;
        let source = format!("scanned {}", known.scanned);
        let (tools, changes) = (known.tools.clone(), known.changes.clone());
        Some(Ability { tools, source, is_hearsay: false, changes })
    }

    /// The name of a server in policies and counters: the existing one, or else `wanted`, numbered
    /// if another server has that name.
    pub fn name(&mut self, entry: &Entry, wanted: &str) -> String {
        let identity = entry.identity();
        if let Some((name, _)) = self.names.iter().find(|(_, of)| **of == identity) {
            return name.clone();
        }
        let short: String = wanted.chars().take(LONGEST_NAME - "-999".len()).collect();
        let short = short.trim_end_matches('-');
        let numbered = (2..1000).map(|number| format!("{short}-{number}"));
        let mut names = std::iter::once(wanted.to_owned()).chain(numbered);
        let name = names.find(|name| !self.names.contains_key(name)).unwrap_or_default();
        self.names.insert(name.clone(), identity);
        name
    }

    /// Whether the user has accepted this server.
    ///
    /// An entry that looks like one of ours is not accepted for that alone: the author of a project
    /// file could write one too.
    pub fn is_accepted(&self, entry: &Entry, fingerprints: &Fingerprints) -> bool {
        self.accepted.contains(&fingerprints.of(entry))
    }

    /// Accepts this server, until any part of its entry changes.
    pub fn accept(&mut self, entry: &Entry, fingerprints: &Fingerprints) {
        self.accepted.insert(fingerprints.of(entry));
    }
}
