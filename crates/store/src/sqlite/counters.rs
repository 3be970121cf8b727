//! Counters within one transaction: each is read once and written once.

use std::{collections::HashMap, fmt::Write as _};

use rusqlite::{Connection, OptionalExtension as _, params};
use sluice_policy::{Amount, Decimal, Timestamp};

use crate::{
    StoreError,
    counter::{Charge, Charged, Slot},
    ledger::Reserved,
};

/// The sum of one window of a counter.
#[derive(Debug, Clone, Copy)]
struct Reading {
    used: Amount,
    /// When the window ends, in milliseconds.
    end: i64,
    is_changed: bool,
}

/// The windows that the running transaction has touched.
#[derive(Debug, Default)]
pub(super) struct Counters {
    touched: HashMap<Slot, Reading>,
    /// A buffer for formatting amounts.
    text: String,
}

impl Counters {
    /// Makes all charges or none; returns the windows that were charged.
    pub(super) fn charge(
        &mut self,
        connection: &Connection,
        charges: &[Charge],
        now: Timestamp,
    ) -> Result<Result<Vec<Charged>, Reserved>, StoreError> {
        let made: Vec<_> = charges.iter().map(|charge| charge.at(now)).collect();
        // Two charges may be to the same counter, so they are made one after the other
        // and undone if one does not fit.
        for (index, (charge, charged)) in charges.iter().zip(&made).enumerate() {
            let reading = self.reading(connection, charged)?;
            if let Some(sum) = charge.fits(reading.used) {
                (reading.used, reading.is_changed) = (sum, true);
                continue;
            }
            self.give_back(connection, made.get(..index).unwrap_or_default())?;
            let readings = made.iter().map(|charged| Ok(self.reading(connection, charged)?.used));
            return Ok(Err(Reserved::Refused {
                readings: readings.collect::<Result<_, StoreError>>()?,
            }));
        }
        Ok(Ok(made))
    }

    /// Returns charges to the windows they were made in.
    pub(super) fn give_back(
        &mut self,
        connection: &Connection,
        charges: &[Charged],
    ) -> Result<(), StoreError> {
        for charged in charges {
            let reading = self.reading(connection, charged)?;
            reading.used = reading.used.checked_sub(charged.amount).unwrap_or_default();
            reading.is_changed = true;
        }
        Ok(())
    }

    fn reading(
        &mut self,
        connection: &Connection,
        charged: &Charged,
    ) -> Result<&mut Reading, StoreError> {
        if !self.touched.contains_key(&charged.slot) {
            let found = read(connection, &charged.slot)?;
            let reading = match found {
                Some((used, end)) => Reading { used, end, is_changed: false },
                None => Reading { used: Amount::ZERO, end: charged.window_end, is_changed: false },
            };
            self.touched.insert(charged.slot.clone(), reading);
        }
        let Some(reading) = self.touched.get_mut(&charged.slot) else {
            return Err(StoreError::Failed("a counter's reading was lost".into()));
        };
        if reading.end < charged.window_end {
            // The policy now has a longer window, which began at the same time.
            (reading.end, reading.is_changed) = (charged.window_end, true);
        }
        Ok(reading)
    }

    /// Writes the changed windows.
    pub(super) fn write(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if self.touched.is_empty() {
            return Ok(());
        }
        let mut statement = connection.prepare_cached(
            "INSERT INTO counters (server, scope, owner, name, window_start, window_end, used)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT DO UPDATE SET window_end = excluded.window_end, used = excluded.used",
        )?;
        #[expect(clippy::iter_over_hash_type, reason = "the order of rows does not matter")]
        for (slot, reading) in self.touched.drain() {
            if !reading.is_changed {
                continue;
            }
            let [server, scope, owner, name] = slot.key.parts();
            let start = slot.window_start.as_millis();
            self.text.clear();
            // Writing to a string cannot fail.
            let _ = write!(self.text, "{}", reading.used);
            statement.execute(params![
                server,
                scope,
                owner,
                name,
                start,
                reading.end,
                self.text
            ])?;
        }
        Ok(())
    }

    /// Discards the windows of a failed transaction.
    pub(super) fn forget(&mut self) {
        self.touched.clear();
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
