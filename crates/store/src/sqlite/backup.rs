//! Copies of the database: made while processes write to it, and the lock under which one
//! takes its place.

use std::{fs::OpenOptions, os::unix::fs::OpenOptionsExt as _, path::Path};

use rusqlite::{Connection, OpenFlags, backup, config::DbConfig};
use sluice_policy::Timestamp;

use super::{Keys, compare, read, sums};
use crate::{
    StoreError,
    chain::Verified,
    head::{Extent, Head, HeadFile},
};

/// Pages that are copied at once.
const STEP: i32 = 1_000;

/// Copies the database of `directory` as of one moment to `target`, with a head of that
/// moment. The database must be what its head says, and the copy is verified.
pub(super) fn copy(
    connection: &Connection,
    keys: &Keys,
    directory: &Path,
    target: &Path,
    file: &str,
    now: Timestamp,
) -> Result<Verified, StoreError> {
    let changed = |disagreement: crate::Disagreement| {
        StoreError::Failed(format!("{disagreement}\nhint: sluice log verify"))
    };
    let failed = |error: std::io::Error| StoreError::Failed(format!("the copy: {error}"));
    // This connection's read transaction lasts until the copy is made.
    let head = compare::begin_with_head(connection, directory, &keys.master)?.map_err(changed)?;
    let sums = compare::compare(connection, &head, &keys.sums, &sums::ALL)?.map_err(changed)?;
    let extent = Extent { end: compare::read_end(connection)?, sums };
    let path = target.join(file);
    let private = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    drop(private.map_err(failed)?);
    let mut copy = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    backup::Backup::new(connection, &mut copy)?.run_to_completion(
        STEP,
        std::time::Duration::ZERO,
        None,
    )?;
    drop(copy);
    let head = Head::of_new(head.incarnation, extent);
    HeadFile::create(target, &keys.master, &head).map_err(failed)?;
    let copy = read::connect(&path)?;
    let verified = read::verify(&copy, keys, target, now)?;
    match verified.faults.first() {
        Some(fault) => Err(StoreError::Failed(format!("the copy is not whole: {fault}"))),
        None => Ok(verified),
    }
}

/// Keeps every process from using a database until it is dropped.
#[derive(Debug)]
pub struct DatabaseLock {
    _connection: Option<Connection>,
}

/// Locks a database that no process has open; `None` if one has. Neither the file nor its
/// write-ahead log is changed.
pub(crate) fn lock(path: &Path) -> Result<Option<DatabaseLock>, StoreError> {
    if !path.exists() {
        return Ok(Some(DatabaseLock { _connection: None }));
    }
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    match connection.execute_batch("BEGIN EXCLUSIVE") {
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => {
            Ok(None)
        }
        // A damaged file cannot be locked, and nobody can use it.
        _ => Ok(Some(DatabaseLock { _connection: Some(connection) })),
    }
}
