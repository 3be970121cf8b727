//! One session with an HTTP+SSE server: its event stream, and the messages posted to it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::BodyExt as _;
use sluice_wire::json::{Bounds, LoneSurrogates};
use tokio::task::JoinHandle;

use super::{
    dispatch::{Dispatcher, SseDelivery},
    endpoint::endpoint,
};
use crate::{
    AnswerBody, HttpUpstream, SendError,
    headers::{EVENT_STREAM, LAST_EVENT, SESSION, is_event_stream},
    sse::{Decoder, Event},
};

/// The largest message in bytes. Settings limit again what a client may be sent.
const MOST_MESSAGE: usize = 16 << 20;
/// How long a server may take to send its endpoint URL.
const ENDPOINT_TIMEOUT: Duration = Duration::from_secs(5);
/// The time limit for posting a message.
const POSTING: Duration = Duration::from_mins(1);
/// A session is closed after being idle for this long.
const IDLE: Duration = Duration::from_mins(30);
/// How often idle sessions are looked for.
const LOOK: Duration = Duration::from_mins(1);

/// Why the stream could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum OpenError {
    #[error(transparent)]
    Send(#[from] SendError),
    /// The server does not use the older transport.
    #[error("there is no old server: {0}")]
    Other(String),
}

/// A stream that stays open until this is dropped.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) dispatcher: Arc<Dispatcher>,
    endpoint: Uri,
    reader: JoinHandle<()>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.reader.abort();
        self.dispatcher.end("the session was closed");
    }
}

/// The unread part of a stream.
struct Incoming {
    body: AnswerBody,
    decoder: Decoder,
    /// Events that arrived with the first one.
    ahead: Vec<Event>,
}

impl Session {
    /// Opens a stream, and reads its endpoint URL.
    pub(super) async fn open(
        server: &HttpUpstream,
        headers: &HeaderMap,
        is_passing: bool,
    ) -> Result<Session, OpenError> {
        let opened = tokio::time::timeout(ENDPOINT_TIMEOUT, open_stream(server, headers)).await;
        let late = |_| OpenError::Other("it does not say where messages go".into());
        let (named, incoming) = opened.map_err(late)??;
        let endpoint =
            endpoint(server.url(), &named).map_err(|error| OpenError::Other(error.to_string()))?;
        let dispatcher = Arc::new(Dispatcher::new(is_passing));
        let reader = tokio::spawn(read(Arc::clone(&dispatcher), incoming));
        Ok(Session { dispatcher, endpoint, reader })
    }

    /// Posts a message; its answer, if there is one, arrives on the stream. Posting continues even
    /// if the caller is gone, because cancelling it would lose the connection.
    pub(super) fn post(
        &self,
        server: &HttpUpstream,
        headers: &HeaderMap,
        body: Bytes,
    ) -> JoinHandle<Result<Response<AnswerBody>, SendError>> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.headers_mut() = passing(headers);
        let (server, endpoint) = (server.clone(), self.endpoint.clone());
        tokio::spawn(async move {
            let late = |_| SendError::Lost("the message was not taken in time".into());
            tokio::time::timeout(POSTING, server.send_to(&endpoint, &request))
                .await
                .map_err(late)?
        })
    }
}

/// The headers of a request, without those that HTTP+SSE does not have.
fn passing(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in [SESSION, LAST_EVENT] {
        headers.remove(name);
    }
    headers
}

/// Requests a stream, and reads it up to the endpoint URL.
async fn open_stream(
    server: &HttpUpstream,
    headers: &HeaderMap,
) -> Result<(String, Incoming), OpenError> {
    let mut request = Request::new(Bytes::new());
    *request.headers_mut() = passing(headers);
    request.headers_mut().remove(header::CONTENT_TYPE);
    request.headers_mut().insert(header::ACCEPT, EVENT_STREAM);
    let answer = server.send_directly(&request).await?;
    if answer.status() != StatusCode::OK || !is_event_stream(answer.headers()) {
        let status = answer.status().as_u16();
        return Err(OpenError::Other(format!("GET is answered with status {status}")));
    }
    let mut incoming = Incoming {
        body: answer.into_body(),
        decoder: Decoder::new(MOST_MESSAGE),
        ahead: Vec::new(),
    };
    loop {
        let events = incoming.next().await.map_err(OpenError::Other)?;
        let events = events.ok_or_else(|| OpenError::Other("its stream ended".into()))?;
        let mut events = events.into_iter().filter(|event| event.data.is_some());
        let Some(first) = events.next() else { continue };
        let named = first.data.filter(|_| first.name.as_deref() == Some("endpoint"));
        let named = named.ok_or_else(|| OpenError::Other("its stream begins otherwise".into()))?;
        incoming.ahead = events.collect();
        return Ok((named, incoming));
    }
}

impl Incoming {
    /// The next events; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<Event>>, String> {
        if !self.ahead.is_empty() {
            return Ok(Some(std::mem::take(&mut self.ahead)));
        }
        let Some(frame) = self.body.frame().await else { return Ok(None) };
        let frame = frame.map_err(|_| "the stream broke off".to_owned())?;
        let mut events = Vec::new();
        if let Ok(data) = frame.into_data() {
            let pushed = self.decoder.push(&data, |event| events.push(event));
            pushed.map_err(|error| error.to_string())?;
        }
        Ok(Some(events))
    }
}

/// Reads a stream until it ends, or is idle for too long.
async fn read(dispatcher: Arc<Dispatcher>, mut incoming: Incoming) {
    let bounds = Bounds {
        bytes: MOST_MESSAGE,
        string: MOST_MESSAGE,
        members: 1 << 20,
        nodes: 1 << 20,
        lone_surrogates: LoneSurrogates::Replace,
        ..Bounds::default()
    };
    let why = loop {
        let Ok(next) = tokio::time::timeout(LOOK, incoming.next()).await else {
            if dispatcher.idle().is_some_and(|idle| idle > IDLE) {
                break "the session was not used".to_owned();
            }
            continue;
        };
        let events = match next {
            Ok(Some(events)) => events,
            Ok(None) => break "the server ended its stream".to_owned(),
            Err(why) => break why,
        };
        if let Err(why) = deliver(&dispatcher, events, &bounds).await {
            break why;
        }
    };
    dispatcher.end(&why);
}

async fn deliver(
    dispatcher: &Dispatcher,
    events: Vec<Event>,
    bounds: &Bounds,
) -> Result<(), String> {
    for data in events.into_iter().filter_map(Event::into_message) {
        dispatcher.take(data, bounds).await?;
    }
    Ok(())
}

/// Encodes a message as an event.
pub(super) fn event(text: &str) -> Bytes {
    Event::message(text).encode()
}

impl SseDelivery {
    /// Encodes the message as the next event of an answer; an error if there will be none.
    pub(super) fn into_event(self) -> Result<Bytes, String> {
        match self {
            SseDelivery::Besides(text) | SseDelivery::Answer { text, .. } => Ok(event(&text)),
            SseDelivery::Broken(why) => Err(why),
        }
    }
}
