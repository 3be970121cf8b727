//! State that is kept between runs: the abilities of servers, where they are configured,
//! and which of them the user has accepted.
//!
//! It contains no secrets: servers are stored by identity, and tools by name and the
//! digest of their definition.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use sluice_classify::Category;

use crate::{digest::Fingerprints, entry::Entry};

/// Characters of a name in policies and counters.
const LONGEST_NAME: usize = 32;

/// All that is remembered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Servers by their identity.
    pub servers: BTreeMap<String, Remembered>,
    /// Which servers stood where when last looked.
    pub seen: Vec<SeenEntry>,
    /// Which server has which name in policies and counters.
    pub names: BTreeMap<String, String>,
    /// Fingerprints of the entries that the hooks let pass.
    pub accepted: BTreeSet<String>,
    /// Servers that are in no file, which they let pass by their names.
    pub accepted_names: BTreeSet<String>,
}

/// The location of a server that was configured earlier.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SeenEntry {
    pub file: String,
    /// Keys that led to it there.
    pub keys: Vec<String>,
    pub identity: String,
}

/// The data learnt from a server itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Remembered {
    /// Its command or URL, masked.
    pub transport: String,
    /// When it was asked.
    pub scanned: String,
    pub tools: Vec<Tool>,
    /// The changes since the previous scan.
    pub changes: Changes,
}

/// The abilities of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ability {
    pub tools: Vec<Tool>,
    /// Where this is known from, for people.
    pub source: String,
    /// Whether others than the server itself say so.
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

/// Tools that were not there before, are there no more, or are defined otherwise.
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
    /// Its category; one that is not known any more counts as execute, so that
    /// nothing looks more harmless than it was.
    pub fn category(&self) -> Category {
        Category::from_name(&self.category).unwrap_or(Category::Execute)
    }
}

impl Ability {
    /// The worst that any of its tools can do.
    pub fn worst(&self) -> Option<Category> {
        self.tools.iter().map(Tool::category).max()
    }

    /// How many of its tools are of a category.
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

    /// The name of a server in policies and counters: the one it has, or else the
    /// one given, numbered if another server has that.
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

    /// Whether a hook lets calls of this server pass.
    ///
    /// That an entry looks like one of ours says nothing: whoever writes a file of a
    /// project can write that too.
    pub fn is_accepted(&self, entry: &Entry, fingerprints: &Fingerprints) -> bool {
        self.accepted.contains(&fingerprints.of(entry))
    }

    /// Lets calls of this server pass, as long as nothing of it changes.
    pub fn accept(&mut self, entry: &Entry, fingerprints: &Fingerprints) {
        self.accepted.insert(fingerprints.of(entry));
    }
}
