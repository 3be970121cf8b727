//! The space of the log, as a transaction finds it.

use super::Writer;
use crate::{
    StoreError,
    log_space::LogSpace,
    record::Record,
    sqlite::{blocks, space},
};

/// How often the use of the whole log is counted, in milliseconds.
const COUNT_EVERY: i64 = 3_600_000;

impl Writer {
    /// The space of the log.
    pub(in crate::sqlite) fn space(&self) -> LogSpace {
        self.used.space()
    }

    /// Whether the log has space for the record of a call.
    pub(in crate::sqlite) fn check_space(&mut self, record: &Record) -> Result<(), StoreError> {
        self.used.check(record)
    }

    /// Counts the blocks that were added to the log; every hour all of it, because records
    /// grow old.
    pub(super) fn count_use(&mut self) -> rusqlite::Result<()> {
        let (block, now) = (blocks::block_of(self.log.end.seq + 1), self.now().as_millis());
        match self.counted {
            Some((next, at)) if now.saturating_sub(at) <= COUNT_EVERY => {
                if block > next {
                    space::count_from(&self.connection, &mut self.used, next)?;
                    self.counted = Some((block, at));
                }
            }
            _ => {
                let kept = i64::try_from(self.retention.keep_at_least.as_millis());
                let oldest = now.saturating_sub(kept.unwrap_or(i64::MAX));
                space::count(&self.connection, &mut self.used, oldest)?;
                self.counted = Some((block, now));
            }
        }
        Ok(())
    }
}
