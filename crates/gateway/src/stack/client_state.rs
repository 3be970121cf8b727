//! State of `/mcp` clients, bounded, the oldest evicted: their sessions, the owners of
//! resource URIs, and servers that recently timed out.

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

/// Bytes of all sessions; the oldest of the grant with the most bytes are evicted.
const MOST_BYTES: usize = 32 << 20;
/// Bytes of the sessions of one grant; its oldest are evicted.
const MOST_BYTES_OF_GRANT: usize = 8 << 20;
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
            // No idle limits: entries of `late` hold their end, and owners do not change with time.
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
struct Sessions {
    all: ExpiringMap<(Arc<str>, Arc<str>), Arc<StackSession>>,
    /// The sessions of each grant that has any.
    of_grants: HashMap<Arc<str>, GrantSessions>,
}

/// How many sessions a grant has, and their bytes.
#[derive(Debug, Clone, Copy, Default)]
struct GrantSessions {
    count: usize,
    bytes: usize,
}

impl Default for Sessions {
    fn default() -> Sessions {
        // No idle limit: only DELETE ends a session, and its client may resume it after days.
        let all = ExpiringMap::new(Limits { cost: MOST_BYTES, ..Limits::NONE });
        Sessions { all, of_grants: HashMap::new() }
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
        let session = lock(&self.sessions).all.get(&key).cloned();
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
        lock(&self.sessions).remove(&holder.reference.id, id);
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
    /// Stores a session. The grant's own oldest sessions that exceed its share are evicted and
    /// returned. If all grants together have too many, the oldest of the grant that uses most is
    /// evicted.
    fn keep(&mut self, grant: &Arc<str>, session: &Arc<StackSession>) -> Vec<Arc<StackSession>> {
        let cost = session.cost();
        let mut forgotten = Vec::new();
        while self.is_full(grant, cost) {
            let Some(own) = self.evict(grant) else { break };
            forgotten.push(own);
        }
        while !self.all.has_room(cost) {
            let Some(largest) = self.find_largest() else { break };
            let evicted = self.evict(&largest);
            forgotten.extend(evicted.filter(|_| largest == *grant));
        }
        let key = (Arc::clone(grant), Arc::clone(&session.id));
        self.all.insert(key, Arc::clone(session), cost, Instant::now().into_std());
        let own = self.of_grants.entry(Arc::clone(grant)).or_default();
        own.count += 1;
        own.bytes += cost;
        forgotten
    }

    fn remove(&mut self, grant: &Arc<str>, id: &Arc<str>) {
        if let Some(session) = self.all.remove(&(Arc::clone(grant), Arc::clone(id))) {
            self.note_removed(grant, session.cost());
        }
    }

    /// Removes a grant's oldest session.
    fn evict(&mut self, grant: &Arc<str>) -> Option<Arc<StackSession>> {
        let (_, session) = self.all.evict_where(|(owner, _), _| owner == grant)?;
        self.note_removed(grant, session.cost());
        Some(session)
    }

    fn note_removed(&mut self, grant: &Arc<str>, cost: usize) {
        let Some(own) = self.of_grants.get_mut(grant) else { return };
        own.count = own.count.saturating_sub(1);
        own.bytes = own.bytes.saturating_sub(cost);
        if own.count == 0 {
            self.of_grants.remove(grant);
        }
    }

    /// Whether a grant has no share left for a session of this cost.
    fn is_full(&self, grant: &Arc<str>, cost: usize) -> bool {
        let own = self.of_grants.get(grant).copied().unwrap_or_default();
        own.count >= MOST_OF_GRANT || own.bytes + cost > MOST_BYTES_OF_GRANT
    }

    fn find_largest(&self) -> Option<Arc<str>> {
        let largest = self.of_grants.iter().max_by_key(|(_, own)| own.bytes);
        largest.map(|(grant, _)| Arc::clone(grant))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sluice_wire::{mcp::Revision, rpc::Id};

    use super::{
        Hello, MOST_BYTES, MOST_BYTES_OF_GRANT, MOST_OF_GRANT, OVERHEAD, Sessions, StackSession,
        Stacks,
    };

    fn count(sessions: &Sessions, grant: &Arc<str>) -> usize {
        sessions.of_grants.get(grant).map_or(0, |own| own.count)
    }

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
        assert_eq!((count(&sessions, &a), count(&sessions, &b)), (1, MOST_OF_GRANT));
        assert!(sessions.all.get(&(Arc::clone(&b), "00000".into())).is_none());
        // Large sessions end those of their own grant.
        let large = MOST_BYTES_OF_GRANT / 2 - OVERHEAD;
        for number in 0..20 {
            let forgotten = sessions.keep(&c, &session(&format!("{number:05}"), large));
            assert_eq!(forgotten.len(), usize::from(number > 1), "{number}");
        }
        assert_eq!(["a", "b", "c"].map(|id| count(&sessions, &id.into())), [1, MOST_OF_GRANT, 2]);
    }

    #[test]
    fn the_grant_with_the_most_bytes_makes_room_for_others() {
        let mut sessions = Sessions::default();
        let small = Arc::from("small");
        sessions.keep(&small, &session("0", 0));
        let large = MOST_BYTES_OF_GRANT / 4 - OVERHEAD;
        for number in 0..40 {
            let grant = Arc::from(format!("large {}", number % 10));
            let forgotten = sessions.keep(&grant, &session(&number.to_string(), large));
            let own = forgotten.len() <= 1 && count(&sessions, &grant) >= 1;
            assert!(own, "others' sessions are not the caller's to close");
        }
        assert_eq!(count(&sessions, &small), 1, "the oldest of all is kept");
        assert!(sessions.all.cost() <= MOST_BYTES);
        let sum: usize = sessions.of_grants.values().map(|own| own.bytes).sum();
        assert_eq!(sum, sessions.all.cost());
        for number in 0..40 {
            let grant = Arc::from(format!("large {}", number % 10));
            sessions.remove(&grant, &number.to_string().into());
        }
        sessions.remove(&small, &"0".into());
        assert_eq!((sessions.all.cost(), sessions.of_grants.len()), (0, 0));
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
