//! Restores rewritten files.
//!
//! A file that has not changed since is restored byte for byte. In a file that has been
//! edited, only our own changes are reverted, whatever the layout is by then. An entry
//! whose meaning has changed is left alone, and the reason is reported.

mod sides;

use std::path::{Path, PathBuf};

use self::sides::Sides;
use crate::{
    adopt::value,
    backup::{Backup, BackupError, Kind},
    digest::sha256,
    disk::{self, WriteError},
    file::{body, locate_entries, position, with_body},
    hook,
};

/// How completely a file is restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Byte for byte.
    Exact,
    /// The file has changed meanwhile: only our changes are reverted.
    InPart,
    /// Nothing can be restored.
    Nothing,
}

/// The planned restore of one file.
pub struct Undo {
    pub file: PathBuf,
    pub client: String,
    pub outcome: Outcome,
    /// Names of the entries that are restored.
    pub names: Vec<String>,
    /// Entries that cannot be restored, and why.
    pub refused: Vec<Left>,
    /// The folders of the file's backups.
    pub backups: Vec<PathBuf>,
    before: String,
    /// The text to write; `None` removes the file, because it did not exist before.
    after: Option<String>,
    settled: Vec<(Backup, Vec<Vec<String>>)>,
}

/// An entry that cannot be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    pub name: String,
    pub why: String,
    /// The backup with the original entry.
    pub kept: PathBuf,
}

impl std::fmt::Debug for Undo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The texts may hold secrets.
        write!(f, "Undo({}, {:?}, {:?})", self.file.display(), self.outcome, self.names)
    }
}

const GONE: &str = "its file is no longer there";
const CHANGED: &str = "its entry has been changed since";
/// The number of differing keys that are listed.
const MOST_NAMED: usize = 5;
const UNREADABLE: &str = "its file cannot be read any more";

impl Undo {
    /// Plans the restore of every file with backups below a folder; also returns the backups that
    /// cannot be used.
    pub fn all(backups: &Path) -> Result<(Vec<Undo>, Vec<BackupError>), BackupError> {
        let mut undone: Vec<Undo> = Vec::new();
        let (all, mut damaged) = Backup::all(backups)?;
        let mut files: Vec<&PathBuf> = all.iter().map(|backup| &backup.manifest.file).collect();
        files.sort();
        files.dedup();
        for file in files {
            let of_file = all.iter().filter(|backup| &backup.manifest.file == file);
            match Undo::of_file(file, of_file.cloned().collect()) {
                Ok(undo) => undone.push(undo),
                Err(error) => damaged.push(error),
            }
        }
        Ok((undone, damaged))
    }

    /// Plans the restore of one file. Backups are sorted and undone newest first.
    fn of_file(file: &Path, backups: Vec<Backup>) -> Result<Undo, BackupError> {
        let mut undo = Undo {
            file: file.to_owned(),
            client: backups.first().map(|one| one.manifest.client.clone()).unwrap_or_default(),
            outcome: Outcome::Nothing,
            names: Vec::new(),
            refused: Vec::new(),
            backups: backups.iter().map(|backup| backup.folder.clone()).collect(),
            before: String::new(),
            after: None,
            settled: Vec::new(),
        };
        let current = match disk::read(file) {
            Ok(Some(read)) => read.content,
            // The file did not exist before the first backup either.
            Ok(None) if backups.last().is_some_and(|first| !first.manifest.existed) => {
                undo.settled = backups.into_iter().map(|backup| (backup, Vec::new())).collect();
                return Ok(undo);
            }
            Ok(None) => return Ok(undo.refusing(&backups, GONE)),
            Err(_) => return Ok(undo.refusing(&backups, UNREADABLE)),
        };
        undo.before.clone_from(&current);
        let mut text = Some(current);
        let mut is_exact = true;
        for backup in backups {
            // The file did not exist before, and is gone already.
            let Some(now) = text.take() else {
                undo.settled.push((backup, Vec::new()));
                continue;
            };
            if sha256(now.as_bytes()) == backup.manifest.after {
                undo.names.extend(backup.manifest.entries.iter().map(|keys| entry_name(keys)));
                let original = backup.original()?;
                text = backup.manifest.existed.then_some(original);
                undo.settled.push((backup, Vec::new()));
            } else {
                is_exact = false;
                text = Some(undo.in_part(now, backup)?);
            }
        }
        undo.outcome = match () {
            () if undo.names.is_empty() => Outcome::Nothing,
            () if is_exact => Outcome::Exact,
            () => Outcome::InPart,
        };
        undo.after = text;
        Ok(undo)
    }

    fn refusing(mut self, backups: &[Backup], why: &str) -> Undo {
        for backup in backups {
            self.refuse(backup, why);
        }
        self
    }

    /// Leaves all entries of a backup as they are.
    fn refuse(&mut self, backup: &Backup, why: &str) {
        for keys in &backup.manifest.entries {
            self.leave(backup, keys, why);
        }
    }

    fn leave(&mut self, backup: &Backup, keys: &[String], why: &str) {
        let (why, kept) = (why.to_owned(), backup.original_file());
        self.refused.push(Left { name: entry_name(keys), why, kept });
    }

    /// Reverts our changes in a text that somebody else has edited.
    fn in_part(&mut self, mut text: String, backup: Backup) -> Result<String, BackupError> {
        // If the text cannot be parsed, the entries cannot be found, which does not mean that they
        // are gone.
        if let Err(spoilt) = locate_entries(&text, backup.form()) {
            let (line, column) = position(body(&text), spoilt.at);
            let why = format!("its file cannot be read at {line}:{column}: {}", spoilt.message);
            self.refuse(&backup, &why);
            return Ok(text);
        }
        let mut left = Vec::new();
        if backup.manifest.kind == Kind::Hook {
            match hook::without(&text) {
                Some(without) => {
                    self.names.push(entry_name(&[]));
                    text = without;
                }
                // Somebody has put our hook beside another command.
                None if text.contains(hook::MARK) => {
                    self.leave(&backup, &[], CHANGED);
                    left.push(Vec::new());
                }
                None => {}
            }
            self.settled.push((backup, left));
            return Ok(text);
        }
        let (original, rewritten) = (backup.original()?, backup.rewritten()?);
        for keys in &backup.manifest.entries {
            let sides = Sides {
                form: backup.form(),
                keys,
                original: body(&original),
                rewritten: body(&rewritten),
            };
            if sides.is_done(body(&text)) {
                continue;
            }
            match sides.revert(body(&text)) {
                Some(new) => {
                    text = with_body(&text, new);
                    self.names.push(entry_name(keys));
                }
                None if value(body(&text), sides.form, keys).is_none() => {
                    // Somebody has removed the server, so there is nothing to undo.
                }
                None => {
                    let differences = sides.differences(body(&text));
                    self.leave(&backup, keys, &describe_changes(&differences));
                    left.push(keys.clone());
                }
            }
        }
        self.settled.push((backup, left));
        Ok(text)
    }

    /// Writes the file, and marks the backups as restored.
    pub fn apply(&self, time: &str) -> Result<(), BackupError> {
        if self.outcome == Outcome::Nothing && self.settled.is_empty() {
            return Ok(());
        }
        let digest = sha256(self.before.as_bytes());
        match &self.after {
            _ if self.outcome == Outcome::Nothing => {}
            Some(after) if after == &self.before => {}
            Some(after) => disk::replace(&self.real()?, &digest, after)?,
            None => disk::remove(&self.file, &digest)?,
        }
        for (backup, left) in &self.settled {
            backup.settle(left.clone(), time)?;
        }
        Ok(())
    }

    fn real(&self) -> Result<PathBuf, WriteError> {
        let failed = |error| WriteError::Failed(self.file.clone(), error);
        std::fs::canonicalize(&self.file).map_err(failed)
    }
}

/// Why an entry that differs in these keys is not restored.
fn describe_changes(differences: &[String]) -> String {
    if differences.is_empty() {
        return CHANGED.to_owned();
    }
    let named = differences.iter().take(MOST_NAMED).map(|key| format!("`{key}`"));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = if differences.len() > MOST_NAMED { " and more" } else { "" };
    format!("{CHANGED}: {named}{more}")
}

/// An entry's name for people; the hooks of a client have no name.
fn entry_name(keys: &[String]) -> String {
    keys.last().cloned().unwrap_or_else(|| "the hook".to_owned())
}
