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

/// Makes the record of a reservation, given what the counters read if it was refused.
pub(super) type MakeRecord = Box<dyn FnOnce(Option<&[Amount]>) -> Record + Send>;

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// What the writer is asked to do.
pub(super) enum Command {
    Reserve { charges: Vec<Charge>, record: MakeRecord, reply: Answer<Reservation> },
    Refund { charges: Vec<Charge>, record: Box<Record>, reply: Answer<()> },
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Command::Reserve { .. } => "Reserve",
            Command::Refund { .. } => "Refund",
        })
    }
}

/// An answer that may be given once the transaction is on disk.
enum Waiting {
    Reserve(Answer<Reservation>, Reservation),
    Refund(Answer<()>),
}

/// Starts the thread; it ends when the last handle to the store is gone.
pub(super) fn start(connection: Connection, queue: mpsc::Receiver<Command>) -> io::Result<()> {
    let chain = id::new_id(Timestamp::from_millis(0))
        .map(Chain::new)
        .ok_or_else(|| io::Error::other("the system gives no randomness"))?;
    let writer = Writer { connection, chain, counters: Counters::default(), forgotten: i64::MIN };
    thread::Builder::new().name("store".into()).spawn(move || writer.run(queue)).map(|_| ())
}

struct Writer {
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
    fn run(mut self, mut queue: mpsc::Receiver<Command>) {
        let mut batch = Vec::with_capacity(BATCH);
        while queue.blocking_recv_many(&mut batch, BATCH) > 0 {
            self.commit(&mut batch);
        }
    }

    /// Carries a batch out in one transaction, and answers when it is on disk.
    fn commit(&mut self, batch: &mut Vec<Command>) {
        let chain = self.chain.clone();
        let mut waiting = Vec::with_capacity(batch.len());
        match self.transaction(batch, &mut waiting) {
            Ok(()) => waiting.into_iter().for_each(Waiting::answer),
            Err(error) => {
                // Nothing of it is on disk, so nothing of it has happened.
                let _ = self.connection.execute_batch("ROLLBACK");
                self.chain = chain;
                self.counters = Counters::default();
                for waiting in waiting {
                    waiting.fail(&error);
                }
                for command in batch.drain(..) {
                    command.fail(&error);
                }
            }
        }
    }

    fn transaction(
        &mut self,
        batch: &mut Vec<Command>,
        waiting: &mut Vec<Waiting>,
    ) -> Result<(), StoreError> {
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        self.counters.trust(&self.connection)?;
        for command in batch.drain(..) {
            match command {
                Command::Reserve { charges, record, reply } => {
                    match self.reserve(&charges, record) {
                        Ok(made) => waiting.push(Waiting::Reserve(reply, made)),
                        Err(error) => {
                            waiting.push(Waiting::Reserve(reply, Reservation::Made));
                            return Err(error);
                        }
                    }
                }
                Command::Refund { charges, record, reply } => {
                    waiting.push(Waiting::Refund(reply));
                    self.refund(&charges, &record)?;
                }
            }
        }
        self.counters.write(&self.connection)?;
        self.connection.execute_batch("COMMIT")?;
        self.counters.settle();
        Ok(())
    }

    fn reserve(
        &mut self,
        charges: &[Charge],
        record: MakeRecord,
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

    fn refund(&mut self, charges: &[Charge], record: &Record) -> Result<(), StoreError> {
        for charge in charges {
            let reading = self.counters.reading(&self.connection, charge)?;
            self.counters.set(charge, reading.checked_sub(charge.amount).unwrap_or_default());
        }
        self.append(record)
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

impl Waiting {
    fn answer(self) {
        // Whoever has stopped waiting does not need the answer.
        match self {
            Waiting::Reserve(reply, reservation) => drop(reply.send(Ok(reservation))),
            Waiting::Refund(reply) => drop(reply.send(Ok(()))),
        }
    }

    fn fail(self, error: &StoreError) {
        match self {
            Waiting::Reserve(reply, _) => drop(reply.send(Err(error.clone()))),
            Waiting::Refund(reply) => drop(reply.send(Err(error.clone()))),
        }
    }
}

impl Command {
    fn fail(self, error: &StoreError) {
        match self {
            Command::Reserve { reply, .. } => drop(reply.send(Err(error.clone()))),
            Command::Refund { reply, .. } => drop(reply.send(Err(error.clone()))),
        }
    }
}
