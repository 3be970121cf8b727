//! The time of a transaction, and what becomes of a system clock that jumps.

use std::mem;

use sluice_policy::Timestamp;

use super::Writer;
use crate::{
    StoreError,
    actor::Actor,
    id,
    record::{Kind, Outcome, Record},
    sqlite::time::{self, Resumed},
    trusted_time::{self, ClockEvent},
};

/// How often the time is stored, in milliseconds.
const STORE_TIME_EVERY: i64 = 10_000;

impl Writer {
    /// Finds out what time it is for this transaction.
    pub(super) fn look_at_clock(&mut self) -> rusqlite::Result<()> {
        let Resumed { time, event, confirmed, .. } = &mut self.time;
        if let Some(new) = time.advance(self.clock.look()) {
            *event = Some(new);
        }
        if time.distrust().is_some() {
            let count = time::count_confirmed(&self.connection)?;
            if mem::replace(confirmed, count) != count {
                time.confirm();
                *event = None;
            }
        }
        Ok(())
    }

    /// The time that windows and retention go by.
    pub(in crate::sqlite) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.time.time.now())
    }

    /// How far the system clock is ahead, if it is not trusted.
    pub(in crate::sqlite) fn distrust(&self) -> Option<i64> {
        self.time.time.distrust()
    }

    /// A person confirms the system clock, for all processes.
    pub(in crate::sqlite) fn confirm_clock(
        &mut self,
        actor: Actor,
    ) -> Result<Option<i64>, StoreError> {
        let Some(ahead) = self.distrust() else { return Ok(None) };
        self.time.time.confirm();
        (self.time.event, self.time.confirmed) = (None, self.time.confirmed + 1);
        time::note_confirmed(&self.connection, self.time.confirmed)?;
        self.time_stored = i64::MIN;
        let now = self.clock.now();
        self.append_record(Record {
            message: Some(format!(
                "the system clock was confirmed; it was {}",
                trusted_time::describe_clock(ahead)
            )),
            actor: Some(actor),
            ..Record::new(id::new_id(now), now, Kind::Admin)
        })?;
        Ok(Some(ahead))
    }

    /// Records what has become of the system clock, and stores the time every few seconds.
    pub(super) fn note_time(&mut self) -> Result<(), StoreError> {
        let event = self.time.event;
        if let Some(event) = event {
            let now = self.clock.now();
            self.append_record(Record {
                message: Some(event.to_string()),
                outcome: matches!(event, ClockEvent::Jumped(_)).then_some(Outcome::Error),
                actor: Some(Actor::gateway()),
                ..Record::new(id::new_id(now), now, Kind::Admin)
            })?;
        }
        let passed = self.time.time.time_since_boot();
        if event.is_some() || passed.saturating_sub(self.time_stored) > STORE_TIME_EVERY {
            time::write(&self.connection, &self.time.time, &self.time.boot)?;
            self.time_stored = passed;
        }
        Ok(())
    }
}
