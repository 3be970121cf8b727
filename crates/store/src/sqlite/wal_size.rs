//! Notices a write-ahead log that has become shorter. SQLite would write on behind the gap,
//! which then hides that something is missing.

use std::{fs::File, path::PathBuf};

use rusqlite::Connection;

use crate::StoreError;

/// The size of the write-ahead log of a connection, which never shrinks while it is open.
#[derive(Debug)]
pub(super) struct WalSize {
    path: PathBuf,
    /// Kept open, because finding the file by its path takes longer than the rest.
    file: Option<File>,
    largest: u64,
}

impl WalSize {
    pub(super) fn new(connection: &Connection) -> WalSize {
        WalSize {
            path: format!("{}-wal", connection.path().unwrap_or_default()).into(),
            file: None,
            largest: 0,
        }
    }

    /// Fails if the file is shorter than when it was last looked at.
    pub(super) fn check(&mut self) -> Result<(), StoreError> {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        // A file that is not there, or another one, is found by the thread that watches the files.
        let Some(size) = self.file.as_ref().and_then(|file| Some(file.metadata().ok()?.len()))
        else {
            return Ok(());
        };
        if size < self.largest {
            let path = self.path.display();
            return Err(StoreError::Failed(format!("`{path}` was truncated while it was in use")));
        }
        self.largest = size;
        Ok(())
    }
}
