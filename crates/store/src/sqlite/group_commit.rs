//! Group commit: writes that arrive together share one transaction.
//!
//! All writes wait in one queue. A commit takes the whole queue as one batch and
//! answers every caller when it is done. Two kinds of thread commit, one at a time:
//! - The store's thread commits the queue as soon as it is free. Only this thread waits
//!   for other processes, changes the registry and prunes. With the durability `power`,
//!   where a commit syncs, it makes every commit.
//! - A thread that called [`commit_on_this_thread`] commits if the database is free. The
//!   caller whose write is the first in the queue is the leader: it commits its own write
//!   and all others in the queue. Handing a commit of some tens of microseconds to another
//!   thread and back would cost more than the commit. Under load the leader first yields,
//!   so that other tasks of its thread add their writes.
//!
//! All other threads add their writes to the queue and wait. A leader uses `try_lock` and a
//! busy timeout of zero: if the database is in use, it leaves the queue to the store's
//! thread. If a commit fails, it has no effect, and every caller in the batch gets the
//! error; its deferred records are kept for the next commit. Reads (`read`) and checkpoints
//! (`checkpoint`) have connections and threads of their own.

mod batch;
mod thread;
mod watch;

use std::{
    cell::Cell,
    fmt, io, mem,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError},
    time::{Duration, Instant},
};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{checkpoint::Checkpoints, read::Readers, records::Prepared, writer::Writer};
use crate::{
    Health, StoreError,
    counter::{Charge, Lease},
    id::Id,
    ledger::Reserved,
    log_space::LogSpace,
};

pub(super) use batch::Write;
use batch::{Batch, Task, build_task, fate_of};
use watch::Watch;

/// Writes that may be queued; above that, they are refused.
const MOST_WRITES: usize = 16_384;
/// Deferred records that may be queued; above that, they are dropped and counted.
const MOST_DEFERRED: usize = 100_000;
/// If a commit begins this soon after the last one, more writes are likely, so the leader
/// lets other tasks add theirs first.
const BUSY: Duration = Duration::from_micros(150);
/// After so many commits of a single write there is only one caller, who would wait in vain.
const ALONE: u32 = 2;
/// Every so many commits of a single write, the leader waits nevertheless.
const TRY_AGAIN: u32 = 8;
/// How often a leader checks whether more writes have arrived.
const MOST_YIELDS: usize = 8;
/// Commits that one caller makes before it leaves the queue to the store's thread.
const MOST_ROUNDS: usize = 4;

thread_local! {
    static MAY_COMMIT: Cell<bool> = const { Cell::new(false) };
}

/// Lets callers on this thread commit their own writes instead of leaving them to the
/// store's thread. That is faster for calls, but if the disk stalls, all tasks on the
/// thread stall. It never changes stored data: a back-end without a local file ignores
/// it, as the one in memory does.
pub fn commit_on_this_thread() {
    MAY_COMMIT.set(true);
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct State {
    writes: Vec<Write>,
    tasks: Vec<Task>,
    deferred: Vec<Prepared>,
    /// Requests that have ended and give back their leases.
    ended: Vec<Id>,
    /// The thread sleeps without a deadline until it is woken.
    is_idle: bool,
    /// The queue is left to the thread, which must commit it now.
    is_handed_over: bool,
    /// Callers have committed since the thread last maintained the file.
    is_dirty: bool,
    /// Commits of a single write since the last one that had several.
    alone: u32,
    /// When the last write was added.
    last_write: Option<Instant>,
    is_closed: bool,
    has_ended: bool,
    /// Dropped when the thread has ended.
    waiting_for_end: Vec<oneshot::Sender<()>>,
    failure: Option<String>,
    /// What has become of the store's files, if they are not those that are open.
    lost: Option<String>,
    /// A task that must be synced to disk is queued.
    needs_sync: bool,
    dropped: u64,
    log: LogSpace,
    clock_ahead: Option<i64>,
}

#[expect(clippy::disallowed_methods, reason = "how fast writes arrive is this module's concern")]
fn read_clock() -> Instant {
    Instant::now()
}

/// The state of the queue when a write was added.
struct Queued {
    /// It is the first in the queue, so its caller leads the commit.
    is_first: bool,
    /// Others are likely to add their writes soon.
    others_may_join: bool,
}

/// The queue, and the writer, which only one thread at a time may use.
pub(super) struct GroupCommit {
    state: Mutex<State>,
    wake: Condvar,
    /// `None` when the store has ended.
    writer: Mutex<Option<Writer>>,
    /// Whether callers may commit. A commit that syncs takes too long for that.
    callers_commit: bool,
}

impl fmt::Debug for GroupCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupCommit").field("health", &self.health()).finish_non_exhaustive()
    }
}

impl GroupCommit {
    /// Starts the store's thread; it ends when the queue is closed.
    pub(super) fn start(
        writer: Writer,
        for_checkpoints: Connection,
        readers: Arc<Readers>,
        files: &[PathBuf],
        callers_commit: bool,
    ) -> io::Result<Arc<GroupCommit>> {
        let commits = Arc::new(GroupCommit {
            state: Mutex::default(),
            wake: Condvar::new(),
            writer: Mutex::new(Some(writer)),
            callers_commit,
        });
        let checkpoints = Checkpoints::start(for_checkpoints, Arc::downgrade(&commits))?;
        let watch = Watch::start(files, Arc::downgrade(&commits))?;
        let run = {
            let commits = Arc::clone(&commits);
            move || commits.run_to_end(watch, checkpoints, &readers)
        };
        std::thread::Builder::new().name("store".into()).spawn(run)?;
        Ok(commits)
    }

    /// Writes a record with its charges; returns when that is committed.
    pub(super) async fn write(
        &self,
        id: Option<Id>,
        charges: Vec<Charge>,
        leases: Vec<Lease>,
        record: Prepared,
    ) -> Result<Reserved, StoreError> {
        let (reply, answer) = oneshot::channel();
        let queued = self.push(Write { id, charges, leases, record, reply })?;
        if !(self.callers_commit && MAY_COMMIT.get()) {
            self.hand_over();
        } else if queued.is_first {
            // If the caller is cancelled before the commit, the store's thread commits.
            let hand_over = HandOver(self);
            if queued.others_may_join {
                self.wait_for_others().await;
            }
            self.lead();
            mem::forget(hand_over);
        }
        answer.await.map_err(|_| StoreError::Stopped)?
    }

    /// Lets the other tasks of this thread add their writes, until none does twice in a
    /// row: the first time they may only have relayed answers, which new calls follow.
    async fn wait_for_others(&self) {
        let (mut before, mut quiet) = (1, 0);
        for _ in 0..MOST_YIELDS {
            tokio::task::yield_now().await;
            let queued = self.lock().writes.len();
            quiet = if queued > before { 0 } else { quiet + 1 };
            if quiet == 2 {
                return;
            }
            before = queued;
        }
    }

    /// Runs `work` in the thread's next transaction; returns when that is committed, and if
    /// `is_synced` on disk, whatever the durability.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
        is_synced: bool,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.push_task(build_task(work, reply), is_synced)?;
        answer.await.map_err(|_| StoreError::Stopped)?
    }

    /// Writes a record with the next commit, or shortly after.
    pub(super) fn defer(&self, record: Prepared) {
        let mut state = self.lock();
        if state.is_closed || state.has_ended || state.deferred.len() >= MOST_DEFERRED {
            state.dropped += 1;
            let dropped = state.dropped;
            drop(state);
            if dropped.is_power_of_two() {
                tracing::error!(dropped, "deferred records are dropped: too many wait already");
            }
            return;
        }
        state.deferred.push(record);
        self.rouse_idle(&mut state);
    }

    /// Gives back the leases of a request with the next commit, which the store's thread makes
    /// at once, because calls of other processes may need the places.
    pub(super) fn give_back(&self, id: Id) {
        self.lock().ended.push(id);
        self.wake.notify_one();
    }

    /// Makes the store's thread do a small write, which starts the write-ahead log over.
    pub(super) fn touch(&self) {
        let (reply, _) = oneshot::channel();
        let touch = build_task(|writer| Ok(writer.touch()?), reply);
        // If the store has ended, it is not needed.
        let _ = self.push_task(touch, false);
    }

    pub(super) fn health(&self) -> Health {
        let state = self.lock();
        let last_error = match state.lost.as_ref().or(state.failure.as_ref()) {
            None if state.has_ended => Some(StoreError::Stopped.to_string()),
            failure => failure.cloned(),
        };
        Health {
            ok: last_error.is_none(),
            last_error,
            queued: state.writes.len() + state.tasks.len(),
            deferred: state.deferred.len(),
            dropped: state.dropped,
            log: state.log,
            clock_ahead: state.clock_ahead,
            ..Health::well()
        }
    }

    /// Refuses further writes, and lets the thread end once all are committed.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.wake.notify_one();
    }

    /// Waits until the database is closed.
    pub(super) async fn wait_for_end(&self) {
        let (end, ended) = oneshot::channel();
        {
            let mut state = self.lock();
            if state.has_ended {
                return;
            }
            state.waiting_for_end.push(end);
        }
        // Nothing is ever sent: the wait ends when the sender is dropped.
        let _ = ended.await;
    }

    fn push(&self, write: Write) -> Result<Queued, StoreError> {
        let mut state = self.lock_open()?;
        if state.writes.len() >= MOST_WRITES {
            return Err(StoreError::Overloaded);
        }
        let is_first = state.writes.is_empty();
        state.writes.push(write);
        let now = read_clock();
        let last = state.last_write.replace(now);
        let is_busy = last.is_some_and(|last| now.duration_since(last) < BUSY);
        let tries = state.alone <= ALONE || state.alone.is_multiple_of(TRY_AGAIN);
        Ok(Queued { is_first, others_may_join: state.alone == 0 || (is_busy && tries) })
    }

    fn push_task(&self, task: Task, needs_sync: bool) -> Result<(), StoreError> {
        let mut state = self.lock_open()?;
        if state.tasks.len() >= MOST_WRITES {
            return Err(StoreError::Overloaded);
        }
        state.tasks.push(task);
        state.needs_sync |= needs_sync;
        self.wake.notify_one();
        Ok(())
    }

    fn hand_over(&self) {
        let mut state = self.lock();
        if !state.writes.is_empty() {
            state.is_handed_over = true;
            self.wake.notify_one();
        }
    }

    fn rouse_idle(&self, state: &mut State) {
        if mem::take(&mut state.is_idle) {
            self.wake.notify_one();
        }
    }

    /// Commits the queue as the leader, unless another thread holds the writer. The
    /// holder checks the queue again after releasing it, so no write is left behind.
    fn lead(&self) {
        for _ in 0..MOST_ROUNDS {
            {
                let state = self.lock();
                if state.writes.is_empty() || state.is_handed_over {
                    return;
                }
            }
            match self.writer.try_lock() {
                Ok(mut writer) => {
                    let Some(writer) = writer.as_mut() else { return };
                    if !self.commit_at_once(writer) {
                        break;
                    }
                }
                Err(TryLockError::WouldBlock) => return,
                // The previous holder panicked inside a transaction.
                Err(TryLockError::Poisoned(_)) => return self.end(),
            }
        }
        self.hand_over();
    }

    /// Commits the queue without waiting for a lock; `false` if that is not possible.
    fn commit_at_once(&self, writer: &mut Writer) -> bool {
        if self.lock().failure.is_some() || writer.begin(Duration::ZERO).is_err() {
            return false;
        }
        let mut batch = Batch::default();
        {
            let mut state = self.lock();
            mem::swap(&mut state.writes, &mut batch.writes);
            mem::swap(&mut state.ended, &mut batch.ended);
            // A single call does not wait for the outcomes of others: the store's thread
            // writes them.
            if batch.writes.len() > 1 {
                state.alone = 0;
                mem::swap(&mut state.deferred, &mut batch.deferred);
            } else {
                state.alone = state.alone.saturating_add(1);
            }
            state.is_dirty = true;
            self.rouse_idle(&mut state);
        }
        self.commit(writer, batch, Ok(()));
        true
    }

    /// Executes a batch in the current transaction, unless that failed to begin, and
    /// finishes the transaction.
    fn commit(&self, writer: &mut Writer, batch: Batch, begun: Result<(), StoreError>) {
        let Batch { writes, tasks, mut deferred, mut ended, .. } = batch;
        let mut replies = Vec::with_capacity(writes.len());
        let mut answers = Vec::with_capacity(tasks.len());
        let mut fate = begun.and_then(|()| writer.give_back(&ended));
        for write in writes {
            // If the caller was cancelled, its call will never be sent.
            if fate.is_ok() && !write.reply.is_closed() {
                let (reply, found) = writer.write(write);
                fate = fate_of(&found);
                replies.push((reply, found));
            } else if let Err(error) = &fate {
                replies.push((write.reply, Err(error.clone())));
            }
        }
        for task in tasks {
            let ran = task(fate.map(|()| &mut *writer));
            fate = ran.result;
            answers.push(ran.answer);
        }
        fate = fate.and_then(|()| {
            deferred.iter_mut().try_for_each(|record| writer.append_deferred(record))?;
            writer.commit()
        });
        if fate.is_err() {
            writer.roll_back();
            let mut state = self.lock();
            // Put back in front of the records that were added since.
            deferred.append(&mut state.deferred);
            state.deferred = deferred;
            ended.append(&mut state.ended);
            state.ended = ended;
        }
        self.note(&fate, writer);
        for (reply, found) in replies {
            drop(reply.send(fate.clone().and(found)));
        }
        for answer in answers {
            answer(&fate);
        }
    }

    fn note(&self, fate: &Result<(), StoreError>, writer: &Writer) {
        let failure = fate.as_ref().err().map(ToString::to_string);
        let mut state = self.lock();
        let log = writer.space();
        state.clock_ahead = writer.distrust();
        let was_full = mem::replace(&mut state.log, log).is_full();
        let before = mem::replace(&mut state.failure, failure.clone());
        drop(state);
        match (before, failure) {
            (None, Some(error)) => tracing::error!(%error, "the store fails: calls are refused"),
            (Some(_), None) => tracing::info!("the store has recovered"),
            _ => {}
        }
        if log.is_full() && !was_full {
            tracing::error!("calls are refused: {}", StoreError::LogFull);
        }
    }

    /// Ends the store; callers that still wait get an error.
    fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        let unanswered = (
            mem::take(&mut state.writes),
            mem::take(&mut state.tasks),
            mem::take(&mut state.waiting_for_end),
        );
        drop(state);
        drop(unanswered);
    }

    /// The state, unless the store is closed or its files are gone.
    fn lock_open(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let state = self.lock();
        match &state.lost {
            _ if state.is_closed || state.has_ended => Err(StoreError::Stopped),
            Some(lost) => Err(StoreError::Failed(lost.clone())),
            None => Ok(state),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is never left half updated, so a poisoned lock is still usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leaves the queue to the store's thread if the caller is cancelled before it commits.
struct HandOver<'c>(&'c GroupCommit);

impl Drop for HandOver<'_> {
    fn drop(&mut self) {
        self.0.hand_over();
    }
}
