//! Retention: deletes the oldest records in small steps, and leaves an anchor record
//! from which the chains continue.

use std::{sync::Arc, time::Duration};

use rusqlite::{Connection, params};
use sluice_policy::Timestamp;

use super::{
    Sqlite, blocks,
    records::{self, SELECT},
    writer::Writer,
};
use crate::{
    StoreError,
    chain::{Anchor, ChainEnd, Hash},
    digest::hex,
    id,
    log::Entry,
    record::{Kind, Record},
};

/// Records that one step deletes.
const STEP: usize = 1_000;

/// The limits for pruning.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Records older than this are deleted.
    oldest: Timestamp,
    max_size: u64,
    /// The newest record when pruning began; later ones are kept.
    newest: i64,
    now: Timestamp,
}

/// The records that one step deletes.
#[derive(Debug, Default)]
struct Selection {
    through: i64,
    count: u64,
    facets: Vec<i64>,
}

impl Sqlite {
    pub(crate) async fn prune(&self, keep: Duration, max_size: u64) -> Result<u64, StoreError> {
        // Expired calls are deleted below, but each must have a record of its expiry
        // first.
        self.expire().await?;
        let now = self.clock.now();
        let keep = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
        let oldest = Timestamp::from_millis(now.as_millis().saturating_sub(keep));
        let newest = self.run(move |writer| begin(writer.connection(), oldest)).await?;
        let bounds = Bounds { oldest, max_size, newest, now };
        let mut pruned = 0;
        loop {
            match self.run(move |writer| step(writer, bounds)).await? {
                0 => return Ok(pruned),
                count => pruned += count,
            }
        }
    }
}

/// Deletes held calls that expired before `oldest`; returns the number of the newest
/// record.
fn begin(connection: &Connection, oldest: Timestamp) -> Result<i64, StoreError> {
    let over = "SELECT id FROM approvals WHERE expires_at < ?1";
    let votes = format!("DELETE FROM approval_votes WHERE approval IN ({over})");
    connection.execute(&votes, [oldest.as_millis()])?;
    connection.execute("DELETE FROM approvals WHERE expires_at < ?1", [oldest.as_millis()])?;
    Ok(blocks::find_newest(connection)?)
}

/// Deletes some of the oldest records; returns how many.
fn step(writer: &mut Writer, bounds: Bounds) -> Result<u64, StoreError> {
    let Some(selection) = select(writer.connection(), bounds)? else { return Ok(0) };
    let Selection { through, count, facets } = selection;
    let anchor = build_anchor(writer.connection(), through)?;
    // Written before the deletion, because the numbering of an empty log would restart at
    // one.
    writer.leave_behind(through)?;
    writer.append_record(Record {
        message: Some(format!("records up to {through} were pruned")),
        anchor: Some(anchor),
        ..Record::new(id::new_id(bounds.now), bounds.now, Kind::Admin)
    })?;
    let connection = writer.connection();
    connection.execute("DELETE FROM records WHERE seq <= ?1", [through])?;
    blocks::drop_through(connection, through, facets)?;
    Ok(count)
}

/// Bytes of the database that are in use.
fn count_used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    connection.query_row(
        "SELECT (page_count - freelist_count) * page_size
         FROM pragma_page_count, pragma_freelist_count, pragma_page_size",
        [],
        |row| Ok(row.get::<_, i64>(0)?.unsigned_abs()),
    )
}

/// Selects the records to delete, and notes where their chains end.
fn select(connection: &Connection, bounds: Bounds) -> Result<Option<Selection>, StoreError> {
    let is_too_large = count_used_bytes(connection)? > bounds.max_size;
    let mut statement = connection
        .prepare_cached(&format!("{SELECT} WHERE r.seq <= ?1 ORDER BY r.seq LIMIT {STEP}"))?;
    let mut rows = statement.query([bounds.newest])?;
    let mut selection = Selection::default();
    let mut unproven = 0;
    while let Some(row) = rows.next()? {
        // The time of a tampered record cannot be trusted: it is pruned no sooner than
        // its successor, or an anchor would vouch for its absence.
        let Some(entry) = records::read_entry(row).ok().filter(Entry::is_intact) else {
            unproven += 1;
            continue;
        };
        if !is_too_large && entry.record.at >= bounds.oldest {
            break;
        }
        selection.through = entry.cursor.0;
        selection.count += 1 + std::mem::take(&mut unproven);
        note_end(connection, &entry)?;
    }
    drop(rows);
    if selection.count == 0 {
        return Ok(None);
    }
    let sql = "SELECT DISTINCT facet FROM records WHERE seq <= ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let facets = statement.query_map([selection.through], |row| row.get(0))?;
    selection.facets = facets.collect::<rusqlite::Result<_>>()?;
    Ok(Some(selection))
}

fn note_end(connection: &Connection, entry: &Entry) -> rusqlite::Result<()> {
    let sql = "REPLACE INTO chain_ends (chain, seq, hash)
        SELECT id, ?2, ?3 FROM chains WHERE writer = ?1";
    let writer: &str = &entry.writer;
    let values = params![writer, entry.cursor.0, entry.hash];
    connection.prepare_cached(sql)?.execute(values).map(|_| ())
}

/// The last pruned record of each chain that continues; finished chains are dropped.
fn build_anchor(connection: &Connection, through: i64) -> rusqlite::Result<Anchor> {
    let mut statement = connection.prepare_cached(
        "SELECT e.chain, c.writer, e.seq, e.hash FROM chain_ends e JOIN chains c ON c.id = e.chain",
    )?;
    let rows = statement.query_map([], |row| {
        let hash: Hash = row.get(3)?;
        Ok((row.get(0)?, row.get(1)?, ChainEnd { seq: row.get(2)?, hash: hex(&hash) }))
    })?;
    let ends = rows.collect::<rusqlite::Result<Vec<(i64, Arc<str>, ChainEnd)>>>()?;
    let mut anchor = Anchor { through, ..Anchor::default() };
    for (chain, writer, end) in ends {
        if blocks::chain_continues(connection, chain, through)? {
            anchor.chains.insert(writer.to_string(), end);
        } else {
            connection.execute("DELETE FROM chain_ends WHERE chain = ?1", [chain])?;
            connection.execute("DELETE FROM chains WHERE id = ?1", [chain])?;
        }
    }
    Ok(anchor)
}
