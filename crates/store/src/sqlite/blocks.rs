//! Summaries of the log, one for each full block of records: their span of time,
//! and which facets and chains are in them. A search reads only the blocks that
//! may match, and the newest records, which have no summary yet.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::schema::BLOCK;

/// The block a record is in.
pub(super) fn block_of(seq: i64) -> i64 {
    seq.div_euclid(BLOCK)
}

/// The first record of a block.
pub(super) fn start_of(block: i64) -> i64 {
    block * BLOCK
}

/// The first block that has no summary.
pub(super) fn find_unsummarised(connection: &Connection) -> rusqlite::Result<i64> {
    let number = |sql| connection.prepare_cached(sql)?.query_row([], |row| row.get::<_, i64>(0));
    let summarised = number("SELECT coalesce(max(block) + 1, 0) FROM blocks")?;
    let oldest = number("SELECT coalesce(min(seq), 0) FROM records")?;
    Ok(summarised.max(block_of(oldest)))
}

/// The newest record.
pub(super) fn find_newest(connection: &Connection) -> rusqlite::Result<i64> {
    let sql = "SELECT coalesce(max(seq), 0) FROM records";
    connection.prepare_cached(sql)?.query_row([], |row| row.get(0))
}

/// Summarises every full block that has no summary.
pub(super) fn summarise(connection: &Connection, newest: i64) -> rusqlite::Result<()> {
    for block in find_unsummarised(connection)?..block_of(newest + 1) {
        let span = params![block, start_of(block), start_of(block + 1) - 1];
        for sql in [
            "INSERT INTO blocks SELECT ?1, min(at), max(at) FROM records WHERE seq BETWEEN ?2 AND ?3",
            "INSERT INTO block_facets SELECT DISTINCT facet, ?1 FROM records WHERE seq BETWEEN ?2 AND ?3",
            "INSERT INTO block_chains SELECT DISTINCT chain, ?1 FROM records WHERE seq BETWEEN ?2 AND ?3",
        ] {
            connection.prepare_cached(sql)?.execute(span)?;
        }
    }
    Ok(())
}

/// Deletes the summaries of pruned blocks, and the facets that no record uses any more.
/// `touched` are the facets of the records that were just pruned.
pub(super) fn drop_through(
    connection: &Connection,
    through: i64,
    touched: Vec<i64>,
) -> rusqlite::Result<()> {
    let first = block_of(through + 1);
    let mut candidates = touched;
    let sql = "DELETE FROM block_facets WHERE block < ?1 RETURNING facet";
    let mut statement = connection.prepare_cached(sql)?;
    for facet in statement.query_map([first], |row| row.get(0))? {
        candidates.push(facet?);
    }
    candidates.sort_unstable();
    candidates.dedup();
    connection.execute("DELETE FROM block_chains WHERE block < ?1", [first])?;
    connection.execute("DELETE FROM blocks WHERE block < ?1", [first])?;
    let unsummarised = start_of(find_unsummarised(connection)?);
    let mut statement = connection.prepare_cached(
        "DELETE FROM facets WHERE id = ?1
            AND NOT EXISTS (SELECT 1 FROM block_facets WHERE facet = ?1)
            AND NOT EXISTS (SELECT 1 FROM records WHERE seq >= ?2 AND facet = ?1)",
    )?;
    for facet in candidates {
        statement.execute([facet, unsummarised])?;
    }
    Ok(())
}

/// Whether a chain has a record after this one.
pub(super) fn chain_continues(
    connection: &Connection,
    chain: i64,
    through: i64,
) -> rusqlite::Result<bool> {
    let unsummarised = start_of(find_unsummarised(connection)?).max(through + 1);
    // The block in which pruning stopped is searched record by record.
    let edge = start_of(block_of(through + 1) + 1) - 1;
    let sql = "SELECT EXISTS (SELECT 1 FROM block_chains WHERE chain = ?1 AND block > ?2)
        OR EXISTS (SELECT 1 FROM records WHERE seq BETWEEN ?3 AND ?4 AND chain = ?1)
        OR EXISTS (SELECT 1 FROM records WHERE seq >= ?5 AND chain = ?1)";
    let values = params![chain, block_of(through + 1), through + 1, edge, unsummarised];
    connection.prepare_cached(sql)?.query_row(values, |row| row.get(0))
}

/// Checks that searches find every record: the summary of a record's block must cover the
/// record. If the beginning of a block was pruned, its summary may cover more than is
/// left.
#[derive(Debug)]
pub(super) struct SummaryCheck {
    /// The first block that has no summary.
    next: i64,
    /// The summary of the current block, as long as it covers all records seen so far.
    current: Option<Summary>,
    /// The current block: the one that the last record was in.
    block: i64,
}

#[derive(Debug)]
struct Summary {
    first_at: i64,
    last_at: i64,
    facets: HashSet<i64>,
    chains: HashSet<i64>,
}

impl SummaryCheck {
    pub(super) fn new(connection: &Connection) -> rusqlite::Result<SummaryCheck> {
        Ok(SummaryCheck { next: find_unsummarised(connection)?, current: None, block: -1 })
    }

    /// Whether the record in a row of [`super::records::SELECT`] is the first one of its
    /// block that the summary does not cover.
    pub(super) fn is_uncovered(
        &mut self,
        connection: &Connection,
        row: &Row<'_>,
    ) -> rusqlite::Result<bool> {
        let block = block_of(row.get(0)?);
        if block >= self.next {
            return Ok(false);
        }
        let is_first = std::mem::replace(&mut self.block, block) != block;
        if is_first {
            self.current = Summary::read(connection, block)?;
        }
        let (at, facet, chain) = (row.get(2)?, row.get(33)?, row.get(34)?);
        let covers = |summary: &Summary| {
            (summary.first_at..=summary.last_at).contains(&at)
                && summary.facets.contains(&facet)
                && summary.chains.contains(&chain)
        };
        let was_covered = is_first || self.current.is_some();
        self.current = self.current.take().filter(covers);
        Ok(was_covered && self.current.is_none())
    }
}

impl Summary {
    fn read(connection: &Connection, block: i64) -> rusqlite::Result<Option<Summary>> {
        let numbers = |sql| -> rusqlite::Result<HashSet<i64>> {
            let mut statement = connection.prepare_cached(sql)?;
            statement.query_map([block], |row| row.get(0))?.collect()
        };
        let facets = numbers("SELECT facet FROM block_facets WHERE block = ?1")?;
        let chains = numbers("SELECT chain FROM block_chains WHERE block = ?1")?;
        let sql = "SELECT first_at, last_at FROM blocks WHERE block = ?1";
        let mut statement = connection.prepare_cached(sql)?;
        let span = statement.query_row([block], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        Ok(span.map(|(first_at, last_at)| Summary { first_at, last_at, facets, chains }))
    }
}
