//! The store's thread: commits the writes that callers do not commit themselves, and
//! maintains the file in between.

use std::{
    mem,
    panic::AssertUnwindSafe,
    sync::{Condvar, MutexGuard, PoisonError},
    time::Duration,
};

use super::{Batch, GroupCommit, watch::Watch};
use crate::sqlite::{checkpoint::Checkpoints, open, read::Readers, writer::Writer};

/// How long deferred records wait for another commit to join.
const DEFER: Duration = Duration::from_millis(20);
/// How often a failing store is retried.
const RETRY: Duration = Duration::from_secs(1);

impl GroupCommit {
    pub(super) fn run_to_end(&self, watch: Watch, mut checkpoints: Checkpoints, readers: &Readers) {
        // A panic must not leave callers waiting: they get an error instead.
        let ran = std::panic::catch_unwind(AssertUnwindSafe(|| self.run_thread(&mut checkpoints)));
        if ran.is_err() {
            tracing::error!("the store's thread panicked");
        }
        // The writer's connection closes last: that checkpoints the rest of the
        // write-ahead log and removes the file.
        drop(watch);
        drop(checkpoints);
        readers.close();
        drop(self.writer.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.end();
    }

    /// The thread's main loop.
    fn run_thread(&self, checkpoints: &mut Checkpoints) {
        // If this fails, so will the first write, which reports the error.
        self.with_writer(|writer| {
            if writer.begin(open::BUSY_TIMEOUT).is_ok() {
                let touched = writer.touch().map_err(crate::StoreError::from);
                let freed = touched.and_then(|()| writer.free_ended_leases());
                drop(freed.and_then(|()| writer.commit()));
                let mut state = self.lock();
                (state.log, state.clock_ahead) = (writer.space(), writer.distrust());
            }
        });
        loop {
            let (mut batch, is_last) = self.take();
            let ran = self.with_writer(|writer| {
                let is_failing = {
                    let mut state = self.lock();
                    mem::swap(&mut state.ended, &mut batch.ended);
                    state.failure.is_some()
                };
                let has_work = !batch.is_empty();
                if has_work || is_failing {
                    // With the durability `power`, every commit syncs.
                    let is_synced = batch.needs_sync && self.callers_commit;
                    let begun = writer
                        .sync_commits(is_synced)
                        .map_err(crate::StoreError::from)
                        .and_then(|()| writer.begin(open::BUSY_TIMEOUT));
                    // Only a real write shows whether writing works again.
                    let is_probe = is_failing && !has_work;
                    let probed =
                        begun.and_then(|()| if is_probe { writer.probe() } else { Ok(()) });
                    self.commit(writer, batch, probed);
                    // If this fails, calls only wait for the disk until it does not.
                    let _ = writer.sync_commits(false);
                    // The file is maintained again when the store is idle.
                    self.lock().is_dirty = true;
                }
                if !has_work || is_last {
                    // Another process that is writing, and a fault, show at the next write.
                    let _ = writer.confirm();
                }
                checkpoints.keep_up(writer.connection(), !has_work);
            });
            if is_last || !ran {
                return;
            }
        }
    }

    /// Waits for work and takes all of it; returns whether it is the last.
    fn take(&self) -> (Batch, bool) {
        let mut state = self.lock();
        loop {
            // These writes may have arrived while this thread held the writer, so their
            // callers left them to it.
            let has_ended = !state.ended.is_empty() && state.failure.is_none();
            let has_work = has_ended || !state.tasks.is_empty() || !state.writes.is_empty();
            if state.is_closed || has_work {
                break;
            }
            let deadline = match &state.failure {
                Some(_) => Some(RETRY),
                None if !state.deferred.is_empty() || state.is_dirty => Some(DEFER),
                None => None,
            };
            state.is_idle = deadline.is_none();
            let (next, ran_out) = wait(&self.wake, state, deadline);
            state = next;
            state.is_idle = false;
            if ran_out {
                state.is_dirty = false;
                break;
            }
        }
        state.is_handed_over = false;
        let batch = Batch {
            writes: mem::take(&mut state.writes),
            tasks: mem::take(&mut state.tasks),
            deferred: mem::take(&mut state.deferred),
            // Taken by the commit, so that none overtakes it.
            ended: Vec::new(),
            needs_sync: mem::take(&mut state.needs_sync),
        };
        (batch, state.is_closed)
    }

    /// Runs `work` with the writer as soon as it is free; `false` if the store has ended.
    fn with_writer(&self, work: impl FnOnce(&mut Writer)) -> bool {
        match self.writer.lock() {
            Ok(mut writer) => writer.as_mut().map(work).is_some(),
            Err(_) => false,
        }
    }
}

/// Waits to be woken; returns whether the time ran out.
fn wait<'g, T>(
    wake: &Condvar,
    state: MutexGuard<'g, T>,
    time: Option<Duration>,
) -> (MutexGuard<'g, T>, bool) {
    let Some(time) = time else {
        return (wake.wait(state).unwrap_or_else(PoisonError::into_inner), false);
    };
    let woken = wake.wait_timeout(state, time);
    let (state, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
    (state, timeout.timed_out())
}
