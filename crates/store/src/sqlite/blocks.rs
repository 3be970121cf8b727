//! The block index of the log: for each full block of records, its span of time and which
//! facets, chains and requests occur in it. A search reads only the blocks that may match, and the
//! newest records, which are not indexed yet.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{requests::RequestFilter, schema::BLOCK, space};
use crate::{id::Id, record::Record};

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

/// Summarises every full block that has no summary. The records of one of which there is no draft
/// are read.
pub(super) fn summarise(
    connection: &Connection,
    newest: i64,
    drafts: &mut Drafts,
) -> rusqlite::Result<()> {
    for block in find_unsummarised(connection)?..block_of(newest + 1) {
        let summary = match drafts.blocks.remove(&block) {
            Some(summary) => summary,
            None => Summary::of_records(connection, block)?,
        };
        summary.write(connection, block)?;
        space::write(connection, block, &summary.facets)?;
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
    connection.execute("DELETE FROM block_requests WHERE block < ?1", [first])?;
    connection.execute("DELETE FROM block_grants WHERE block < ?1", [first])?;
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

#[derive(Debug, PartialEq, Eq)]
struct Summary {
    first_at: i64,
    last_at: i64,
    facets: BTreeMap<i64, FacetUse>,
    chains: BTreeSet<i64>,
    requests: RequestFilter,
}

/// What the records of one facet take of a block.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FacetUse {
    pub(super) records: i64,
    /// The bytes of the records, without those of the facet.
    pub(super) bytes: i64,
}

/// The summaries of blocks of which this writer has appended every record so far, so that the
/// records need not be read again.
#[derive(Debug, Default)]
pub(super) struct Drafts {
    blocks: BTreeMap<i64, Summary>,
    /// The number of the next record.
    next: i64,
}

impl Drafts {
    /// Adds a record with the rows of `facets` and `chains` that it names.
    pub(super) fn add(&mut self, seq: i64, record: &Record, [facet, chain]: [i64; 2], bytes: i64) {
        if seq != self.next {
            self.blocks.clear();
        }
        self.next = seq + 1;
        let block = block_of(seq);
        if seq == start_of(block) {
            self.blocks.insert(block, Summary::empty());
        }
        if let Some(summary) = self.blocks.get_mut(&block) {
            summary.add(record.at.as_millis(), [facet, chain], record.request, bytes);
        }
    }

    /// Forgets all: a transaction has failed, another process has written, or records are gone.
    pub(super) fn forget(&mut self) {
        self.blocks.clear();
    }
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
        let request = row.get_ref(3)?.as_str_or_null().unwrap_or_default().and_then(Id::read);
        let covers = |summary: &Summary| {
            (summary.first_at..=summary.last_at).contains(&at)
                && summary.facets.contains_key(&facet)
                && summary.chains.contains(&chain)
                && request.is_none_or(|request| summary.requests.may_hold(request))
        };
        let was_covered = is_first || self.current.is_some();
        self.current = self.current.take().filter(covers);
        Ok(was_covered && self.current.is_none())
    }
}

impl Summary {
    fn empty() -> Summary {
        Summary {
            first_at: i64::MAX,
            last_at: i64::MIN,
            facets: BTreeMap::new(),
            chains: BTreeSet::new(),
            requests: RequestFilter::empty(),
        }
    }

    fn add(&mut self, at: i64, [facet, chain]: [i64; 2], request: Option<Id>, bytes: i64) {
        (self.first_at, self.last_at) = (self.first_at.min(at), self.last_at.max(at));
        let facet = self.facets.entry(facet).or_default();
        facet.records += 1;
        facet.bytes += bytes;
        self.chains.insert(chain);
        if let Some(request) = request {
            self.requests.insert(request);
        }
    }

    /// Makes the summary of a block in one pass over its records.
    fn of_records(connection: &Connection, block: i64) -> rusqlite::Result<Summary> {
        let mut statement = connection.prepare_cached(&format!(
            "SELECT r.at, r.facet, r.chain, r.request, {} FROM records r WHERE r.seq BETWEEN ?1 AND ?2",
            space::BYTES_OF_RECORD
        ))?;
        let mut rows = statement.query([start_of(block), start_of(block + 1) - 1])?;
        let mut summary = Summary::empty();
        while let Some(row) = rows.next()? {
            let request = row.get_ref(3)?.as_str_or_null()?.and_then(Id::read);
            summary.add(row.get(0)?, [row.get(1)?, row.get(2)?], request, row.get(4)?);
        }
        Ok(summary)
    }

    fn write(&self, connection: &Connection, block: i64) -> rusqlite::Result<()> {
        let sql = "INSERT INTO blocks (block, first_at, last_at) VALUES (?1, ?2, ?3)";
        connection.prepare_cached(sql)?.execute([block, self.first_at, self.last_at])?;
        let sql = "INSERT INTO block_facets (facet, block) VALUES (?1, ?2)";
        for facet in self.facets.keys() {
            connection.prepare_cached(sql)?.execute([*facet, block])?;
        }
        let sql = "INSERT INTO block_chains (chain, block) VALUES (?1, ?2)";
        for chain in &self.chains {
            connection.prepare_cached(sql)?.execute([*chain, block])?;
        }
        self.requests.write(connection, block)
    }

    fn read(connection: &Connection, block: i64) -> rusqlite::Result<Option<Summary>> {
        let numbers = |sql| -> rusqlite::Result<BTreeSet<i64>> {
            let mut statement = connection.prepare_cached(sql)?;
            statement.query_map([block], |row| row.get(0))?.collect()
        };
        let facets = numbers("SELECT facet FROM block_facets WHERE block = ?1")?;
        let facets = facets.into_iter().map(|facet| (facet, FacetUse::default())).collect();
        let chains = numbers("SELECT chain FROM block_chains WHERE block = ?1")?;
        let sql = "SELECT first_at, last_at FROM blocks WHERE block = ?1";
        let mut statement = connection.prepare_cached(sql)?;
        let span = statement.query_row([block], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let requests = RequestFilter::read(connection, block)?;
        Ok(span.zip(requests).map(|((first_at, last_at), requests)| Summary {
            first_at,
            last_at,
            facets,
            chains,
            requests,
        }))
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::{Connection, types::Value};
    use sluice_policy::Timestamp;

    use super::{BLOCK, Drafts, Summary, space, summarise};
    use crate::{
        Kind, Record,
        chain::{ChainEnd, ChainKey},
        id::new_id,
        key::Key,
        sqlite::{
            records::{Link, Prepared},
            schema::PARTS,
        },
    };

    const AT: Timestamp = Timestamp::from_millis(5_000);

    fn rows(connection: &Connection, sql: &str) -> Vec<Vec<Value>> {
        let mut statement = connection.prepare(sql).unwrap();
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| (0..columns).map(|at| row.get(at)).collect());
        rows.unwrap().map(Result::unwrap).collect()
    }

    /// One pass over the records finds what a query for each of the tables finds.
    #[test]
    fn a_summary_has_what_queries_of_the_records_find() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(&PARTS.concat()).unwrap();
        // The first record names a facet that is gone; one facet is without a grant.
        let records = format!(
            "INSERT INTO facets (id, digest, kind, grant_id, method, tool, arg_keys) VALUES
                (1, x'01', 'decision', 'g', 'tools/call', 'ä', '[\"a\"]'),
                (2, x'02', 'outcome', 'h', 'tools/call', 'add', NULL),
                (3, x'03', 'outcome', 'g', 'ping', NULL, NULL), (4, x'04', 'admin', NULL, NULL, NULL, NULL);
             WITH RECURSIVE n(seq) AS (SELECT {BLOCK} UNION ALL SELECT seq + 1 FROM n WHERE seq < {BLOCK} * 2 - 1)
             INSERT INTO records (seq, at, facet, id, request, session, chain, hash, message, charges)
             SELECT seq, 5000 + (seq * 37) % 911, iif(seq = {BLOCK}, 9, 1 + seq % 4), 'i',
                iif(seq % 3 = 0, NULL, printf('01K000000000000000%08d', seq)),
                iif(seq % 5 = 0, 'é', NULL), 1 + seq / 1500, x'00',
                iif(seq % 7 = 0, 'long', NULL), iif(seq % 2 = 0, '[]', NULL) FROM n"
        );
        connection.execute_batch(&records).unwrap();
        summarise(&connection, BLOCK * 2 - 1, &mut Drafts::default()).unwrap();
        for (written, expected) in [
            ("SELECT * FROM blocks", "SELECT 1, min(at), max(at) FROM records"),
            (
                "SELECT * FROM block_facets ORDER BY 1",
                "SELECT DISTINCT facet, 1 FROM records ORDER BY 1",
            ),
            (
                "SELECT * FROM block_chains ORDER BY 1",
                "SELECT DISTINCT chain, 1 FROM records ORDER BY 1",
            ),
            (
                "SELECT * FROM block_grants ORDER BY 2",
                "SELECT 1, coalesce(f.grant_id, ''), sum(512 + octet_length(concat(r.session,
                    r.message, r.target, r.arg_values, r.charges, f.tool, f.method, f.arg_keys)))
                 FROM records r LEFT JOIN facets f ON f.id = r.facet GROUP BY 2 ORDER BY 2",
            ),
        ] {
            assert_eq!(rows(&connection, written), rows(&connection, expected), "{written}");
        }
        let filter = super::RequestFilter::read(&connection, 1).unwrap().unwrap();
        for row in rows(&connection, "SELECT request FROM records WHERE request IS NOT NULL") {
            let [Value::Text(request)] = &row[..] else { panic!("{row:?}") };
            assert!(filter.may_hold(super::Id::read(request).unwrap()), "{request}");
        }
    }

    /// Appends the records of block 1, of which some members are missing.
    fn append(connection: &Connection, drafts: &mut Drafts) {
        let key = ChainKey::derive(&Key::from_bytes([7; 32]));
        let mut before = ChainEnd { seq: BLOCK - 1, ..ChainEnd::NONE };
        while before.seq < BLOCK * 2 - 1 {
            let seq = before.seq + 1;
            let text = |every, text: &str| (seq % every == 0).then(|| text.to_owned());
            let at = Timestamp::from_millis(5_000 + seq * 37 % 911);
            let record = Record {
                request: (seq % 3 > 0).then(|| new_id(at)),
                session: text(5, "é").map(Into::into),
                message: text(7, "long"),
                target: text(11, "file:///x"),
                arg_values: text(13, "{}"),
                ..Record::new(new_id(at), at, Kind::Decision)
            };
            let (facet, number, charges) = (seq % 4, 1 + seq / 1_500, text(2, "[]"));
            let link = Link { key: &key, writer: "w", number, before };
            let mut prepared = Prepared::new(Box::new(record));
            before = prepared.insert(connection, &link, facet, charges.as_deref()).unwrap();
            let bytes = space::bytes_of(&prepared.record, charges.as_deref());
            drafts.add(seq, &prepared.record, [facet, number], bytes);
        }
    }

    #[test]
    fn a_draft_is_the_summary_that_reading_the_records_makes() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(&PARTS.concat()).unwrap();
        let mut drafts = Drafts::default();
        append(&connection, &mut drafts);
        let read = Summary::of_records(&connection, 1).unwrap();
        assert_eq!(drafts.blocks.get(&1), Some(&read));
        // A gap, before which another process may have written.
        let record = Record::new(new_id(AT), AT, Kind::Admin);
        drafts.add(BLOCK * 2 + 1, &record, [1, 1], 0);
        assert!(drafts.blocks.is_empty());
    }
}
