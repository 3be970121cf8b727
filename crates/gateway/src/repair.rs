//! Repairing sessions: if a server has lost a session, the gateway opens a new one with
//! the client's own `initialize`, and the client does not notice.
//!
//! This is done only if it is safe: the server said that it does not know the session, so
//! it did not accept the request, and the session has no lasting state such as a
//! subscription. The `initialize` messages are kept in bounded memory. In all other cases
//! the client is told that the session is gone.

mod memory;

use std::sync::{Arc, atomic::Ordering};

use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use sluice_http::{
    AnswerBody, collect,
    headers::{REVISION, SESSION, is_event_stream},
    sse::Decoder,
};
use sluice_wire::{
    json::{Document, Value},
    rpc::{Id, Message},
};

use crate::{
    exchange::Exchange,
    refusal::Refusal,
    reserve::{Introduction, Permitted},
    send::{Answered, accept, forward, forward_for_client},
    session::Session,
    settle::CallFailure,
    shares::claim_lease,
};

pub(crate) use memory::Repairs;

/// Bytes of a refusal that are examined.
const LONGEST_REFUSAL: usize = 64 << 10;

/// Whether a request leaves state in the session, so that a new session cannot replace
/// it.
pub(crate) fn is_lasting(method: &str, params: Option<Value<'_>>) -> bool {
    match method {
        "resources/subscribe" | "logging/setLevel" => true,
        "tools/call" => params.is_some_and(|params| params.get("task").is_some()),
        _ => false,
    }
}

/// Marks the session of an exchange as not replaceable.
pub(crate) fn bind(exchange: &Exchange) {
    let session = exchange.session.as_ref();
    if let Some(beginning) =
        session.and_then(|session| exchange.gateway.sessions.repairs.find(&session.id))
    {
        beginning.is_bound.store(true, Ordering::Relaxed);
    }
}

/// Whether an answer may say that the session is lost, so that it must be examined.
pub(crate) fn is_suspicious(exchange: &Exchange, status: StatusCode) -> bool {
    exchange.session.is_some() && matches!(status, StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST)
}

/// Sends a request again in a new session if the server has lost the old one. Returns the
/// exchange and the answer to continue with.
pub(crate) async fn send_again(
    exchange: &Arc<Exchange>,
    mut answered: Answered,
) -> Result<(Arc<Exchange>, Answered), Refusal> {
    let id = answered.request().expected.as_ref().map(|expected| expected.id.clone());
    if !is_session_lost(exchange, &mut answered.answer, id.as_ref()).await {
        return Ok((Arc::clone(exchange), answered));
    }
    let Some(session) = repair(exchange).await else {
        if let Some(settlement) = answered.settlement() {
            settlement.fail(&CallFailure::SessionLost);
        }
        return Err(Refusal::Session);
    };
    let again = Arc::new(Exchange { session: Some(session), ..Exchange::clone(exchange) });
    let permitted = answered.into_unsent().ok_or(Refusal::Internal)?;
    let answered = forward_for_client(&again, permitted).await?;
    if answered.answer.status() == StatusCode::NOT_FOUND {
        // The new session did not help, so another one would not help either.
        bind(exchange);
    }
    Ok((again, answered))
}

/// Replaces a lost session after a message that expects no answer. The message was about
/// the lost session, so it counts as accepted.
pub(crate) async fn replace(
    exchange: &Exchange,
    mut answered: Answered,
) -> Result<Answered, Refusal> {
    if !is_session_lost(exchange, &mut answered.answer, None).await {
        return Ok(answered);
    }
    if repair(exchange).await.is_some() {
        return Ok(accept(answered));
    }
    if let Some(settlement) = answered.settlement() {
        settlement.fail(&CallFailure::SessionLost);
    }
    Err(Refusal::Session)
}

/// Whether a refusal is about the session. By the protocol a 404 is, unless it answers
/// the request. A 400 is if its message says so: servers built from the examples of the
/// official SDK answer that way. The answer is read for this check and can then be read
/// again.
pub(crate) async fn is_session_lost(
    exchange: &Exchange,
    answer: &mut Response<AnswerBody>,
    id: Option<&Id>,
) -> bool {
    let body = std::mem::replace(answer.body_mut(), AnswerBody::Cancelled);
    let read = tokio::time::timeout(exchange.server.link.timeout, collect(body, LONGEST_REFUSAL));
    let bytes = read.await.ok().and_then(Result::ok).unwrap_or_default();
    let document = Document::parse(bytes.clone(), &sluice_wire::json::Bounds::default()).ok();
    *answer.body_mut() = AnswerBody::Whole(Full::new(bytes.into()));
    let failure = document.as_ref().and_then(|document| match Message::read(document) {
        Ok(Message::Failure { id: own, error }) => Some((own, error)),
        _ => None,
    });
    if answer.status() == StatusCode::NOT_FOUND {
        failure.is_none_or(|(own, error)| {
            own.is_none() || own.as_ref() != id || code(error) == Some("-32001")
        })
    } else {
        failure.is_some_and(|(_, error)| {
            let said = error.get("message").and_then(Value::as_str).unwrap_or_default();
            code(error) == Some("-32000") && said.to_ascii_lowercase().contains("session id")
        })
    }
}

fn code(error: Value<'_>) -> Option<&str> {
    error.get("code").and_then(Value::as_number)
}

/// Re-establishes the session of an exchange; `None` if that is not possible.
pub(crate) async fn repair(exchange: &Exchange) -> Option<Session> {
    let old = exchange.session.as_ref()?;
    let repairs = &exchange.gateway.sessions.repairs;
    let beginning = repairs.find(&old.id)?;
    let turn = beginning.turn.lock().await;
    let now = beginning.now().clone();
    if let Some(upstream) = now.filter(|now| *now != old.upstream) {
        // Another request has done it meanwhile.
        return Some(Session { id: Arc::clone(&old.id), upstream });
    }
    if beginning.is_bound.load(Ordering::Relaxed) {
        return None;
    }
    let session = begin_again(exchange, old, &beginning.introduction).await?;
    repairs.began_again(&beginning, session.upstream.clone());
    tracing::info!(
        server = exchange.server_name(),
        session = &*old.id,
        "a lost session was re-established"
    );
    // The server may have restarted with other tools.
    exchange.server.link.state.tools.mark_stale();
    drop(turn);
    Some(session)
}

/// Sends the client's `initialize` again.
async fn begin_again(
    exchange: &Exchange,
    old: &Session,
    introduction: &Introduction,
) -> Option<Session> {
    let mut fresh = exchange.renew()?;
    fresh.session = None;
    let spoken = exchange.headers.get(REVISION);
    let lease = claim_lease(&fresh, "initialize", None).ok()?;
    let permitted = Permitted::initialize(introduction, lease);
    let answer = forward(&fresh, permitted).await.ok()?.answer;
    let upstream = answer.headers().get(SESSION).cloned()?;
    let agreed = read_agreed_revision(&fresh, answer).await?;
    if spoken.is_some_and(|spoken| spoken.as_bytes() != agreed.as_bytes()) {
        // The protocol version has changed, and the client must know that.
        return None;
    }
    fresh.headers.extend(spoken.map(|spoken| (REVISION, spoken.clone())));
    fresh.session = Some(Session { id: Arc::clone(&old.id), upstream });
    let ready = forward(&fresh, Permitted::initialized_notification()).await.ok()?.answer;
    fresh.session.filter(|_| ready.status().is_success())
}

/// The protocol version in the answer to `initialize`.
async fn read_agreed_revision(exchange: &Exchange, answer: Response<AnswerBody>) -> Option<String> {
    if !answer.status().is_success() {
        return None;
    }
    let is_stream = is_event_stream(answer.headers());
    let read = async {
        let bounds = exchange.gateway.settings.answer_bounds();
        if is_stream {
            return read_stream(exchange, answer.into_body()).await;
        }
        let bytes = collect(answer.into_body(), bounds.bytes).await.ok()?;
        revision_in(&Document::parse(bytes, &bounds).ok()?)
    };
    tokio::time::timeout(exchange.server.link.timeout, read).await.ok()?
}

async fn read_stream(exchange: &Exchange, mut body: AnswerBody) -> Option<String> {
    let bounds = exchange.gateway.settings.answer_bounds();
    let mut decoder = Decoder::new(bounds.bytes);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.ok()?.into_data() else { continue };
        let mut found = None;
        decoder
            .push(&data, |event| {
                let data = event.into_message();
                let document = data.and_then(|data| Document::parse(data, &bounds).ok());
                found = found.take().or_else(|| revision_in(&document?));
            })
            .ok()?;
        if found.is_some() {
            return found;
        }
    }
    None
}

fn revision_in(document: &Document) -> Option<String> {
    let result = document.root().get("result")?;
    result.get("protocolVersion").and_then(Value::as_str).map(str::to_owned)
}
