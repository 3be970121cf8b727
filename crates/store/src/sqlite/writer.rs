//! The thread that writes. Commands that have arrived together share one
//! transaction, so that many calls cost one commit.
//!
//! Counters are kept in memory as well, for as long as the database shows that
//! nobody else has written to it.

use std::{
    collections::{BTreeMap, HashMap},
    io, thread,
};

use rusqlite::{Connection, params};
use sluice_policy::{Amount, Decimal, Timestamp};
use tokio::sync::{mpsc, oneshot};

use super::{Reservation, StoreError};
use crate::{
    chain::Chain,
    counter::{Charge, CounterKey},
    id,
    record::Record,
};

/// Commands in one transaction.
const BATCH: usize = 512;
/// Windows that ended this long ago are forgotten, in milliseconds. Kept for a
/// while because a slow call may still be refunded.
const FORGET_AFTER: i64 = 3_600_000;

/// Readings kept in memory; past that all are read again.
const MOST_KNOWN: usize = 16_384;

/// A part of the next transaction, and whoever waits for it.
pub(super) trait Work: Send {
    /// Does its part. What it returns answers once the transaction's fate is known.
    fn run(self: Box<Self>, writer: &mut Writer) -> Result<Finish, StoreError>;
    /// Answers that it was not come to.
    fn refuse(self: Box<Self>, error: &StoreError);
}

pub(super) type Finish = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// Work that answers with what it found.
pub(super) struct Task<T, F> {
    pub(super) work: F,
    pub(super) reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Work for Task<T, F>
where
    T: Send + 'static,
    F: FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
{
    fn run(self: Box<Self>, writer: &mut Writer) -> Result<Finish, StoreError> {
        let Task { work, reply } = *self;
        // Whoever has stopped waiting does not need an answer.
        match work(writer) {
            Ok(value) => Ok(Box::new(move |fate| drop(reply.send(fate.map(|()| value))))),
            Err(error) => {
                drop(reply.send(Err(error.clone())));
                Err(error)
            }
        }
    }

    fn refuse(self: Box<Self>, error: &StoreError) {
        drop(self.reply.send(Err(error.clone())));
    }
}

/// Starts the thread; it ends when the last handle to the store is gone.
pub(super) fn start(
    connection: Connection,
    queue: mpsc::Receiver<Box<dyn Work>>,
) -> io::Result<()> {
    let chain = id::new_id(Timestamp::from_millis(0))
        .map(Chain::new)
        .ok_or_else(|| io::Error::other("the system gives no randomness"))?;
    let writer = Writer { connection, chain, counters: Counters::default(), forgotten: i64::MIN };
    thread::Builder::new().name("store".into()).spawn(move || writer.run(queue)).map(|_| ())
}

/// The one who writes.
pub(super) struct Writer {
    connection: Connection,
    chain: Chain,
    counters: Counters,
    /// When ended windows were last forgotten.
    forgotten: i64,
}

/// What is known of counters without asking the database.
#[derive(Default)]
struct Counters {
    known: HashMap<(CounterKey, Timestamp), Amount>,
    /// Changed in this transaction and not yet written, with the window's end.
    changed: BTreeMap<(CounterKey, Timestamp), (Amount, i64)>,
    /// SQLite's mark of what other connections have written.
    version: Option<i64>,
}

impl Writer {
    fn run(mut self, mut queue: mpsc::Receiver<Box<dyn Work>>) {
        let mut batch = Vec::with_capacity(BATCH);
        while queue.blocking_recv_many(&mut batch, BATCH) > 0 {
            self.commit(batch.drain(..));
        }
    }

    /// Carries a batch out in one transaction, and answers when it is on disk.
    fn commit(&mut self, mut batch: impl Iterator<Item = Box<dyn Work>>) {
        let chain = self.chain.clone();
        let mut done = Vec::new();
        let fate = self.transaction(&mut batch, &mut done);
        if let Err(error) = &fate {
            // Nothing of it is on disk, so nothing of it has happened.
            let _ = self.connection.execute_batch("ROLLBACK");
            self.chain = chain;
            self.counters = Counters::default();
            batch.for_each(|work| work.refuse(error));
        }
        for finish in done {
            finish(fate.clone());
        }
    }

    fn transaction(
        &mut self,
        batch: &mut impl Iterator<Item = Box<dyn Work>>,
        done: &mut Vec<Finish>,
    ) -> Result<(), StoreError> {
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        self.counters.trust(&self.connection)?;
        for work in batch {
            done.push(work.run(self)?);
        }
        self.counters.write(&self.connection)?;
        self.connection.execute_batch("COMMIT")?;
        self.counters.settle();
        Ok(())
    }

    /// Makes all charges or none, with the record that goes with it.
    pub(super) fn reserve(
        &mut self,
        charges: &[Charge],
        record: impl FnOnce(Option<&[Amount]>) -> Record,
    ) -> Result<Reservation, StoreError> {
        let readings = charges
            .iter()
            .map(|charge| self.counters.reading(&self.connection, charge))
            .collect::<Result<Vec<_>, _>>()?;
        let sums: Option<Vec<_>> =
            charges.iter().zip(&readings).map(|(charge, reading)| charge.fits(*reading)).collect();
        let refused = sums.is_none().then_some(readings);
        self.append(&record(refused.as_deref()))?;
        for (charge, sum) in charges.iter().zip(sums.into_iter().flatten()) {
            self.counters.set(charge, sum);
        }
        Ok(refused.map_or(Reservation::Made, Reservation::Refused))
    }

    /// Gives charges back, with the record that says so.
    pub(super) fn refund(&mut self, charges: &[Charge], record: &Record) -> Result<(), StoreError> {
        for charge in charges {
            let reading = self.counters.reading(&self.connection, charge)?;
            self.counters.set(charge, reading.checked_sub(charge.amount).unwrap_or_default());
        }
        self.append(record)
    }

    /// Changes something else, with the record that says so.
    pub(super) fn change<T>(
        &mut self,
        record: &Record,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let value = work(&self.connection)?;
        self.append(record)?;
        Ok(value)
    }

    fn append(&mut self, record: &Record) -> Result<(), StoreError> {
        let text = self.chain.link(record).map_err(|e| StoreError::Failed(e.to_string()))?;
        self.connection.prepare_cached("INSERT INTO audit (body) VALUES (?1)")?.execute([text])?;
        let now = record.at.as_millis();
        if now.saturating_sub(self.forgotten) > FORGET_AFTER {
            self.forgotten = now;
            self.counters.forget(&self.connection, now - FORGET_AFTER)?;
        }
        Ok(())
    }
}

impl Counters {
    /// Forgets what is known if anybody else has written since.
    fn trust(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let version = connection.pragma_query_value(None, "data_version", |row| row.get(0))?;
        if self.version != Some(version) {
            self.known.clear();
            self.version = Some(version);
        }
        Ok(())
    }

    fn reading(&mut self, connection: &Connection, charge: &Charge) -> Result<Amount, StoreError> {
        let place = (charge.key.clone(), charge.window_start);
        if let Some(reading) = self.known.get(&place) {
            return Ok(*reading);
        }
        let mut statement = connection
            .prepare_cached("SELECT used FROM counters WHERE key = ?1 AND window_start = ?2")?;
        let found = statement
            .query_row(params![charge.key.text(), charge.window_start.as_millis()], |row| {
                row.get::<_, String>(0)
            });
        let reading = match found {
            Ok(text) => Amount::exactly(Decimal::read(&text))
                .map_err(|error| StoreError::Failed(format!("a counter's reading {error}")))?,
            Err(rusqlite::Error::QueryReturnedNoRows) => Amount::ZERO,
            Err(error) => return Err(error.into()),
        };
        self.known.insert(place, reading);
        Ok(reading)
    }

    fn set(&mut self, charge: &Charge, sum: Amount) {
        let place = (charge.key.clone(), charge.window_start);
        let end = charge.window_start.as_millis() + i64::from(charge.window_seconds) * 1000;
        self.changed.insert(place.clone(), (sum, end));
        self.known.insert(place, sum);
    }

    /// Writes what this transaction has changed, each counter once.
    fn write(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(
            "INSERT INTO counters (key, window_start, window_end, used) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET used = excluded.used",
        )?;
        for ((key, start), (sum, end)) in &self.changed {
            statement.execute(params![key.text(), start.as_millis(), end, sum.to_string()])?;
        }
        Ok(())
    }

    /// The transaction is on disk.
    fn settle(&mut self) {
        self.changed.clear();
        if self.known.len() > MOST_KNOWN {
            self.known.clear();
        }
    }

    /// Drops windows that ended before a moment.
    fn forget(&mut self, connection: &Connection, before: i64) -> rusqlite::Result<()> {
        connection
            .prepare_cached("DELETE FROM counters WHERE window_end < ?1")?
            .execute([before])?;
        // What is left is read again when it is needed, except what is not
        // written yet.
        self.known.retain(|place, _| self.changed.contains_key(place));
        Ok(())
    }
}
