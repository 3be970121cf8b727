//! Streams of their own: what a server has to say besides its answers, in the
//! legacy era by GET; and the end of a session.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, header};
use sluice_http::{
    headers::{LAST_EVENT, SESSION, is_event_stream},
    sse::encode_message,
};
use sluice_wire::mcp::Door;
use tokio::sync::mpsc;

use crate::{
    answer::{EventStream, read_refusal},
    body::{ClientBody, Cut},
    decide,
    forward::{Outgoing, forward},
    gateway::{CLOSING, Inner, Standing},
    grants::Holder,
    refusal::Refusal,
    repair, response,
    session::Session,
    spoken,
    visit::Visit,
};

/// How often a stream says that it is alive, which also finds out who is gone.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(25);
/// Messages on their way to a client that reads slowly.
pub(crate) const WAITING: usize = 8;

pub(crate) const LIST_CHANGED: &str = "notifications/tools/list_changed";

/// Settles the session of a request without a message. In the modern era there
/// is neither.
pub(crate) fn settled(mut visit: Visit) -> Result<Visit, Refusal> {
    visit.revision = spoken::without_message(&visit.headers)?;
    let sealed = visit.headers.get(SESSION).and_then(|value| value.to_str().ok());
    if let Some(sealed) = sealed {
        visit.session =
            Some(Session::open(&visit.gateway, &visit.holder, visit.server_name(), sealed)?);
    }
    Ok(visit)
}

/// Opens the stream of a session.
pub(crate) async fn get(visit: Visit) -> Result<Response<ClientBody>, Refusal> {
    let visit = Arc::new(settled(visit)?);
    if !accepts_events(&visit.headers) {
        return Err(Refusal::NotAcceptable);
    }
    let replays = visit.headers.contains_key(LAST_EVENT);
    if replays && visit.session.is_none() {
        // Events of another grant could come back.
        return Err(Refusal::Request("`Last-Event-ID` means something only in a session".into()));
    }
    let standing = visit.gateway.standing()?;
    let (visit, stream) = opened(&visit, replays).await?;
    Ok(response::event_stream(follow(visit, standing, stream)))
}

/// Opens a stream at the server, in the session of the visit if it has one. If
/// the server has forgotten that, it is begun again where it can be.
pub(crate) async fn opened(
    visit: &Arc<Visit>,
    replays: bool,
) -> Result<(Arc<Visit>, EventStream), Refusal> {
    let first = asked(visit, replays).await;
    // What was to be repeated is forgotten too.
    if replays || !matches!(first, Err(Refusal::Session)) {
        return first.map(|stream| (Arc::clone(visit), stream));
    }
    let session = repair::repaired(visit).await.ok_or(Refusal::Session)?;
    let again = Arc::new(Visit { session: Some(session), ..Visit::clone(visit) });
    let stream = asked(&again, replays).await?;
    Ok((again, stream))
}

async fn asked(visit: &Arc<Visit>, replays: bool) -> Result<EventStream, Refusal> {
    let permit = decide::open(Door::Always).ok_or(Refusal::Internal)?;
    let outgoing = Outgoing { method: Method::GET, ..Outgoing::default() };
    let mut answer = forward(visit, permit, outgoing).await?.answer;
    if repair::is_suspicious(visit, answer.status()) {
        let (examined, is_lost) = repair::examined(visit, answer, None).await;
        if is_lost {
            return Err(Refusal::Session);
        }
        answer = examined;
    }
    let (parts, body) = answer.into_parts();
    let is_stream = is_event_stream(&parts.headers);
    match parts.status {
        StatusCode::OK if is_stream => Ok(EventStream::standing(visit, body, replays)),
        StatusCode::METHOD_NOT_ALLOWED => Err(Refusal::MethodNotAllowed),
        _ => Err(read_refusal(visit, &parts, body).await),
    }
}

pub(crate) fn accepts_events(headers: &HeaderMap) -> bool {
    headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        value.contains("text/event-stream") || value.contains("text/*") || value.contains("*/*")
    })
}

/// Ends a session.
pub(crate) async fn delete(visit: Visit) -> Result<Response<ClientBody>, Refusal> {
    let visit = settled(visit)?;
    if visit.session.is_none() {
        return Err(Refusal::Request("there is no session to end: send `Mcp-Session-Id`".into()));
    }
    end_session(&visit).await
}

/// Tells the server that the session of the visit is over.
pub(crate) async fn end_session(visit: &Visit) -> Result<Response<ClientBody>, Refusal> {
    let permit = decide::open(Door::Always).ok_or(Refusal::Internal)?;
    let outgoing = Outgoing { method: Method::DELETE, ..Outgoing::default() };
    if let Some(session) = &visit.session {
        visit.gateway.repairs.forget(&session.id);
    }
    let (parts, body) = forward(visit, permit, outgoing).await?.answer.into_parts();
    match parts.status {
        StatusCode::METHOD_NOT_ALLOWED => Err(Refusal::MethodNotAllowed),
        StatusCode::NOT_FOUND => Err(Refusal::Session),
        status if status.is_success() => Ok(response::empty(status)),
        _ => Err(read_refusal(visit, &parts, body).await),
    }
}

/// Follows a stream, and besides tells the client when what it may see changes.
fn follow(visit: Arc<Visit>, standing: Standing, stream: EventStream) -> ClientBody {
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::spawn(pump(visit, standing, stream, sender));
    ClientBody::channel(receiver)
}

async fn pump(
    visit: Arc<Visit>,
    standing: Standing,
    mut stream: EventStream,
    sender: mpsc::Sender<Result<Bytes, Cut>>,
) {
    let mut watcher = Watcher::new(visit);
    loop {
        let send = tokio::select! {
            next = stream.next() => match next {
                Some(next) => Some(next),
                None => break,
            },
            news = watcher.news() => match news {
                Some(News { visit, is_changed }) => {
                    stream.renew(visit);
                    is_changed.then(|| Ok(list_changed()))
                }
                None => break,
            },
            () = tokio::time::sleep(KEEP_ALIVE) => Some(Ok(Bytes::from_static(b":\n\n"))),
            () = sender.closed() => break,
        };
        if !handed_over(&sender, send).await {
            break;
        }
    }
    drop(standing);
}

/// Says that a client sees other tools now.
pub(crate) fn list_changed() -> Bytes {
    encode_message(&format!(r#"{{"jsonrpc":"2.0","method":"{LIST_CHANGED}"}}"#))
}

/// Sends a client what there is to send; whether the stream goes on.
pub(crate) async fn handed_over(
    sender: &mpsc::Sender<Result<Bytes, Cut>>,
    send: Option<Result<Bytes, Cut>>,
) -> bool {
    let Some(send) = send else { return true };
    let is_cut = send.is_err();
    sender.send(send).await.is_ok() && !is_cut
}

/// Notices when what is in force changes for one who is connected.
#[derive(Debug)]
pub(crate) struct Watcher {
    visit: Arc<Visit>,
    view: crate::visit::View,
    changes: tokio::sync::watch::Receiver<u64>,
}

/// The rules have changed.
pub(crate) struct News {
    pub(crate) visit: Arc<Visit>,
    /// Whether the caller sees other tools than before.
    pub(crate) is_changed: bool,
}

impl Watcher {
    pub(crate) fn new(visit: Arc<Visit>) -> Watcher {
        let changes = visit.gateway.changes.subscribe();
        let view = visit.view();
        Watcher { visit, view, changes }
    }

    /// Waits for the next change; `None` once the caller may no longer be here.
    pub(crate) async fn news(&mut self) -> Option<News> {
        tokio::select! {
            changed = self.changes.changed() => changed.ok()?,
            () = expired(&self.visit.gateway, &self.visit.holder) => {}
        }
        if *self.changes.borrow_and_update() == CLOSING {
            return None;
        }
        let visit = Arc::new(self.visit.renewed()?);
        let view = visit.view();
        let is_changed = self.view.differs(&view);
        self.visit = Arc::clone(&visit);
        self.view = view;
        Some(News { visit, is_changed })
    }
}

/// Waits for the end of a grant, if it has one.
pub(crate) async fn expired(gateway: &Inner, holder: &Holder) {
    let Some(end) = holder.expires_at else { return std::future::pending().await };
    let left = end.as_millis().saturating_sub(gateway.settings.clock.now().as_millis());
    tokio::time::sleep(Duration::from_millis(u64::try_from(left).unwrap_or(0))).await;
}
