//! Keeps the writer in step with the head, and with what other processes write.

use std::time::Duration;

use super::Writer;
use crate::{
    Durability, StoreError,
    head::{Disagreement, Extent, Head, Sums},
    log_space::{LogUse, Retention},
    sqlite::{compare, open, schema, space},
};

impl Writer {
    /// Sets how long records are kept and what a commit survives, or takes what another process
    /// has set.
    pub(in crate::sqlite) fn agree_on(
        &mut self,
        retention: Option<Retention>,
        durability: Durability,
    ) -> Result<(), StoreError> {
        self.begin(open::BUSY_TIMEOUT)?;
        let agreed = space::agree(&self.connection, retention, durability);
        if agreed.is_err() {
            self.roll_back();
        }
        (self.retention, self.durability) = agreed?;
        (self.used, self.counted) = (LogUse::new(self.retention.max_size), None);
        self.commit()?;
        Ok(open::sync_as(&self.connection, self.durability)?)
    }

    /// Refreshes the cached state if another process has written.
    pub(super) fn catch_up(&mut self) -> Result<(), StoreError> {
        let version = self.read_pragma("PRAGMA data_version")?;
        if self.version == Some(version) {
            return Ok(());
        }
        self.counters.forget();
        self.check_schema()?;
        let head = self.head.read().map_err(|error| refuse_head(&error))?;
        let head = head.ok_or_else(|| refuse_changed(&Disagreement::BadHead))?;
        let compared = compare::compare(&self.connection, &head, &self.keys.sums, &[])?;
        let sums = compared.map_err(|disagreement| refuse_changed(&disagreement))?;
        self.adopt(sums)?;
        self.version = Some(version);
        Ok(())
    }

    /// Takes the state of the database for the one that was committed last.
    pub(in crate::sqlite) fn adopt(&mut self, sums: Sums) -> rusqlite::Result<()> {
        self.sums.set(sums);
        self.log.end = compare::read_end(&self.connection)?;
        self.committed = Extent { end: self.log.end, sums };
        self.confirmed = None;
        self.drafts.forget();
        let pruned = compare::read_pruned(&self.connection)?;
        self.note_pruned(pruned.seq);
        self.before = self.log;
        Ok(())
    }

    /// Checks that no trigger or view was added, if the schema was changed.
    fn check_schema(&mut self) -> Result<(), StoreError> {
        let version = self.read_pragma("PRAGMA schema_version")?;
        if self.schema == Some(version) {
            return Ok(());
        }
        if let Some(change) = schema::find_alteration(&self.connection)? {
            return Err(StoreError::Failed(format!("the database's schema was changed: {change}")));
        }
        self.schema = Some(version);
        Ok(())
    }

    fn read_pragma(&self, sql: &str) -> rusqlite::Result<i64> {
        self.connection.prepare_cached(sql)?.query_row([], |row| row.get(0))
    }

    pub(super) fn write_head(&self, before: Extent, after: Extent) -> Result<(), StoreError> {
        let head = Head { incarnation: self.incarnation, before, after };
        self.head.write(&head).map_err(|error| refuse_head(&error))
    }

    /// Writes the head with the committed state alone, so that it vouches for the last
    /// transaction too. Does nothing if another process is writing.
    pub(in crate::sqlite) fn confirm(&mut self) -> Result<(), StoreError> {
        if self.confirmed == Some(self.committed) {
            return Ok(());
        }
        self.begin(Duration::ZERO)?;
        let written = self.write_head(self.committed, self.committed);
        self.execute("COMMIT")?;
        written?;
        self.confirmed = Some(self.committed);
        Ok(())
    }
}

fn refuse_head(error: &std::io::Error) -> StoreError {
    StoreError::Failed(format!("the head `keys/head` cannot be read or written: {error}"))
}

/// The error of a store that another program has changed.
fn refuse_changed(disagreement: &Disagreement) -> StoreError {
    StoreError::Failed(format!(
        "the database was changed by another program: {disagreement}\nhint: sluice log verify"
    ))
}
