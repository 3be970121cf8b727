//! Notices a write-ahead log that has become shorter. SQLite would write on behind the gap,
//! which then hides that something is missing.

use std::{fs, path::PathBuf};

use rusqlite::Connection;

use crate::StoreError;

/// The size of the write-ahead log of a connection, which never shrinks while it is open.
#[derive(Debug)]
pub(super) struct WalSize {
    path: PathBuf,
    largest: u64,
}

impl WalSize {
    pub(super) fn new(connection: &Connection) -> WalSize {
        WalSize {
            path: format!("{}-wal", connection.path().unwrap_or_default()).into(),
            largest: 0,
        }
    }

    /// Fails if the file is shorter than when it was last looked at.
    pub(super) fn check(&mut self) -> Result<(), StoreError> {
        // A file that is not there is found by the thread that watches the files.
        let Ok(size) = fs::metadata(&self.path).map(|metadata| metadata.len()) else {
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
