//! The timeout for answers of a command: one value that the server and all its processes
//! share, so that it can be changed while they run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A timeout in whole milliseconds; clones share it.
#[derive(Debug, Clone)]
pub struct Timeout(Arc<AtomicU64>);

impl Timeout {
    pub fn new(timeout: Duration) -> Timeout {
        Timeout(Arc::new(AtomicU64::new(in_millis(timeout))))
    }

    pub fn get(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }

    /// Changes the timeout for all clones.
    pub(super) fn set(&self, timeout: Duration) {
        self.0.store(in_millis(timeout), Ordering::Relaxed);
    }
}

fn in_millis(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)
}
