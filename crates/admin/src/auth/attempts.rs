//! Slows down guessing at one account, from whatever addresses.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sluice_expiring::{ExpiringMap, Limits};
use tokio::time::Instant;

/// Wrong passwords for one login before a wait, and the longest wait.
const FREE: u32 = 5;
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// Logins whose failures are remembered, and for how long.
const MOST_LOGINS: usize = 10_000;
const FORGET_AFTER: Duration = Duration::from_mins(15);

/// The failed sign-ins of each login. A login that nobody has counts too, so that the answer
/// does not tell.
#[derive(Debug)]
pub(crate) struct SignInAttempts(Mutex<ExpiringMap<String, Failed>>);

#[derive(Debug, Clone, Copy)]
struct Failed {
    count: u32,
    /// Until when further attempts are refused.
    until: Instant,
}

impl SignInAttempts {
    pub(crate) fn new() -> SignInAttempts {
        let limits = Limits { entries: MOST_LOGINS, idle: FORGET_AFTER, ..Limits::NONE };
        SignInAttempts(Mutex::new(ExpiringMap::new(limits)))
    }

    fn lock(&self) -> MutexGuard<'_, ExpiringMap<String, Failed>> {
        // The map is consistent after every step, so a poisoned lock is still usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an attempt as failed until [`SignInAttempts::forgive`]; or returns how long to
    /// wait. Counting first keeps many at once from being free.
    pub(crate) fn begin(&self, login: &str) -> Result<(), Duration> {
        let now = Instant::now();
        let mut failed = self.lock();
        failed.expire(now.into_std(), |_, _| false);
        let before = failed.get(login).copied().unwrap_or(Failed { count: 0, until: now });
        if now < before.until {
            return Err(before.until - now);
        }
        let count = before.count.saturating_add(1);
        let excess = count.saturating_sub(FREE).min(6);
        let wait = if excess == 0 { Duration::ZERO } else { Duration::from_secs(1 << excess) };
        let until = now + wait.min(LONGEST_WAIT);
        failed.insert(login.to_owned(), Failed { count, until }, 0, now.into_std());
        Ok(())
    }

    /// Forgets the failures of a login that has signed in.
    pub(crate) fn forgive(&self, login: &str) {
        self.lock().remove(login);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{FORGET_AFTER, FREE, LONGEST_WAIT, SignInAttempts};

    #[tokio::test(start_paused = true)]
    async fn guessing_at_an_account_is_slowed_down() {
        let attempts = SignInAttempts::new();
        let mut guesses = 0_u32;
        for _ in 0..3_600 {
            guesses += u32::from(attempts.begin("alice").is_ok());
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        // At most one each minute, after the first few.
        assert!(guesses <= FREE + 66, "{guesses}");
        assert!(attempts.begin("bob").is_ok(), "others are not slowed");
        let wait = attempts.begin("alice").err().unwrap_or_default();
        assert!(wait <= LONGEST_WAIT);
        tokio::time::sleep(wait).await;
        attempts.begin("alice").unwrap();
        attempts.forgive("alice");
        assert!(attempts.begin("alice").is_ok());
        tokio::time::sleep(FORGET_AFTER).await;
        for _ in 0..=FREE {
            assert!(attempts.begin("alice").is_ok());
        }
        assert!(attempts.begin("alice").is_err());
    }
}
