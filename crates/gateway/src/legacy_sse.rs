//! The HTTP+SSE transport of 2024-11-05 for clients: one event stream that carries all
//! answers, and an endpoint for messages, which the first event of the stream names.
//!
//! A message follows the same path as on every other transport (`call`); only its answer is
//! delivered differently.
//!
//! The clients are in no `ExpiringMap`: an entry lives exactly as long as its stream, and the
//! limit on open connections bounds their number.

mod follow;
mod message;
mod target;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response};
use sluice_http::{
    headers::{REVISION, SESSION},
    sse::{Decoder, Event},
};
use sluice_store::new_id;
use sluice_wire::rpc::Id;
use tokio::sync::{Notify, Semaphore, mpsc};

use crate::{
    body::{ClientBody, Cut},
    budget::Budget,
    gateway::Inner,
    grants::Holder,
    refusal::Refusal,
    response,
    seal::Purpose,
    session_stream::{KEEP_ALIVE, WAITING, accepts_events, list_changed, pass_on},
    shares::StreamPlace,
};
use target::{Target, Watch};

pub(crate) use message::{Delivery, begin_following, message};

/// Requests of one client that may be in progress at a time: a client need not keep a
/// connection open for each.
const MOST_REQUESTS: usize = 64;

/// Cancelled requests of one client that are remembered.
const MOST_CANCELLED: usize = 1024;

/// The connected clients, by the id of their stream.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    connected: Mutex<HashMap<Box<str>, Arc<Client>>>,
}

/// One client and its stream.
#[derive(Debug)]
pub(crate) struct Client {
    /// Sends to the client's stream.
    pub(crate) sender: mpsc::Sender<Bytes>,
    /// What its queued messages may take.
    bytes: Budget,
    grant: Arc<str>,
    pub(crate) room: Arc<Semaphore>,
    agreed: Mutex<Agreed>,
    /// Ids, as JSON, of requests that the client cancelled and that are still in
    /// progress.
    cancelled: Mutex<HashSet<String>>,
    /// Notified when the stream is to end.
    pub(crate) ended: Notify,
}

/// The session and protocol version that client and server agreed on. Clients of this
/// transport do not repeat them with each message.
#[derive(Debug, Clone, Default)]
struct Agreed {
    /// The session id, as a client of the later transport would get it.
    session: Option<HeaderValue>,
    revision: Option<HeaderValue>,
    /// Whether the server's own stream is already relayed to this client.
    is_followed: bool,
}

impl Clients {
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Client>>> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client that `sealed` was issued to, if it belongs to this grant.
    fn find(target: &Target, sealed: &str) -> Option<Arc<Client>> {
        let [grant, server, id] = target.gateway().keys.seal.open(Purpose::LegacyStream, sealed)?;
        let is_own = grant == target.holder().id() && server == target.name();
        let connected = target.gateway().sessions.legacy_clients.lock();
        connected.get(&*id).filter(|_| is_own).cloned()
    }
}

impl Client {
    /// A client of a grant that is sent messages through `sender` and may have `room`
    /// requests in progress.
    pub(crate) fn new(
        gateway: &Inner,
        holder: &Holder,
        sender: mpsc::Sender<Bytes>,
        room: usize,
    ) -> Client {
        Client {
            sender,
            bytes: gateway.bytes.clone(),
            grant: Arc::clone(&holder.reference.id),
            room: Arc::new(Semaphore::new(room)),
            agreed: Mutex::default(),
            cancelled: Mutex::default(),
            ended: Notify::new(),
        }
    }

    /// Sends a message to the client, if it is still connected. Fails if the client has
    /// left too many bytes unread.
    pub(crate) async fn say(&self, message: Bytes) -> Result<(), Refusal> {
        let message = self.bytes.hold(&self.grant, message)?;
        let _ = self.sender.send(message).await;
        Ok(())
    }

    /// Passes on the messages in a piece of a stream; `None` if the client is gone.
    /// Events without a message, which only carry an id for resuming, are dropped: this
    /// transport cannot resume a stream.
    pub(crate) async fn pass_on(&self, piece: &[u8]) -> Option<()> {
        let mut messages = Vec::new();
        Decoder::new(piece.len())
            .push(piece, |event| messages.extend(event.into_message()))
            .ok()?;
        for message in messages {
            let message = self.bytes.hold(&self.grant, encode_event(&message)).ok()?;
            self.sender.send(message).await.ok()?;
        }
        Some(())
    }

    /// Ends its session at the server, if it has one.
    pub(crate) fn ending(&self, target: Target) -> Option<impl Future<Output = ()> + use<>> {
        let agreed = self.lock_agreed().clone();
        target.end(agreed)
    }

    fn lock_cancelled(&self) -> MutexGuard<'_, HashSet<String>> {
        self.cancelled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the client no longer expects an answer to a request.
    fn cancel(&self, id: &Id) {
        let mut cancelled = self.lock_cancelled();
        // The ids of requests that have already ended are never removed.
        if cancelled.len() < MOST_CANCELLED {
            cancelled.insert(id.to_json());
        }
    }

    fn lock_agreed(&self) -> MutexGuard<'_, Agreed> {
        self.agreed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the agreed session and protocol version to the headers of a message.
    pub(crate) fn complete(&self, headers: &mut HeaderMap) {
        let agreed = self.lock_agreed().clone();
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
pub(crate) fn open(target: impl Into<Target>) -> Result<Response<ClientBody>, Refusal> {
    let mut target = target.into();
    if !accepts_events(target.headers()) {
        return Err(Refusal::NotAcceptable);
    }
    let gateway = Arc::clone(target.gateway());
    let place = StreamPlace::take_connected(&gateway, target.holder())?;
    // The headers of the request are no longer needed, and there may be many streams.
    *target.headers_mut() = HeaderMap::new();
    let id = new_id(target.at()).to_string();
    let parts = [target.holder().id(), target.name(), &id];
    let sealed = gateway.keys.seal.seal(Purpose::LegacyStream, &parts).ok_or(Refusal::Internal)?;
    let path = target.messages_path();
    let first = format!("event: endpoint\ndata: {path}?session={sealed}\n\n");
    let (sender, messages) = mpsc::channel(WAITING);
    let client = Arc::new(Client::new(&gateway, target.holder(), sender, MOST_REQUESTS));
    let target = target.drop_servers();
    let connected = Connected { id: id.into(), target, client: Arc::clone(&client) };
    gateway.sessions.legacy_clients.lock().insert(connected.id.clone(), client);
    let (body, receiver) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        if body.send(Ok(first.into())).await.is_ok() {
            connected.run(messages, &body, place).await;
        }
    });
    Ok(response::event_stream(ClientBody::standing(receiver)))
}

/// A client while its stream is open. When this is dropped, the client can no longer be
/// found and its session ends.
struct Connected {
    id: Box<str>,
    target: Target,
    client: Arc<Client>,
}

impl Connected {
    async fn run(
        self,
        mut messages: mpsc::Receiver<Bytes>,
        body: &mpsc::Sender<Result<Bytes, Cut>>,
        place: StreamPlace,
    ) {
        let unread = self.target.gateway().settings.times.unread;
        let mut watch = Watch::new(&self.target);
        loop {
            let send = tokio::select! {
                message = messages.recv() => message.map(Ok),
                change = watch.change() => match change {
                    Some(()) => Some(Ok(list_changed())),
                    None => break,
                },
                () = tokio::time::sleep(KEEP_ALIVE) => Some(Ok(Bytes::from_static(b":\n\n"))),
                () = self.client.ended.notified() => break,
                () = body.closed() => break,
            };
            if !pass_on(body, send, unread).await {
                break;
            }
        }
        // Messages that were queued before the end are still delivered.
        while let Ok(message) = messages.try_recv() {
            if !pass_on(body, Some(Ok(message)), unread).await {
                break;
            }
        }
        drop(place);
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.target.gateway().sessions.legacy_clients.lock().remove(&self.id);
        let ending = self.client.ending(self.target.clone());
        if let (Some(ending), Ok(runtime)) = (ending, tokio::runtime::Handle::try_current()) {
            runtime.spawn(ending);
        }
    }
}

/// A message as an event of this transport.
pub(crate) fn encode_event(message: &str) -> Bytes {
    Event::message(message).encode()
}
