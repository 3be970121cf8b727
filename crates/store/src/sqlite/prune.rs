//! Retention: the oldest records go, in small steps, and an anchor record says
//! where the chains go on.

use std::time::Duration;

use rusqlite::{Connection, params};
use sluice_policy::Timestamp;

use super::{
    Store, StoreError, forms,
    index::{self, Seen, Term},
    read,
    writer::Writer,
};
use crate::{
    chain::Anchor,
    digest::hex,
    id, moment,
    record::{Kind, Record},
};

/// Records that go in one step, or some more.
const STEP: u64 = 1_000;

/// What is to be kept.
#[derive(Debug, Clone)]
struct Bounds {
    /// Records made before this may go, as records write it.
    oldest: String,
    max_size: u64,
    /// The newest record when pruning began; what comes later stays.
    newest: i64,
    now: Timestamp,
}

impl Store {
    /// Removes the oldest records: those older than `keep`, and more for as long as
    /// the database is larger than `max_size` bytes. How many went.
    ///
    /// Room that becomes free is used again; the file does not shrink.
    pub async fn prune(
        &self,
        keep: Duration,
        max_size: u64,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        // The index tells which chains go on, so it must not be far behind.
        while self.write(index_on).await? {}
        let keep = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
        let cutoff = Timestamp::from_millis(now.as_millis().saturating_sub(keep));
        let newest = self.write(move |writer| begin(&writer.connection, cutoff)).await?;
        let bounds = Bounds { oldest: moment::text(cutoff), max_size, newest, now };
        let mut pruned = 0;
        loop {
            let bounds = bounds.clone();
            match self.write(move |writer| step(writer, &bounds)).await? {
                0 => return Ok(pruned),
                count => pruned += count,
            }
        }
    }
}

/// Builds one block of the index; whether there may be more to do.
fn index_on(writer: &mut Writer) -> Result<bool, StoreError> {
    let (next, newest) = index::next(&writer.connection)?;
    (writer.next_block, writer.newest) = (Some(next), newest);
    if writer.behind() <= 0 {
        return Ok(false);
    }
    writer.index()?;
    Ok(true)
}

/// Drops approvals that nobody can give any more; the newest record.
fn begin(connection: &Connection, cutoff: Timestamp) -> Result<i64, StoreError> {
    let sql = "DELETE FROM approvals WHERE expires_at < ?1";
    connection.execute(sql, [cutoff.as_millis()])?;
    Ok(index::newest(connection)?)
}

/// Removes some of the oldest records; how many.
fn step(writer: &mut Writer, bounds: &Bounds) -> Result<u64, StoreError> {
    let connection = &writer.connection;
    let is_too_large = used(connection)? > bounds.max_size;
    let Some((through, count)) = select(connection, bounds, is_too_large)? else { return Ok(0) };
    let anchor = anchor(connection, through)?;
    let mut record = Record::new(id::new_id(bounds.now), bounds.now, Kind::Admin);
    record.message = Some(format!("records up to {through} were pruned"));
    let mut line = record.line();
    line.push(&anchor.member());
    writer.leave_behind(through);
    // Written before the others go, because an empty log would count from one again.
    writer.append(&mut line)?;
    writer.enter_counters()?;
    writer.connection.execute("DELETE FROM log WHERE seq <= ?1", [through])?;
    index::drop_before(&writer.connection, index::block_of(through + 1))?;
    forms::drop_before(&writer.connection, through)?;
    Ok(count)
}

/// Bytes of the database that are in use.
fn used(connection: &Connection) -> rusqlite::Result<u64> {
    connection.query_row(
        "SELECT (page_count - freelist_count) * page_size
         FROM pragma_page_count, pragma_freelist_count, pragma_page_size",
        [],
        |row| Ok(row.get::<_, i64>(0)?.unsigned_abs()),
    )
}

/// Chooses what goes and notes where its chains end: the last record, and how many.
fn select(
    connection: &Connection,
    bounds: &Bounds,
    is_too_large: bool,
) -> rusqlite::Result<Option<(i64, u64)>> {
    let mut note =
        connection.prepare("REPLACE INTO pruned (chain, seq, hash) VALUES (?1, ?2, ?3)")?;
    let (mut through, mut count, mut unreadable, mut noted) = (None, 0, 0, Ok(0));
    read::each_row(connection, 0, bounds.newest, false, |number, row| {
        if number > bounds.newest {
            return false;
        }
        let Some(row) = row else {
            // It does not say how old it is, and goes with what comes after it. It
            // leaves nothing to go on from.
            unreadable += 1;
            return true;
        };
        let is_old = |text| Seen::of(text).is_none_or(|seen| seen.at < bounds.oldest);
        if !is_too_large && !row.open_texts().all(is_old) {
            return false;
        }
        through = Some(number);
        count += row.count() + std::mem::take(&mut unreadable);
        noted = note.execute(params![row.chain().writer(), number, hex(&row.hash)]);
        noted.is_ok() && count < STEP
    })?;
    noted?;
    Ok(through.map(|through| (through, count)))
}

/// The ends of those chains that go on behind what was pruned; the others are forgotten.
fn anchor(connection: &Connection, through: i64) -> rusqlite::Result<Anchor> {
    let recent = recent_chains(connection, through)?;
    let mut statement = connection.prepare("SELECT chain, seq, hash FROM pruned")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
    let ends = rows.collect::<rusqlite::Result<Vec<(String, (i64, String))>>>()?;
    let mut anchor = Anchor { through, ..Anchor::default() };
    for (chain, end) in ends {
        let block = index::block_of(through + 1);
        if recent.contains(&chain) || index::is_in(connection, Term::Chain(&chain), block)? {
            anchor.chains.insert(chain, end);
        } else {
            connection.execute("DELETE FROM pruned WHERE chain = ?1", [chain])?;
        }
    }
    Ok(anchor)
}

/// The chains of records that stay and are too new for the index.
fn recent_chains(connection: &Connection, through: i64) -> rusqlite::Result<Vec<String>> {
    let (next, _) = index::next(connection)?;
    let first = index::start_of(next).max(through + 1);
    let mut chains = Vec::new();
    read::each_row(connection, first, i64::MAX, false, |_, row| {
        let writer = row.as_ref().map(|row| row.chain().writer());
        if let Some(writer) = writer.filter(|writer| chains.iter().all(|chain| chain != writer)) {
            chains.push(writer.to_owned());
        }
        true
    })?;
    Ok(chains)
}
