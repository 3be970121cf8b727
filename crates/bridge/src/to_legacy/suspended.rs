//! Suspended calls: the server's stream is kept until the client returns with the input
//! that the server asked for.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sluice_wire::edit::quote;

use super::{calling::Calling, question::Question};

/// The most suspended calls at one server, and of one caller.
const MOST: usize = 1_000;
const MOST_OF_CALLER: usize = 64;
/// How long a client may take to return.
const RESUME_TIMEOUT: Duration = Duration::from_mins(10);

/// A suspended call.
#[derive(Debug)]
pub(super) struct Suspended {
    pub(super) calling: Calling,
    /// The questions that the client must answer.
    pub(super) wanted: Vec<Question>,
    /// The key of its caller.
    pub(super) caller: String,
}

/// All suspended calls at one server.
#[derive(Debug)]
pub(super) struct Suspensions {
    waiting: Mutex<HashMap<String, Suspended>>,
    /// Makes state names that no earlier process has used.
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
        // The map is consistent after every step, so a poisoned lock is still usable.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one more call of this caller may be suspended.
    pub(super) fn has_room(&self, caller: &str) -> bool {
        let waiting = self.waiting();
        waiting.len() < MOST
            && waiting.values().filter(|other| other.caller == caller).count() < MOST_OF_CALLER
    }

    /// Suspends a call for a limited time; returns the result that asks the client for
    /// input.
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
            // Dropping the call cancels it at the server.
            let late = this.upgrade().and_then(|this| this.waiting().remove(&state));
            drop(late);
        });
        result
    }

    /// Removes and returns the suspended call of this caller with this state.
    pub(super) fn take(&self, state: &str, caller: &str) -> Option<Suspended> {
        let mut waiting = self.waiting();
        waiting.get(state).filter(|suspended| suspended.caller == caller)?;
        waiting.remove(state)
    }
}
