//! The thread that writes. Commands that have arrived together share one
//! transaction, so that many calls cost one commit.
//!
//! Counters are kept in memory as well, for as long as the database shows that
//! nobody else has written to it.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use rusqlite::{Connection, params};
use sluice_policy::{Amount, Decimal, Timestamp};
use tokio::sync::mpsc;

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

/// A part of the next transaction. Whoever waits for it is answered by what it
/// returns, which is called when the transaction is on disk and dropped if it
/// failed.
pub(super) type Work = Box<dyn FnOnce(&mut Writer) -> Result<Finish, StoreError> + Send>;
pub(super) type Finish = Box<dyn FnOnce() + Send>;

/// Starts the thread; it ends when the last handle to the store is gone. The last
/// failure is left in `failure` for those who were not answered.
pub(super) fn start(
    connection: Connection,
    queue: mpsc::Receiver<Work>,
    failure: Arc<Mutex<Option<StoreError>>>,
) -> io::Result<()> {
    let chain = id::new_id(Timestamp::from_millis(0))
        .map(Chain::new)
        .ok_or_else(|| io::Error::other("the system gives no randomness"))?;
    let counters = Counters::default();
    let writer = Writer { connection, chain, counters, forgotten: i64::MIN, failure };
    thread::Builder::new().name("store".into()).spawn(move || writer.run(queue)).map(|_| ())
}

/// The one who writes.
pub(super) struct Writer {
    connection: Connection,
    chain: Chain,
    counters: Counters,
    /// When ended windows were last forgotten.
    forgotten: i64,
    failure: Arc<Mutex<Option<StoreError>>>,
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
    fn run(mut self, mut queue: mpsc::Receiver<Work>) {
        let mut batch = Vec::with_capacity(BATCH);
        while queue.blocking_recv_many(&mut batch, BATCH) > 0 {
            self.commit(&mut batch);
        }
    }

    /// Carries a batch out in one transaction, and answers when it is on disk.
    fn commit(&mut self, batch: &mut Vec<Work>) {
        let chain = self.chain.clone();
        match self.transaction(batch) {
            Ok(finished) => finished.into_iter().for_each(|finish| finish()),
            Err(error) => {
                // Nothing of it is on disk, so nothing of it has happened.
                let _ = self.connection.execute_batch("ROLLBACK");
                self.chain = chain;
                self.counters = Counters::default();
                *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                batch.clear();
            }
        }
    }

    fn transaction(&mut self, batch: &mut Vec<Work>) -> Result<Vec<Finish>, StoreError> {
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        self.counters.trust(&self.connection)?;
        let finished =
            batch.drain(..).map(|work| work(self)).collect::<Result<Vec<_>, StoreError>>()?;
        self.counters.write(&self.connection)?;
        self.connection.execute_batch("COMMIT")?;
        self.counters.settle();
        Ok(finished)
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
