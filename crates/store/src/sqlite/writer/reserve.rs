//! Charges: made before a call leaves, all or none, and given back if nothing was sent.

use sluice_policy::Amount;

use super::Writer;
use crate::{
    counter::Charge,
    record::{Line, Record},
    sqlite::{Reservation, StoreError, queue::Reserve, work::Done},
};

impl Writer {
    /// Makes a reservation, unless nobody waits for it any more: then the call
    /// it is for will never leave.
    pub(super) fn carry_out(
        &mut self,
        reserve: Reserve,
        made: &mut Vec<Line>,
        done: &mut Vec<Done>,
    ) -> Result<(), StoreError> {
        let Reserve { charges, line, reply } = reserve;
        if reply.is_closed() {
            return Ok(());
        }
        let found = self.reserve(&charges);
        if let Ok(Reservation::Made) = &found {
            made.push(line);
        }
        let went = found.as_ref().map(|_| ()).map_err(StoreError::clone);
        done.push(Done::Reserve(reply, found));
        went
    }

    /// Makes all charges, or none.
    fn reserve(&mut self, charges: &[Charge]) -> Result<Reservation, StoreError> {
        // One charge to a counter may leave no room for the next one, so they
        // are made one after the other and taken back if one does not fit.
        for (made, charge) in charges.iter().enumerate() {
            let reading = self.counters.reading(&self.connection, charge)?;
            if let Some(sum) = charge.fits(reading) {
                self.counters.set(charge, sum);
                continue;
            }
            self.take_back(charges.iter().take(made))?;
            return Ok(Reservation::Refused(self.readings(charges)?));
        }
        Ok(Reservation::Made)
    }

    fn readings(&mut self, charges: &[Charge]) -> Result<Vec<Amount>, StoreError> {
        charges.iter().map(|charge| self.counters.reading(&self.connection, charge)).collect()
    }

    fn take_back<'c>(
        &mut self,
        charges: impl Iterator<Item = &'c Charge>,
    ) -> Result<(), StoreError> {
        for charge in charges {
            let reading = self.counters.reading(&self.connection, charge)?;
            self.counters.set(charge, reading.checked_sub(charge.amount).unwrap_or_default());
        }
        Ok(())
    }

    /// Gives charges back, with the record that says so.
    pub(in crate::sqlite) fn refund(
        &mut self,
        charges: &[Charge],
        record: &Record,
    ) -> Result<(), StoreError> {
        self.take_back(charges.iter())?;
        self.append(&mut record.line())
    }
}
