//! What goes on in one connection, and whether it should be closed: because it sends nothing,
//! is not read from, or resets its requests.
//!
//! Requests only count; the clock is read by the connection's own watch, a few times a minute.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use crate::settings::ClientTimes;

/// Requests that one connection may reset within a quarter of the shortest time limit.
const MOST_RESETS: u32 = 500;

/// See the module.
#[derive(Debug)]
pub(crate) struct Activity {
    /// The client's network.
    pub(super) address: IpAddr,
    begun: AtomicU64,
    in_progress: AtomicUsize,
    resets: AtomicU32,
    has_succeeded: AtomicBool,
    /// Bytes written to the client, and whether it does not take further ones now.
    written: AtomicU64,
    is_blocked: AtomicBool,
    was_closed: AtomicBool,
    close: Notify,
}

/// Why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CloseReason {
    #[error("its place was needed and it did nothing")]
    Evicted,
    #[error("it sent no request in time")]
    Silent,
    #[error("it was not used for long")]
    Idle,
    #[error("the client does not read")]
    Unread,
    #[error("the client reset too many requests")]
    Resets,
}

/// What the watch saw when it last looked.
#[derive(Debug, Default)]
struct Seen {
    begun: u64,
    written: u64,
    idle: Duration,
    unread: Duration,
}

/// A request in progress, until this is dropped.
#[derive(Debug)]
pub(crate) struct InProgress {
    activity: Arc<Activity>,
    is_answered: bool,
}

impl Activity {
    pub(super) fn new(address: IpAddr) -> Activity {
        Activity {
            address,
            begun: AtomicU64::new(0),
            in_progress: AtomicUsize::new(0),
            resets: AtomicU32::new(0),
            has_succeeded: AtomicBool::new(false),
            written: AtomicU64::new(0),
            is_blocked: AtomicBool::new(false),
            was_closed: AtomicBool::new(false),
            close: Notify::new(),
        }
    }

    /// Counts a request as in progress until the returned value is dropped.
    pub(crate) fn begin(self: &Arc<Activity>) -> InProgress {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.in_progress.fetch_add(1, Ordering::Relaxed);
        InProgress { activity: Arc::clone(self), is_answered: false }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_progress.load(Ordering::Relaxed) == 0 && !self.was_closed()
    }

    pub(super) fn has_succeeded(&self) -> bool {
        self.has_succeeded.load(Ordering::Relaxed)
    }

    pub(super) fn was_closed(&self) -> bool {
        self.was_closed.load(Ordering::Relaxed)
    }

    /// Has the connection closed.
    pub(super) fn close(&self) {
        self.was_closed.store(true, Ordering::Relaxed);
        self.close.notify_one();
    }

    /// Bytes were written, or the client takes none.
    pub(super) fn note_written(&self, written: Option<usize>) {
        if let Some(count) = written {
            self.written.fetch_add(count as u64, Ordering::Relaxed);
        }
        self.is_blocked.store(written.is_none(), Ordering::Relaxed);
    }

    /// Waits until the connection's place is needed.
    pub(crate) async fn until_evicted(&self) -> CloseReason {
        self.close.notified().await;
        CloseReason::Evicted
    }

    /// Waits until the connection should be closed.
    pub(crate) async fn until_useless(&self, times: &ClientTimes) -> CloseReason {
        let period = times.header.min(times.idle).min(times.unread) / 4;
        let mut seen = Seen::default();
        loop {
            tokio::select! {
                reason = self.until_evicted() => return reason,
                () = tokio::time::sleep(period) => {}
            }
            if let Some(reason) = self.check(&mut seen, times, period) {
                return reason;
            }
        }
    }

    fn check(&self, seen: &mut Seen, times: &ClientTimes, period: Duration) -> Option<CloseReason> {
        if self.resets.swap(0, Ordering::Relaxed) > MOST_RESETS {
            return Some(CloseReason::Resets);
        }
        let written = self.written.load(Ordering::Relaxed);
        let is_stuck = self.is_blocked.load(Ordering::Relaxed) && written == seen.written;
        seen.unread = if is_stuck { seen.unread + period } else { Duration::ZERO };
        seen.written = written;
        // A streaming answer gives up earlier, and its outcome says why.
        if seen.unread >= 2 * times.unread {
            return Some(CloseReason::Unread);
        }
        let begun = self.begun.load(Ordering::Relaxed);
        let is_used = begun != seen.begun || self.in_progress.load(Ordering::Relaxed) > 0;
        seen.idle = if is_used { Duration::ZERO } else { seen.idle + period };
        seen.begun = begun;
        match begun {
            0 if seen.idle >= times.header => Some(CloseReason::Silent),
            1.. if seen.idle >= times.idle => Some(CloseReason::Idle),
            _ => None,
        }
    }
}

impl InProgress {
    /// The request has its answer, whose body may still stream.
    pub(crate) fn note_answer(&mut self, is_success: bool) {
        self.is_answered = true;
        if is_success && !self.activity.has_succeeded() {
            self.activity.has_succeeded.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.activity.in_progress.fetch_sub(1, Ordering::Relaxed);
        if !self.is_answered {
            self.activity.resets.fetch_add(1, Ordering::Relaxed);
        }
    }
}
