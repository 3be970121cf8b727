//! The files of the configuration and their content at the time of reading, to detect changes.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use data_encoding::HEXLOWER;
use ring::digest::{SHA256, digest as hash};

use super::{LONGEST_FILE, loader};

/// A file, or a folder of files, whose content is part of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedFile {
    pub path: PathBuf,
    /// The digest of its content; `None` if it could not be read.
    content: Option<String>,
}

impl WatchedFile {
    /// Takes the digest of a file before it is read. A change in between only causes one extra
    /// reload.
    pub(super) fn note(path: &Path) -> WatchedFile {
        WatchedFile { path: path.to_owned(), content: content(path) }
    }

    /// Whether its content has changed since.
    pub fn has_changed(&self) -> bool {
        content(&self.path) != self.content
    }
}

/// A digest of the content of all these files. It may depend on secrets, so it must not be shown.
pub fn digest(files: &[WatchedFile]) -> String {
    let contents: Vec<_> =
        files.iter().map(|file| file.content.as_deref().unwrap_or("-")).collect();
    sha256(contents.join("\n").as_bytes())
}

fn content(path: &Path) -> Option<String> {
    match loader::read(path, LONGEST_FILE + 1) {
        Ok(text) => Some(sha256(&text)),
        Err(_) => content_of_folder(path),
    }
}

/// The digest of the files in a folder, if the path is a folder.
fn content_of_folder(folder: &Path) -> Option<String> {
    let entries = fs::read_dir(folder).ok()?;
    let paths: BTreeSet<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    // An empty folder counts as a missing one.
    if paths.is_empty() {
        return None;
    }
    let mut contents = Vec::new();
    for path in paths {
        contents.extend_from_slice(path.file_name().unwrap_or_default().as_encoded_bytes());
        contents.push(0);
        let text = loader::read(&path, LONGEST_FILE + 1).unwrap_or_default();
        contents.extend_from_slice(sha256(&text).as_bytes());
    }
    Some(sha256(&contents))
}

fn sha256(bytes: &[u8]) -> String {
    HEXLOWER.encode(hash(&SHA256, bytes).as_ref())
}
