//! Counts the requests of a server that no client can answer: each costs a message to the server.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// The most such requests of one session within `PERIOD`.
const MOST: u32 = 64;
const PERIOD: Duration = Duration::from_mins(1);

/// The requests of one session that were refused.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// When the current period began, and how many it has had.
    period: Mutex<Option<(Instant, u32)>>,
}

impl Refusals {
    /// Counts one more. An error says that there are too many.
    pub(super) fn count(&self) -> Result<(), String> {
        let now = Instant::now();
        let mut period = self.period.lock().unwrap_or_else(PoisonError::into_inner);
        let (begun, count) = match *period {
            Some((begun, count)) if now.duration_since(begun) < PERIOD => (begun, count),
            _ => (now, 0),
        };
        if count >= MOST {
            return Err(format!(
                "it sent more than {MOST} requests in {} s that no client can answer",
                PERIOD.as_secs()
            ));
        }
        *period = Some((begun, count + 1));
        Ok(())
    }
}
