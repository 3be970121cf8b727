//! Suspended calls: the server's stream is kept until the client returns with the input
//! that the server asked for.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, Once, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use sluice_expiring::{ExpiringMap, Limits};
use sluice_wire::edit::quote;
use tokio::time::Instant;

use super::{in_flight::InFlight, server_request::ServerRequest};

/// The most suspended calls at one server, and of one caller.
const MOST: usize = 1_000;
const MOST_OF_CALLER: usize = 64;
/// How long a client may take to return.
const RESUME_TIMEOUT: Duration = Duration::from_mins(10);
/// How often calls whose clients did not return are searched for.
const SWEEP: Duration = Duration::from_mins(1);

/// A suspended call.
#[derive(Debug)]
pub(super) struct Suspended {
    pub(super) calling: InFlight,
    /// The questions that the client must answer.
    pub(super) wanted: Vec<ServerRequest>,
    pub(super) place: Place,
}

/// A place for one suspended call of a caller, free again on drop. It is taken before
/// the client is asked, so that no call finds out too late that there is none.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    /// The key of its caller.
    caller: String,
}

/// How many places each caller has taken.
#[derive(Debug, Default)]
struct Places(Mutex<HashMap<String, usize>>);

impl Places {
    fn counts(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        // The counts are consistent after every step, so a poisoned lock is still usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.places.counts();
        let Some(count) = counts.get_mut(&self.caller) else { return };
        *count -= 1;
        if *count == 0 {
            counts.remove(&self.caller);
        }
    }
}

/// All suspended calls at one server.
#[derive(Debug)]
pub(super) struct Suspensions {
    waiting: Mutex<Waiting>,
    places: Arc<Places>,
    /// Makes state names that no earlier process has used.
    names: RandomState,
    next: AtomicU64,
    sweeping: Once,
}

/// The suspended calls by the name of their state, the oldest first.
type Waiting = ExpiringMap<String, Suspended>;

impl Default for Suspensions {
    fn default() -> Suspensions {
        // The places bound the entries.
        let limits = Limits { idle: RESUME_TIMEOUT, ..Limits::NONE };
        Suspensions {
            waiting: Mutex::new(ExpiringMap::new(limits)),
            places: Arc::default(),
            names: RandomState::new(),
            next: AtomicU64::new(0),
            sweeping: Once::new(),
        }
    }
}

impl Suspensions {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // The map is consistent after every step, so a poisoned lock is still usable.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for one more suspended call of this caller, if there is one.
    pub(super) fn reserve(&self, caller: &str) -> Option<Place> {
        let mut counts = self.places.counts();
        if counts.values().sum::<usize>() >= MOST {
            return None;
        }
        let own = counts.entry(caller.to_owned()).or_default();
        if *own >= MOST_OF_CALLER {
            return None;
        }
        *own += 1;
        Some(Place { places: Arc::clone(&self.places), caller: caller.to_owned() })
    }

    /// Suspends a call for a limited time; returns the result that asks the client for
    /// input.
    pub(super) fn add(self: &Arc<Self>, mut suspended: Suspended) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let state = format!("suspended-{number}-{:016x}", self.names.hash_one(number));
        let requests: Vec<_> = suspended
            .wanted
            .iter()
            .map(|wanted| format!("{}:{}", quote(&wanted.key()), wanted.request()))
            .collect();
        let result = format!(
            r#"{{"resultType":"input_required","inputRequests":{{{}}},"requestState":{}}}"#,
            requests.join(","),
            quote(&state)
        );
        suspended.calling.receiver.rest();
        suspended.wanted.iter_mut().for_each(ServerRequest::mark_asked);
        self.waiting().insert(state, suspended, 0, Instant::now().into_std());
        self.sweeping.call_once(|| drop(tokio::spawn(sweep(Arc::downgrade(self)))));
        result
    }

    /// Removes and returns the suspended call of this caller with this state.
    pub(super) fn take(&self, state: &str, caller: &str) -> Option<Suspended> {
        self.expire();
        let mut waiting = self.waiting();
        waiting.get(state).filter(|suspended| suspended.place.caller == caller)?;
        waiting.remove(state)
    }

    /// Gives up the calls whose clients did not return in time.
    fn expire(&self) {
        let late = self.waiting().expire(Instant::now().into_std(), |_, _| false);
        // Dropping a call cancels it at the server.
        drop(late);
    }
}

/// Gives up late calls as long as the server exists.
async fn sweep(suspensions: Weak<Suspensions>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(suspensions) = suspensions.upgrade() else { return };
        suspensions.expire();
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, sync::Arc};

    use sluice_wire::rpc::Id;

    use super::{MOST, MOST_OF_CALLER, Place, RESUME_TIMEOUT, SWEEP, Suspended, Suspensions};
    use crate::to_legacy::{
        dispatch::{Dispatcher, tests::session},
        in_flight::{InFlight, Source, UnderWay},
        session::Session,
    };

    /// A call that the server never answers.
    fn call(session: &Arc<Session>, place: Place) -> Suspended {
        let under_way = UnderWay {
            session: Arc::clone(session),
            id: Id::Integer("1".into()),
            is_answered: false,
        };
        let (source, receiver) =
            (Source::Awaited(Box::pin(pending())), Dispatcher::listen(session, true, None));
        let calling = InFlight { under_way, source, receiver, early: None };
        Suspended { calling, wanted: Vec::new(), place }
    }

    fn state(result: &str) -> String {
        result.split('"').find(|part| part.starts_with("suspended-")).unwrap().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn only_its_caller_resumes_a_call_and_only_in_time() {
        let (session, suspensions) = (session().await, Arc::new(Suspensions::default()));
        let [first, second] = [(); 2].map(|()| {
            let place = suspensions.reserve("a").unwrap();
            state(&suspensions.add(call(&session, place)))
        });
        assert!(suspensions.take(&first, "b").is_none());
        tokio::time::sleep(RESUME_TIMEOUT.saturating_sub(SWEEP)).await;
        assert!(suspensions.take(&first, "a").is_some());
        assert!(suspensions.take(&first, "a").is_none(), "only once");
        tokio::time::sleep(SWEEP).await;
        assert!(suspensions.take(&second, "a").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn calls_whose_clients_do_not_return_are_given_up() {
        let (session, suspensions) = (session().await, Arc::new(Suspensions::default()));
        let place = suspensions.reserve("a").unwrap();
        suspensions.add(call(&session, place));
        tokio::time::sleep(RESUME_TIMEOUT + 2 * SWEEP).await;
        assert!(suspensions.waiting().is_empty());
        assert!(suspensions.places.counts().is_empty());
    }

    #[test]
    fn places_are_bounded_for_each_caller_and_in_all() {
        let suspensions = Suspensions::default();
        let own: Vec<_> = (0..MOST_OF_CALLER).map(|_| suspensions.reserve("a").unwrap()).collect();
        assert!(suspensions.reserve("a").is_none());
        let others: Vec<_> = (MOST_OF_CALLER..MOST)
            .map(|number| suspensions.reserve(&format!("caller-{number}")).unwrap())
            .collect();
        assert!(suspensions.reserve("b").is_none());
        drop(own);
        assert!(suspensions.reserve("a").is_some() && suspensions.reserve("b").is_some());
        drop(others);
        assert!(suspensions.places.counts().is_empty());
    }
}
