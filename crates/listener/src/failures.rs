//! What a listener records of failed authentications, and which callers it makes wait.
//!
//! Each listener has its own [`Failures`], writes what it returns to the audit log, and sweeps it
//! once a minute, so that the sum of a minute is recorded even if nobody fails again.

use std::{
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::failed_attempts::{FailedAttempts, Sum};

/// How often to call [`Failures::sweep`].
pub const SWEEP: Duration = Duration::from_mins(1);

/// The failed attempts of each source in the current minute.
#[derive(Debug)]
pub struct Failures {
    attempts: Mutex<FailedAttempts>,
    /// Begins each message, if the listener needs to be named.
    prefix: &'static str,
}

/// A failure to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub message: String,
    /// Whether it counts attempts that were not recorded individually.
    pub is_sum: bool,
}

impl Failures {
    pub fn new(prefix: &'static str) -> Failures {
        Failures { attempts: Mutex::default(), prefix }
    }

    /// Counts a failed attempt, and returns what to record: the attempt, if it is among the first
    /// of its minute, after the sums of a minute that is over. Times are milliseconds since the
    /// Unix epoch.
    #[must_use = "these are the records to write"]
    pub fn note(&self, source: IpAddr, reason: &str, now: i64) -> Vec<Failure> {
        self.note_and_limit(source, reason, now).0
    }

    /// The same; also returns how many seconds the source must wait, if it has failed too often.
    #[must_use = "these are the records to write"]
    pub fn note_and_limit(
        &self,
        source: IpAddr,
        reason: &str,
        now: i64,
    ) -> (Vec<Failure>, Option<u64>) {
        let noted = self.lock().note(source, since_epoch(now));
        let mut failures = self.describe(noted.sums);
        if noted.is_recorded {
            // Further lines are hints for the caller.
            let reason = reason.lines().next().unwrap_or_default();
            let message = format!("{}{reason} (from {source})", self.prefix);
            failures.push(Failure { message, is_sum: false });
        }
        (failures, noted.wait)
    }

    /// The sums of the last minute, if it is over.
    #[must_use = "these are the records to write"]
    pub fn sweep(&self, now: i64) -> Vec<Failure> {
        let sums = self.lock().sweep(since_epoch(now));
        self.describe(sums)
    }

    /// The sums of the current minute, at shutdown.
    #[must_use = "these are the records to write"]
    pub fn finish(&self) -> Vec<Failure> {
        let sums = self.lock().finish();
        self.describe(sums)
    }

    fn lock(&self) -> MutexGuard<'_, FailedAttempts> {
        // The counts are consistent after every step, so a poisoned lock is still usable.
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn describe(&self, sums: Vec<Sum>) -> Vec<Failure> {
        let describe = |Sum { source, attempts }| Failure {
            message: format!(
                "{}{attempts} more failed in that minute (from {source})",
                self.prefix
            ),
            is_sum: true,
        };
        sums.into_iter().map(describe).collect()
    }
}

fn since_epoch(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::Failures;

    #[test]
    fn the_first_failures_and_the_sums_of_each_minute_are_described() {
        let failures = Failures::new("here: ");
        let source = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let noon = 490_908 * 3_600_000;
        let noted: Vec<_> =
            (0..12).flat_map(|_| failures.note(source, "wrong\nhint: right", noon)).collect();
        assert_eq!(noted.len(), 9);
        assert_eq!(noted[0].message, "here: wrong (from 127.0.0.1)");
        assert!(noted.iter().all(|failure| !failure.is_sum));
        assert_eq!(failures.sweep(noon + 59_999), []);
        let sums = failures.sweep(noon + 60_000);
        assert_eq!(sums.len(), 1);
        assert_eq!(sums[0].message, "here: 3 more failed in that minute (from 127.0.0.1)");
        assert!(sums[0].is_sum);
        for _ in 0..10 {
            let _ = failures.note(source, "wrong", noon + 60_000);
        }
        let next = failures.note(source, "wrong", noon + 120_000);
        assert_eq!(next.iter().map(|failure| failure.is_sum).collect::<Vec<_>>(), [true, false]);
        assert_eq!(failures.finish(), []);
    }
}
