//! Compares the database with its head.

use std::{path::Path, thread, time::Duration};

use rusqlite::{Connection, OptionalExtension as _};

use super::sums::{self, SumKey};
use crate::{
    StoreError,
    chain::{ChainEnd, Hash},
    head::{Disagreement, Head, HeadFile, Incarnation, PARTS, Standing, Sums},
    key::Key,
};

/// Attempts to see the database and its head at one moment, and the pause between them.
const MOST_TRIES: u32 = 1_000;
const PAUSE: Duration = Duration::from_millis(1);

/// The last record of the log.
pub(super) fn read_end(connection: &Connection) -> rusqlite::Result<ChainEnd> {
    let sql = "SELECT seq, hash FROM records ORDER BY seq DESC LIMIT 1";
    let end = connection.prepare_cached(sql)?.query_row([], |row| {
        // A hash of another form is none of ours.
        Ok(ChainEnd { seq: row.get(0)?, hash: row.get(1).unwrap_or_default() })
    });
    Ok(end.optional()?.unwrap_or(ChainEnd::NONE))
}

/// The last record that was pruned.
pub(super) fn read_pruned(connection: &Connection) -> rusqlite::Result<ChainEnd> {
    let sql = "SELECT (SELECT value FROM meta WHERE name = 'pruned'),
        (SELECT value FROM meta WHERE name = 'pruned_hash')";
    connection.prepare_cached(sql)?.query_row([], |row| {
        let hash = row.get(1).unwrap_or_default();
        Ok(ChainEnd { seq: row.get(0).unwrap_or_default(), hash })
    })
}

/// The identity of the database.
pub(super) fn read_incarnation(connection: &Connection) -> rusqlite::Result<Incarnation> {
    let sql = "SELECT value FROM meta WHERE name = 'incarnation'";
    let found = connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional();
    Ok(found.ok().flatten().unwrap_or_default())
}

/// Compares the log with a head of the same moment, and the rows of these `parts` with its
/// sums; returns all sums.
pub(super) fn compare(
    connection: &Connection,
    head: &Head,
    key: &SumKey,
    parts: &[usize],
) -> rusqlite::Result<Result<Sums, Disagreement>> {
    let standing = match place(connection, head)? {
        Ok(standing) => standing,
        Err(disagreement) => return Ok(Err(disagreement)),
    };
    let candidates = match standing {
        Standing::At(sums) => vec![sums],
        Standing::Either(one, other) => vec![one, other],
        Standing::Beyond(count) => return Ok(Err(Disagreement::OldHead(count))),
    };
    choose(connection, key, parts, &candidates)
}

/// Compares the identity and the end of the log with a head of the same moment.
pub(super) fn place(
    connection: &Connection,
    head: &Head,
) -> rusqlite::Result<Result<Standing, Disagreement>> {
    if read_incarnation(connection)? != head.incarnation {
        return Ok(Err(Disagreement::Foreign(head.before.end.seq)));
    }
    let pruned = read_pruned(connection)?.seq;
    head.place(read_end(connection)?, pruned, |seq| find_hash(connection, seq))
}

/// The hash of a record; `None` if there is no such record.
pub(super) fn find_hash(connection: &Connection, seq: i64) -> rusqlite::Result<Option<Hash>> {
    let sql = "SELECT hash FROM records WHERE seq = ?1";
    // A hash of another form is none of ours.
    let find = |row: &rusqlite::Row<'_>| Ok(row.get(0).unwrap_or_default());
    connection.prepare_cached(sql)?.query_row([seq], find).optional()
}

/// The sums that the rows have. Parts in which the candidates differ are computed too.
fn choose(
    connection: &Connection,
    key: &SumKey,
    parts: &[usize],
    candidates: &[Sums],
) -> rusqlite::Result<Result<Sums, Disagreement>> {
    let differs = |part: &usize| {
        let first = candidates.first().and_then(|sums| sums.get(*part));
        candidates.iter().any(|sums| sums.get(*part) != first)
    };
    let all = sums::ALL.into_iter();
    let wanted: Vec<_> = all.filter(|part| parts.contains(part) || differs(part)).collect();
    if wanted.is_empty() {
        return Ok(Ok(candidates.first().copied().unwrap_or_default()));
    }
    let found = sums::compute(connection, key, &wanted)?;
    let wrong =
        |sums: &Sums| wanted.iter().copied().find(|part| sums.get(*part) != found.get(*part));
    if let Some(sums) = candidates.iter().find(|sums| wrong(sums).is_none()) {
        return Ok(Ok(*sums));
    }
    let part = candidates.last().and_then(wrong).unwrap_or_default();
    Ok(Err(Disagreement::Changed(PARTS.get(part).copied().unwrap_or_default())))
}

/// Begins a new read transaction, which sees the database as the returned head has it. Other
/// processes may write meanwhile.
pub(super) fn begin_with_head(
    connection: &Connection,
    directory: &Path,
    master: &Key,
) -> Result<Result<Head, Disagreement>, StoreError> {
    let failed = |error: std::io::Error| StoreError::Failed(format!("`keys/head`: {error}"));
    let Some(file) = HeadFile::open(directory, master, false).map_err(failed)? else {
        return Ok(Err(Disagreement::NoHead));
    };
    for _ in 0..MOST_TRIES {
        let Some(head) = file.read().map_err(failed)? else {
            return Ok(Err(Disagreement::BadHead));
        };
        if !connection.is_autocommit() {
            connection.execute_batch("ROLLBACK")?;
        }
        connection.execute_batch("BEGIN")?;
        // Reading is what begins it.
        read_end(connection)?;
        // A head is written before its transaction is committed.
        if file.read().map_err(failed)? == Some(head) {
            return Ok(Ok(head));
        }
        thread::sleep(PAUSE);
    }
    Err(StoreError::Failed("the log is written too fast to be verified\nhint: try again".into()))
}
