//! A clock that never runs faster than real time.
//!
//! Counters of past windows are deleted for good, so a system clock that jumps ahead
//! and back must not expire them early.

use std::time::Instant;

/// How far the system clock may run ahead, in milliseconds: clocks drift.
const DRIFT: i64 = 5 * 60 * 1000;

/// The system clock, limited by the time that has really passed.
#[derive(Debug, Default)]
pub(super) struct Steady {
    /// The system clock's time at the first call, and when that was.
    begun: Option<(i64, Instant)>,
}

impl Steady {
    /// The time for expiring windows, when the system clock says `wall`.
    #[expect(clippy::disallowed_methods, reason = "this module's job is to know how time passes")]
    pub(super) fn now(&mut self, wall: i64) -> i64 {
        let (begun, since) = *self.begun.get_or_insert_with(|| (wall, Instant::now()));
        let passed = i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX);
        wall.min(begun.saturating_add(passed).saturating_add(DRIFT))
    }
}

#[cfg(test)]
mod tests {
    use super::{DRIFT, Steady};

    #[test]
    fn a_clock_that_jumps_ahead_is_not_followed() {
        let mut steady = Steady::default();
        assert_eq!(steady.now(1_000_000), 1_000_000);
        let jumped = steady.now(1_000_000 + 100 * DRIFT);
        assert!((1_000_000..1_000_000 + 2 * DRIFT).contains(&jumped), "{jumped}");
        assert_eq!(steady.now(5), 5);
    }
}
