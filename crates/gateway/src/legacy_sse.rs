//! The oldest HTTP transport (2024-11-05) for clients: one stream on which all
//! answers come, and a place to post messages to, which the stream begins with.
//!
//! A message goes the way of every other; only where its answer is put differs.

mod follow;
mod message;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response};
use sluice_store::new_id;
use sluice_upstream::headers::{REVISION, SESSION};
use sluice_wire::rpc::Id;
use tokio::sync::{Notify, Semaphore, mpsc};

use crate::{
    answer::{block, event_stream},
    body::{ClientBody, Cut},
    gateway::Standing,
    refusal::Refusal,
    seal::Purpose,
    session::Session,
    stream::{
        Channel, KEEP_ALIVE, News, WAITING, Watcher, accepts_events, end_session, handed_over,
        list_changed,
    },
    visit::Visit,
};

pub(crate) use message::{Delivery, begin_following, message};

/// Requests of one client that may be under way at a time: it need not keep a
/// connection open for each.
const MOST_REQUESTS: usize = 64;

/// Cancelled requests of one client that are remembered.
const MOST_CANCELLED: usize = 1024;

/// The clients that are connected, by the id of their stream.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    connected: Mutex<HashMap<Box<str>, Arc<Client>>>,
}

/// One client and its stream.
#[derive(Debug)]
pub(crate) struct Client {
    /// To the stream.
    pub(crate) sender: mpsc::Sender<Bytes>,
    pub(crate) room: Arc<Semaphore>,
    agreed: Mutex<Agreed>,
    /// Ids, as JSON, of requests that it has cancelled and that are still under way.
    cancelled: Mutex<HashSet<String>>,
    /// The stream is to end.
    pub(crate) ended: Notify,
}

/// What client and server have agreed on, which clients of this transport do not
/// repeat with each message.
#[derive(Debug, Clone, Default)]
struct Agreed {
    /// The session, as a client of the later transport would be told it.
    session: Option<HeaderValue>,
    revision: Option<HeaderValue>,
    /// Whether somebody follows the server's own stream for this client.
    is_followed: bool,
}

impl Clients {
    fn connected(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Client>>> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client that `sealed` was handed out to, if it is this grant's.
    fn find(visit: &Visit, sealed: &str) -> Option<Arc<Client>> {
        let [grant, server, id] = visit.gateway.seal.open(Purpose::LegacyStream, sealed)?;
        let is_own = grant == visit.holder.id() && server == visit.server_name();
        let connected = visit.gateway.legacy_clients.connected();
        connected.get(&*id).filter(|_| is_own).cloned()
    }
}

impl Client {
    /// One that is told things by `sender` and may ask so many at a time.
    pub(crate) fn new(sender: mpsc::Sender<Bytes>, room: usize) -> Client {
        Client {
            sender,
            room: Arc::new(Semaphore::new(room)),
            agreed: Mutex::default(),
            cancelled: Mutex::default(),
            ended: Notify::new(),
        }
    }

    /// Tells the client something, if it is still there.
    pub(crate) async fn say(&self, message: Bytes) {
        let _ = self.sender.send(message).await;
    }

    /// Ends its session at the server, if it has one.
    pub(crate) fn ending(&self, mut visit: Visit) -> Option<impl Future<Output = ()> + use<>> {
        let Agreed { session, revision, .. } = self.agreed().clone();
        let session = session?;
        visit.headers.extend(revision.map(|value| (REVISION, value)));
        Some(async move {
            let sealed = session.to_str().unwrap_or_default();
            let own = Session::open(&visit.gateway, &visit.holder, visit.server_name(), sealed);
            visit.session = own.ok();
            // Nothing depends on it: a session that nobody uses expires.
            if visit.session.is_some() {
                let _ = end_session(&visit).await;
            }
        })
    }

    fn cancelled(&self) -> MutexGuard<'_, HashSet<String>> {
        self.cancelled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the client expects no answer to a request any more.
    fn cancel(&self, id: &Id) {
        let mut cancelled = self.cancelled();
        // Ids of requests that are not under way are never taken out.
        if cancelled.len() < MOST_CANCELLED {
            cancelled.insert(id.to_json());
        }
    }

    fn agreed(&self) -> MutexGuard<'_, Agreed> {
        self.agreed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what was agreed on into the headers of a message.
    pub(crate) fn complete(&self, headers: &mut HeaderMap) {
        let agreed = self.agreed().clone();
        headers.remove(SESSION);
        if let Some(session) = agreed.session {
            headers.insert(SESSION, session);
        }
        if let Some(revision) = agreed.revision {
            headers.entry(REVISION).or_insert(revision);
        }
    }
}

/// Opens a client's stream.
pub(crate) fn open(mut visit: Visit) -> Result<Response<ClientBody>, Refusal> {
    if !accepts_events(&visit.headers) {
        return Err(Refusal::NotAcceptable);
    }
    let standing = visit.gateway.standing()?;
    // Of the request itself nothing is needed any more, and streams are many.
    visit.headers = HeaderMap::new();
    let visit = Arc::new(visit);
    let id = new_id(visit.at).to_string();
    let name = visit.server_name();
    let sealed = visit.gateway.seal.seal(Purpose::LegacyStream, &[visit.holder.id(), name, &id]);
    let sealed = sealed.ok_or(Refusal::Internal)?;
    let first = format!("event: endpoint\ndata: /mcp/{name}/messages?session={sealed}\n\n");
    let (sender, messages) = mpsc::channel(WAITING);
    let client = Arc::new(Client::new(sender, MOST_REQUESTS));
    let connected = Connected { id: id.into(), visit, client: Arc::clone(&client) };
    connected.visit.gateway.legacy_clients.connected().insert(connected.id.clone(), client);
    let (body, receiver) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        if body.send(Ok(first.into())).await.is_ok() {
            connected.run(messages, &body, standing).await;
        }
    });
    Ok(event_stream(ClientBody::stream(Channel(receiver))))
}

/// A client as long as its stream stands; dropped, it can no longer be found, and
/// its session is over.
struct Connected {
    id: Box<str>,
    visit: Arc<Visit>,
    client: Arc<Client>,
}

impl Connected {
    async fn run(
        self,
        mut messages: mpsc::Receiver<Bytes>,
        body: &mpsc::Sender<Result<Bytes, Cut>>,
        standing: Standing,
    ) {
        let mut watcher = Watcher::new(Arc::clone(&self.visit));
        loop {
            let send = tokio::select! {
                message = messages.recv() => message.map(Ok),
                news = watcher.news() => match news {
                    Some(News { is_changed, .. }) => is_changed.then(|| Ok(list_changed())),
                    None => break,
                },
                () = tokio::time::sleep(KEEP_ALIVE) => Some(Ok(Bytes::from_static(b":\n\n"))),
                () = self.client.ended.notified() => break,
                () = body.closed() => break,
            };
            if !handed_over(body, send).await {
                break;
            }
        }
        // What was said before the end is still worth hearing.
        while let Ok(message) = messages.try_recv() {
            if !handed_over(body, Some(Ok(message))).await {
                break;
            }
        }
        drop(standing);
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.visit.gateway.legacy_clients.connected().remove(&self.id);
        let ending = self.client.ending(Visit::clone(&self.visit));
        if let (Some(ending), Ok(runtime)) = (ending, tokio::runtime::Handle::try_current()) {
            runtime.spawn(ending);
        }
    }
}

/// A message as an event of this transport.
pub(crate) fn said(message: &str) -> Bytes {
    block(Some(&MESSAGE), message)
}

static MESSAGE: std::sync::LazyLock<sluice_upstream::sse::Event> = std::sync::LazyLock::new(|| {
    sluice_upstream::sse::Event { name: Some("message".into()), ..Default::default() }
});
