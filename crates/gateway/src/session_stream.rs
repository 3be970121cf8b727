//! GET and DELETE of a legacy session: GET opens the stream on which the server sends
//! notifications and requests, DELETE ends the session.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use sluice_http::{
    headers::{LAST_EVENT, SESSION, is_event_stream},
    sse::encode_message,
};
use tokio::sync::mpsc;

use crate::{
    answer::{EventStream, read_refusal},
    body::{ClientBody, Cut, Taken, hand_over},
    exchange::Exchange,
    gateway::Inner,
    grants::Holder,
    live_config::Changes,
    protocol_version,
    refusal::Refusal,
    repair,
    reserve::Permitted,
    response,
    sealed_ids::open_event,
    send::forward,
    session::Session,
    shares::StreamPlace,
};

/// How often a keep-alive is sent, which also detects clients that are gone.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(25);
/// Messages that may be queued for a slow client.
pub(crate) const WAITING: usize = 8;

pub(crate) const LIST_CHANGED: &str = "notifications/tools/list_changed";

/// Determines the session of a request without a message. The modern era has neither such
/// requests nor sessions.
pub(crate) fn identify(mut exchange: Exchange) -> Result<Exchange, Refusal> {
    exchange.revision = protocol_version::without_message(&exchange.headers)?;
    let sealed = exchange.headers.get(SESSION).and_then(|value| value.to_str().ok());
    if let Some(sealed) = sealed {
        exchange.session = Some(Session::open(
            &exchange.gateway,
            &exchange.holder,
            exchange.server_name(),
            sealed,
        )?);
    }
    Ok(exchange)
}

/// Opens the stream of a session.
pub(crate) async fn get(exchange: Exchange) -> Result<Response<ClientBody>, Refusal> {
    let mut exchange = identify(exchange)?;
    if !accepts_events(&exchange.headers) {
        return Err(Refusal::NotAcceptable);
    }
    if let Some(last) = exchange.headers.get(LAST_EVENT).filter(|_| !exchange.is_part) {
        exchange.resumes_after = Some(own_event_id(&exchange, last)?);
    }
    let place = StreamPlace::take_connected(&exchange.gateway, &exchange.holder)?;
    let (exchange, stream) = open_stream(&Arc::new(exchange)).await?;
    Ok(response::event_stream(follow(exchange, place, stream)))
}

/// The server's own id of the event that a client names. A server may have one event store
/// for all sessions, and would replay what another grant was told.
fn own_event_id(exchange: &Exchange, last: &HeaderValue) -> Result<HeaderValue, Refusal> {
    if exchange.session.is_none() {
        return Err(Refusal::Request("`Last-Event-ID` means something only in a session".into()));
    }
    let own = last.to_str().ok().and_then(|last| open_event(exchange, last));
    own.ok_or_else(|| Refusal::Request("`Last-Event-ID` was not given out in this session".into()))
}

/// Opens a stream at the server, in the session of the exchange if it has one. If the
/// server has lost the session, it is re-established if possible.
pub(crate) async fn open_stream(
    exchange: &Arc<Exchange>,
) -> Result<(Arc<Exchange>, EventStream), Refusal> {
    let replays = exchange.resumes_after.is_some();
    let first = open_once(exchange, replays).await;
    // A lost session cannot replay its events either.
    if replays || !matches!(first, Err(Refusal::Session)) {
        return first.map(|stream| (Arc::clone(exchange), stream));
    }
    let session = repair::repair(exchange).await.ok_or(Refusal::Session)?;
    let again = Arc::new(Exchange { session: Some(session), ..Exchange::clone(exchange) });
    let stream = open_once(&again, replays).await?;
    Ok((again, stream))
}

async fn open_once(exchange: &Arc<Exchange>, replays: bool) -> Result<EventStream, Refusal> {
    let mut answer = forward(exchange, Permitted::open_stream()).await?.answer;
    if repair::is_suspicious(exchange, answer.status())
        && repair::is_session_lost(exchange, &mut answer, None).await
    {
        return Err(Refusal::Session);
    }
    let (parts, body) = answer.into_parts();
    let is_stream = is_event_stream(&parts.headers);
    match parts.status {
        StatusCode::OK if is_stream => Ok(EventStream::standing(exchange, body, replays)),
        StatusCode::METHOD_NOT_ALLOWED => Err(Refusal::MethodNotAllowed),
        _ => Err(read_refusal(exchange, &parts, body).await),
    }
}

pub(crate) fn accepts_events(headers: &HeaderMap) -> bool {
    headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        value.contains("text/event-stream") || value.contains("text/*") || value.contains("*/*")
    })
}

/// Ends a session.
pub(crate) async fn delete(exchange: Exchange) -> Result<Response<ClientBody>, Refusal> {
    let exchange = identify(exchange)?;
    if exchange.session.is_none() {
        return Err(Refusal::Request("there is no session to end: send `Mcp-Session-Id`".into()));
    }
    end_session(&exchange).await
}

/// Ends the session of the exchange at the server.
pub(crate) async fn end_session(exchange: &Exchange) -> Result<Response<ClientBody>, Refusal> {
    if let Some(session) = &exchange.session {
        exchange.gateway.sessions.repairs.forget(&session.id);
    }
    let (parts, body) = forward(exchange, Permitted::delete_session()).await?.answer.into_parts();
    match parts.status {
        StatusCode::METHOD_NOT_ALLOWED => Err(Refusal::MethodNotAllowed),
        StatusCode::NOT_FOUND => Err(Refusal::Session),
        status if status.is_success() => Ok(response::empty(status)),
        _ => Err(read_refusal(exchange, &parts, body).await),
    }
}

/// Relays a stream, and notifies the client when the tools it may see change.
fn follow(exchange: Arc<Exchange>, place: StreamPlace, stream: EventStream) -> ClientBody {
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::spawn(pump(exchange, place, stream, sender));
    ClientBody::standing(receiver)
}

async fn pump(
    exchange: Arc<Exchange>,
    place: StreamPlace,
    mut stream: EventStream,
    sender: mpsc::Sender<Result<Bytes, Cut>>,
) {
    let unread = exchange.gateway.settings.times.unread;
    let mut watcher = Watcher::new(exchange);
    loop {
        let send = tokio::select! {
            next = stream.next() => match next {
                Some(next) => Some(next),
                None => break,
            },
            news = watcher.news() => match news {
                Some(News { exchange, is_changed }) => {
                    stream.renew(exchange);
                    is_changed.then(|| Ok(list_changed()))
                }
                None => break,
            },
            () = tokio::time::sleep(KEEP_ALIVE) => Some(Ok(Bytes::from_static(b":\n\n"))),
            () = sender.closed() => break,
        };
        if !pass_on(&sender, send, unread).await {
            break;
        }
    }
    drop(place);
}

/// The notification that a client's tools have changed.
pub(crate) fn list_changed() -> Bytes {
    encode_message(&format!(r#"{{"jsonrpc":"2.0","method":"{LIST_CHANGED}"}}"#))
}

/// Sends bytes to a client, if there are any; returns whether the stream continues.
pub(crate) async fn pass_on(
    sender: &mpsc::Sender<Result<Bytes, Cut>>,
    send: Option<Result<Bytes, Cut>>,
    unread: Duration,
) -> bool {
    let Some(send) = send else { return true };
    hand_over(sender, send, unread).await == Taken::Whole
}

/// Watches the configuration for changes that affect a connected caller.
#[derive(Debug)]
pub(crate) struct Watcher {
    exchange: Arc<Exchange>,
    view: crate::exchange::ToolView,
    changes: Changes,
}

/// The configuration has changed.
pub(crate) struct News {
    pub(crate) exchange: Arc<Exchange>,
    /// Whether the caller sees other tools than before.
    pub(crate) is_changed: bool,
}

impl Watcher {
    pub(crate) fn new(exchange: Arc<Exchange>) -> Watcher {
        let changes = exchange.gateway.config.changes();
        let view = exchange.view();
        Watcher { exchange, view, changes }
    }

    /// Waits for the next change; `None` once the caller has no access any more.
    pub(crate) async fn news(&mut self) -> Option<News> {
        tokio::select! {
            changed = self.changes.next() => changed?,
            () = wait_for_expiry(&self.exchange.gateway, &self.exchange.holder) => {}
        }
        if self.changes.is_closing() {
            return None;
        }
        let exchange = Arc::new(self.exchange.renew()?);
        let view = exchange.view();
        let is_changed = self.view.differs(&view);
        self.exchange = Arc::clone(&exchange);
        self.view = view;
        Some(News { exchange, is_changed })
    }
}

/// Waits until a grant expires; for ever if it does not.
pub(crate) async fn wait_for_expiry(gateway: &Inner, holder: &Holder) {
    let Some(end) = holder.expires_at else { return std::future::pending().await };
    let left = end.as_millis().saturating_sub(gateway.settings.clock.now().as_millis());
    tokio::time::sleep(Duration::from_millis(u64::try_from(left).unwrap_or(0))).await;
}
