//! A message that an HTTP+SSE client posted: it is accepted at once, and its answer is
//! delivered on the client's stream.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use sluice_http::headers::{EITHER_ANSWER, LAST_EVENT, REVISION, SESSION, is_event_stream};
use sluice_wire::{
    json::{Bounds, Document, Value},
    mcp::{Era, Revision},
    rpc::{Id, Message},
};

use super::{Client, Clients, encode_event, target::Target};
use crate::{
    answer::parse_answer,
    body::ClientBody,
    budget::collect,
    outlive::Absence,
    receive::{self, RequestBody},
    refusal::Refusal,
    response,
};

/// Accepts a message. Errors of the HTTP request are answered here; everything else is
/// answered on the stream.
pub(crate) async fn message(
    target: impl Into<Target>,
    query: &str,
    body: Incoming,
) -> Result<Response<ClientBody>, Refusal> {
    let mut target = target.into();
    let gateway = Arc::clone(target.gateway());
    let sealed = query.split('&').find_map(|pair| pair.strip_prefix("session="));
    let client =
        sealed.and_then(|sealed| Clients::find(&target, sealed)).ok_or(Refusal::Session)?;
    receive::check_media_type(target.headers())?;
    let RequestBody { bytes, portion } = receive::body(&gateway, target.holder(), body).await?;
    let document = receive::parse_body(&gateway.settings.bounds, bytes).await?;
    let message = Message::read(&document).map_err(|error| Refusal::Request(error.to_string()))?;
    as_later_transport(&client, target.headers_mut());
    if let Message::Notification { method: "notifications/cancelled", params } = &message {
        let id = params.and_then(|params| params.get("requestId"));
        if let Some(id) = id.and_then(|id| Id::read(id).ok()) {
            client.cancel(&id);
        }
    }
    let (id, is_ready) = match message {
        Message::Request { id, method, .. } => (Some((id, method == "initialize")), false),
        Message::Notification { method, .. } => (None, method == "notifications/initialized"),
        _ => (None, false),
    };
    let Some((id, is_hello)) = id else {
        let waiting = is_ready.then(|| target.clone());
        let answer = target.answer(document).await;
        if let Some(target) = waiting.filter(|_| answer.status().is_success()) {
            begin_following(&client, target);
        }
        return Ok(answer);
    };
    let busy = |_| Refusal::Busy("too many requests in progress on this stream");
    let room = Arc::clone(&client.room).try_acquire_owned().map_err(busy)?;
    let absence = Absence::new(&gateway, target.holder());
    tokio::spawn(async move {
        let in_flight = gateway.metrics.in_flight();
        let bounds = gateway.settings.answer_bounds();
        let answering = AssertUnwindSafe(target.answer(document)).catch_unwind();
        let attended = Box::pin(absence.attend(answering, client.sender.closed()));
        let Some(answered) = attended.await else {
            return;
        };
        let answer = answered.unwrap_or_else(|_| Refusal::Internal.respond(Some(&id)));
        drop((in_flight, portion));
        let delivery = Delivery { client: &client, id, is_hello, has_session: true, bounds };
        delivery.deliver(answer).await;
        drop(room);
    });
    Ok(response::empty_accepted())
}

/// Changes the headers to those that a client of the later transport would send.
fn as_later_transport(client: &Client, headers: &mut HeaderMap) {
    let stated = headers.get(&REVISION).and_then(|value| value.to_str().ok());
    // This transport has no modern era.
    if stated.and_then(Revision::from_name).is_some_and(|stated| stated.era() == Era::Modern) {
        headers.remove(&REVISION);
    }
    headers.remove(&LAST_EVENT);
    headers.insert(header::ACCEPT, EITHER_ANSWER);
    client.complete(headers);
}

/// Starts relaying the server's own stream, once per client.
pub(crate) fn begin_following(client: &Arc<Client>, target: impl Into<Target>) {
    let mut agreed = client.lock_agreed();
    if agreed.session.is_some() && !std::mem::replace(&mut agreed.is_followed, true) {
        tokio::spawn(target.into().follow(Arc::clone(client)));
    }
}

/// Puts the answer to one request on the client's stream.
pub(crate) struct Delivery<'c> {
    pub(crate) client: &'c Client,
    pub(crate) id: Id,
    pub(crate) is_hello: bool,
    /// Whether the request belongs to a session; if not, no lost session is reported.
    pub(crate) has_session: bool,
    pub(crate) bounds: Bounds,
}

impl Delivery<'_> {
    pub(crate) async fn deliver(&self, answer: Response<ClientBody>) {
        let (parts, body) = answer.into_parts();
        let is_stream = is_event_stream(&parts.headers);
        let last = if is_stream { self.pass_on(body).await } else { self.whole(body).await };
        let was_cancelled = self.client.lock_cancelled().remove(&self.id.to_json());
        if was_cancelled && last.is_none() {
            return;
        }
        let Some(last) = last else {
            let broken = Refusal::bad_gateway("the answer did not arrive whole");
            return self.refuse(&broken).await;
        };
        if self.is_hello {
            // Stored before the client gets the answer, so that its next message finds
            // the session.
            let mut agreed = self.client.lock_agreed();
            agreed.session = parts.headers.get(SESSION).cloned();
            agreed.revision = agreed_revision(&last);
        }
        let said = self.client.say(encode_event(last.text())).await;
        drop(last);
        if let Err(refusal) = said {
            self.refuse(&refusal).await;
        }
        if parts.status == StatusCode::NOT_FOUND && self.has_session {
            // The session is gone, and this transport can say so only by ending the
            // stream.
            self.client.ended.notify_one();
        }
    }

    async fn refuse(&self, refusal: &Refusal) {
        // An error is too short to be counted.
        let _ = self.client.say(encode_event(&refusal.to_json(Some(&self.id)))).await;
    }

    /// An answer that is one message.
    async fn whole(&self, body: ClientBody) -> Option<Document> {
        let mut portion = self.client.bytes.open(&self.client.grant);
        let bytes = collect(body, self.bounds.bytes, &mut portion).await.ok()?;
        let document = Document::parse(bytes, &self.bounds).ok()?;
        match Message::read(&document) {
            Ok(Message::Failure { id: None, error }) => {
                // On a stream with many answers, the error must name its request.
                let (id, error) = (self.id.to_json(), error.raw());
                let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
                Document::parse(text, &self.bounds).ok()
            }
            Ok(_) => Some(document),
            Err(_) => None,
        }
    }

    /// Passes on the messages before an answer at once, because the server may wait for
    /// the client's reply to one of them. Returns the answer; `None` if there is none.
    async fn pass_on(&self, mut body: ClientBody) -> Option<Document> {
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.ok()?.into_data() else { continue };
            // INVARIANT: each piece of such a stream is one event.
            if let Some(answer) = parse_answer(&data, &self.id, &self.bounds) {
                return Some(answer);
            }
            // A client that disconnects has not cancelled its request.
            let _ = self.client.pass_on(&data).await;
        }
        None
    }
}

/// The protocol version that a server has agreed to.
fn agreed_revision(introduction: &Document) -> Option<HeaderValue> {
    let result = introduction.root().get("result")?;
    let agreed = result.get("protocolVersion").and_then(Value::as_str)?;
    let agreed = Revision::from_name(agreed).filter(|agreed| agreed.era() == Era::Legacy)?;
    HeaderValue::try_from(agreed.name()).ok()
}
