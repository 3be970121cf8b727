//! State of clients that use all servers of a grant, in bounded memory: their sessions,
//! the owners of resources, and the servers that are late.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use http::HeaderValue;
use sluice_expiring::{ExpiringMap, Limits};
use sluice_store::new_id;
use sluice_wire::{mcp::Revision, rpc::Id};
use tokio::{sync::broadcast, time::Instant};

use crate::{gateway::Inner, grants::Holder, link::LinkState, refusal::Refusal, seal::Purpose};

/// Bytes of all sessions; the oldest are evicted.
const MOST_BYTES: usize = 32 << 20;
/// The most sessions of one grant.
const MOST_OF_GRANT: usize = 1000;
/// The memory that one session needs besides its `initialize` message.
const OVERHEAD: usize = 4096;
/// Bytes of the map of resource owners; the oldest entries are evicted.
const MOST_OWNED: usize = 8 << 20;
/// How long a server that was late is left out.
const LATE: Duration = Duration::from_secs(30);
/// The most servers that are noted as late; the oldest are evicted.
const MOST_LATE: usize = 10_000;
/// Arrivals that a stream may be behind.
const BEHIND: usize = 64;

/// A grant and one of its servers.
pub(super) type Pair = (Arc<str>, Arc<str>);
/// A grant and the URI of a resource.
type Resource = (Arc<str>, Box<str>);

/// The state of all stacks.
#[derive(Debug)]
pub(crate) struct Stacks {
    sessions: Mutex<Sessions>,
    /// Until when a server is left out.
    late: Mutex<ExpiringMap<Pair, Instant>>,
    /// The server that owns a resource of a grant.
    owners: Mutex<ExpiringMap<Resource, Arc<str>>>,
    /// Servers that were left out of an answer and have answered since.
    pub(super) arrivals: broadcast::Sender<Pair>,
}

impl Default for Stacks {
    fn default() -> Stacks {
        Stacks {
            sessions: Mutex::default(),
            late: bounded_map(Limits { entries: MOST_LATE, ..Limits::NONE }),
            owners: bounded_map(Limits { cost: MOST_OWNED, ..Limits::NONE }),
            arrivals: broadcast::channel(BEHIND).0,
        }
    }
}

fn bounded_map<K: Clone + Eq + Hash, V>(limits: Limits) -> Mutex<ExpiringMap<K, V>> {
    Mutex::new(ExpiringMap::new(limits))
}

/// Sessions by grant and by our id of the session.
#[derive(Debug)]
struct Sessions(ExpiringMap<(Arc<str>, Arc<str>), Arc<StackSession>>);

impl Default for Sessions {
    fn default() -> Sessions {
        Sessions(ExpiringMap::new(Limits { cost: MOST_BYTES, ..Limits::NONE }))
    }
}

/// One client's session with all servers of its grant.
#[derive(Debug)]
pub(crate) struct StackSession {
    /// Our id, for records.
    pub(crate) id: Arc<str>,
    pub(super) hello: Hello,
    members: Mutex<HashMap<Arc<str>, Arc<Member>>>,
    /// The last `logging/setLevel` message, for servers that are contacted later.
    level: Mutex<Option<Arc<str>>>,
}

/// A client's `initialize`.
#[derive(Debug)]
pub(super) struct Hello {
    /// The message, as it is sent to servers.
    pub(super) text: String,
    pub(super) id: Id,
    pub(super) revision: Revision,
}

/// The session's state at one server. Locked during the handshake.
pub(super) type Member = tokio::sync::Mutex<MemberState>;

#[derive(Debug, Default)]
pub(super) struct MemberState {
    pub(super) opened: Option<Opened>,
    /// When the last attempt failed.
    pub(super) failed: Option<Instant>,
}

/// The session and protocol version that client and server agreed on.
#[derive(Debug, Clone)]
pub(super) struct Opened {
    pub(super) link: Weak<LinkState>,
    /// The session id, as a client of that server alone would get it.
    pub(super) session: Option<HeaderValue>,
    pub(super) revision: HeaderValue,
}

impl StackSession {
    pub(super) fn new(gateway: &Inner, hello: Hello) -> StackSession {
        StackSession {
            id: new_id(gateway.settings.clock.now()).to_string().into(),
            hello,
            members: Mutex::default(),
            level: Mutex::default(),
        }
    }

    pub(super) fn member(&self, server: &Arc<str>) -> Arc<Member> {
        Arc::clone(lock(&self.members).entry(Arc::clone(server)).or_default())
    }

    pub(super) fn level(&self) -> MutexGuard<'_, Option<Arc<str>>> {
        lock(&self.level)
    }

    fn cost(&self) -> usize {
        self.hello.text.len() + OVERHEAD
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stacks {
    /// The session that `sealed` was issued for, if it belongs to this grant and is still
    /// known.
    pub(super) fn open(
        &self,
        gateway: &Inner,
        holder: &Holder,
        sealed: &str,
    ) -> Result<Arc<StackSession>, Refusal> {
        let opened = gateway.keys.seal.open(Purpose::Stack, sealed);
        let [grant, id]: [String; 2] = opened.ok_or(Refusal::Session)?;
        let key = (Arc::from(grant), Arc::from(id));
        let session = lock(&self.sessions).0.get(&key).cloned();
        session.filter(|_| *key.0 == *holder.id()).ok_or(Refusal::Session)
    }

    /// Stores a session. Returns the id for the client, and the sessions of the same
    /// grant that were evicted to make room.
    pub(super) fn keep(
        &self,
        gateway: &Inner,
        holder: &Holder,
        session: &Arc<StackSession>,
    ) -> Option<(HeaderValue, Vec<Arc<StackSession>>)> {
        let sealed = gateway.keys.seal.seal(Purpose::Stack, &[holder.id(), &session.id])?;
        let forgotten = lock(&self.sessions).keep(&holder.reference.id, session);
        Some((HeaderValue::try_from(sealed).ok()?, forgotten))
    }

    /// Forgets a session that has ended.
    pub(super) fn forget(&self, holder: &Holder, id: &Arc<str>) {
        lock(&self.sessions).0.remove(&(Arc::clone(&holder.reference.id), Arc::clone(id)));
    }

    /// Whether a server was recently late for this grant.
    pub(super) fn is_late(&self, pair: &Pair) -> bool {
        lock(&self.late).get(pair).is_some_and(|until| Instant::now() < *until)
    }

    /// Notes that a server is late for this grant.
    pub(super) fn note_late(&self, pair: Pair) {
        let now = Instant::now();
        lock(&self.late).insert(pair, now + LATE, 0, now.into_std());
    }

    /// Notes that a server is no longer late. If it has answered, clients that missed its
    /// part are notified.
    pub(super) fn note_end(&self, pair: &Pair, has_answered: bool) {
        let was_late = lock(&self.late).remove(pair).is_some();
        if was_late && has_answered {
            // There may be no receivers.
            let _ = self.arrivals.send(pair.clone());
        }
    }

    /// The server that owns a resource or a resource template.
    pub(super) fn owner(&self, grant: &Arc<str>, uri: &str) -> Option<Arc<str>> {
        lock(&self.owners).get(&(Arc::clone(grant), uri.into())).cloned()
    }

    /// Remembers which server owns a resource.
    pub(super) fn note_owner(&self, (grant, server): &Pair, uri: &str) {
        let (key, cost) = ((Arc::clone(grant), uri.into()), uri.len() + 128);
        let now = Instant::now().into_std();
        lock(&self.owners).insert(key, Arc::clone(server), cost, now);
    }
}

impl Sessions {
    /// Stores a session. To make room, the grant's own oldest sessions are evicted and
    /// returned; sessions of other grants are evicted only if it has none.
    fn keep(&mut self, grant: &Arc<str>, session: &Arc<StackSession>) -> Vec<Arc<StackSession>> {
        let cost = session.cost();
        let mut forgotten = Vec::new();
        while !self.0.has_room(cost) || self.is_full(grant) {
            match self.0.evict_where(|(owner, _), _| owner == grant) {
                Some((_, own)) => forgotten.push(own),
                None if self.0.evict_where(|_, _| true).is_some() => {}
                None => break,
            }
        }
        let key = (Arc::clone(grant), Arc::clone(&session.id));
        self.0.insert(key, Arc::clone(session), cost, Instant::now().into_std());
        forgotten
    }

    fn is_full(&self, grant: &Arc<str>) -> bool {
        self.0.len() >= MOST_OF_GRANT && self.count(grant) >= MOST_OF_GRANT
    }

    fn count(&self, grant: &Arc<str>) -> usize {
        self.0.iter().filter(|((owner, _), _)| owner == grant).count()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sluice_wire::{mcp::Revision, rpc::Id};

    use super::{Hello, MOST_BYTES, MOST_OF_GRANT, OVERHEAD, Sessions, StackSession, Stacks};

    fn session(id: &str, bytes: usize) -> Arc<StackSession> {
        let hello = Hello {
            text: "x".repeat(bytes),
            id: Id::Integer("0".into()),
            revision: Revision::V2025_11_25,
        };
        Arc::new(StackSession {
            id: id.into(),
            hello,
            members: std::sync::Mutex::default(),
            level: std::sync::Mutex::default(),
        })
    }

    #[test]
    fn a_grant_that_needs_room_loses_its_own_oldest_sessions() {
        let [a, b, c] = ["a", "b", "c"].map(Arc::<str>::from);
        let mut sessions = Sessions::default();
        sessions.keep(&a, &session("00000", 0));
        for number in 0..MOST_OF_GRANT {
            assert!(sessions.keep(&b, &session(&format!("{number:05}"), 0)).is_empty());
        }
        let forgotten = sessions.keep(&b, &session("99998", 0));
        assert_eq!(forgotten.iter().map(|one| &*one.id).collect::<Vec<_>>(), ["00000"]);
        assert_eq!((sessions.count(&a), sessions.count(&b)), (1, MOST_OF_GRANT));
        assert!(sessions.0.get(&(b, "00000".into())).is_none());
        let forgotten = sessions.keep(&c, &session("99999", MOST_BYTES - OVERHEAD));
        assert!(forgotten.is_empty(), "others' sessions are not the caller's to close");
        assert_eq!((sessions.0.len(), sessions.0.cost()), (1, MOST_BYTES));
    }

    #[tokio::test]
    async fn a_late_server_that_answers_is_announced() {
        let stacks = Stacks::default();
        let pair = (Arc::from("alice"), Arc::from("notes"));
        let mut arrivals = stacks.arrivals.subscribe();
        assert!(!stacks.is_late(&pair));
        stacks.note_end(&pair, true);
        assert!(arrivals.try_recv().is_err());
        stacks.note_late(pair.clone());
        assert!(stacks.is_late(&pair));
        stacks.note_end(&pair, false);
        assert!(!stacks.is_late(&pair) && arrivals.try_recv().is_err());
        stacks.note_late(pair.clone());
        stacks.note_end(&pair, true);
        assert_eq!(arrivals.try_recv().unwrap(), pair);
    }

    #[test]
    fn the_map_of_resource_owners_is_bounded() {
        let stacks = Stacks::default();
        let pair = (Arc::from("alice"), Arc::from("notes"));
        stacks.note_owner(&pair, "a:1");
        assert_eq!(stacks.owner(&pair.0, "a:1").as_deref(), Some("notes"));
        assert_eq!(stacks.owner(&Arc::from("bob"), "a:1"), None);
        stacks.note_owner(&pair, "a:2");
        stacks.note_owner(&pair, &"x".repeat(super::MOST_OWNED - 2 * 128 - 3));
        assert_eq!(stacks.owner(&pair.0, "a:1"), None, "the oldest makes room");
        assert_eq!(stacks.owner(&pair.0, "a:2").as_deref(), Some("notes"));
    }
}
