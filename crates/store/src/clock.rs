//! The source of the current time; tests can set it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use sluice_policy::Timestamp;

/// Where the current time comes from.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    #[default]
    System,
    /// A fixed time in milliseconds since the Unix epoch, set by a test.
    Fixed(Arc<AtomicI64>),
}

impl Clock {
    /// The time now.
    #[expect(clippy::disallowed_methods, reason = "this module's job is to read the clock")]
    pub fn now(&self) -> Timestamp {
        match self {
            Clock::System => {
                let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
                let millis = since_epoch.ok().and_then(|time| i64::try_from(time.as_millis()).ok());
                Timestamp::from_millis(millis.unwrap_or_default())
            }
            Clock::Fixed(millis) => Timestamp::from_millis(millis.load(Ordering::Relaxed)),
        }
    }
}
