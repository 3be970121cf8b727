//! Leases: the places that calls in progress take, a row each until their outcome is known.
//!
//! A process that holds leases keeps a lock on a file of its own. The system takes the lock
//! away when the process ends, however it ends. A process that needs a place looks whether
//! the holders of those that are taken still have their locks, and frees the leases of those
//! that do not.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use rusqlite::{Connection, Statement, params};

use crate::{
    StoreError,
    counter::{CounterKey, Lease},
    id::Id,
};

/// Where the lock files are, in the data directory.
const DIRECTORY: &str = "leases";

/// The leases of this process, and its view of those of others.
#[derive(Debug)]
pub(super) struct LeaseHolder {
    directory: PathBuf,
    /// What the rows and the lock file of this process are called.
    name: Arc<str>,
    /// The file that is locked, once there was a lease.
    lock: Option<File>,
}

impl LeaseHolder {
    pub(super) fn new(data: &Path, name: Arc<str>) -> LeaseHolder {
        LeaseHolder { directory: data.join(DIRECTORY), name, lock: None }
    }

    /// How many calls are in progress for each lease. If one does not fit, the leases of
    /// processes that have ended are freed first.
    pub(super) fn count(
        &self,
        connection: &Connection,
        leases: &[Lease],
    ) -> Result<Vec<u64>, StoreError> {
        let mut counts = Vec::with_capacity(leases.len());
        for Lease { key, max } in leases {
            let mut taken = count(connection, key)?;
            if taken >= *max && self.free_ended_of(connection, key)? {
                taken = count(connection, key)?;
            }
            counts.push(taken);
        }
        Ok(counts)
    }

    /// Takes leases for a request.
    pub(super) fn take(
        &mut self,
        connection: &Connection,
        id: Id,
        leases: &[Lease],
    ) -> Result<(), StoreError> {
        if leases.is_empty() {
            return Ok(());
        }
        self.hold_lock().map_err(|error| {
            let file = self.file(&self.name);
            StoreError::Failed(format!("`{}` cannot be locked: {error}", file.display()))
        })?;
        let sql = "INSERT OR IGNORE INTO leases VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let mut statement = connection.prepare_cached(sql)?;
        for lease in leases {
            let [server, scope, owner, name] = lease.key.parts();
            let request = id.text();
            let row = params![server, scope, owner, name, request.as_str(), &*self.name];
            statement.execute(row)?;
        }
        Ok(())
    }

    /// Frees all leases of processes that have ended.
    pub(super) fn free_all_ended(&self, connection: &Connection) -> rusqlite::Result<()> {
        let statement = connection.prepare("SELECT DISTINCT writer FROM leases")?;
        self.free_ended(connection, statement, &[]).map(|_| ())
    }

    /// Frees the leases of processes that have ended and hold one of these; returns whether
    /// there was any.
    fn free_ended_of(&self, connection: &Connection, key: &CounterKey) -> rusqlite::Result<bool> {
        let statement = connection.prepare(
            "SELECT DISTINCT writer FROM leases
             WHERE server = ?1 AND scope = ?2 AND owner = ?3 AND name = ?4",
        )?;
        self.free_ended(connection, statement, &key.parts())
    }

    fn free_ended(
        &self,
        connection: &Connection,
        mut holders: Statement<'_>,
        of: &[&str],
    ) -> rusqlite::Result<bool> {
        let names = holders.query_map(rusqlite::params_from_iter(of), |row| row.get(0))?;
        let names = names.collect::<rusqlite::Result<Vec<String>>>()?;
        let others = names.iter().filter(|name| ***name != *self.name);
        let mut freed = false;
        for name in others.filter(|name| self.has_ended(name)) {
            connection.execute("DELETE FROM leases WHERE writer = ?1", [name])?;
            freed = true;
        }
        Ok(freed)
    }

    /// Whether the process with this lock file has ended. If that cannot be found out, it is
    /// taken to run.
    fn has_ended(&self, name: &str) -> bool {
        let path = self.file(name);
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) => return error.kind() == io::ErrorKind::NotFound,
        };
        let has_ended = file.try_lock().is_ok();
        if has_ended {
            // If it stays, it is only looked at again.
            let _ = fs::remove_file(&path);
        }
        has_ended
    }

    /// Makes sure that the file of this process is there and locked.
    fn hold_lock(&mut self) -> io::Result<()> {
        if let Some(file) = &self.lock
            && file.metadata()?.nlink() > 0
        {
            return Ok(());
        }
        match DirBuilder::new().mode(0o700).create(&self.directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let path = self.file(&self.name);
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::Error(error) => error,
            TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
        })?;
        self.lock = Some(file);
        Ok(())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

impl Drop for LeaseHolder {
    fn drop(&mut self) {
        if self.lock.is_some() {
            // If it stays, the next process that looks at it removes it.
            let _ = fs::remove_file(self.file(&self.name));
        }
    }
}

/// Frees the leases of requests.
pub(super) fn free(connection: &Connection, requests: &[Id]) -> rusqlite::Result<()> {
    for request in requests {
        let sql = "DELETE FROM leases WHERE request = ?1";
        connection.prepare_cached(sql)?.execute([request.text().as_str()])?;
    }
    Ok(())
}

fn count(connection: &Connection, key: &CounterKey) -> rusqlite::Result<u64> {
    let sql = "SELECT count(*) FROM leases
        WHERE server = ?1 AND scope = ?2 AND owner = ?3 AND name = ?4";
    let count: i64 = connection.prepare_cached(sql)?.query_row(key.parts(), |row| row.get(0))?;
    Ok(count.unsigned_abs())
}
