//! Waiting for a change, for a while or for good.

use std::{
    sync::{Condvar, MutexGuard, PoisonError},
    time::Duration,
};

/// Waits to be woken; whether the time ran out.
pub(super) fn wait<'g, T>(
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
