//! What counters read, kept in memory for as long as the database shows that
//! nobody else has written to it.

use std::{collections::HashMap, fmt::Write as _};

use rusqlite::{Connection, params};
use sluice_policy::{Amount, Decimal, Timestamp};
use smallvec::SmallVec;

use super::StoreError;
use crate::counter::{Charge, CounterKey};

/// Counters kept in memory; past that all are read again.
const MOST_KNOWN: usize = 16_384;

/// One window of one counter.
#[derive(Debug)]
struct Count {
    start: Timestamp,
    end: i64,
    reading: Amount,
    /// Changed in this transaction and not yet written.
    is_changed: bool,
}

/// What is known of counters without asking the database.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Hardly ever more than the window that runs and the one before.
    known: HashMap<CounterKey, SmallVec<[Count; 2]>>,
    /// Those with a window that has changed in this transaction.
    changed: Vec<CounterKey>,
    /// SQLite's mark of what other connections have written.
    version: Option<i64>,
    /// Where readings are printed.
    text: String,
}

impl Counters {
    /// Forgets what is known if anybody else has written since; whether that is so.
    pub(super) fn trust(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        let version =
            connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        let is_changed = self.version.replace(version) != Some(version);
        if is_changed {
            self.known.clear();
        }
        Ok(is_changed)
    }

    /// What the counter of a charge reads in the charge's window.
    pub(super) fn reading(
        &mut self,
        connection: &Connection,
        charge: &Charge,
    ) -> Result<Amount, StoreError> {
        if let Some(count) = self.known(charge) {
            return Ok(count.reading);
        }
        let reading = read(connection, charge)?;
        self.known.entry(charge.key.clone()).or_default().push(Count {
            start: charge.window_start,
            end: charge.window_end(),
            reading,
            is_changed: false,
        });
        Ok(reading)
    }

    /// Sets what was read before.
    pub(super) fn set(&mut self, charge: &Charge, sum: Amount) {
        let Some(count) = self.known(charge) else { return };
        count.reading = sum;
        if !std::mem::replace(&mut count.is_changed, true) {
            self.changed.push(charge.key.clone());
        }
    }

    fn known(&mut self, charge: &Charge) -> Option<&mut Count> {
        let windows = self.known.get_mut(&charge.key)?;
        windows.iter_mut().find(|count| count.start == charge.window_start)
    }

    /// Writes what this transaction has changed, each counter once.
    pub(super) fn write(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if self.changed.is_empty() {
            return Ok(());
        }
        let mut statement = connection.prepare_cached(
            "INSERT INTO counters (key, window_start, window_end, used) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET used = excluded.used",
        )?;
        for key in self.changed.drain(..) {
            for count in self.known.get_mut(&key).into_iter().flatten() {
                if !std::mem::take(&mut count.is_changed) {
                    continue;
                }
                self.text.clear();
                // Writing to a string cannot fail.
                let _ = write!(self.text, "{}", count.reading);
                let start = count.start.as_millis();
                statement.execute(params![key.text(), start, count.end, self.text])?;
            }
        }
        if self.known.len() > MOST_KNOWN {
            self.known.clear();
        }
        Ok(())
    }

    /// Drops windows that ended before a moment.
    pub(super) fn forget(&mut self, connection: &Connection, before: i64) -> rusqlite::Result<()> {
        connection
            .prepare_cached("DELETE FROM counters WHERE window_end < ?1")?
            .execute([before])?;
        // What changed in this transaction is not in the database yet; all else
        // is read again when it is needed.
        self.known.retain(|_, windows| {
            windows.retain(|count| count.is_changed);
            !windows.is_empty()
        });
        Ok(())
    }
}

fn read(connection: &Connection, charge: &Charge) -> Result<Amount, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT used FROM counters WHERE key = ?1 AND window_start = ?2")?;
    let place = params![charge.key.text(), charge.window_start.as_millis()];
    match statement.query_row(place, |row| row.get::<_, String>(0)) {
        Ok(text) => Amount::exactly(Decimal::read(&text))
            .map_err(|error| StoreError::Failed(format!("a counter's reading {error}"))),
        Err(rusqlite::Error::QueryReturnedNoRows) => Ok(Amount::ZERO),
        Err(error) => Err(error.into()),
    }
}
