//! A write-back cache of counter windows: each is read when it is first used, written once
//! per transaction, and dropped when another process writes.

use std::{collections::HashMap, fmt::Write as _, mem};

use rusqlite::{Connection, OptionalExtension as _, params};
use sluice_policy::{Amount, Decimal, Timestamp};

use crate::{
    StoreError,
    counter::{Charge, Charged, Slot},
};

/// Readings that are kept; past that all are read again.
const MOST_READINGS: usize = 4_096;

/// The sum of one window of a counter.
#[derive(Debug, Clone, Copy)]
struct Reading {
    used: Amount,
    /// When the window ends, in milliseconds.
    end: i64,
    is_changed: bool,
}

impl Reading {
    /// Has it written with the transaction.
    fn note_change(&mut self, slot: &Slot, changed: &mut Vec<Slot>) {
        if !mem::replace(&mut self.is_changed, true) {
            changed.push(slot.clone());
        }
    }
}

/// The readings that are known.
#[derive(Debug, Default)]
pub(super) struct Counters {
    known: HashMap<Slot, Reading>,
    /// Those that the running transaction has changed.
    changed: Vec<Slot>,
    /// A buffer for formatting amounts.
    text: String,
}

impl Counters {
    /// Makes all charges or none; returns the windows that were charged, or what the counters
    /// read.
    pub(super) fn charge(
        &mut self,
        connection: &Connection,
        charges: &[Charge],
        now: Timestamp,
    ) -> Result<Result<Vec<Charged>, Vec<Amount>>, StoreError> {
        let made: Vec<_> = charges.iter().map(|charge| charge.at(now)).collect();
        // Two charges may be to the same counter, so they are made one after the other
        // and undone if one does not fit.
        for (index, (charge, charged)) in charges.iter().zip(&made).enumerate() {
            let (reading, changed) = self.find(connection, charged)?;
            if let Some(sum) = charge.fits(reading.used) {
                reading.used = sum;
                reading.note_change(&charged.slot, changed);
                continue;
            }
            self.give_back(connection, made.get(..index).unwrap_or_default())?;
            return Ok(Err(self.readings(connection, charges, now)?));
        }
        Ok(Ok(made))
    }

    /// What the counters of these charges read.
    pub(super) fn readings(
        &mut self,
        connection: &Connection,
        charges: &[Charge],
        now: Timestamp,
    ) -> Result<Vec<Amount>, StoreError> {
        let read = |charge: &Charge| Ok(self.find(connection, &charge.at(now))?.0.used);
        charges.iter().map(read).collect()
    }

    /// Returns charges to the windows they were made in.
    pub(super) fn give_back(
        &mut self,
        connection: &Connection,
        charges: &[Charged],
    ) -> Result<(), StoreError> {
        for charged in charges {
            let (reading, changed) = self.find(connection, charged)?;
            reading.used = reading.used.checked_sub(charged.amount).unwrap_or_default();
            reading.note_change(&charged.slot, changed);
        }
        Ok(())
    }

    /// The reading that a charge concerns, and the list of changed ones.
    fn find(
        &mut self,
        connection: &Connection,
        charged: &Charged,
    ) -> Result<(&mut Reading, &mut Vec<Slot>), StoreError> {
        if !self.known.contains_key(&charged.slot) {
            let found = read(connection, &charged.slot)?;
            let (used, end) = found.unwrap_or((Amount::ZERO, charged.window_end));
            self.known.insert(charged.slot.clone(), Reading { used, end, is_changed: false });
        }
        let Some(reading) = self.known.get_mut(&charged.slot) else {
            return Err(StoreError::Failed("a counter's reading was lost".into()));
        };
        if reading.end < charged.window_end {
            // The policy has a longer window now, which began at the same time.
            reading.end = charged.window_end;
            reading.note_change(&charged.slot, &mut self.changed);
        }
        Ok((reading, &mut self.changed))
    }

    /// Writes the changed windows.
    pub(super) fn write(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if self.changed.is_empty() {
            return Ok(());
        }
        let mut statement = connection.prepare_cached(
            "INSERT INTO counters (server, scope, owner, name, window_start, window_end, used)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT DO UPDATE SET window_end = excluded.window_end, used = excluded.used",
        )?;
        for slot in self.changed.drain(..) {
            let Some(reading) = self.known.get_mut(&slot) else { continue };
            reading.is_changed = false;
            let [server, scope, owner, name] = slot.key.parts();
            let start = slot.window_start.as_millis();
            self.text.clear();
            // Writing to a string cannot fail.
            let _ = write!(self.text, "{}", reading.used);
            let row = params![server, scope, owner, name, start, reading.end, self.text];
            statement.execute(row)?;
        }
        if self.known.len() > MOST_READINGS {
            self.known.clear();
        }
        Ok(())
    }

    /// Forgets all readings: a transaction has failed, or another process has written.
    pub(super) fn forget(&mut self) {
        self.known.clear();
        self.changed.clear();
    }
}

/// Deletes windows that ended before this time.
pub(super) fn drop_ended(connection: &Connection, before: i64) -> rusqlite::Result<()> {
    let sql = "DELETE FROM counters WHERE window_end < ?1";
    connection.prepare_cached(sql)?.execute([before]).map(|_| ())
}

fn read(connection: &Connection, slot: &Slot) -> Result<Option<(Amount, i64)>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT used, window_end FROM counters
         WHERE server = ?1 AND scope = ?2 AND owner = ?3 AND name = ?4 AND window_start = ?5",
    )?;
    let [server, scope, owner, name] = slot.key.parts();
    let place = params![server, scope, owner, name, slot.window_start.as_millis()];
    let found =
        statement.query_row(place, |row| Ok((row.get::<_, String>(0)?, row.get(1)?))).optional()?;
    found.map(|(used, end)| Ok((parse_amount(&used)?, end))).transpose()
}

fn parse_amount(text: &str) -> Result<Amount, StoreError> {
    Amount::exactly(Decimal::read(text))
        .map_err(|error| StoreError::Failed(format!("a counter's reading {error}")))
}
