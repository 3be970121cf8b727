//! Counters and the charges made to them; leases and what they count.

use std::sync::Arc;

use sluice_policy::{Amount, Scope, Timestamp, Window};

/// One counter: a name on a server, for the owner that its scope determines. Clones share
/// their text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterKey(Arc<str>);

impl CounterKey {
    /// The counter `name` of `owner` on `server`. The parts are separated by a character
    /// that names of servers and grants cannot contain.
    pub fn new(server: &str, scope: Scope, owner: &str, name: &str) -> CounterKey {
        CounterKey::from_parts([server, scope.name(), owner, name])
    }

    /// The counter with these [`parts`](CounterKey::parts).
    pub(crate) fn from_parts([server, scope, owner, name]: [&str; 4]) -> CounterKey {
        let length = server.len() + scope.len() + owner.len() + name.len() + 3;
        let mut text = String::with_capacity(length);
        for part in [server, "\0", scope, "\0", owner, "\0", name] {
            text.push_str(part);
        }
        CounterKey(text.into())
    }

    /// Server, scope, owner and name.
    pub(crate) fn parts(&self) -> [&str; 4] {
        let mut parts = self.0.splitn(4, '\0');
        std::array::from_fn(|_| parts.next().unwrap_or_default())
    }
}

/// The amount that one call adds to the current window of one counter, and the maximum
/// for that window. The store's clock determines which window is current.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    pub key: CounterKey,
    pub window: Window,
    pub amount: Amount,
    pub max: Amount,
}

/// A place that one call takes among those in progress, until its outcome is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Calls with the same key share the places.
    pub key: CounterKey,
    /// The most calls at a time.
    pub max: u64,
}

/// A charge that was made: the window and the amount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Charged {
    pub(crate) slot: Slot,
    pub(crate) window_end: i64,
    pub(crate) amount: Amount,
}

/// One window of one counter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot {
    pub(crate) key: CounterKey,
    pub(crate) window_start: Timestamp,
}

impl Charge {
    /// Whether the charge fits if the counter reads `reading`; returns the sum if it
    /// does.
    pub(crate) fn fits(&self, reading: Amount) -> Option<Amount> {
        reading.checked_add(self.amount).filter(|sum| *sum <= self.max)
    }

    /// The charge in the window that contains `now`.
    pub(crate) fn at(&self, now: Timestamp) -> Charged {
        Charged {
            slot: Slot { key: self.key.clone(), window_start: self.window.start(now) },
            window_end: self.window.end(now).as_millis(),
            amount: self.amount,
        }
    }
}
