//! How fast transactions follow each other: only when they do is it worth a
//! call's time to wait for others to share one.

use std::time::{Duration, Instant};

/// A transaction that begins this soon after the last one could have been shared.
const SOON: Duration = Duration::from_micros(150);

#[derive(Debug, Default)]
pub(super) struct Pace {
    last: Option<Instant>,
    /// Whether several had a part in the last one.
    was_shared: bool,
}

impl Pace {
    /// Notes that somebody is about to begin a transaction; whether others are
    /// likely to want a part in it.
    #[expect(clippy::disallowed_methods, reason = "this module's job is to know how time passes")]
    pub(super) fn is_busy(&mut self) -> bool {
        let now = Instant::now();
        let last = self.last.replace(now);
        self.was_shared || last.is_some_and(|last| now.duration_since(last) < SOON)
    }

    /// Notes how many had a part in a transaction.
    pub(super) fn shared_by(&mut self, parts: usize) {
        self.was_shared = parts > 1;
    }
}
