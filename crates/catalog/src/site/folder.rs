//! The output folder of a site, and the checks that protect other files in it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::SiteError;

/// Marks a folder that this command has written, so that it may be overwritten.
const MARKER: &str = ".sluicegate-catalog";
/// The files of a site.
const FILES: [&str; 5] = ["index.html", "attacks.html", "style.css", "search.js", "data.js"];

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("`{}` has other things in it\nhint: name a new or empty folder", .0.display())]
    Occupied(PathBuf),
    #[error("`{}` is not a folder", .0.display())]
    NoFolder(PathBuf),
    #[error("cannot use folder `{}`", .0.display())]
    Unusable(PathBuf, #[source] io::Error),
}

/// A folder that pages may be written to.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Accepts an empty folder, a new one, or one that this command has written, from which it
    /// removes the old pages.
    pub(super) fn prepare(path: PathBuf) -> Result<Folder, FolderError> {
        match use_folder(&path) {
            Ok(()) => Ok(Folder(path)),
            Err(Unfit::Occupied) => Err(FolderError::Occupied(path)),
            Err(Unfit::NoFolder) => Err(FolderError::NoFolder(path)),
            Err(Unfit::Failed(error)) => Err(FolderError::Unusable(path, error)),
        }
    }

    pub(super) fn make(&self, folder: &str) -> Result<(), SiteError> {
        let path = self.0.join(folder);
        fs::create_dir_all(&path).map_err(|error| SiteError::Write(path, error))
    }

    pub(super) fn write(&self, file: &str, text: &str) -> Result<(), SiteError> {
        let path = self.0.join(file);
        fs::write(&path, text).map_err(|error| SiteError::Write(path, error))
    }
}

enum Unfit {
    Occupied,
    NoFolder,
    Failed(io::Error),
}

impl From<io::Error> for Unfit {
    fn from(error: io::Error) -> Unfit {
        Unfit::Failed(error)
    }
}

fn use_folder(path: &Path) -> Result<(), Unfit> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_dir() => return Err(Unfit::NoFolder),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir_all(path)?,
        Err(error) => return Err(error.into()),
    }
    let marker = path.join(MARKER);
    if marker.is_file() {
        for file in FILES {
            ignore_missing(fs::remove_file(path.join(file)))?;
        }
        return Ok(ignore_missing(fs::remove_dir_all(path.join("servers")))?);
    }
    if fs::read_dir(path)?.next().is_some() {
        return Err(Unfit::Occupied);
    }
    Ok(fs::write(marker, "Made by `sluice catalog export`, which may overwrite this folder.\n")?)
}

/// A missing file counts as removed.
fn ignore_missing(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use sluice_testkit::Folder as Scratch;

    use super::{Folder, FolderError};

    #[test]
    fn only_new_empty_and_own_folders_are_accepted() {
        let scratch = Scratch::new().unwrap();
        let site = scratch.join("a/b");
        let folder = Folder::prepare(site.clone()).unwrap();
        folder.make("servers/x").unwrap();
        folder.write("servers/x/old.html", "").unwrap();
        fs::write(site.join("mine.txt"), "").unwrap();
        // A second run removes the old pages, and leaves other files.
        Folder::prepare(site.clone()).unwrap();
        assert!(!site.join("servers").exists() && site.join("mine.txt").exists());
        // Other folders are refused.
        let foreign = scratch.join("foreign");
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join("index.html"), "mine").unwrap();
        assert!(matches!(Folder::prepare(foreign.clone()), Err(FolderError::Occupied(_))));
        assert_eq!(fs::read_to_string(foreign.join("index.html")).unwrap(), "mine");
        let file = foreign.join("index.html");
        assert!(matches!(Folder::prepare(file), Err(FolderError::NoFolder(_))));
    }
}
