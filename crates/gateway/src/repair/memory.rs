//! The `initialize` messages of sessions, in bounded memory.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use http::HeaderValue;
use sluice_expiring::{ExpiringMap, Limits};
use tokio::time::Instant;

use crate::reserve::Introduction;

/// Bytes of all `initialize` messages that are kept; the oldest are evicted.
const MOST_BYTES: usize = 8 << 20;
/// The longest `initialize` message that is kept, in bytes.
const LONGEST: usize = 16 << 10;
/// The memory that one entry needs besides its text.
const OVERHEAD: usize = 512;

/// The state needed to re-establish sessions.
#[derive(Debug)]
pub(crate) struct Repairs {
    /// By our id of the session.
    sessions: Mutex<ExpiringMap<Arc<str>, Arc<Beginning>>>,
    /// How many known sessions were re-established; if there are none, the map need not
    /// be searched.
    repaired: AtomicUsize,
}

impl Default for Repairs {
    fn default() -> Repairs {
        // No idle limit: only DELETE ends a session, and its client may resume it after days.
        let sessions = ExpiringMap::new(Limits { cost: MOST_BYTES, ..Limits::NONE });
        Repairs { sessions: Mutex::new(sessions), repaired: AtomicUsize::new(0) }
    }
}

/// How one session began.
#[derive(Debug)]
pub(super) struct Beginning {
    /// The `initialize` message as it was sent.
    pub(super) introduction: Introduction,
    /// The upstream's current session id, if it differs from the first one.
    now: Mutex<Option<HeaderValue>>,
    /// Set if the session has lasting state, or if a new session did not help.
    pub(super) is_bound: AtomicBool,
    /// Held while the session is being repaired.
    pub(super) turn: tokio::sync::Mutex<()>,
}

impl Beginning {
    pub(super) fn now(&self) -> MutexGuard<'_, Option<HeaderValue>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Repairs {
    fn sessions(&self) -> MutexGuard<'_, ExpiringMap<Arc<str>, Arc<Beginning>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<Beginning>> {
        self.sessions().get(id).cloned()
    }

    /// The upstream's current id of a session that was re-established.
    pub(crate) fn current(&self, id: &str) -> Option<HeaderValue> {
        if self.repaired.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.find(id)?.now().clone()
    }

    /// Forgets a session that has ended.
    pub(crate) fn forget(&self, id: &str) {
        let mut sessions = self.sessions();
        if let Some(beginning) = sessions.remove(id) {
            self.leave(&beginning);
        }
    }

    /// Notes that a session was re-established under this upstream id.
    pub(super) fn began_again(&self, beginning: &Beginning, upstream: HeaderValue) {
        if beginning.now().replace(upstream).is_none() {
            self.repaired.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Updates the count for a session that is no longer known.
    fn leave(&self, beginning: &Beginning) {
        if beginning.now().is_some() {
            self.repaired.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn keep(&self, id: Arc<str>, introduction: Introduction) {
        if introduction.len() > LONGEST {
            return;
        }
        let cost = introduction.len() + OVERHEAD;
        let beginning = Beginning {
            introduction,
            now: Mutex::default(),
            is_bound: AtomicBool::new(false),
            turn: tokio::sync::Mutex::default(),
        };
        let mut sessions = self.sessions();
        let now = Instant::now().into_std();
        for (_, oldest) in sessions.insert(id, Arc::new(beginning), cost, now) {
            self.leave(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::{Introduction, LONGEST, MOST_BYTES, OVERHEAD, Repairs};

    #[test]
    fn the_oldest_sessions_are_evicted_together_with_their_repairs() {
        let repairs = Repairs::default();
        let each = LONGEST + OVERHEAD;
        let most = MOST_BYTES / each;
        let name = |number: usize| format!("{number:08}");
        for number in 0..most {
            repairs.keep(name(number).into(), Introduction::of_length(LONGEST));
        }
        let first = repairs.find(&name(0)).unwrap();
        assert_eq!(repairs.current(&name(0)), None);
        repairs.began_again(&first, HeaderValue::from_static("again"));
        assert_eq!(repairs.current(&name(0)), Some(HeaderValue::from_static("again")));
        repairs.keep(name(most).into(), Introduction::of_length(LONGEST));
        repairs.keep(name(most + 1).into(), Introduction::of_length(LONGEST + 1));
        assert_eq!(repairs.current(&name(0)), None);
        assert!(repairs.find(&name(0)).is_none() && repairs.find(&name(1)).is_some());
        assert!(repairs.find(&name(most)).is_some() && repairs.find(&name(most + 1)).is_none());
        repairs.forget(&name(1));
        assert!(repairs.find(&name(1)).is_none());
        assert_eq!(repairs.sessions().cost(), (most - 1) * each);
    }
}
