//! What is kept in memory of clients that use all their servers at once, within
//! bounds: their sessions, whom resources belong to, and which servers are late.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use http::HeaderValue;
use sluice_store::new_id;
use sluice_wire::{mcp::Revision, rpc::Id};
use tokio::{sync::broadcast, time::Instant};

use crate::{gateway::Inner, grants::Holder, link::LinkState, refusal::Refusal, seal::Purpose};

/// Bytes of all sessions that are kept; the oldest are forgotten.
const MOST_BYTES: usize = 32 << 20;
/// Sessions of one grant.
const MOST_OF_GRANT: usize = 1000;
/// What keeping one costs besides its introduction.
const OVERHEAD: usize = 4096;
/// Bytes of the whole memory of whom resources belong to.
const MOST_OWNED: usize = 8 << 20;
/// A server that was late is not waited for again before this has passed.
const LATE: Duration = Duration::from_secs(30);
const MOST_LATE: usize = 10_000;
/// Arrivals that a stream may not have heard of yet.
const BEHIND: usize = 64;

/// A grant and one of its servers.
pub(super) type Pair = (Arc<str>, Arc<str>);

/// What is kept of all.
#[derive(Debug)]
pub(crate) struct Stacks {
    kept: Mutex<Kept>,
    late: Mutex<HashMap<Pair, Instant>>,
    owners: Mutex<Owners>,
    /// Servers that were missing in something, and have answered since.
    pub(super) arrivals: broadcast::Sender<Pair>,
}

impl Default for Stacks {
    fn default() -> Stacks {
        Stacks {
            kept: Mutex::default(),
            late: Mutex::default(),
            owners: Mutex::default(),
            arrivals: broadcast::channel(BEHIND).0,
        }
    }
}

/// By grant, and by our id of the session, which grows with time.
#[derive(Debug, Default)]
struct Kept {
    sessions: BTreeMap<(Arc<str>, Arc<str>), Arc<Session>>,
    bytes: usize,
}

/// Whom resources of a grant belong to.
#[derive(Debug, Default)]
struct Owners {
    servers: HashMap<(Arc<str>, Box<str>), Arc<str>>,
    bytes: usize,
}

/// One client's session with all servers of its grant.
#[derive(Debug)]
pub(crate) struct Session {
    /// Ours, for records.
    pub(crate) id: Arc<str>,
    pub(super) hello: Hello,
    members: Mutex<HashMap<Arc<str>, Arc<Member>>>,
    /// The last wish for a log level, for servers that are met later.
    level: Mutex<Option<Arc<str>>>,
}

/// How a client has introduced itself.
#[derive(Debug)]
pub(super) struct Hello {
    /// The message, as servers are sent it.
    pub(super) text: String,
    pub(super) id: Id,
    pub(super) revision: Revision,
}

/// A session's part at one server. Held while the two are introduced.
pub(super) type Member = tokio::sync::Mutex<Place>;

#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) opened: Option<Opened>,
    /// When the last attempt failed.
    pub(super) failed: Option<Instant>,
}

/// What client and server have agreed on.
#[derive(Debug, Clone)]
pub(super) struct Opened {
    pub(super) link: Weak<LinkState>,
    /// The session as a client of that server alone would be told it.
    pub(super) session: Option<HeaderValue>,
    pub(super) revision: HeaderValue,
}

impl Session {
    pub(super) fn new(gateway: &Inner, hello: Hello) -> Session {
        Session {
            id: new_id(gateway.settings.clock.now()).to_string().into(),
            hello,
            members: Mutex::default(),
            level: Mutex::default(),
        }
    }

    pub(super) fn member(&self, server: &Arc<str>) -> Arc<Member> {
        Arc::clone(held(&self.members).entry(Arc::clone(server)).or_default())
    }

    pub(super) fn level(&self) -> MutexGuard<'_, Option<Arc<str>>> {
        held(&self.level)
    }

    fn cost(&self) -> usize {
        self.hello.text.len() + OVERHEAD
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stacks {
    /// The session that `sealed` was handed out for, if it is this grant's and
    /// still known.
    pub(super) fn open(
        &self,
        gateway: &Inner,
        holder: &Holder,
        sealed: &str,
    ) -> Result<Arc<Session>, Refusal> {
        let opened = gateway.seal.open(Purpose::Stack, sealed);
        let [grant, id]: [String; 2] = opened.ok_or(Refusal::Session)?;
        let key = (Arc::from(grant), Arc::from(id));
        let session = held(&self.kept).sessions.get(&key).cloned();
        session.filter(|_| *key.0 == *holder.id()).ok_or(Refusal::Session)
    }

    /// Keeps a session, and gives the id to hand out for it, and the sessions of
    /// the same grant that were forgotten to make room.
    pub(super) fn keep(
        &self,
        gateway: &Inner,
        holder: &Holder,
        session: &Arc<Session>,
    ) -> Option<(HeaderValue, Vec<Arc<Session>>)> {
        let sealed = gateway.seal.seal(Purpose::Stack, &[holder.id(), &session.id])?;
        let grant = &holder.reference.id;
        let mut kept = held(&self.kept);
        kept.bytes += session.cost();
        kept.sessions.insert((Arc::clone(grant), Arc::clone(&session.id)), Arc::clone(session));
        let mut forgotten = Vec::new();
        while kept.is_full(grant) {
            forgotten.extend(kept.forget_one(grant));
        }
        Some((HeaderValue::try_from(sealed).ok()?, forgotten))
    }

    /// The session is over.
    pub(super) fn forget(&self, holder: &Holder, id: &Arc<str>) {
        held(&self.kept).remove(&(Arc::clone(&holder.reference.id), Arc::clone(id)));
    }

    /// Whether a server has lately kept this grant waiting.
    pub(super) fn is_late(&self, pair: &Pair) -> bool {
        held(&self.late).get(pair).is_some_and(|until| Instant::now() < *until)
    }

    /// A server keeps this grant waiting.
    pub(super) fn note_late(&self, pair: Pair) {
        let mut late = held(&self.late);
        if late.len() >= MOST_LATE {
            late.clear();
        }
        late.insert(pair, Instant::now() + LATE);
    }

    /// A server that may have been late is no longer; with an answer, those who
    /// missed it are told.
    pub(super) fn note_end(&self, pair: &Pair, has_answered: bool) {
        let was_late = held(&self.late).remove(pair).is_some();
        if was_late && has_answered {
            // Nobody may be listening.
            let _ = self.arrivals.send(pair.clone());
        }
    }

    /// The server that a resource, or a template of some, belongs to.
    pub(super) fn owner(&self, grant: &Arc<str>, uri: &str) -> Option<Arc<str>> {
        held(&self.owners).servers.get(&(Arc::clone(grant), uri.into())).cloned()
    }

    /// Remembers whom a resource belongs to.
    pub(super) fn note_owner(&self, (grant, server): &Pair, uri: &str) {
        let mut owners = held(&self.owners);
        let before = owners.servers.insert((Arc::clone(grant), uri.into()), Arc::clone(server));
        if before.is_none() {
            owners.bytes += uri.len() + 128;
        }
        if owners.bytes > MOST_OWNED {
            *owners = Owners::default();
        }
    }
}

impl Kept {
    fn remove(&mut self, key: &(Arc<str>, Arc<str>)) -> Option<Arc<Session>> {
        let session = self.sessions.remove(key)?;
        self.bytes = self.bytes.saturating_sub(session.cost());
        Some(session)
    }

    fn of<'k>(&'k self, grant: &Arc<str>) -> impl Iterator<Item = &'k (Arc<str>, Arc<str>)> {
        let (first, grant) = ((Arc::clone(grant), Arc::from("")), Arc::clone(grant));
        self.sessions.range(first..).map(|(key, _)| key).take_while(move |key| key.0 == grant)
    }

    fn is_full(&self, grant: &Arc<str>) -> bool {
        self.bytes > MOST_BYTES
            || (self.sessions.len() > MOST_OF_GRANT && self.of(grant).count() > MOST_OF_GRANT)
    }

    /// Forgets the oldest session of the grant that needs the room, and gives it;
    /// others' are taken only where it has none of its own.
    fn forget_one(&mut self, grant: &Arc<str>) -> Option<Arc<Session>> {
        let mut own = self.of(grant);
        let oldest = own.next().cloned().filter(|_| own.next().is_some());
        drop(own);
        if let Some(key) = oldest {
            return self.remove(&key);
        }
        let key = self.sessions.keys().min_by_key(|key| Arc::clone(&key.1)).cloned()?;
        self.remove(&key);
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sluice_wire::{mcp::Revision, rpc::Id};

    use super::{Hello, Kept, MOST_BYTES, MOST_OF_GRANT, OVERHEAD, Session, Stacks};

    fn session(id: &str, bytes: usize) -> Arc<Session> {
        let hello = Hello {
            text: "x".repeat(bytes),
            id: Id::Integer("0".into()),
            revision: Revision::V2025_11_25,
        };
        Arc::new(Session {
            id: id.into(),
            hello,
            members: std::sync::Mutex::default(),
            level: std::sync::Mutex::default(),
        })
    }

    fn put(kept: &mut Kept, grant: &str, id: &str, bytes: usize) {
        let session = session(id, bytes);
        let grant: Arc<str> = grant.into();
        kept.bytes += session.cost();
        kept.sessions.insert((Arc::clone(&grant), Arc::clone(&session.id)), session);
        while kept.is_full(&grant) {
            kept.forget_one(&grant);
        }
    }

    #[test]
    fn a_grant_that_needs_room_loses_its_own_oldest_sessions() {
        let mut kept = Kept::default();
        put(&mut kept, "a", "00000", 0);
        for number in 0..=MOST_OF_GRANT {
            put(&mut kept, "b", &format!("{number:05}"), 0);
        }
        assert_eq!(kept.of(&"a".into()).count(), 1);
        assert_eq!(kept.of(&"b".into()).count(), MOST_OF_GRANT);
        assert!(!kept.sessions.contains_key(&("b".into(), "00000".into())));
        put(&mut kept, "c", "99999", MOST_BYTES - OVERHEAD);
        assert_eq!(kept.sessions.len(), 1);
        assert_eq!(kept.bytes, MOST_BYTES);
    }

    #[tokio::test]
    async fn who_was_late_and_answers_is_announced() {
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
    fn owners_are_kept_within_bounds() {
        let stacks = Stacks::default();
        let pair = (Arc::from("alice"), Arc::from("notes"));
        stacks.note_owner(&pair, "a:1");
        assert_eq!(stacks.owner(&pair.0, "a:1").as_deref(), Some("notes"));
        assert_eq!(stacks.owner(&Arc::from("bob"), "a:1"), None);
        stacks.note_owner(&pair, &"x".repeat(super::MOST_OWNED));
        assert_eq!(stacks.owner(&pair.0, "a:1"), None);
    }
}
