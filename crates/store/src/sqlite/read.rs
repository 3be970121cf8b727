//! Reads that run beside the writer and never block it: a few connections, each used
//! by one read at a time on a blocking thread.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, InterruptHandle, OpenFlags, Row, types::Value};
use sluice_policy::Timestamp;
use tokio::sync::Semaphore;

use super::{
    Keys, blocks, compare, exported_heads,
    records::{self, SELECT},
    requests, schema, sums,
};
use crate::{
    StoreError,
    chain::{ChainKey, Fault, Verified, Verifier},
    log::{Entry, Filter},
};

/// Concurrent reads; more wait.
const MOST_READERS: usize = 4;
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// No limit, to SQLite.
const ALL: i64 = -1;

/// The pool of read connections.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    /// Connections that are not in use; `None` when the store has ended.
    idle: Mutex<Option<Vec<Connection>>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(path: &Path) -> Readers {
        Readers {
            path: path.to_owned(),
            idle: Mutex::new(Some(Vec::new())),
            permits: Arc::new(Semaphore::new(MOST_READERS)),
        }
    }

    /// Runs `work` in a read transaction, on a blocking thread. If the caller is
    /// cancelled, the read is interrupted or not started.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Readers>,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| StoreError::Stopped)?;
        let state = Arc::new(Mutex::new(ReadState::Waiting));
        let _interrupt = InterruptOnDrop(Arc::clone(&state));
        let readers = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || {
            let idle = readers.lock().as_mut().and_then(Vec::pop);
            let connection = idle.map_or_else(|| connect(&readers.path), Ok)?;
            if !begin_read(&state, &connection) {
                return Err(StoreError::Stopped);
            }
            let moment = connection.unchecked_transaction()?;
            let found = work(&moment);
            drop(moment);
            // From here on the read cannot be interrupted, because another one may use
            // the connection.
            *lock(&state) = ReadState::Over;
            if let Some(idle) = readers.lock().as_mut() {
                idle.push(connection);
            }
            drop(permit);
            found
        });
        read.await.map_err(|_| StoreError::Stopped)?
    }

    /// Closes all connections; those in use close when their reads are done.
    pub(super) fn close(&self) {
        let idle = self.lock().take();
        drop(idle);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<Connection>>> {
        lock(&self.idle)
    }
}

/// The progress of a read.
enum ReadState {
    Waiting,
    Running(InterruptHandle),
    /// It is done, or its caller was cancelled.
    Over,
}

/// Makes a read interruptible; `false` if its caller was cancelled.
fn begin_read(state: &Mutex<ReadState>, connection: &Connection) -> bool {
    let mut state = lock(state);
    let is_wanted = matches!(*state, ReadState::Waiting);
    if is_wanted {
        *state = ReadState::Running(connection.get_interrupt_handle());
    }
    is_wanted
}

struct InterruptOnDrop(Arc<Mutex<ReadState>>);

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        let mut state = lock(&self.0);
        if let ReadState::Running(handle) = &*state {
            handle.interrupt();
        }
        *state = ReadState::Over;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "cache_size", -500)?;
    Ok(connection)
}

/// At most `most` records that match a filter.
pub(super) fn search(
    connection: &Connection,
    filter: &Filter,
    most: usize,
) -> Result<Vec<Entry>, StoreError> {
    let mut found = Vec::new();
    let search = Search::new(filter);
    for (first, last) in search.stretches(connection)? {
        search.read(connection, (first, last), most, &mut found)?;
        if found.len() >= most {
            break;
        }
    }
    Ok(found)
}

/// A filter as SQL. Facets are filtered by one condition on their table. All values are
/// bound, so none can act as SQL or as a wildcard.
struct Search<'f> {
    filter: &'f Filter,
    facets: Option<String>,
    facet_values: Vec<Value>,
}

impl<'f> Search<'f> {
    fn new(filter: &'f Filter) -> Search<'f> {
        let text = |value: &Option<String>| value.clone();
        let columns = [
            ("kind = ?", filter.kind.map(|kind| kind.as_str().to_owned())),
            ("outcome = ?", filter.outcome.map(|outcome| outcome.as_str().to_owned())),
            ("server = ?", text(&filter.server)),
            ("tool = ?", text(&filter.tool)),
            ("principal = ?", text(&filter.principal)),
            ("rule = ?", text(&filter.rule)),
            ("? IN (grant_id, grant_label)", text(&filter.grant)),
        ];
        let mut conditions = Vec::new();
        let mut facet_values = Vec::new();
        for (condition, value) in columns {
            if let Some(value) = value {
                conditions.push(condition);
                facet_values.push(Value::from(value));
            }
        }
        let facets = (!conditions.is_empty())
            .then(|| format!("(SELECT id FROM facets WHERE {})", conditions.join(" AND ")));
        Search { filter, facets, facet_values }
    }

    /// The ranges of the log to read, in order: first and last record of each.
    fn stretches(&self, connection: &Connection) -> rusqlite::Result<Vec<(i64, i64)>> {
        let (first, last) = self.filter.bounds();
        let (since, until) = self.filter.span();
        if self.facets.is_none() && since.is_none() && until.is_none() {
            return Ok(vec![(first, last)]);
        }
        let mut sql = String::from("SELECT block FROM blocks WHERE block BETWEEN ? AND ?");
        let mut values = vec![blocks::block_of(first).into(), blocks::block_of(last).into()];
        for (condition, moment) in [(" AND last_at >= ?", since), (" AND first_at < ?", until)] {
            if let Some(moment) = moment {
                sql.push_str(condition);
                values.push(Value::from(moment.as_millis()));
            }
        }
        if let Some(facets) = &self.facets {
            sql.push_str(" AND block IN (SELECT block FROM block_facets WHERE facet IN ");
            sql.push_str(facets);
            sql.push(')');
            values.extend(self.facet_values.iter().cloned());
        }
        sql.push_str(" ORDER BY block");
        let mut statement = connection.prepare(&sql)?;
        let rows = statement.query_map(rusqlite::params_from_iter(values), |row| row.get(0))?;
        let mut summarised = rows.collect::<rusqlite::Result<Vec<i64>>>()?;
        if !self.filter.requests.is_empty() {
            summarised = requests::retain(connection, summarised, &self.filter.requests)?;
        }
        Ok(self.join(&summarised, blocks::find_unsummarised(connection)?))
    }

    /// Merges adjacent blocks into one range; the records without a summary come last.
    fn join(&self, summarised: &[i64], next: i64) -> Vec<(i64, i64)> {
        let (first, last) = self.filter.bounds();
        let mut stretches: Vec<(i64, i64)> = Vec::new();
        let ends = summarised
            .iter()
            .map(|block| (blocks::start_of(*block), blocks::start_of(block + 1) - 1))
            .chain([(blocks::start_of(next), i64::MAX)]);
        for (start, end) in ends {
            match stretches.last_mut() {
                Some((_, last)) if *last + 1 == start => *last = end,
                _ => stretches.push((start, end)),
            }
        }
        if self.filter.newest_first {
            stretches.reverse();
        }
        stretches.into_iter().map(|(start, end)| (start.max(first), end.min(last))).collect()
    }

    fn read(
        &self,
        connection: &Connection,
        (first, last): (i64, i64),
        most: usize,
        found: &mut Vec<Entry>,
    ) -> Result<(), StoreError> {
        let mut sql = format!("{SELECT} WHERE r.seq BETWEEN ? AND ?");
        let mut values = vec![Value::from(first), Value::from(last)];
        let (since, until) = self.filter.span();
        for (condition, moment) in [(" AND r.at >= ?", since), (" AND r.at < ?", until)] {
            if let Some(moment) = moment {
                sql.push_str(condition);
                values.push(Value::from(moment.as_millis()));
            }
        }
        if let Some(session) = &self.filter.session {
            sql.push_str(" AND r.session = ?");
            values.push(Value::from(session.clone()));
        }
        if !self.filter.requests.is_empty() {
            let marks = vec!["?"; self.filter.requests.len()].join(", ");
            let _ = write!(sql, " AND r.request IN ({marks})");
            values.extend(self.filter.requests.iter().map(|id| Value::from(id.to_string())));
        }
        if let Some(facets) = &self.facets {
            sql.push_str(" AND r.facet IN ");
            sql.push_str(facets);
            values.extend(self.facet_values.iter().cloned());
        }
        let is_newest_first = self.filter.newest_first;
        let order = if is_newest_first { " ORDER BY r.seq DESC" } else { " ORDER BY r.seq" };
        sql.push_str(order);
        sql.push_str(" LIMIT ?");
        let limit = i64::try_from(most - found.len()).unwrap_or(i64::MAX);
        values.push(Value::from(limit));
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query(rusqlite::params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            let number: i64 = row.get(0)?;
            // A partial result must not be mistaken for a complete one.
            found.push(records::read_entry(row).map_err(|_| {
                StoreError::Failed(format!(
                    "record {number} cannot be read\nhint: sluice log verify"
                ))
            })?);
        }
        Ok(())
    }
}

/// Checks the whole store: the log and its end, the rows of all other tables, the schema,
/// and the summaries that searches rely on. Its head is signed, as of `now`, if nothing is wrong
/// with it.
pub(super) fn verify(
    connection: &Connection,
    keys: &Keys,
    directory: &Path,
    now: Timestamp,
) -> Result<Verified, StoreError> {
    let head = compare::begin_with_head(connection, directory, &keys.master)?;
    let mut summaries = blocks::SummaryCheck::new(connection)?;
    let verifier = Verifier::new(&keys.chain, compare::read_pruned(connection)?);
    let mut verifier = verify_after(connection, verifier, 0, ALL, |verifier, row| {
        if summaries.is_uncovered(connection, row)? {
            verifier.report(Fault::Summary(row.get(0)?));
        }
        Ok(())
    })?;
    if let Some(change) = schema::find_alteration(connection)? {
        verifier.report(Fault::Schema(change));
    }
    let compared = match head {
        Ok(head) => compare::compare(connection, &head, &keys.sums, &sums::ALL)?,
        Err(disagreement) => Err(disagreement),
    };
    let head = match compared {
        Ok(_) => Some(exported_heads::sign_end(connection, keys, now)?),
        Err(disagreement) => {
            verifier.report(Fault::Head(disagreement));
            None
        }
    };
    Ok(Verified { head, ..verifier.finish() })
}

/// Checks the newest records.
pub(super) fn verify_last(
    connection: &Connection,
    key: &ChainKey,
    count: i64,
) -> rusqlite::Result<Verified> {
    let (end, pruned) = (compare::read_end(connection)?, compare::read_pruned(connection)?);
    let after = end.seq - count;
    let is_whole = after <= pruned.seq;
    let verifier =
        if is_whole { Verifier::new(key, pruned) } else { Verifier::of_part(key, pruned) };
    Ok(verify_after(connection, verifier, after, ALL, |_, _| Ok(()))?.finish_part())
}

/// Checks the records after one, at most so many.
pub(super) fn verify_after<'k>(
    connection: &Connection,
    mut verifier: Verifier<'k>,
    after: i64,
    most: i64,
    mut also: impl FnMut(&mut Verifier<'k>, &Row<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<Verifier<'k>> {
    let sql = format!("{SELECT} WHERE r.seq > ?1 ORDER BY r.seq LIMIT ?2");
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([after, most])?;
    while let Some(row) = rows.next()? {
        verifier.check(row.get(0)?, row.get(11).ok(), records::read_entry(row).ok());
        also(&mut verifier, row)?;
    }
    Ok(verifier)
}
