//! Reads untrusted files, and replaces files atomically.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use crate::digest::sha256;

/// The largest file in bytes; some clients keep their history in it.
const LONGEST: u64 = 32 << 20;

/// A file's text, and the metadata needed to replace it.
pub(crate) struct Text {
    pub(crate) content: String,
    /// The file after resolving links.
    pub(crate) real: PathBuf,
    /// Whether another user owns it.
    pub(crate) is_foreign: bool,
    pub(crate) is_read_only: bool,
}

/// Why a file could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadProblem {
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    #[error("it is not a regular file")]
    NoFile,
    #[error("it is larger than {} MiB", LONGEST >> 20)]
    TooLarge,
    #[error("it is not text in UTF-8")]
    Binary,
}

/// Why a file was not written. It is unchanged then.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("`{}` has been changed meanwhile\nhint: run the command again", .0.display())]
    Changed(PathBuf),
    #[error("`{}` belongs to another user\nhint: run this as its owner", .0.display())]
    Foreign(PathBuf),
    #[error("`{}` is read-only\nhint: chmod u+w it, if it may be changed", .0.display())]
    ReadOnly(PathBuf),
    #[error("cannot write `{}`: {}", .0.display(), .1)]
    Failed(PathBuf, io::Error),
}

/// Reads a file; `None` if it does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<Text>, ReadProblem> {
    let failed = |error: io::Error| ReadProblem::Unreadable(error.to_string());
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if !metadata.is_file() {
        return Err(ReadProblem::NoFile);
    }
    if metadata.len() > LONGEST {
        return Err(ReadProblem::TooLarge);
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    if bytes.len() as u64 > LONGEST {
        return Err(ReadProblem::TooLarge);
    }
    let text = String::from_utf8(bytes).map_err(|_| ReadProblem::Binary)?;
    if text.contains('\0') {
        return Err(ReadProblem::Binary);
    }
    let real = fs::canonicalize(path).map_err(failed)?;
    let (is_foreign, is_read_only) = (is_foreign(&metadata), is_read_only(&metadata));
    Ok(Some(Text { content: text, real, is_foreign, is_read_only }))
}

/// Whether a file does not exist. A path below something that is not a folder does not exist
/// either.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn is_foreign(metadata: &Metadata) -> bool {
    metadata.uid() != rustix::process::geteuid().as_raw()
}

fn is_read_only(metadata: &Metadata) -> bool {
    metadata.permissions().mode() & 0o200 == 0
}

/// Replaces a file whose text has this digest. The file has either the old or the new text at any
/// time, and keeps its mode.
pub(crate) fn replace(real: &Path, digest: &str, text: &str) -> Result<(), WriteError> {
    let failed = |error| WriteError::Failed(real.to_owned(), error);
    let metadata = fs::metadata(real).map_err(failed)?;
    if is_foreign(&metadata) {
        return Err(WriteError::Foreign(real.to_owned()));
    }
    // A rename needs no write permission for the file, so it is checked here.
    if is_read_only(&metadata) {
        return Err(WriteError::ReadOnly(real.to_owned()));
    }
    let mode = metadata.permissions().mode() & 0o7777;
    let new = beside(real);
    let written = write_new(&new, mode, text).map_err(failed).and_then(|()| {
        // Checked as late as possible: a write between this and the rename is lost.
        let now = fs::read(real).map_err(failed)?;
        if sha256(&now) != digest {
            return Err(WriteError::Changed(real.to_owned()));
        }
        fs::rename(&new, real).map_err(failed)
    });
    if written.is_err() {
        // A leftover temporary file would only be in the way.
        let _ = fs::remove_file(&new);
    }
    written
}

/// Creates a new file that only the user can access.
pub(crate) fn create(path: &Path, text: &str) -> Result<(), WriteError> {
    let failed = |error| WriteError::Failed(path.to_owned(), error);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let new = beside(path);
    write_new(&new, 0o600, text).map_err(failed)?;
    // Unlike a rename, a hard link does not overwrite an existing file.
    let made = fs::hard_link(&new, path);
    let _ = fs::remove_file(&new);
    made.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => WriteError::Changed(path.to_owned()),
        _ => failed(error),
    })
}

/// Removes a file whose text has this digest.
pub(crate) fn remove(real: &Path, digest: &str) -> Result<(), WriteError> {
    let failed = |error| WriteError::Failed(real.to_owned(), error);
    if sha256(&fs::read(real).map_err(failed)?) != digest {
        return Err(WriteError::Changed(real.to_owned()));
    }
    fs::remove_file(real).map_err(failed)
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".sluice-{}", std::process::id()));
    path.with_file_name(name)
}

fn write_new(path: &Path, mode: u32, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.sync_all()
}
