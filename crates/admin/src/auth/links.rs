//! One-time links that sign in the owner of the data directory.
//!
//! Who can read the data directory can do everything anyway, so the link needs no account. It
//! works once, soon, and from this machine only; links are forgotten when the gateway stops.

use std::{
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sluice_expiring::{ExpiringMap, Limits};
use sluice_store::{Token, TokenHash};
use tokio::time::Instant;

/// How long a link works.
pub(crate) const LIFETIME: Duration = Duration::from_mins(10);
/// Links that work at a time; a new one ends the oldest.
const MOST: usize = 20;

/// The links that were not used yet.
#[derive(Debug)]
pub(crate) struct SignInLinks(Mutex<ExpiringMap<TokenHash, ()>>);

impl SignInLinks {
    pub(crate) fn new() -> SignInLinks {
        let limits = Limits { entries: MOST, idle: LIFETIME, ..Limits::NONE };
        SignInLinks(Mutex::new(ExpiringMap::new(limits)))
    }

    fn lock(&self) -> MutexGuard<'_, ExpiringMap<TokenHash, ()>> {
        // The map is consistent after every step, so a poisoned lock is still usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The token of a new link; `None` if the system provides no randomness.
    pub(crate) fn issue(&self) -> Option<Token> {
        let token = Token::random()?;
        self.lock().insert(token.hash(), (), 0, Instant::now().into_std());
        Some(token)
    }

    /// Uses a link up; returns whether it works from this address.
    pub(crate) fn take(&self, token: &str, from: IpAddr) -> bool {
        let mut links = self.lock();
        links.expire(Instant::now().into_std(), |_, ()| false);
        from.to_canonical().is_loopback() && links.remove(&TokenHash::of(token)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, time::Duration};

    use super::{LIFETIME, SignInLinks};

    #[tokio::test(start_paused = true)]
    async fn a_link_works_once_soon_and_from_this_machine() {
        let links = SignInLinks::new();
        let here: IpAddr = [127, 0, 0, 1].into();
        let link = links.issue().unwrap();
        assert!(!links.take("x", here));
        assert!(!links.take(link.text(), [192, 0, 2, 1].into()), "not from elsewhere");
        assert!(links.take(link.text(), here));
        assert!(!links.take(link.text(), here), "only once");
        let late = links.issue().unwrap();
        tokio::time::sleep(LIFETIME + Duration::from_secs(1)).await;
        assert!(!links.take(late.text(), here));
    }
}
