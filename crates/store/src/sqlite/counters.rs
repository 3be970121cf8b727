//! What counters read.
//!
//! A row of the log says what the counters read that were charged with it, so that
//! a commit writes to one place. Now and then what the log says is entered into a
//! table, and the database notes up to which record that was done: what a counter
//! reads is what the newest row after that record says of it, or else the table.
//!
//! All of it that was asked for, and all that the table does not have, is kept in
//! memory too. When the database shows that somebody else has written to it, what
//! their rows say is taken over first.

use std::{collections::HashMap, fmt::Write as _};

use rusqlite::{Connection, OptionalExtension as _, params};
use sluice_policy::{Amount, Decimal, Timestamp};
use smallvec::SmallVec;

use super::StoreError;
use crate::{
    counter::{Charge, CounterKey},
    sheet::bytes::{Rest, push_number, push_text},
};

pub(super) const TABLES: &str = "
    CREATE TABLE readings (
        key TEXT NOT NULL, window_start INTEGER NOT NULL, window_end INTEGER NOT NULL, used TEXT NOT NULL,
        PRIMARY KEY (key, window_start)
    ) STRICT, WITHOUT ROWID;
";

/// Counters kept in memory; past that all are read again.
const MOST_KNOWN: usize = 16_384;
/// Windows of one counter kept in memory; past that those are read again that the
/// table has.
const MOST_WINDOWS: usize = 8;
/// Rows of the log, and counters they speak of, that may not be entered yet. That
/// much has to be read by whoever opens the database.
const MOST_ROWS: u32 = 512;
const MOST_LOGGED: usize = 1_024;

/// One window of one counter.
#[derive(Debug)]
struct Count {
    start: Timestamp,
    end: i64,
    reading: Amount,
    place: Place,
}

/// Where in the database a reading is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Table,
    /// In a row of the log.
    Log,
    /// Nowhere yet: it has changed in this transaction.
    Nowhere,
}

/// What is known of counters without asking the database.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Mostly the window that runs and the one before.
    known: Known,
    /// Windows that have changed in this transaction.
    changed: Vec<(CounterKey, Timestamp)>,
    /// Windows that the table does not have as they are.
    logged: Vec<(CounterKey, Timestamp)>,
    /// SQLite's mark of what other connections have written.
    version: Option<i64>,
    /// The newest record of which it is known what its row says.
    seen: i64,
    /// Rows of the log that were not entered into the table.
    rows: u32,
    /// Where readings are printed.
    text: String,
    /// Where what a row is to say is put together.
    said: Vec<u8>,
}

impl Counters {
    /// Whether anybody else has written since this was last asked.
    pub(super) fn is_behind(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        let version =
            connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        Ok(self.version.replace(version) != Some(version))
    }

    /// Takes over what rows say that others have written.
    pub(super) fn catch_up(
        &mut self,
        connection: &Connection,
        newest: i64,
    ) -> Result<(), StoreError> {
        let entered = entered(connection)?;
        if self.seen < entered {
            // Rows that were never seen may be gone: all they said is in the table.
            self.forget();
            (self.seen, self.rows) = (entered, 0);
        }
        let sql = "SELECT seq, counts FROM log WHERE seq > ?1 ORDER BY seq";
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query([self.seen])?;
        while let Some(row) = rows.next()? {
            let number: i64 = row.get(0)?;
            let said = row.get_ref(1)?.as_blob_or_null();
            let taken = said.ok().and_then(|said| self.take_over(said.unwrap_or_default()));
            taken.ok_or_else(|| {
                StoreError::Failed(format!("what record {number} says of counters is damaged"))
            })?;
            self.rows += 1;
        }
        self.seen = newest;
        Ok(())
    }

    fn take_over(&mut self, said: &[u8]) -> Option<()> {
        let mut rest = Rest(said);
        while !rest.0.is_empty() {
            let key = CounterKey::from_text(rest.text()?);
            let mut moment = || i64::try_from(rest.number()?.cast_signed()).ok();
            let (start, end) = (Timestamp::from_millis(moment()?), moment()?);
            let reading = amount(rest.text()?).ok()?;
            let said = Count { start, end, reading, place: Place::Log };
            let was = if let Some(known) = window(&mut self.known, &key, start) {
                std::mem::replace(known, said).place
            } else {
                self.add(&key, said);
                Place::Table
            };
            if was == Place::Table {
                self.logged.push((key, start));
            }
        }
        Some(())
    }

    /// What the counter of a charge reads in the charge's window.
    pub(super) fn reading(
        &mut self,
        connection: &Connection,
        charge: &Charge,
    ) -> Result<Amount, StoreError> {
        let end = charge.window_end();
        if let Some(count) = window(&mut self.known, &charge.key, charge.window_start) {
            let reading = count.reading;
            if count.end < end {
                // The policy has a longer window now, which began at the same time.
                count.end = end;
                self.set(charge, reading);
            }
            return Ok(reading);
        }
        let (reading, known_end) = read(connection, charge)?;
        let start = charge.window_start;
        let place = Place::Table;
        self.add(&charge.key, Count { start, end: end.max(known_end), reading, place });
        if known_end < end && reading > Amount::ZERO {
            self.set(charge, reading);
        }
        Ok(reading)
    }

    /// Adds a window that is not known yet.
    fn add(&mut self, key: &CounterKey, count: Count) {
        let windows = self.known.entry(key.clone()).or_default();
        if windows.len() >= MOST_WINDOWS {
            windows.retain(|count| count.place != Place::Table);
        }
        windows.push(count);
    }

    /// Sets what was read before.
    pub(super) fn set(&mut self, charge: &Charge, sum: Amount) {
        let start = charge.window_start;
        let Some(count) = window(&mut self.known, &charge.key, start) else { return };
        count.reading = sum;
        match std::mem::replace(&mut count.place, Place::Nowhere) {
            Place::Nowhere => return,
            Place::Log => {}
            Place::Table => self.logged.push((charge.key.clone(), start)),
        }
        self.changed.push((charge.key.clone(), start));
    }

    /// What the next row of the log, of which `newest` is the last record, is to say:
    /// each counter that has changed, once.
    pub(super) fn say(&mut self, newest: i64) -> Option<&[u8]> {
        self.seen = newest;
        // Also those that say nothing have to be gone through by whoever catches up.
        self.rows += 1;
        if self.changed.is_empty() {
            return None;
        }
        self.said.clear();
        for (key, start) in self.changed.drain(..) {
            let changed = window(&mut self.known, &key, start);
            let Some(count) = changed.filter(|count| count.place == Place::Nowhere) else {
                continue;
            };
            count.place = Place::Log;
            push_text(&mut self.said, key.text());
            for moment in [count.start.as_millis(), count.end] {
                push_number(&mut self.said, i128::from(moment).cast_unsigned());
            }
            push_text(&mut self.said, printed(&mut self.text, count.reading));
        }
        Some(&self.said)
    }

    /// Whether it is time to enter what the log says into the table.
    pub(super) fn is_much_logged(&self) -> bool {
        self.rows >= MOST_ROWS || self.logged.len() >= MOST_LOGGED
    }

    /// Enters what the log says, up to its newest record, into the table.
    pub(super) fn enter(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(
            "INSERT INTO readings (key, window_start, window_end, used) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET window_end = excluded.window_end, used = excluded.used",
        )?;
        for (key, start) in self.logged.drain(..) {
            let Some(count) = window(&mut self.known, &key, start) else { continue };
            if std::mem::replace(&mut count.place, Place::Table) != Place::Table {
                let used = printed(&mut self.text, count.reading);
                statement.execute(params![key.text(), start.as_millis(), count.end, used])?;
            }
        }
        connection
            .prepare_cached("REPLACE INTO meta (name, value) VALUES ('entered', ?1)")?
            .execute([self.seen.to_be_bytes()])?;
        self.rows = 0;
        if self.known.len() > MOST_KNOWN {
            self.forget();
        }
        Ok(())
    }

    /// Drops windows that ended before a moment. What the log says must have been
    /// entered.
    pub(super) fn drop_ended(
        &mut self,
        connection: &Connection,
        before: i64,
    ) -> rusqlite::Result<()> {
        connection
            .prepare_cached("DELETE FROM readings WHERE window_end < ?1")?
            .execute([before])?;
        self.forget();
        Ok(())
    }

    /// Forgets all that the database knows.
    fn forget(&mut self) {
        self.known.clear();
        self.changed.clear();
        self.logged.clear();
    }
}

/// The last record of which the table has what its row says.
fn entered(connection: &Connection) -> Result<i64, StoreError> {
    let sql = "SELECT value FROM meta WHERE name = 'entered'";
    let number: Option<[u8; 8]> =
        connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
    Ok(number.map_or(0, i64::from_be_bytes))
}

/// Notes that the table has all there is, for a database whose log says nothing
/// of counters.
pub(super) fn note_all_entered(connection: &Connection) -> rusqlite::Result<()> {
    let newest = super::index::newest(connection)?;
    let sql = "REPLACE INTO meta (name, value) VALUES ('entered', ?1)";
    connection.execute(sql, [newest.to_be_bytes()]).map(|_| ())
}

/// What the table says of a charge's window: the reading, and when it ends.
fn read(connection: &Connection, charge: &Charge) -> Result<(Amount, i64), StoreError> {
    let sql = "SELECT used, window_end FROM readings WHERE key = ?1 AND window_start = ?2";
    let place = params![charge.key.text(), charge.window_start.as_millis()];
    let found = connection
        .prepare_cached(sql)?
        .query_row(place, |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))
        .optional()?;
    found.map_or(Ok((Amount::ZERO, i64::MIN)), |(text, end)| Ok((amount(&text)?, end)))
}

type Known = HashMap<CounterKey, SmallVec<[Count; 2]>>;

/// The window of a counter that began at a moment, if it is known. The newest are
/// asked for most.
fn window<'k>(known: &'k mut Known, key: &CounterKey, start: Timestamp) -> Option<&'k mut Count> {
    known.get_mut(key)?.iter_mut().rev().find(|count| count.start == start)
}

fn amount(text: &str) -> Result<Amount, StoreError> {
    Amount::exactly(Decimal::read(text))
        .map_err(|error| StoreError::Failed(format!("a counter's reading {error}")))
}

fn printed(text: &mut String, amount: Amount) -> &str {
    text.clear();
    // Writing to a string cannot fail.
    let _ = write!(text, "{amount}");
    text
}

#[cfg(test)]
mod tests {
    use sluice_policy::{Amount, Scope, Timestamp};

    use super::{Counters, Place};
    use crate::counter::{Charge, CounterKey};

    fn charge(owner: &str, start: i64) -> Charge {
        Charge {
            key: CounterKey::new("demo", Scope::Grant, owner, "eval"),
            window_start: Timestamp::from_millis(start),
            window_seconds: 60,
            amount: Amount::ZERO,
            max: Amount::MAX,
        }
    }

    #[test]
    fn what_a_row_says_is_taken_over_and_damage_is_not() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        connection.execute_batch(super::TABLES).unwrap();
        let charges = [charge("alice", -60_000), charge("alice", 0), charge("böb", i64::MAX)];
        let (mut one, mut other) = (Counters::default(), Counters::default());
        for (charge, sum) in charges.iter().zip([1, 200, 30_000]) {
            one.reading(&connection, charge).unwrap();
            one.set(charge, Amount::whole(sum));
        }
        let said = one.say(7).unwrap().to_owned();
        assert_eq!(one.say(8), None);
        assert_eq!(other.take_over(&said), Some(()));
        for (charge, sum) in charges.iter().zip([1, 200, 30_000]) {
            assert_eq!(other.reading(&connection, charge), Ok(Amount::whole(sum)));
        }
        assert_eq!(other.logged.len(), 3);
        // Cut between two counters it says less; anywhere else it is refused.
        let is_whole = |length: &usize| Counters::default().take_over(&said[..*length]).is_some();
        assert_eq!((1..said.len()).filter(is_whole).count(), 2);
    }

    #[test]
    fn of_many_windows_those_are_forgotten_that_the_table_has() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        connection.execute_batch(super::TABLES).unwrap();
        let mut counters = Counters::default();
        let charged = charge("alice", -1);
        counters.reading(&connection, &charged).unwrap();
        counters.set(&charged, Amount::whole(5));
        for start in 0..100 {
            counters.reading(&connection, &charge("alice", start)).unwrap();
        }
        let windows = counters.known.get(&charged.key).unwrap();
        assert!(windows.len() <= super::MOST_WINDOWS + 1, "{}", windows.len());
        assert_eq!(windows.first().map(|count| count.place), Some(Place::Nowhere));
        assert_eq!(counters.reading(&connection, &charged), Ok(Amount::whole(5)));
    }
}
