//! State of legacy clients between their requests: log level, subscriptions, ended sessions
//! and pending requests. All of it is bounded, and keyed by caller.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use sluice_expiring::{ExpiringMap, Limits};
use sluice_wire::json::Document;
use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};

/// The most sessions that are remembered, and as many ended ones; the oldest are evicted.
const MOST_SESSIONS: usize = 10_000;
const MOST_SUBSCRIPTIONS: usize = 1_000;
/// How long a call waits until a new subscription is made.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Memory {
    kept: Mutex<MemoryState>,
    next: AtomicU64,
}

#[derive(Debug)]
struct MemoryState {
    sessions: ExpiringMap<String, SessionState>,
    ended: ExpiringMap<String, ()>,
    /// Server requests that clients have not answered yet, by caller and id.
    asked: HashMap<(String, String), oneshot::Sender<Document>>,
    /// Client requests in progress, by caller and id.
    running: HashMap<(String, String), (u64, oneshot::Sender<()>)>,
}

/// The state of a session.
#[derive(Debug)]
struct SessionState {
    level: Option<String>,
    uris: BTreeSet<String>,
    /// Counts changes of `uris`.
    wanted: watch::Sender<u64>,
    /// The last change for which a listener has subscribed.
    made: watch::Sender<u64>,
}

impl Default for SessionState {
    fn default() -> SessionState {
        let (wanted, made) = (watch::Sender::new(0), watch::Sender::new(0));
        SessionState { level: None, uris: BTreeSet::new(), wanted, made }
    }
}

impl Default for MemoryState {
    fn default() -> MemoryState {
        // No idle limit: only DELETE ends a session, and its client may resume it after days.
        let limits = Limits { entries: MOST_SESSIONS, ..Limits::NONE };
        MemoryState {
            sessions: ExpiringMap::new(limits),
            ended: ExpiringMap::new(limits),
            asked: HashMap::new(),
            running: HashMap::new(),
        }
    }
}

impl MemoryState {
    /// The session of a caller, created if there is none.
    fn session(&mut self, caller: &str) -> &mut SessionState {
        let now = Instant::now().into_std();
        self.sessions.get_or_insert_with(caller.to_owned(), now, SessionState::default).0
    }
}

/// The subscriptions of a stream, and the notification of their changes.
#[derive(Debug)]
pub(super) struct Wishes {
    pub(super) changes: watch::Receiver<u64>,
    made: watch::Sender<u64>,
}

impl Wishes {
    /// Notes that a listener has subscribed to everything up to this change.
    pub(super) fn acknowledge(&self, change: u64) {
        self.made.send_modify(|made| *made = change.max(*made));
    }
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        // The state is consistent after every step, so a poisoned lock is still usable.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_ended(&self, caller: &str) -> bool {
        self.lock().ended.get(caller).is_some()
    }

    pub(super) fn end(&self, caller: &str) {
        let mut kept = self.lock();
        kept.sessions.remove(caller);
        kept.ended.get_or_insert_with(caller.to_owned(), Instant::now().into_std(), || ());
    }

    pub(super) fn set_level(&self, caller: &str, level: &str) {
        self.lock().session(caller).level = Some(level.to_owned());
    }

    pub(super) fn level(&self, caller: &str) -> Option<String> {
        self.lock().sessions.get(caller).and_then(|session| session.level.clone())
    }

    /// Adds or removes a subscription, and waits until the client's stream, if it has
    /// one, includes the change. Returns whether there was room.
    pub(super) async fn subscribe(&self, caller: &str, uri: &str, is_wanted: bool) -> bool {
        let (change, mut made) = {
            let mut kept = self.lock();
            let session = kept.session(caller);
            let is_changed = match is_wanted {
                true if session.uris.len() >= MOST_SUBSCRIPTIONS => return false,
                true => session.uris.insert(uri.to_owned()),
                false => session.uris.remove(uri),
            };
            if !is_changed || session.wanted.receiver_count() == 0 {
                return true;
            }
            session.wanted.send_modify(|count| *count += 1);
            let change = *session.wanted.borrow();
            (change, session.made.subscribe())
        };
        let _ =
            tokio::time::timeout(SUBSCRIBE_TIMEOUT, made.wait_for(|made| *made >= change)).await;
        true
    }

    /// Watches a client's subscriptions for changes.
    pub(super) fn wishes(&self, caller: &str) -> Wishes {
        let mut kept = self.lock();
        let session = kept.session(caller);
        Wishes { changes: session.wanted.subscribe(), made: session.made.clone() }
    }

    pub(super) fn subscriptions(&self, caller: &str) -> Vec<String> {
        let kept = self.lock();
        let session = kept.sessions.get(caller);
        session.map(|session| session.uris.iter().cloned().collect()).unwrap_or_default()
    }

    /// A new id for a server request to this caller, with a receiver for the answer.
    pub(super) fn ask(&self, caller: &str) -> Asking<'_> {
        let id = format!("\"input-{}\"", self.next.fetch_add(1, Ordering::Relaxed));
        let (sender, answer) = oneshot::channel();
        self.lock().asked.insert((caller.to_owned(), id.clone()), sender);
        Asking { memory: self, caller: caller.to_owned(), id, answer }
    }

    /// Passes an answer to the server request that waits for it.
    pub(super) fn reply(&self, caller: &str, id: &str, answer: Document) {
        let waiting = self.lock().asked.remove(&(caller.to_owned(), id.to_owned()));
        if let Some(waiting) = waiting {
            let _ = waiting.send(answer);
        }
    }

    /// Registers a request in progress, so that it can be cancelled.
    pub(super) fn run(&self, caller: &str, id: &str) -> Running<'_> {
        let (sender, cancelled) = oneshot::channel();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let key = (caller.to_owned(), id.to_owned());
        self.lock().running.insert(key.clone(), (number, sender));
        Running { memory: self, key, number, cancelled }
    }

    pub(super) fn cancel(&self, caller: &str, id: &str) {
        let running = self.lock().running.remove(&(caller.to_owned(), id.to_owned()));
        if let Some((_, sender)) = running {
            let _ = sender.send(());
        }
    }
}

/// A server request that waits for its answer.
#[derive(Debug)]
pub(super) struct Asking<'m> {
    memory: &'m Memory,
    caller: String,
    /// As JSON.
    pub(super) id: String,
    pub(super) answer: oneshot::Receiver<Document>,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let key = (std::mem::take(&mut self.caller), std::mem::take(&mut self.id));
        self.memory.lock().asked.remove(&key);
    }
}

/// A request in progress.
#[derive(Debug)]
pub(super) struct Running<'m> {
    memory: &'m Memory,
    key: (String, String),
    number: u64,
    cancelled: oneshot::Receiver<()>,
}

impl Running<'_> {
    /// Waits until the client cancels the request.
    pub(super) async fn wait_for_cancellation(&mut self) {
        if (&mut self.cancelled).await.is_err() {
            // Another request with the same id has replaced this one.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut kept = self.memory.lock();
        if kept.running.get(&self.key).is_some_and(|(number, _)| *number == self.number) {
            kept.running.remove(&self.key);
        }
    }
}
