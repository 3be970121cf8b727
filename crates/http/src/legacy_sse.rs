//! Adapter for servers of the oldest HTTP transport (HTTP+SSE, 2024-11-05), which
//! presents them as streamable HTTP.
//!
//! Such a server answers a GET with an event stream. Its first event names the URL for
//! messages, and all answers arrive on that stream. Here each session is one stream:
//! `initialize` opens it and returns a session id, a request is answered from the
//! stream, and a GET returns messages that belong to no request. A request without a
//! session gets a session for itself alone.
//!
//! The transport is detected as the protocol describes: a message is posted, and if
//! that is refused, a stream is requested.

mod answer;
mod dispatch;
mod endpoint;
mod exchange;
mod session;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use data_encoding::HEXLOWER;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use ring::rand::{SecureRandom as _, SystemRandom};
use sluice_expiring::{ExpiringMap, Limits};
use sluice_wire::mcp::{Era, Revision, is_lost_transport, is_unknown_transport};

use crate::{
    AnswerBody, HttpUpstream, Lease, Outdated, SendError,
    answer::{after_another, empty},
    headers::{REVISION, SESSION},
    protocol::HttpTransport,
};
use session::{OpenError, Session};
use tokio::time::Instant;

/// The maximum number of sessions at one server; beyond it, the one that was idle longest is
/// closed.
const MOST_SESSIONS: usize = 4096;
/// The prefix of session ids, so that none is ever sent to a server.
const PREFIX: &str = "sluice-sse-";

/// The sessions of one server, if it uses HTTP+SSE.
#[derive(Debug)]
pub(crate) struct LegacySse {
    sessions: Mutex<ExpiringMap<String, Kept>>,
}

/// A session, and what its client holds for it.
#[derive(Debug)]
struct Kept {
    session: Arc<Session>,
    _lease: Option<Lease>,
}

impl Default for LegacySse {
    fn default() -> LegacySse {
        let limits = Limits { entries: MOST_SESSIONS, ..Limits::NONE };
        LegacySse { sessions: Mutex::new(ExpiringMap::new(limits)) }
    }
}

impl LegacySse {
    fn sessions(&self) -> MutexGuard<'_, ExpiringMap<String, Kept>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: &str) -> Option<Arc<Session>> {
        let mut sessions = self.sessions();
        if sessions.get(id).is_some_and(|kept| kept.session.dispatcher.is_over()) {
            sessions.remove(id);
        }
        sessions.get(id).map(|kept| Arc::clone(&kept.session))
    }

    fn close(&self, id: &str) -> bool {
        self.sessions().remove(id).is_some()
    }

    /// Stores a session under an unguessable id; `None` if there is no room.
    fn keep(&self, session: Arc<Session>, lease: Option<Lease>) -> Option<String> {
        let mut random = [0; 16];
        SystemRandom::new().fill(&mut random).ok()?;
        let id = format!("{PREFIX}{}", HEXLOWER.encode(&random));
        let mut sessions = self.sessions();
        while sessions.evict_where(|_, kept| kept.session.dispatcher.is_over()).is_some() {}
        if !sessions.has_room(0) {
            // The map does not know when the last exchange ended, so the sessions are asked.
            let idle =
                |(id, kept): (&String, &Kept)| Some((kept.session.dispatcher.idle()?, id.clone()));
            let (_, oldest) = sessions.iter().filter_map(idle).max()?;
            sessions.remove(&oldest);
        }
        let now = Instant::now().into_std();
        sessions.try_insert(id.clone(), Kept { session, _lease: lease }, 0, now).ok()?;
        Some(id)
    }
}

/// Sends one streamable HTTP request to a server of either transport. Rare paths are boxed, to keep
/// the future of common ones small.
pub(crate) async fn send(
    server: &HttpUpstream,
    request: Box<Request<Bytes>>,
) -> Result<Response<AnswerBody>, SendError> {
    let named = request.headers().get(SESSION);
    if named.is_some_and(|id| id.as_bytes().starts_with(PREFIX.as_bytes())) {
        return Box::pin(in_session(server, *request)).await;
    }
    let is_new = named.is_none() && request.method() == Method::POST;
    let is_candidate = is_new && !is_modern(request.headers());
    match server.protocol.transport() {
        HttpTransport::LegacySse if is_candidate => {
            Box::pin(beginning(server, *request, None)).await
        }
        // The session belongs to another transport, so this server does not know it.
        HttpTransport::LegacySse if named.is_some() => Ok(empty(StatusCode::NOT_FOUND)),
        HttpTransport::LegacySse => Ok(answer::refuse_modern(request.method())),
        HttpTransport::Unknown if is_candidate => Box::pin(probe_and_post(server, *request)).await,
        _ => {
            let is_post = request.method() == Method::POST;
            let answer = server.send_directly(&request).await?;
            match answer.status() {
                status if status.is_success() && is_post => {
                    server.protocol.note_transport(HttpTransport::Streamable);
                }
                status if is_candidate && is_lost_transport(status.as_u16()) => {
                    server.protocol.forget(Outdated::Transport);
                }
                _ => {}
            }
            Ok(answer)
        }
    }
}

fn is_modern(headers: &HeaderMap) -> bool {
    let version = headers.get(REVISION).and_then(|value| value.to_str().ok());
    version.and_then(Revision::from_name).is_some_and(|revision| revision.era() == Era::Modern)
}

/// Posts a message to an unknown server. If the message is refused, this checks whether the server
/// uses HTTP+SSE.
async fn probe_and_post(
    server: &HttpUpstream,
    request: Request<Bytes>,
) -> Result<Response<AnswerBody>, SendError> {
    let mut again = Request::new(request.body().clone());
    again.extensions_mut().extend(request.extensions().clone());
    *again.method_mut() = Method::POST;
    *again.headers_mut() = request.headers().clone();
    let answer = server.send_directly(&request).await?;
    match answer.status() {
        status if status.is_success() => {
            server.protocol.note_transport(HttpTransport::Streamable);
            Ok(answer)
        }
        status if is_unknown_transport(status.as_u16()) => {
            beginning(server, again, Some(answer)).await.map_err(SendError::after_sending)
        }
        _ => Ok(answer),
    }
}

/// Opens a session for a message that has none. `refused` is the server's answer to the same
/// message over streamable HTTP.
async fn beginning(
    server: &HttpUpstream,
    request: Request<Bytes>,
    refused: Option<Response<AnswerBody>>,
) -> Result<Response<AnswerBody>, SendError> {
    let message = match exchange::Outgoing::read(request) {
        Ok(message) => message,
        Err(unreadable) => return Ok(refused.unwrap_or_else(|| unreadable.answer())),
    };
    if !message.is_request() {
        // A notification without a session has no effect.
        return Ok(refused.unwrap_or_else(|| empty(StatusCode::ACCEPTED)));
    }
    let is_hello = message.is_hello();
    let lease = message.lease();
    let session = match Session::open(server, message.headers(), !is_hello).await {
        Ok(session) => Arc::new(session),
        Err(error) => return not_old(server, message, refused, error).await,
    };
    server.protocol.note_transport(HttpTransport::LegacySse);
    if !is_hello {
        exchange::introduce(server, &session, message.headers()).await?;
        let (answer, _) = exchange::carry_out(server, session, message).await?;
        return Ok(if refused.is_some() { after_another(answer) } else { answer });
    }
    let (mut answer, is_begun) = exchange::carry_out(server, Arc::clone(&session), message).await?;
    if is_begun {
        let kept = server.legacy.keep(session, lease).and_then(|id| id.parse().ok());
        let Some(id) = kept else { return Ok(empty(StatusCode::SERVICE_UNAVAILABLE)) };
        answer.headers_mut().insert(SESSION, id);
    }
    Ok(answer)
}

/// Handles a failure to open a stream: the server does not use HTTP+SSE, or no longer.
async fn not_old(
    server: &HttpUpstream,
    message: exchange::Outgoing,
    refused: Option<Response<AnswerBody>>,
    error: OpenError,
) -> Result<Response<AnswerBody>, SendError> {
    server.protocol.forget(Outdated::Transport);
    match (refused, error) {
        (Some(refused), _) => Ok(refused),
        (None, OpenError::Send(error)) => Err(error),
        (None, OpenError::Other(_)) => server.send_directly(&message.into_request()).await,
    }
}

/// Handles a request in one of our sessions.
async fn in_session(
    server: &HttpUpstream,
    request: Request<Bytes>,
) -> Result<Response<AnswerBody>, SendError> {
    let id = request.headers().get(SESSION).and_then(|id| id.to_str().ok()).unwrap_or_default();
    let Some(session) = server.legacy.find(id) else {
        return Ok(empty(StatusCode::NOT_FOUND));
    };
    match *request.method() {
        Method::DELETE => {
            server.legacy.close(id);
            Ok(empty(StatusCode::OK))
        }
        Method::GET => Ok(answer::listen(&session)),
        Method::POST => {
            let id = id.to_owned();
            let message = match exchange::Outgoing::read(request) {
                Ok(message) => message,
                Err(unreadable) => return Ok(unreadable.answer()),
            };
            let (answer, _) = exchange::carry_out(server, session, message).await?;
            if answer.status() == StatusCode::NOT_FOUND {
                server.legacy.close(&id);
            }
            Ok(answer)
        }
        _ => Ok(answer::refuse_modern(request.method())),
    }
}
