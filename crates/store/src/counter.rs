//! Counters: whose they are, and what is charged to them.

use std::sync::Arc;

use sluice_policy::{Amount, Scope, Timestamp};

/// One counter: a name on a server, belonging to whoever its scope says. Clones
/// share their text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterKey(Arc<str>);

impl CounterKey {
    /// The counter `name` of `owner` on `server`. Parts are kept apart by a
    /// character that names of servers and grants cannot have.
    pub fn new(server: &str, scope: Scope, owner: &str, name: &str) -> CounterKey {
        let scope = scope.name();
        let length = server.len() + scope.len() + owner.len() + name.len() + 3;
        let mut text = String::with_capacity(length);
        for part in [server, "\0", scope, "\0", owner, "\0", name] {
            text.push_str(part);
        }
        CounterKey(text.into())
    }

    /// One whose text is known.
    pub(crate) fn from_text(text: &str) -> CounterKey {
        CounterKey(text.into())
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// What one call adds to one window of one counter, and the most it may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    pub key: CounterKey,
    pub window_start: Timestamp,
    pub window_seconds: u32,
    pub amount: Amount,
    pub max: Amount,
}

impl Charge {
    /// Whether the charge fits once the counter reads `reading`, and the sum if it does.
    pub(crate) fn fits(&self, reading: Amount) -> Option<Amount> {
        reading.checked_add(self.amount).filter(|sum| *sum <= self.max)
    }

    /// When its window ends, in milliseconds.
    pub(crate) fn window_end(&self) -> i64 {
        self.window_start.as_millis().saturating_add(i64::from(self.window_seconds) * 1000)
    }
}
