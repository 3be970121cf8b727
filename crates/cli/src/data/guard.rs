//! Whether a file or directory is its user's alone.

use std::{fs::Metadata, os::unix::fs::MetadataExt as _, path::Path};

use super::DataError;

/// Checks that the user owns it and nobody else has any access. `wanted` is the
/// mode it should have.
pub(super) fn check(path: &Path, metadata: &Metadata, wanted: u32) -> Result<(), DataError> {
    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != user {
        return Err(DataError::Owner { path: path.to_owned(), owner, user });
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(DataError::Mode { path: path.to_owned(), mode, wanted });
    }
    Ok(())
}
