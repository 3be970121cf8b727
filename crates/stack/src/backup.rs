//! Backups of rewritten files, from which they can be restored.
//!
//! A backup is a folder with the file's text before (`original`) and after
//! (`rewritten`), and a manifest. Both texts may contain secrets, so only the user can
//! read the folder; the manifest contains none.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    adopt::Adoption,
    digest::sha256,
    disk::{self, WriteError},
    file::ConfigFile,
    locations::{FileFormat, Syntax},
};

const MANIFEST: &str = "manifest.json";
const ORIGINAL: &str = "original";
const REWRITTEN: &str = "rewritten";

/// The metadata of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// When the file was rewritten.
    pub time: String,
    pub client: String,
    /// The file that was rewritten.
    pub file: PathBuf,
    /// Whether the file existed before.
    pub existed: bool,
    /// The SHA-256 of its text, before and after.
    pub before: String,
    pub after: String,
    pub kind: Kind,
    /// The key path of each changed entry that is not yet restored.
    pub entries: Vec<Vec<String>>,
    /// When it was restored.
    #[serde(default)]
    pub restored: Option<String>,
}

/// The kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Json,
    Toml,
    Hook,
}

/// One backup.
#[derive(Debug, Clone)]
pub struct Backup {
    pub folder: PathBuf,
    pub manifest: Manifest,
}

/// Why a backup cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("cannot write the backup `{}`: {}\nhint: nothing else was written", .0.display(), .1)]
    Write(PathBuf, io::Error),
    #[error("cannot read the backup `{}`: {}", .0.display(), .1)]
    Read(PathBuf, io::Error),
    #[error("the backup `{}` does not hold what belongs there\nhint: put its file right by hand, and remove the backup", .0.display())]
    Content(PathBuf),
    #[error(transparent)]
    File(#[from] WriteError),
}

/// A new text for a file.
pub(crate) struct Rewrite<'a> {
    pub(crate) client: &'a str,
    pub(crate) file: &'a Path,
    /// `None` if the file does not exist yet.
    pub(crate) before: Option<&'a str>,
    pub(crate) after: &'a str,
    pub(crate) kind: Kind,
    pub(crate) entries: Vec<Vec<String>>,
}

impl ConfigFile {
    /// Saves the file's text below `backups`, and writes the new text.
    pub fn write(
        &self,
        adoption: &Adoption<'_>,
        backups: &Path,
        time: &str,
    ) -> Result<Backup, BackupError> {
        let rewrite = Rewrite {
            client: self.client.id(),
            file: &self.real,
            before: Some(&self.text),
            after: &adoption.text,
            kind: if self.form.syntax == Syntax::Toml { Kind::Toml } else { Kind::Json },
            entries: adoption.adopted.iter().map(|entry| entry.keys.clone()).collect(),
        };
        rewrite.finish(backups, time)
    }
}

impl Rewrite<'_> {
    pub(crate) fn finish(self, backups: &Path, time: &str) -> Result<Backup, BackupError> {
        let before = self.before.unwrap_or_default();
        let manifest = Manifest {
            time: time.to_owned(),
            client: self.client.to_owned(),
            file: self.file.to_owned(),
            existed: self.before.is_some(),
            before: sha256(before.as_bytes()),
            after: sha256(self.after.as_bytes()),
            kind: self.kind,
            entries: self.entries,
            restored: None,
        };
        let backup = Backup { folder: new_folder(backups, &manifest)?, manifest };
        backup.put(ORIGINAL, before)?;
        backup.put(REWRITTEN, self.after)?;
        backup.note()?;
        let written = match self.before {
            Some(_) => disk::replace(self.file, &backup.manifest.before, self.after),
            None => disk::create(self.file, self.after),
        };
        if let Err(error) = written {
            // The file was not changed, so the backup is useless.
            let _ = fs::remove_dir_all(&backup.folder);
            return Err(error.into());
        }
        Ok(backup)
    }
}

/// Creates a folder whose name sorts after those of earlier backups.
fn new_folder(backups: &Path, manifest: &Manifest) -> Result<PathBuf, BackupError> {
    let failed = |error| BackupError::Write(backups.to_owned(), error);
    DirBuilder::new().recursive(true).mode(0o700).create(backups).map_err(failed)?;
    // Some systems do not allow colons in names.
    let time = manifest.time.replace(':', "");
    // Several files may be rewritten in the same second, by several processes: only one of them can
    // create a given folder.
    for number in 0..1000 {
        let folder = backups.join(format!("{time}-{number:03}"));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(BackupError::Write(folder, error)),
        }
    }
    Err(BackupError::Write(backups.to_owned(), io::Error::other("there are too many")))
}

impl Backup {
    /// Backups that are not restored yet, the newest first, and the errors of those that cannot be
    /// read.
    pub fn all(backups: &Path) -> Result<(Vec<Backup>, Vec<BackupError>), BackupError> {
        let failed = |error| BackupError::Read(backups.to_owned(), error);
        let folders = match fs::read_dir(backups) {
            Ok(folders) => folders,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Default::default()),
            Err(error) => return Err(failed(error)),
        };
        let (mut found, mut damaged) = (Vec::new(), Vec::new());
        for folder in folders {
            match Backup::read(folder.map_err(failed)?.path()) {
                Ok(backup) => found.extend(backup.filter(|one| one.manifest.restored.is_none())),
                Err(error) => damaged.push(error),
            }
        }
        found.sort_by(|a, b| b.folder.cmp(&a.folder));
        Ok((found, damaged))
    }

    fn read(folder: PathBuf) -> Result<Option<Backup>, BackupError> {
        let path = folder.join(MANIFEST);
        match fs::read(&path) {
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(manifest) => Ok(Some(Backup { folder, manifest })),
                Err(_) => Err(BackupError::Content(path)),
            },
            // The manifest is written before the file, so without it the file was not changed.
            Err(error) if disk::is_absent(&error) => Ok(None),
            Err(error) => Err(BackupError::Read(path, error)),
        }
    }

    /// The file's text before it was rewritten.
    pub(crate) fn original(&self) -> Result<String, BackupError> {
        let text = self.get(ORIGINAL)?;
        if sha256(text.as_bytes()) == self.manifest.before {
            Ok(text)
        } else {
            Err(BackupError::Content(self.folder.join(ORIGINAL)))
        }
    }

    /// The path of that text.
    pub(crate) fn original_file(&self) -> PathBuf {
        self.folder.join(ORIGINAL)
    }

    /// The text that replaced it.
    pub(crate) fn rewritten(&self) -> Result<String, BackupError> {
        self.get(REWRITTEN)
    }

    pub(crate) fn form(&self) -> FileFormat {
        let syntax = if self.manifest.kind == Kind::Toml { Syntax::Toml } else { Syntax::Json };
        FileFormat { syntax, roots: &[] }
    }

    /// Records the entries that remain to be restored, and the time if none remains.
    pub(crate) fn settle(&self, left: Vec<Vec<String>>, time: &str) -> Result<(), BackupError> {
        let mut settled = self.clone();
        settled.manifest.restored = left.is_empty().then(|| time.to_owned());
        settled.manifest.entries = left;
        settled.note()
    }

    fn note(&self) -> Result<(), BackupError> {
        let text = serde_json::to_string_pretty(&self.manifest)
            .map_err(|error| BackupError::Write(self.folder.clone(), error.into()))?;
        self.put(MANIFEST, &format!("{text}\n"))
    }

    fn get(&self, name: &str) -> Result<String, BackupError> {
        let path = self.folder.join(name);
        fs::read_to_string(&path).map_err(|error| BackupError::Read(path, error))
    }

    fn put(&self, name: &str, text: &str) -> Result<(), BackupError> {
        let path = self.folder.join(name);
        let new = self.folder.join(format!("{name}.new"));
        let written = || {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)
        };
        written().map_err(|error| BackupError::Write(path.clone(), error))
    }
}
