//! The scrub: a slow check of the whole store in the background, in small steps, so that a fault
//! in old records is found before somebody needs them.

use sluice_policy::Timestamp;

use crate::{StoreError, chain::ChainEnd, ledger::Ledger, store::Store};

/// What the scrub has found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrubReport {
    /// Records that the present pass has checked.
    pub checked: u64,
    /// When the last whole pass has ended.
    pub finished_at: Option<Timestamp>,
    /// How many faults the present pass has found, or the last one if this one has found none yet.
    pub faults: u64,
    /// The first of them.
    pub first_fault: Option<String>,
}

/// Whether a pass of the scrub goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScrubStep {
    GoOn,
    /// The whole store was checked.
    Finished,
}

/// A pass, and what all have found.
#[derive(Debug, Default)]
pub(crate) struct ScrubProgress {
    pub(crate) report: ScrubReport,
    /// `None` before a pass.
    pub(crate) pass: Option<Pass>,
    /// Whether this pass has found a fault.
    has_faults: bool,
}

/// Where a pass is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pass {
    /// The last record that was checked.
    pub(crate) after: ChainEnd,
    /// The newest record when the pass began; later ones are left to the next pass.
    pub(crate) through: Option<i64>,
}

impl ScrubProgress {
    /// Begins a pass, unless one has begun.
    pub(crate) fn begin(&mut self) -> Pass {
        if self.pass.is_none() {
            self.report.checked = 0;
            self.has_faults = false;
        }
        *self.pass.get_or_insert(Pass { after: ChainEnd::NONE, through: None })
    }

    /// Adds faults. The first one is logged.
    pub(crate) fn add_faults(&mut self, faults: &[String]) {
        let Some(first) = faults.first() else { return };
        if !self.has_faults {
            tracing::error!(
                fault = first,
                "the store is not as it was written; see `sluice log verify`"
            );
            (self.report.faults, self.report.first_fault) = (0, Some(first.clone()));
            self.has_faults = true;
        }
        self.report.faults += faults.len() as u64;
    }

    /// Ends a pass.
    pub(crate) fn finish(&mut self, at: Timestamp) {
        self.pass = None;
        self.report.finished_at = Some(at);
        if !self.has_faults {
            (self.report.faults, self.report.first_fault) = (0, None);
        }
    }
}

impl Store {
    /// Checks the next part of the store, which takes a bounded time. The result is in
    /// [`Health`](crate::Health). An error says that the part could not be read; the next step
    /// begins a new pass.
    pub async fn scrub(&self) -> Result<ScrubStep, StoreError> {
        match &self.ledger {
            Ledger::Memory(_) => Ok(ScrubStep::Finished),
            Ledger::Sqlite(sqlite) => sqlite.scrub().await,
        }
    }
}
