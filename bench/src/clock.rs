//! The one place that reads the time.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The current time, for measuring durations.
#[expect(clippy::disallowed_methods, reason = "measuring time is what a benchmark does")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The current time, in milliseconds since the Unix epoch.
#[expect(clippy::disallowed_methods, reason = "audit rows and results are dated")]
pub(crate) fn epoch_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
