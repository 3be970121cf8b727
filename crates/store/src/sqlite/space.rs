//! Counts how much of the log each grant uses, block by block.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::blocks::{self, FacetUse};
use crate::{
    Durability,
    log_space::{LogUse, Retention},
    record::Record,
};

/// About the bytes of a record `r`: the texts that an agent can make long, and a sum for the rest.
pub(super) const BYTES_OF_RECORD: &str = "512 + coalesce(octet_length(r.session), 0)
    + coalesce(octet_length(r.message), 0) + coalesce(octet_length(r.target), 0)
    + coalesce(octet_length(r.arg_values), 0) + coalesce(octet_length(r.charges), 0)";
/// The same of its facet `f`.
const BYTES_OF_FACET: &str = "octet_length(concat(f.tool, f.method, f.arg_keys))";

/// What [`BYTES_OF_RECORD`] is of a record and its charges.
pub(super) fn bytes_of(record: &Record, charges: Option<&str>) -> i64 {
    let Record { session, message, target, arg_values, .. } = record;
    let texts =
        [session.as_deref(), message.as_deref(), target.as_deref(), arg_values.as_deref(), charges];
    let length: usize = texts.into_iter().flatten().map(str::len).sum();
    i64::try_from(length).unwrap_or(i64::MAX).saturating_add(512)
}

/// Stores retention and durability. A process without a retention takes both from the one that
/// has stored them, unless its own durability is the stronger one.
pub(super) fn agree(
    connection: &Connection,
    retention: Option<Retention>,
    durability: Durability,
) -> rusqlite::Result<(Retention, Durability)> {
    if let Some(Retention { keep, keep_at_least, max_size }) = retention {
        let text = format!("{} {} {max_size}", keep.as_secs(), keep_at_least.as_secs());
        write_setting(connection, "retention", &text)?;
        write_setting(connection, "durability", durability.name())?;
        return Ok((Retention { keep, keep_at_least, max_size }, durability));
    }
    let read = |text: String| {
        let mut numbers = text.split(' ').map(|number| number.parse::<u64>().ok());
        let mut span = || numbers.next().flatten().map(std::time::Duration::from_secs);
        let (keep, keep_at_least) = (span()?, span()?);
        Some(Retention { keep, keep_at_least, max_size: numbers.next().flatten()? })
    };
    let retention = read_setting(connection, "retention")?.and_then(read).unwrap_or_default();
    let stored = read_setting(connection, "durability")?;
    let is_power = stored.as_deref() == Some(Durability::Power.name());
    Ok((retention, if is_power { Durability::Power } else { durability }))
}

fn write_setting(connection: &Connection, name: &str, text: &str) -> rusqlite::Result<()> {
    let sql = "REPLACE INTO meta (name, value) VALUES (?1, ?2)";
    connection.execute(sql, [name, text]).map(|_| ())
}

fn read_setting(connection: &Connection, name: &str) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT value FROM meta WHERE name = ?1";
    connection.query_row(sql, [name], |row| row.get(0)).optional()
}

/// Stores how much of a block each grant uses.
pub(super) fn write(
    connection: &Connection,
    block: i64,
    facets: &BTreeMap<i64, FacetUse>,
) -> rusqlite::Result<()> {
    let sql =
        format!("SELECT coalesce(f.grant_id, ''), {BYTES_OF_FACET} FROM facets f WHERE f.id = ?1");
    let mut find = connection.prepare_cached(&sql)?;
    let mut grants: BTreeMap<String, i64> = BTreeMap::new();
    for (facet, used) in facets {
        let found = find.query_row([facet], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)));
        let (grant, length) = found.optional()?.unwrap_or_default();
        *grants.entry(grant).or_default() += used.bytes + used.records * length;
    }
    let sql = "INSERT INTO block_grants (block, grant_id, bytes) VALUES (?1, ?2, ?3)";
    let mut insert = connection.prepare_cached(sql)?;
    for (grant, bytes) in grants {
        insert.execute(params![block, grant, bytes])?;
    }
    Ok(())
}

/// Counts all records that must be kept: those that are not older than `oldest`.
pub(super) fn count(
    connection: &Connection,
    counted: &mut LogUse,
    oldest: i64,
) -> rusqlite::Result<()> {
    counted.clear();
    let sql = "SELECT g.grant_id, sum(g.bytes) FROM block_grants g JOIN blocks b USING (block)
        WHERE b.last_at >= ?1 GROUP BY 1";
    settle(connection, counted, sql, oldest)?;
    let sql = format!(
        "SELECT coalesce(f.grant_id, ''), sum({BYTES_OF_RECORD} + {BYTES_OF_FACET})
         FROM records r LEFT JOIN facets f ON f.id = r.facet WHERE r.seq >= ?1 GROUP BY 1"
    );
    let unsummarised = blocks::start_of(blocks::find_unsummarised(connection)?);
    settle(connection, counted, &sql, unsummarised)
}

/// Counts the blocks from this one on.
pub(super) fn count_from(
    connection: &Connection,
    counted: &mut LogUse,
    block: i64,
) -> rusqlite::Result<()> {
    let sql = "SELECT grant_id, bytes FROM block_grants WHERE block >= ?1";
    settle(connection, counted, sql, block)
}

fn settle(
    connection: &Connection,
    counted: &mut LogUse,
    sql: &str,
    value: i64,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([value], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?.unsigned_abs()))
    })?;
    let rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    counted.settle(rows);
    Ok(())
}
