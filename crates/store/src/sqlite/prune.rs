//! Retention: deletes the oldest records in small steps, and leaves an anchor record
//! from which the chain continues.

use rusqlite::Connection;
use sluice_policy::Timestamp;

use super::{
    Sqlite, blocks,
    records::{self, SELECT},
    writer::Writer,
};
use crate::{
    StoreError,
    actor::Actor,
    chain::{Anchor, ChainEnd, ChainKey},
    digest::hex,
    id,
    log_space::Retention,
    record::{Kind, Record},
};

/// Records that one step deletes.
const STEP: usize = 1_000;

/// The limits for pruning.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Records older than this are deleted.
    oldest: Timestamp,
    /// Records older than this are deleted if the log is too large.
    oldest_for_size: Timestamp,
    max_size: u64,
    /// The newest record when pruning began; later ones are kept.
    newest: i64,
    now: Timestamp,
}

/// The records that one step deletes.
#[derive(Debug)]
struct Selection {
    last: ChainEnd,
    count: u64,
    facets: Vec<i64>,
}

impl Sqlite {
    pub(crate) async fn prune(&self, retention: Retention) -> Result<u64, StoreError> {
        // Expired calls are deleted below, but each must have a record of its expiry
        // first.
        self.expire().await?;
        let (now, clock_ahead) = self.run(|writer| Ok((writer.now(), writer.distrust()))).await?;
        if clock_ahead.is_some() {
            return Ok(0);
        }
        let (oldest, oldest_for_size) = retention.cutoffs(now);
        let newest = self.run(move |writer| begin(writer.connection(), oldest)).await?;
        let bounds = Bounds { oldest, oldest_for_size, max_size: retention.max_size, newest, now };
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
    let found = select(writer.connection(), &writer.keys().chain, bounds)?;
    let Some(Selection { last, count, facets }) = found else { return Ok(0) };
    let (through, hash) = (last.seq, hex(&last.hash));
    writer.append_record(Record {
        message: Some(format!("records up to {through} were pruned")),
        anchor: Some(Anchor { through, hash }),
        actor: Some(Actor::gateway()),
        ..Record::new(id::new_id(bounds.now), bounds.now, Kind::Admin)
    })?;
    writer.leave_behind(last)?;
    let connection = writer.connection();
    drop_chains(connection, through)?;
    connection.execute("DELETE FROM records WHERE seq <= ?1", [through])?;
    blocks::drop_through(connection, through, facets)?;
    Ok(count)
}

/// Bytes of the database that are in use, without those of held calls, which have a bound of
/// their own.
fn count_used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    connection.query_row(
        "SELECT max(0, (page_count - freelist_count) * page_size - (SELECT coalesce(sum(
             512 + octet_length(concat(tool, rule, message, arg_keys))), 0) FROM approvals))
         FROM pragma_page_count, pragma_freelist_count, pragma_page_size",
        [],
        |row| Ok(row.get::<_, i64>(0)?.unsigned_abs()),
    )
}

/// Selects the records to delete.
fn select(
    connection: &Connection,
    key: &ChainKey,
    bounds: Bounds,
) -> Result<Option<Selection>, StoreError> {
    let is_too_large = count_used_bytes(connection)? > bounds.max_size;
    let mut statement = connection
        .prepare_cached(&format!("{SELECT} WHERE r.seq <= ?1 ORDER BY r.seq LIMIT {STEP}"))?;
    let mut rows = statement.query([bounds.newest])?;
    let mut selection = Selection { last: ChainEnd::NONE, count: 0, facets: Vec::new() };
    let mut unproven = 0;
    while let Some(row) = rows.next()? {
        // The time of a tampered record cannot be trusted: it is pruned no sooner than
        // its successor, or an anchor would vouch for its absence.
        let Some(entry) = records::read_entry(row).ok().filter(|entry| entry.is_intact(key)) else {
            unproven += 1;
            continue;
        };
        let cutoff = if is_too_large { bounds.oldest_for_size } else { bounds.oldest };
        if entry.record.at >= cutoff {
            break;
        }
        selection.last = ChainEnd { seq: entry.cursor.0, hash: entry.hash };
        selection.count += 1 + std::mem::take(&mut unproven);
    }
    drop(rows);
    if selection.count == 0 {
        return Ok(None);
    }
    let sql = "SELECT DISTINCT facet FROM records WHERE seq <= ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let facets = statement.query_map([selection.last.seq], |row| row.get(0))?;
    selection.facets = facets.collect::<rusqlite::Result<_>>()?;
    Ok(Some(selection))
}

/// Forgets the writers that have no record after this one.
fn drop_chains(connection: &Connection, through: i64) -> rusqlite::Result<()> {
    let sql = "SELECT DISTINCT chain FROM records WHERE seq <= ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let chains = statement.query_map([through], |row| row.get(0))?;
    for chain in chains.collect::<rusqlite::Result<Vec<i64>>>()? {
        if !blocks::chain_continues(connection, chain, through)? {
            connection.execute("DELETE FROM chains WHERE id = ?1", [chain])?;
        }
    }
    Ok(())
}
