//! One step of the scrub: some records, or at the end of the log all that it does not cover.

use std::sync::{MutexGuard, PoisonError};

use rusqlite::Connection;

use super::{Keys, Sqlite, compare, read, schema, sums};
use crate::{
    StoreError,
    chain::Verifier,
    scrub::{Pass, ScrubProgress, ScrubReport, ScrubStep},
};

/// Records that one step reads.
const STEP: i64 = 1_000;

/// What a step has read.
struct Part {
    records: u64,
    /// Where the pass goes on; `None` if it has ended.
    next: Option<Pass>,
    faults: Vec<String>,
}

impl Sqlite {
    pub(crate) async fn scrub(&self) -> Result<ScrubStep, StoreError> {
        let (keys, directory) = (self.keys()?, self.directory.clone());
        let pass = self.lock_progress().begin();
        let read = move |connection: &Connection| {
            let mut part = read_records(connection, &keys, pass)?;
            if part.next.is_none() {
                // This begins a new read transaction.
                let head = compare::begin_with_head(connection, &directory, &keys.master)?;
                let compared = match head {
                    Ok(head) => compare::compare(connection, &head, &keys.sums, &sums::ALL)?,
                    Err(disagreement) => Err(disagreement),
                };
                part.faults.extend(compared.err().map(|disagreement| disagreement.to_string()));
                let change = schema::find_alteration(connection)?;
                part.faults
                    .extend(change.map(|change| format!("the schema was changed: {change}")));
            }
            Ok(part)
        };
        let read = self.readers.read(read).await;
        let mut scrubbing = self.lock_progress();
        match read {
            Ok(part) => {
                scrubbing.add_faults(&part.faults);
                scrubbing.report.checked += part.records;
                scrubbing.pass = part.next;
                if part.next.is_some() {
                    return Ok(ScrubStep::GoOn);
                }
                scrubbing.finish(self.clock.now());
                Ok(ScrubStep::Finished)
            }
            Err(error) => {
                if error != StoreError::Stopped {
                    let fault = format!("after record {}: {error}", pass.after.seq);
                    scrubbing.add_faults(&[fault]);
                }
                scrubbing.pass = None;
                Err(error)
            }
        }
    }

    fn lock_progress(&self) -> MutexGuard<'_, ScrubProgress> {
        // It is never left half updated, so a poisoned lock is still usable.
        self.scrubbing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the scrub has found.
    pub(super) fn scrub_report(&self) -> ScrubReport {
        self.lock_progress().report.clone()
    }
}

/// Checks the next records of a pass. Some may be pruned meanwhile.
fn read_records(connection: &Connection, keys: &Keys, pass: Pass) -> Result<Part, StoreError> {
    let pruned = compare::read_pruned(connection)?;
    let through = match pass.through {
        Some(through) => through,
        None => compare::read_end(connection)?.seq,
    };
    let start = if pass.after.seq < pruned.seq { pruned } else { pass.after };
    let verifier = Verifier::new(&keys.chain, start);
    let verifier = read::verify_after(connection, verifier, start.seq, STEP, |_, _| Ok(()))?;
    let after = verifier.last().filter(|last| last.seq > start.seq && last.seq < through);
    let next = after.map(|after| Pass { after, through: Some(through) });
    let checked = verifier.finish_part();
    let faults = checked.faults.iter().map(ToString::to_string).collect();
    Ok(Part { records: checked.records, next, faults })
}
