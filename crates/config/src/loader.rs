//! The context of loading: the base folder of relative paths, the environment, the errors
//! found so far, and the files that were read.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use super::{problem::Findings, watched::WatchedFile};
use crate::Environment;

pub(super) struct Loader<'l> {
    /// The folder of the configuration file.
    folder: &'l Path,
    pub(super) environment: &'l Environment,
    pub(super) findings: Findings,
    /// Every file whose content matters, including missing ones.
    pub(super) files: Vec<WatchedFile>,
}

impl<'l> Loader<'l> {
    pub(super) fn new(folder: &'l Path, environment: &'l Environment) -> Loader<'l> {
        Loader { folder, environment, findings: Findings::default(), files: Vec::new() }
    }

    /// Resolves a path relative to the folder of the configuration file.
    pub(super) fn path(&self, written: &str) -> PathBuf {
        self.folder.join(written)
    }

    /// Reads a file that the configuration names.
    pub(super) fn read(&mut self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        self.note(path);
        read(path, most)
    }

    /// Notes that the content of a file matters. It is called before the file is read.
    pub(super) fn note(&mut self, path: &Path) {
        if !self.files.iter().any(|known| known.path == path) {
            self.files.push(WatchedFile::note(path));
        }
    }
}

/// Reads a file's first `most` bytes. It does not block on pipes and devices.
pub(super) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut text)?;
    Ok(text)
}
