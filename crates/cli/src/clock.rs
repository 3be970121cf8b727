//! The one place that reads the clock.

use std::time::Instant;

use sluice_policy::Timestamp;

/// The time now.
#[expect(clippy::disallowed_methods, reason = "this module's job is to read the clock")]
pub(crate) fn now() -> Timestamp {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let millis = since_epoch.ok().and_then(|time| i64::try_from(time.as_millis()).ok());
    Timestamp::from_millis(millis.unwrap_or_default())
}

/// The current time, for measuring durations.
#[expect(clippy::disallowed_methods, reason = "this module's job is to read the clock")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}
