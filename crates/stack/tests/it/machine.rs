//! A machine that a test has to itself: a home folder, a folder of work, and
//! backups.

use std::{
    fs,
    path::{Path, PathBuf},
};

use sluice_stack::{Adoption, Configured, Entry, Fingerprints, Folders, Front, Os, Plan};
use sluice_testkit::Folder;

pub(crate) struct Machine {
    folder: Folder,
    pub(crate) places: Folders,
}

/// When everything in these tests happens.
pub(crate) const NOW: &str = "2026-11-15T12:00:00Z";

impl Machine {
    pub(crate) fn new() -> Machine {
        let folder = Folder::new().unwrap();
        let home = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir(home.join("code")).unwrap();
        let places = Folders {
            os: Os::Linux,
            config: home.join(".config"),
            claude: None,
            codex: None,
            folder: home.join("code"),
            home,
        };
        Machine { folder, places }
    }

    /// A machine with one file.
    pub(crate) fn with(path: &str, text: &str) -> Machine {
        let machine = Machine::new();
        machine.write(path, text.as_bytes());
        machine
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.places.home.join(path)
    }

    pub(crate) fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    pub(crate) fn backups(&self) -> PathBuf {
        self.folder.path().join("data/backups")
    }

    pub(crate) fn configured(&self) -> Configured {
        Configured::read(&self.places, &front())
    }
}

/// A plan for each server, under its own name.
pub(crate) fn plans(entries: &[Entry]) -> Vec<Plan<'_>> {
    let plan = |entry| Plan {
        entry,
        name: "held".into(),
        policy: "/data/stack/policies/held.json".into(),
    };
    entries.iter().map(plan).collect()
}

pub(crate) fn front() -> Front {
    Front {
        program: "/usr/bin/sluice".into(),
        real: "/opt/sluice-1.0/sluice".into(),
        data: "/data".into(),
        fingerprints: Some(Fingerprints::new(&[7; 32])),
    }
}

/// Adopts everything in all files of a machine; what came of each.
pub(crate) fn adopt_all(machine: &Machine) -> Vec<String> {
    let configured = machine.configured();
    let mut said = Vec::new();
    for file in &configured.files {
        let adoption: Adoption<'_> = file.adopt(&plans(&file.entries), &front());
        for (entry, error) in &adoption.refused {
            said.push(format!("{}: {error}", entry.name));
        }
        if !adoption.adopted.is_empty() {
            file.write(&adoption, &machine.backups(), NOW).unwrap();
        }
    }
    said
}

/// Undoes everything; what could not be.
pub(crate) fn restore_all(machine: &Machine) -> Vec<String> {
    let mut refused = Vec::new();
    let (undone, damaged) = sluice_stack::Undo::all(&machine.backups()).unwrap();
    refused.extend(damaged.iter().map(ToString::to_string));
    for undo in undone {
        undo.apply(NOW).unwrap();
        refused.extend(undo.refused.iter().map(|left| format!("{}: {}", left.name, left.why)));
    }
    refused
}

/// All files below a folder.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(children) = fs::read_dir(folder) else { return found };
    for child in children {
        let path = child.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}
