//! Who writes: one at a time, the writer's thread or a caller.
//!
//! A caller waits for another's commit, which is soon done, with the thread it
//! runs on. It does not wait for what may take longer: whoever is engaged in such
//! work says so, and those who wait already are sent away too.

use std::{
    fmt, mem,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::wait::wait;

/// How long a caller waits in any case: the disk may hold a commit up.
const PATIENCE: Duration = Duration::from_millis(5);

/// The writer, for its thread and for callers that write by themselves.
pub(super) struct Shared<W> {
    state: Mutex<State<W>>,
    is_free: Condvar,
}

struct State<W> {
    /// Not there while somebody has it, and when all is over.
    writer: Option<Box<W>>,
    /// Whether whoever has it is at something that callers should not wait for.
    is_engaged: bool,
    is_over: bool,
    /// How many wait for it.
    waiting: usize,
}

/// What became of a caller's wish to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offer<T> {
    Done(T),
    /// It would have to wait for too long.
    Engaged,
    /// Nobody writes any more.
    Over,
}

impl<W> fmt::Debug for Shared<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl<W> Shared<W> {
    pub(super) fn new(writer: W) -> Shared<W> {
        let writer = Some(Box::new(writer));
        let state = State { writer, is_engaged: false, is_over: false, waiting: 0 };
        Shared { state: Mutex::new(state), is_free: Condvar::new() }
    }

    /// Does something with the writer as soon as it is free; `None` if nobody
    /// writes any more. For the thread.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut W) -> T) -> Option<T> {
        let mut state = self.lock();
        loop {
            if let Some(writer) = state.writer.take() {
                drop(state);
                return Some(self.lend(writer, work));
            }
            if state.is_over {
                return None;
            }
            state = self.wait(state, None).0;
        }
    }

    /// The same for a caller, who does not wait for long.
    pub(super) fn offer<T>(&self, work: impl FnOnce(&mut W) -> T) -> Offer<T> {
        let mut state = self.lock();
        let mut has_waited = false;
        loop {
            if let Some(writer) = state.writer.take() {
                drop(state);
                return Offer::Done(self.lend(writer, work));
            }
            if state.is_over {
                return Offer::Over;
            }
            if state.is_engaged || has_waited {
                return Offer::Engaged;
            }
            (state, has_waited) = self.wait(state, Some(PATIENCE));
        }
    }

    /// Says that this will take a while, until the writer is free again.
    pub(super) fn engage(&self) {
        let mut state = self.lock();
        state.is_engaged = true;
        self.tell(&state);
    }

    /// Closes the database. Nobody writes any more.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        while state.writer.is_none() && !state.is_over {
            state = self.wait(state, None).0;
        }
        state.is_over = true;
        let writer = state.writer.take();
        self.tell(&state);
        drop(state);
        drop(writer);
    }

    fn lend<T>(&self, mut writer: Box<W>, work: impl FnOnce(&mut W) -> T) -> T {
        let end = EndByPanic(self);
        let done = work(&mut writer);
        mem::forget(end);
        let mut state = self.lock();
        (state.writer, state.is_engaged) = (Some(writer), false);
        self.tell(&state);
        done
    }

    /// Waits for a change; whether the time ran out.
    fn wait<'s>(
        &'s self,
        mut state: MutexGuard<'s, State<W>>,
        time: Option<Duration>,
    ) -> (MutexGuard<'s, State<W>>, bool) {
        state.waiting += 1;
        let (mut state, ran_out) = wait(&self.is_free, state, time);
        state.waiting -= 1;
        (state, ran_out)
    }

    /// Wakes those who wait; without any, that would cost a system call for nothing.
    fn tell(&self, state: &State<W>) {
        if state.waiting > 0 {
            self.is_free.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        // Nothing is left half done while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends all writing if it is dropped: whoever had the writer has left a
/// transaction half done.
struct EndByPanic<'s, W>(&'s Shared<W>);

impl<W> Drop for EndByPanic<'_, W> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_over = true;
        self.0.tell(&state);
    }
}

#[cfg(test)]
mod tests {
    use std::{panic::AssertUnwindSafe, sync::mpsc, thread};

    use super::{Offer, Shared};

    /// Has somebody else at it, until the sender that is returned is used or dropped.
    fn taken<'s>(
        scope: &'s thread::Scope<'s, '_>,
        shared: &'s Shared<u8>,
        is_engaged: bool,
    ) -> mpsc::Sender<()> {
        let (release, released) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        scope.spawn(move || {
            shared.with(|count| {
                *count += 1;
                if is_engaged {
                    shared.engage();
                }
                tell.send(()).unwrap();
                let _ = released.recv();
            })
        });
        told.recv().unwrap();
        release
    }

    #[test]
    fn a_caller_waits_for_another_and_not_for_long_work() {
        let shared = Shared::new(0);
        thread::scope(|scope| {
            let release = taken(scope, &shared, true);
            assert_eq!(shared.offer(|count| *count), Offer::Engaged);
            drop(release);
            // Once it is free nobody is engaged any more.
            assert_eq!(shared.with(|count| *count), Some(1));
            assert_eq!(shared.offer(|count| *count), Offer::Done(1));
            // However short it was to be: after a while it is too long.
            let release = taken(scope, &shared, false);
            assert_eq!(shared.offer(|count| *count), Offer::Engaged);
            drop(release);
            assert_eq!(shared.with(|count| *count), Some(2));
        });
    }

    #[test]
    fn whoever_leaves_it_by_a_panic_ends_it_for_all() {
        let shared = Shared::new(0);
        let broken = std::panic::catch_unwind(AssertUnwindSafe(|| {
            shared.with(|_| panic!("as a test has it"))
        }));
        assert!(broken.is_err());
        assert_eq!(shared.offer(|count| *count), Offer::Over);
        assert_eq!(shared.with(|count| *count), None);
        shared.close();
    }

    #[test]
    fn closing_waits_for_whoever_is_at_it() {
        let shared = Shared::new(0);
        thread::scope(|scope| {
            let release = taken(scope, &shared, false);
            let closing = scope.spawn(|| shared.close());
            drop(release);
            closing.join().unwrap();
        });
        assert_eq!(shared.offer(|count| *count), Offer::Over);
        assert!(shared.lock().writer.is_none());
    }
}
