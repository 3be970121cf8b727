//! Reading the log, beside the writer and without holding it up.

use std::{mem, path::Path, time::Duration};

use rusqlite::{Connection, OpenFlags, Transaction, types::Value};
use sluice_policy::Timestamp;

use super::{
    StoreError,
    forms::Kept,
    index::{self, Seen, Term},
    open::VERSION,
};
use crate::{
    chain::{Verified, Verifier},
    id::Id,
    moment,
    record::Kind,
    sheet::{MOST_RECORDS, Row},
};

/// How long an outcome may come after its request and still be found by it, in
/// milliseconds.
const LONGEST_REQUEST: i64 = 24 * 3_600_000;

/// Which records to read. What is not said does not matter.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Made at this moment or later.
    pub since: Option<Timestamp>,
    /// Made before this moment.
    pub until: Option<Timestamp>,
    pub server: Option<String>,
    /// A grant's id or label.
    pub grant: Option<String>,
    pub tool: Option<String>,
    pub outcome: Option<String>,
    pub kind: Option<Kind>,
    /// Records of one request, made within a day of it.
    pub request: Option<Id>,
    /// Behind this record in the log.
    pub after: Option<i64>,
    /// Before this record in the log.
    pub before: Option<i64>,
    /// From the newest on; else from the oldest.
    pub newest_first: bool,
    /// At most so many.
    pub limit: Option<usize>,
}

/// A filter, ready to be held against records.
struct Sieve<'f> {
    filter: &'f Filter,
    since: Option<String>,
    until: Option<String>,
    request: Option<String>,
    terms: Vec<Term<'f>>,
    found: Vec<(i64, String)>,
}

/// The records that pass the filter, each with its place in the log.
pub(super) fn records(path: &Path, filter: &Filter) -> Result<Vec<(i64, String)>, StoreError> {
    let mut connection = reader(path)?;
    // One transaction, so that the index and the log are of one moment.
    let moment = connection.transaction()?;
    let mut sieve = Sieve::new(filter);
    for (first, last) in sieve.stretches(&moment)? {
        sieve.read(&moment, first, last)?;
        if sieve.is_full() {
            break;
        }
    }
    Ok(sieve.found)
}

impl<'f> Sieve<'f> {
    fn new(filter: &'f Filter) -> Sieve<'f> {
        let made = filter.request.map(|request| request.at().as_millis());
        let after = |millis| made.map(|made| Timestamp::from_millis(made.saturating_add(millis)));
        // Both ends of time are the narrower of what is asked for and what the
        // request's own time allows.
        let since = filter.since.max(after(0));
        let until = [filter.until, after(LONGEST_REQUEST)].into_iter().flatten().min();
        Sieve {
            filter,
            since: since.map(moment::text),
            until: until.map(moment::text),
            request: filter.request.map(|request| request.to_string()),
            terms: terms(filter),
            found: Vec::new(),
        }
    }

    fn is_full(&self) -> bool {
        self.filter.limit.is_some_and(|limit| self.found.len() >= limit)
    }

    /// Which parts of the log to read, in order: first and last record of each.
    fn stretches(&self, connection: &Transaction<'_>) -> rusqlite::Result<Vec<(i64, i64)>> {
        let first = self.filter.after.map_or(0, |after| after.saturating_add(1)).max(0);
        let last = self.filter.before.map_or(i64::MAX, |before| before.saturating_sub(1));
        if self.takes_all() {
            return Ok(vec![(first, last)]);
        }
        let (next, _) = index::next(connection)?;
        let mut stretches: Vec<_> = self
            .blocks(connection, index::block_of(first), index::block_of(last))?
            .into_iter()
            .map(|block| (index::start_of(block), index::start_of(block + 1) - 1))
            .chain([(index::start_of(next), i64::MAX)])
            .map(|(start, end)| (start.max(first), end.min(last)))
            .collect();
        if self.filter.newest_first {
            stretches.reverse();
        }
        Ok(stretches)
    }

    fn takes_all(&self) -> bool {
        self.since.is_none() && self.until.is_none() && self.terms.is_empty()
    }

    /// The blocks of the index that may hold what is asked for.
    fn blocks(
        &self,
        connection: &Transaction<'_>,
        first: i64,
        last: i64,
    ) -> rusqlite::Result<Vec<i64>> {
        let mut sql = String::from("SELECT block FROM blocks WHERE block BETWEEN ? AND ?");
        let mut values = vec![Value::from(first), Value::from(last)];
        if let Some(since) = &self.since {
            sql.push_str(" AND last_at >= ?");
            values.push(since.clone().into());
        }
        if let Some(until) = &self.until {
            sql.push_str(" AND first_at < ?");
            values.push(until.clone().into());
        }
        for term in &self.terms {
            sql.push_str(" AND block IN (SELECT block FROM terms WHERE term = ?)");
            values.push(term.number().into());
        }
        sql.push_str(" ORDER BY block");
        let mut statement = connection.prepare(&sql)?;
        let rows = statement.query_map(rusqlite::params_from_iter(values), |row| row.get(0))?;
        rows.collect()
    }

    fn read(
        &mut self,
        connection: &Transaction<'_>,
        first: i64,
        last: i64,
    ) -> Result<(), StoreError> {
        let from_newest = self.filter.newest_first;
        let mut unreadable = None;
        each_row(connection, first, last, from_newest, |number, row| {
            match row {
                Some(row) => self.sift(row, first, last),
                None => unreadable = Some(number),
            }
            unreadable.is_none() && !self.is_full()
        })?;
        // Nobody is to take what was found for the whole.
        let failed = |number| {
            StoreError::Failed(format!(
                "what was recorded up to {number} cannot be read\nhint: sluice log verify"
            ))
        };
        unreadable.map_or(Ok(()), |number| Err(failed(number)))
    }

    /// Adds those records of a row that pass.
    fn sift(&mut self, row: Row, first: i64, last: i64) {
        let passes: Vec<_> = row.open_texts().map(|text| self.passes(text)).collect();
        if passes.iter().all(|passes| !passes) {
            return;
        }
        let mut records: Vec<_> = row
            .into_records()
            .zip(passes)
            .filter(|((number, _), passes)| *passes && (first..=last).contains(number))
            .map(|(record, _)| record)
            .collect();
        if self.filter.newest_first {
            records.reverse();
        }
        let room = self.filter.limit.map_or(usize::MAX, |limit| limit - self.found.len());
        self.found.extend(records.into_iter().take(room));
    }

    fn passes(&self, open: &str) -> bool {
        if self.takes_all() {
            return true;
        }
        let Some(seen) = Seen::of(open) else { return false };
        let Filter { server, grant, tool, outcome, kind, .. } = self.filter;
        let fits =
            |wanted: &Option<String>, value: &Option<String>| wanted.is_none() || wanted == value;
        let fits_grant = |wanted: &String| {
            seen.grant.as_ref().is_some_and(|grant| grant.id == *wanted || grant.label == *wanted)
        };
        self.since.as_ref().is_none_or(|since| seen.at >= *since)
            && self.until.as_ref().is_none_or(|until| seen.at < *until)
            && kind.is_none_or(|kind| seen.kind == kind.as_str())
            && fits(server, &seen.server)
            && fits(tool, &seen.tool)
            && fits(outcome, &seen.outcome)
            && fits(&self.request, &seen.request)
            && grant.as_ref().is_none_or(fits_grant)
    }
}

/// What a filter asks for that the index knows.
fn terms(filter: &Filter) -> Vec<Term<'_>> {
    let Filter { server, grant, tool, outcome, kind, .. } = filter;
    [
        server.as_deref().map(Term::Server),
        grant.as_deref().map(Term::Grant),
        tool.as_deref().map(Term::Tool),
        outcome.as_deref().map(Term::Outcome),
        kind.map(|kind| Term::Kind(kind.as_str())),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Checks the whole log.
pub(super) fn verify(path: &Path) -> Result<Verified, StoreError> {
    Ok(verifier_after(&reader(path)?, 0)?.finish())
}

/// Checks the newest records.
pub(super) fn verify_last(connection: &Connection, count: u32) -> rusqlite::Result<Verified> {
    let newest = index::newest(connection)?;
    Ok(verifier_after(connection, newest - i64::from(count))?.finish_part())
}

fn verifier_after(connection: &Connection, after: i64) -> rusqlite::Result<Verifier> {
    let mut verifier = Verifier::default();
    each_row(connection, after + 1, i64::MAX, false, |number, row| {
        verifier.check(number, row.as_ref());
        true
    })?;
    Ok(verifier)
}

/// Reads the rows that hold records from `first` to `last`, each with its number,
/// for as long as `read` wants more.
pub(super) fn each_row(
    connection: &Connection,
    first: i64,
    last: i64,
    from_newest: bool,
    mut read: impl FnMut(i64, Option<Row>) -> bool,
) -> rusqlite::Result<()> {
    let order = if from_newest { "DESC" } else { "ASC" };
    let sql = format!("SELECT seq, body FROM log WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq {order}");
    let mut statement = connection.prepare_cached(&sql)?;
    // A row has the number of its last record.
    let end = last.saturating_add(MOST_RECORDS - 1);
    let mut rows = statement.query([first, end])?;
    let mut kept = Kept::new(connection);
    while let Some(row) = rows.next()? {
        let number = row.get(0)?;
        let row = Row::read(number, row.get_ref(1)?, &mut |number| kept.form(number));
        mem::replace(&mut kept.failed, Ok(()))?;
        let is_beyond = row.as_ref().is_some_and(|row| row.first() > last);
        if !is_beyond && !read(number, row) {
            break;
        }
    }
    Ok(())
}

pub(super) fn reader(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(Duration::from_secs(2))?;
    if connection.pragma_query_value(None, "user_version", |row| row.get::<_, i32>(0))? < VERSION {
        // Whoever only reads an earlier layout does not change it.
        connection.execute_batch("CREATE TEMP VIEW log AS SELECT seq, body FROM audit")?;
    }
    Ok(connection)
}
