//! Reading the log, beside the writer and without holding it up.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::StoreError;
use crate::chain::{Verified, Verifier};

/// Which records to read.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// At most so many, the newest ones.
    pub limit: Option<u32>,
}

/// Records from the newest on.
pub(super) fn records(path: &Path, filter: &Filter) -> Result<Vec<String>, StoreError> {
    let connection = reader(path)?;
    let mut statement = connection.prepare("SELECT body FROM audit ORDER BY seq DESC LIMIT ?1")?;
    let limit = filter.limit.map_or(-1, i64::from);
    let rows = statement.query_map([limit], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Checks the whole log.
pub(super) fn verify(path: &Path) -> Result<Verified, StoreError> {
    Ok(verify_after(&reader(path)?, 0)?)
}

/// Checks the newest records.
pub(super) fn verify_last(connection: &Connection, count: u32) -> rusqlite::Result<Verified> {
    let newest: i64 =
        connection.query_row("SELECT coalesce(max(seq), 0) FROM audit", [], |row| row.get(0))?;
    verify_after(connection, newest - i64::from(count))
}

fn verify_after(connection: &Connection, after: i64) -> rusqlite::Result<Verified> {
    let mut verifier = Verifier::default();
    let mut statement =
        connection.prepare("SELECT seq, body FROM audit WHERE seq > ?1 ORDER BY seq")?;
    let mut rows = statement.query([after])?;
    while let Some(row) = rows.next()? {
        verifier.check(row.get(0)?, row.get_ref(1)?.as_str()?);
    }
    Ok(verifier.finish())
}

pub(super) fn reader(path: &Path) -> rusqlite::Result<Connection> {
    Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
}
