//! Sessions that share one child: the stream and the subscriptions of each.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use sluice_expiring::{ExpiringMap, Limits};
use sluice_http::Lease;
use tokio::time::Instant;

use super::queue::{CallEvent, Caller, Inbox, caller, single_line};

/// A session that has been idle this long may be ended.
pub(super) const IDLE: Duration = Duration::from_mins(30);
/// The most sessions of one server.
const MOST_SESSIONS: usize = 10_000;
/// Resources that one session may subscribe to.
const MOST_SUBSCRIPTIONS: usize = 1000;
/// The most messages, and bytes of them, that are kept until a stream is opened.
const MOST_HELD: usize = 64;
const MOST_HELD_BYTES: usize = 1 << 20;

/// The sessions of a shared child; they outlive it.
#[derive(Debug)]
pub(super) struct Sessions {
    all: Mutex<ExpiringMap<Arc<str>, Session>>,
}

#[derive(Debug, Default)]
struct Session {
    mailbox: Mailbox,
    /// The resources, with what the session holds for each.
    subscribed: BTreeMap<String, Option<Lease>>,
    _lease: Option<Lease>,
}

impl Default for Sessions {
    fn default() -> Sessions {
        let limits = Limits { entries: MOST_SESSIONS, idle: IDLE, ..Limits::NONE };
        Sessions { all: Mutex::new(ExpiringMap::new(limits)) }
    }
}

/// The stream of one session, if it is open.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Whether messages are kept until a stream is opened.
    holds: bool,
    stream: Option<Caller>,
    held: VecDeque<Held>,
    /// The number of the next kept message.
    next: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct Held {
    number: u64,
    message: Bytes,
}

/// What happened to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Posted {
    Sent,
    /// It is kept under this number until a stream is opened.
    Held(u64),
    /// It is neither sent nor kept.
    Refused,
}

impl Mailbox {
    /// A mailbox that keeps a few messages until a stream is opened.
    pub(super) fn holding() -> Mailbox {
        Mailbox { inner: Mutex::new(Inner { holds: true, ..Inner::default() }) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the stream; an earlier one ends.
    pub(super) fn open(&self, most: usize) -> Inbox {
        let (to, inbox) = caller();
        let mut inner = self.inner();
        for held in inner.held.drain(..) {
            to.tell(CallEvent::Aside(held.message), most);
        }
        inner.stream = Some(to).filter(|_| !inner.is_closed);
        inbox
    }

    /// Sends a message, or keeps it.
    pub(super) fn post(&self, message: &str, most: usize) -> Posted {
        let message = Bytes::from(single_line(message.to_owned()));
        let mut inner = self.inner();
        if let Some(stream) = &inner.stream {
            if stream.tell(CallEvent::Aside(message.clone()), most) {
                return Posted::Sent;
            }
            inner.stream = None;
        }
        let held: usize = inner.held.iter().map(|held| held.message.len()).sum();
        let is_room = inner.held.len() < MOST_HELD && held + message.len() <= MOST_HELD_BYTES;
        if !inner.holds || !is_room || inner.is_closed {
            return Posted::Refused;
        }
        let number = inner.next;
        inner.next += 1;
        inner.held.push_back(Held { number, message });
        Posted::Held(number)
    }

    /// Removes a kept message; `false` if it was already sent.
    pub(super) fn withdraw(&self, number: u64) -> bool {
        let mut inner = self.inner();
        let place = inner.held.iter().position(|held| held.number == number);
        place.and_then(|place| inner.held.remove(place)).is_some()
    }

    /// Stops keeping messages, because no stream will be opened.
    pub(super) fn keep_nothing(&self) {
        self.inner().holds = false;
    }

    /// Whether a stream is open.
    pub(super) fn is_open(&self) -> bool {
        self.inner().stream.as_ref().is_some_and(|stream| !stream.is_gone())
    }

    /// Ends the stream permanently.
    pub(super) fn close(&self) {
        let mut inner = self.inner();
        inner.is_closed = true;
        inner.stream = None;
        inner.held.clear();
    }
}

/// The maximum number of sessions is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMany;

impl Sessions {
    fn all(&self) -> MutexGuard<'_, ExpiringMap<Arc<str>, Session>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session. Idle sessions are evicted to make room.
    pub(super) fn begin(&self, id: &Arc<str>, lease: Option<Lease>) -> Result<(), TooMany> {
        let mut all = self.all();
        let now = Instant::now().into_std();
        if !all.has_room(0) {
            all.expire(now, |_, session| session.mailbox.is_open());
        }
        let session = Session { _lease: lease, ..Session::default() };
        all.try_insert(Arc::clone(id), session, 0, now).map_err(|_| TooMany)?;
        Ok(())
    }

    /// The id of a session, which is marked as used; `None` if there is no such session.
    pub(super) fn use_one(&self, id: &str) -> Option<Arc<str>> {
        let mut all = self.all();
        all.touch(id, Instant::now().into_std()).map(|(id, _)| Arc::clone(id))
    }

    /// Opens a session's stream.
    pub(super) fn open(&self, id: &str, most: usize) -> Option<Inbox> {
        self.all().get(id).map(|session| session.mailbox.open(most))
    }

    /// Ends a session; returns the resources that no other session is subscribed to.
    pub(super) fn end(&self, id: &str) -> Option<Vec<String>> {
        let mut all = self.all();
        let session = all.remove(id)?;
        Some(only_of(session, &all))
    }

    /// Ends idle sessions; returns the resources that no other session is subscribed to.
    pub(super) fn expire(&self) -> Vec<String> {
        let mut all = self.all();
        let now = Instant::now().into_std();
        let ended = all.expire(now, |_, session| session.mailbox.is_open());
        ended.into_iter().flat_map(|(_, session)| only_of(session, &all)).collect()
    }

    /// Subscribes a session; `false` if it has too many subscriptions.
    pub(super) fn subscribe(&self, id: &str, uri: &str, lease: Option<Lease>) -> bool {
        let mut all = self.all();
        let Some(session) = all.get_mut(id) else { return false };
        if session.subscribed.len() >= MOST_SUBSCRIPTIONS {
            return session.subscribed.contains_key(uri);
        }
        session.subscribed.insert(uri.to_owned(), lease);
        true
    }

    /// Whether a session is subscribed to a resource.
    pub(super) fn is_subscribed(&self, id: &str, uri: &str) -> bool {
        self.all().get(id).is_some_and(|session| session.subscribed.contains_key(uri))
    }

    /// Ends a subscription; returns whether it was the last one for the resource.
    pub(super) fn unsubscribe(&self, id: &str, uri: &str) -> bool {
        let mut all = self.all();
        if let Some(session) = all.get_mut(id) {
            session.subscribed.remove(uri);
        }
        !all.iter().any(|(_, session)| session.subscribed.contains_key(uri))
    }

    /// All resources that any session is subscribed to.
    pub(super) fn subscriptions(&self) -> BTreeSet<String> {
        self.all().iter().flat_map(|(_, session)| session.subscribed.keys().cloned()).collect()
    }

    /// Notifies the sessions that are subscribed to a resource.
    pub(super) fn notify_updated(&self, uri: &str, message: &str, most: usize) {
        for (_, session) in self.all().iter() {
            if session.subscribed.contains_key(uri) {
                session.mailbox.post(message, most);
            }
        }
    }

    /// Sends a notification to all sessions.
    pub(super) fn tell_all(&self, message: &str, most: usize) {
        for (_, session) in self.all().iter() {
            session.mailbox.post(message, most);
        }
    }
}

/// The resources of an ended session that none of the others is subscribed to.
fn only_of(session: Session, others: &ExpiringMap<Arc<str>, Session>) -> Vec<String> {
    let is_alone =
        |uri: &String| !others.iter().any(|(_, other)| other.subscribed.contains_key(uri));
    session.subscribed.into_keys().filter(is_alone).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{IDLE, Lease, MOST_SESSIONS, Mailbox, Posted, Sessions, TooMany};
    use crate::queue::CallEvent;

    #[tokio::test(start_paused = true)]
    async fn a_new_session_evicts_idle_sessions_but_not_used_ones() {
        let sessions = Sessions::default();
        for number in 0..MOST_SESSIONS {
            sessions.begin(&number.to_string().into(), None).unwrap();
        }
        let _open = sessions.open("0", 100).unwrap();
        tokio::time::advance(IDLE / 2).await;
        assert!(sessions.use_one("1").is_some());
        assert_eq!(sessions.begin(&"new".into(), None), Err(TooMany));
        tokio::time::advance(IDLE / 2).await;
        assert_eq!(sessions.begin(&"new".into(), None), Ok(()));
        for (id, is_there) in [("0", true), ("1", true), ("new", true), ("2", false)] {
            assert_eq!(sessions.use_one(id).is_some(), is_there, "{id}");
        }
    }

    #[tokio::test]
    async fn subscriptions_are_counted_across_sessions() {
        let sessions = Sessions::default();
        let ids: [Arc<str>; 2] = ["a".into(), "b".into()];
        for id in &ids {
            sessions.begin(id, None).unwrap();
            assert!(sessions.subscribe(id, "x", None));
        }
        sessions.subscribe("b", "y", None);
        assert!(!sessions.unsubscribe("a", "x"), "the other still has it");
        let mut heard = sessions.open("b", 100).unwrap();
        let mut deaf = sessions.open("a", 100).unwrap();
        sessions.notify_updated("x", "{}", 100);
        assert_eq!(heard.next().await, Some(CallEvent::Aside("{}".into())));
        assert_eq!(sessions.end("b").unwrap(), ["x", "y"]);
        assert_eq!(heard.next().await, None, "the stream ends with its session");
        assert!(sessions.end("b").is_none() && sessions.use_one("b").is_none());
        drop(sessions);
        assert_eq!(deaf.next().await, None, "it was told nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_session_ends_with_its_subscriptions_and_what_it_holds() {
        let sessions = Sessions::default();
        let held = Arc::new(());
        let lease = || Some(Lease::new(Arc::clone(&held)));
        for id in ["a", "b"] {
            sessions.begin(&id.into(), lease()).unwrap();
            assert!(sessions.subscribe(id, "x", lease()) && sessions.subscribe(id, id, lease()));
        }
        tokio::time::advance(IDLE / 2).await;
        assert!(sessions.use_one("b").is_some() && sessions.expire().is_empty());
        tokio::time::advance(IDLE / 2).await;
        assert_eq!(sessions.expire(), ["a"], "the other still has x");
        assert_eq!(Arc::strong_count(&held), 4);
        assert!(sessions.end("b").is_some());
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[tokio::test]
    async fn a_mailbox_keeps_a_limited_number_of_messages() {
        let mailbox = Mailbox::holding();
        let kept = (0..1000).filter(|_| mailbox.post("{}", 100) != Posted::Refused).count();
        assert_eq!(kept, super::MOST_HELD);
        let mut inbox = mailbox.open(100_000);
        for _ in 0..kept {
            assert!(inbox.next().await.is_some());
        }
        assert!(mailbox.is_open());
        mailbox.close();
        assert_eq!(mailbox.post("{}", 100), Posted::Refused);
        assert_eq!(inbox.next().await, None);
    }
}
