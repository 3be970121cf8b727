//! Suspended calls: the server's stream is kept until the client returns with the input that
//! the server has asked for.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sluice_wire::edit::quote;

use super::{calling::Calling, question::Question};

/// Calls that may wait at one server, and for one caller.
const MOST: usize = 1_000;
const MOST_OF_CALLER: usize = 64;
/// How long a client may take to come back.
const RESUME_TIMEOUT: Duration = Duration::from_mins(10);

/// A call that waits.
#[derive(Debug)]
pub(super) struct Suspended {
    pub(super) calling: Calling,
    /// The input that the server wants.
    pub(super) wanted: Vec<Question>,
    /// Whose it is.
    pub(super) caller: String,
}

/// All calls that wait at one server.
#[derive(Debug)]
pub(super) struct Suspensions {
    waiting: Mutex<HashMap<String, Suspended>>,
    /// Makes names that no earlier process has given out.
    names: RandomState,
    next: std::sync::atomic::AtomicU64,
}

impl Default for Suspensions {
    fn default() -> Suspensions {
        Suspensions {
            waiting: Mutex::default(),
            names: RandomState::new(),
            next: std::sync::atomic::AtomicU64::new(0),
        }
    }
}

impl Suspensions {
    fn waiting(&self) -> MutexGuard<'_, HashMap<String, Suspended>> {
        // The map is whole after every step, so a panic elsewhere spoils nothing.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one more call of this caller may wait.
    pub(super) fn has_room(&self, caller: &str) -> bool {
        let waiting = self.waiting();
        waiting.len() < MOST
            && waiting.values().filter(|other| other.caller == caller).count() < MOST_OF_CALLER
    }

    /// Lets a call wait, for some time; the result that asks the client for what
    /// is wanted.
    pub(super) fn add(self: &Arc<Self>, mut suspended: Suspended) -> String {
        let number = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let state = format!("suspended-{number}-{:016x}", self.names.hash_one(number));
        let requests: Vec<_> = suspended
            .wanted
            .iter()
            .map(|wanted| format!("{}:{}", quote(&wanted.key()), wanted.request()))
            .collect();
        suspended.calling.ear.rest();
        suspended.wanted.iter_mut().for_each(Question::mark_asked);
        let result = format!(
            r#"{{"resultType":"input_required","inputRequests":{{{}}},"requestState":{}}}"#,
            requests.join(","),
            quote(&state)
        );
        self.waiting().insert(state.clone(), suspended);
        let this = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(RESUME_TIMEOUT).await;
            // Dropped, the call is cancelled at the server.
            let late = this.upgrade().and_then(|this| this.waiting().remove(&state));
            drop(late);
        });
        result
    }

    /// The call of this caller that waits under this name.
    pub(super) fn take(&self, state: &str, caller: &str) -> Option<Suspended> {
        let mut waiting = self.waiting();
        waiting.get(state).filter(|suspended| suspended.caller == caller)?;
        waiting.remove(state)
    }
}
