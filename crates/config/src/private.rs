//! Checks that only its owner can access a file or directory.

use std::{
    fs::Metadata,
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// Why a file or directory does not count as private.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error("cannot read `{}`", .0.display())]
    Read(PathBuf, #[source] io::Error),
    #[error("others have access to `{}` (mode {mode:04o})\nhint: {}", path.display(), closing(path, *wanted))]
    Mode { path: PathBuf, mode: u32, wanted: u32 },
    #[error("`{}` belongs to another user (uid {owner}, not {user})\nhint: sudo chown -R {user} '{}'", path.display(), path.display())]
    Owner { path: PathBuf, owner: u32, user: u32 },
}

/// How to take others' access away. A directory of other programs must stay as it is.
fn closing(path: &Path, wanted: u32) -> String {
    let close = format!("chmod {wanted:o} '{}'", path.display());
    let is_data = |directory: &Path| directory.join("keys").is_dir();
    let is_ours = is_data(path) || path.parent().is_some_and(is_data);
    if path.is_dir() && !is_ours {
        format!("if it is for Sluicegate alone: {close}; otherwise name another with `--data`")
    } else {
        close
    }
}

/// Checks that a file or directory is private to the current user.
pub fn check(path: &Path) -> Result<(), AccessError> {
    let metadata = path.metadata().map_err(|error| AccessError::Read(path.to_owned(), error))?;
    check_metadata(path, &metadata, if metadata.is_dir() { 0o700 } else { 0o600 })
}

/// Checks that the user owns it and nobody else has any access. `wanted` is the
/// mode it should have.
pub fn check_metadata(path: &Path, metadata: &Metadata, wanted: u32) -> Result<(), AccessError> {
    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != user {
        return Err(AccessError::Owner { path: path.to_owned(), owner, user });
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(AccessError::Mode { path: path.to_owned(), mode, wanted });
    }
    Ok(())
}
