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

use super::writer::Writer;

/// How long a caller waits in any case: the disk may hold a commit up.
const PATIENCE: Duration = Duration::from_millis(5);

/// The writer, for its thread and for callers that write by themselves.
pub(super) struct Shared {
    state: Mutex<State>,
    is_free: Condvar,
}

struct State {
    /// Not there while somebody has it, and when all is over.
    writer: Option<Box<Writer>>,
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

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(writer: Writer) -> Shared {
        let writer = Some(Box::new(writer));
        let state = State { writer, is_engaged: false, is_over: false, waiting: 0 };
        Shared { state: Mutex::new(state), is_free: Condvar::new() }
    }

    /// Does something with the writer as soon as it is free; `None` if nobody
    /// writes any more. For the thread.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Writer) -> T) -> Option<T> {
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
    pub(super) fn offer<T>(&self, work: impl FnOnce(&mut Writer) -> T) -> Offer<T> {
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

    fn lend<T>(&self, mut writer: Box<Writer>, work: impl FnOnce(&mut Writer) -> T) -> T {
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
        mut state: MutexGuard<'s, State>,
        time: Option<Duration>,
    ) -> (MutexGuard<'s, State>, bool) {
        state.waiting += 1;
        let (mut state, ran_out) = match time {
            Some(time) => {
                let woken = self.is_free.wait_timeout(state, time);
                let (state, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
                (state, timeout.timed_out())
            }
            None => (self.is_free.wait(state).unwrap_or_else(PoisonError::into_inner), false),
        };
        state.waiting -= 1;
        (state, ran_out)
    }

    /// Wakes those who wait; without any, that would cost a system call for nothing.
    fn tell(&self, state: &State) {
        if state.waiting > 0 {
            self.is_free.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is left half done while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends all writing if it is dropped: whoever had the writer has left a
/// transaction half done.
struct EndByPanic<'s>(&'s Shared);

impl Drop for EndByPanic<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_over = true;
        self.0.tell(&state);
    }
}
