//! The index of the log, built behind it.
//!
//! The log is kept in blocks of records, and the index says of each full block
//! when its records were made and which servers, grants, tools and so on they
//! name, each as one number. A filter reads the blocks that may hold what it asks
//! for, and whatever is too new to be in the index. So the index is far
//! smaller than the log, and nothing waits for it.

use std::collections::BTreeSet;

use rusqlite::{Connection, params};
use serde::Deserialize;

use super::read;
use crate::{digest::sha256, sheet::MOST_RECORDS};

/// Records in a block.
const BLOCK: i64 = 1_024;

pub(super) const TABLES: &str = "
    CREATE TABLE blocks (block INTEGER PRIMARY KEY, first_at TEXT NOT NULL, last_at TEXT NOT NULL) STRICT;
    CREATE TABLE terms (
        term INTEGER NOT NULL, block INTEGER NOT NULL, PRIMARY KEY (term, block)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX terms_by_block ON terms (block);
";

/// The block a record is in.
pub(super) fn block_of(sequence: i64) -> i64 {
    sequence.div_euclid(BLOCK)
}

/// The first record of a block.
pub(super) fn start_of(block: i64) -> i64 {
    block * BLOCK
}

/// What a filter may ask of a record, by what it is and what it says.
#[derive(Debug, Clone, Copy)]
pub(super) enum Term<'t> {
    Server(&'t str),
    /// By id or label.
    Grant(&'t str),
    Tool(&'t str),
    Outcome(&'t str),
    Kind(&'t str),
    Chain(&'t str),
}

impl Term<'_> {
    /// The number it has in the index. Two may have the same: then a block is
    /// read for nothing.
    pub(super) fn number(self) -> i64 {
        let (name, value) = match self {
            Term::Server(value) => ("server", value),
            Term::Grant(value) => ("grant", value),
            Term::Tool(value) => ("tool", value),
            Term::Outcome(value) => ("outcome", value),
            Term::Kind(value) => ("kind", value),
            Term::Chain(value) => ("chain", value),
        };
        let hash = sha256(format!("{name}\0{value}").as_bytes());
        hash.first_chunk().map_or(0, |start| i64::from_be_bytes(*start))
    }
}

/// What filters look at in a record's text.
#[derive(Debug, Deserialize)]
pub(super) struct Seen {
    pub(super) at: String,
    pub(super) kind: String,
    pub(super) request: Option<String>,
    pub(super) server: Option<String>,
    pub(super) grant: Option<SeenGrant>,
    pub(super) tool: Option<String>,
    pub(super) outcome: Option<String>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct SeenGrant {
    pub(super) id: String,
    pub(super) label: String,
}

impl Seen {
    /// `None` if the text, which has no end, is no record.
    pub(super) fn of(open: &str) -> Option<Seen> {
        serde_json::from_str(&format!("{open}}}")).ok()
    }

    /// Whether it has the same terms as another, which is told sooner than what
    /// their numbers are.
    fn is_like(&self, other: &Seen) -> bool {
        let Seen { kind, server, grant, tool, outcome, .. } = self;
        (kind, server, grant, tool, outcome)
            == (&other.kind, &other.server, &other.grant, &other.tool, &other.outcome)
    }

    fn terms(&self) -> impl Iterator<Item = Term<'_>> {
        let grant = self.grant.as_ref();
        [
            self.server.as_deref().map(Term::Server),
            grant.map(|grant| Term::Grant(&grant.id)),
            grant.map(|grant| Term::Grant(&grant.label)),
            self.tool.as_deref().map(Term::Tool),
            self.outcome.as_deref().map(Term::Outcome),
            Some(Term::Kind(&self.kind)),
        ]
        .into_iter()
        .flatten()
    }
}

/// The first block that is not in the index, and the newest record.
pub(super) fn next(connection: &Connection) -> rusqlite::Result<(i64, i64)> {
    let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let built = number("SELECT coalesce(max(block) + 1, 0) FROM blocks")?;
    // A row has the number of its last record; its first may be in the block before.
    let oldest = number("SELECT coalesce(min(seq), 0) FROM log")? - (MOST_RECORDS - 1);
    Ok((built.max(block_of(oldest.max(0))), newest(connection)?))
}

/// The newest record.
pub(super) fn newest(connection: &Connection) -> rusqlite::Result<i64> {
    let sql = "SELECT coalesce(max(seq), 0) FROM log";
    connection.prepare_cached(sql)?.query_row([], |row| row.get(0))
}

/// Puts one block into the index, unless another process has; the block to go on with.
pub(super) fn build(connection: &Connection, block: i64) -> rusqlite::Result<i64> {
    let (next, _) = next(connection)?;
    if next > block {
        return Ok(next);
    }
    let (mut first_at, mut last_at) = (String::new(), String::new());
    let mut terms = BTreeSet::new();
    // A decision and an outcome: those that follow are mostly like them.
    let mut recent: [Option<Seen>; 2] = [None, None];
    read::each_row(connection, start_of(block), start_of(block + 1) - 1, false, |_, row| {
        // What is no record cannot be asked for. Those of a row that are in the
        // next block do no harm.
        let Some(row) = row else { return true };
        terms.insert(Term::Chain(row.chain().writer()).number());
        for seen in row.open_texts().filter_map(Seen::of) {
            if first_at.is_empty() || seen.at < first_at {
                first_at.clone_from(&seen.at);
            }
            if seen.at > last_at {
                last_at.clone_from(&seen.at);
            }
            if !recent.iter().flatten().any(|recent| recent.is_like(&seen)) {
                terms.extend(seen.terms().map(Term::number));
                recent.rotate_right(1);
                recent[0] = Some(seen);
            }
        }
        true
    })?;
    insert(connection, block, &first_at, &last_at, &terms)?;
    Ok(block + 1)
}

fn insert(
    connection: &Connection,
    block: i64,
    first_at: &str,
    last_at: &str,
    terms: &BTreeSet<i64>,
) -> rusqlite::Result<()> {
    connection
        .execute("INSERT INTO blocks VALUES (?1, ?2, ?3)", params![block, first_at, last_at])?;
    let mut statement = connection.prepare("INSERT INTO terms VALUES (?1, ?2)")?;
    for term in terms {
        statement.execute([*term, block])?;
    }
    Ok(())
}

/// Drops blocks of which no record is left.
pub(super) fn drop_before(connection: &Connection, block: i64) -> rusqlite::Result<()> {
    let dropped = connection.execute("DELETE FROM blocks WHERE block < ?1", [block])?;
    if dropped > 0 {
        connection.execute("DELETE FROM terms WHERE block < ?1", [block])?;
    }
    Ok(())
}

/// Whether a term is in the index, in this block or a later one.
pub(super) fn is_in(connection: &Connection, term: Term<'_>, block: i64) -> rusqlite::Result<bool> {
    connection.query_row(
        "SELECT EXISTS (SELECT 1 FROM terms WHERE term = ?1 AND block >= ?2)",
        [term.number(), block],
        |row| row.get(0),
    )
}
