//! Sessions that a server has forgotten, begun again with the client's own
//! introduction, so that the client need not notice.
//!
//! Only where nothing is lost by it: the server has said that it does not know
//! the session, so it did not take the request; and within the session nothing
//! was asked for that lasts, such as a subscription. What a session must be begun
//! with is kept in memory, within bounds. Where it is not there, the client is
//! told the session is gone, which is the protocol's own way.

mod kept;

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use sluice_http::{
    AnswerBody, collect,
    headers::{REVISION, SESSION, is_event_stream},
    sse::Decoder,
};
use sluice_wire::{
    json::{Document, Value},
    mcp::Door,
    rpc::{Id, Message},
};

use crate::{
    answer::read_refusal,
    body::ClientBody,
    decide::{self, Permit},
    forward::{Answered, Outgoing, forward},
    refusal::Refusal,
    session::Session,
    settle::CallFailure,
    visit::Visit,
};

pub(crate) use kept::Repairs;

/// Bytes of a refusal that is looked into.
const LONGEST_REFUSAL: usize = 64 << 10;

pub(crate) const READY: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Remembers how the session that an answer has begun can be begun again.
pub(crate) fn remember(visit: &Visit, answer: &Response<ClientBody>, hello: Bytes) {
    let sealed = answer.headers().get(SESSION).and_then(|sealed| sealed.to_str().ok());
    let opened = sealed.and_then(|sealed| {
        Session::open(&visit.gateway, &visit.holder, visit.server_name(), sealed).ok()
    });
    if let Some(session) = opened {
        visit.gateway.repairs.keep(session.id, hello);
    }
}

/// Notes a message after which another session could not take this one's place.
pub(crate) fn note(visit: &Visit, document: &Document) {
    let Some(session) = &visit.session else { return };
    let method = document.root().get("method").and_then(Value::as_str).unwrap_or_default();
    let lasts = match method {
        "resources/subscribe" | "logging/setLevel" => true,
        "tools/call" => {
            document.root().get("params").is_some_and(|params| params.get("task").is_some())
        }
        _ => false,
    };
    if lasts && let Some(beginning) = visit.gateway.repairs.find(&session.id) {
        beginning.is_bound.store(true, Ordering::Relaxed);
    }
}

/// Whether an answer may say that the session is lost, so that it must be examined.
pub(crate) fn is_suspicious(visit: &Visit, status: StatusCode) -> bool {
    visit.session.is_some() && matches!(status, StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST)
}

/// Sends a request again in a new session, if the server has forgotten the old
/// one; the visit and the answer to go on with.
pub(crate) async fn resent(
    visit: &Arc<Visit>,
    answered: Answered,
    outgoing: Outgoing,
    id: &Id,
) -> Result<(Arc<Visit>, Answered), Refusal> {
    let Answered { answer, settlement } = answered;
    let (answer, is_lost) = examined(visit, answer, Some(id)).await;
    let mut answered = Answered { answer, settlement };
    if !is_lost {
        return Ok((Arc::clone(visit), answered));
    }
    let Some(session) = repaired(visit).await else {
        if let Some(settlement) = &mut answered.settlement {
            settlement.fail(&CallFailure::SessionLost);
        }
        return Err(Refusal::Session);
    };
    let again = Arc::new(Visit { session: Some(session), ..Visit::clone(visit) });
    let permit = Permit::again(answered).ok_or(Refusal::Internal)?;
    let answered = forward(&again, permit, outgoing).await?;
    if answered.answer.status() == StatusCode::NOT_FOUND {
        give_up(visit);
    }
    Ok((again, answered))
}

/// Takes the place of a lost session for what needs no answer, and was about
/// what is lost with it; whether there was one to take.
pub(crate) async fn replaced(visit: &Visit, answer: Response<AnswerBody>) -> Result<(), Refusal> {
    let (answer, is_lost) = examined(visit, answer, None).await;
    if !is_lost {
        let (parts, body) = answer.into_parts();
        return Err(read_refusal(visit, &parts, body).await);
    }
    repaired(visit).await.map(drop).ok_or(Refusal::Session)
}

/// A new session was of no use, so that the next would be of none either.
fn give_up(visit: &Visit) {
    let session = visit.session.as_ref();
    if let Some(beginning) = session.and_then(|session| visit.gateway.repairs.find(&session.id)) {
        beginning.is_bound.store(true, Ordering::Relaxed);
    }
}

/// Whether a refusal is about the session. A 404 is, as the protocol says, unless
/// it answers the request; a 400 is if it says so, as servers do that were made
/// after the examples of the official SDK.
pub(crate) async fn examined(
    visit: &Visit,
    answer: Response<AnswerBody>,
    id: Option<&Id>,
) -> (Response<AnswerBody>, bool) {
    let (parts, body) = answer.into_parts();
    let read = tokio::time::timeout(visit.server.link.timeout, collect(body, LONGEST_REFUSAL));
    let bytes = read.await.ok().and_then(Result::ok).unwrap_or_default();
    let document = Document::parse(bytes.clone(), &sluice_wire::json::Bounds::default()).ok();
    let failure = document.as_ref().and_then(|document| match Message::read(document) {
        Ok(Message::Failure { id: own, error }) => Some((own, error)),
        _ => None,
    });
    let is_lost = if parts.status == StatusCode::NOT_FOUND {
        failure.is_none_or(|(own, error)| {
            own.is_none() || own.as_ref() != id || code(error) == Some("-32001")
        })
    } else {
        failure.is_some_and(|(_, error)| {
            let said = error.get("message").and_then(Value::as_str).unwrap_or_default();
            code(error) == Some("-32000") && said.to_ascii_lowercase().contains("session id")
        })
    };
    (Response::from_parts(parts, AnswerBody::Whole(Full::new(bytes.into()))), is_lost)
}

fn code(error: Value<'_>) -> Option<&str> {
    error.get("code").and_then(Value::as_number)
}

/// Begins the session of a visit again; `None` if it cannot be.
pub(crate) async fn repaired(visit: &Visit) -> Option<Session> {
    let old = visit.session.as_ref()?;
    let repairs = &visit.gateway.repairs;
    let beginning = repairs.find(&old.id)?;
    let turn = beginning.turn.lock().await;
    let now = beginning.now().clone();
    if let Some(upstream) = now.filter(|now| *now != old.upstream) {
        // Somebody else has done it meanwhile.
        return Some(Session { id: Arc::clone(&old.id), upstream });
    }
    if beginning.is_bound.load(Ordering::Relaxed) {
        return None;
    }
    let session = begun(visit, old, beginning.hello.clone()).await?;
    repairs.began_again(&beginning, session.upstream.clone());
    tracing::info!(server = visit.server_name(), session = &*old.id, "a session was begun again");
    // What was forgotten may not be all that has changed.
    visit.server.link.state.tools.suspect();
    drop(turn);
    Some(session)
}

/// Introduces the client again.
async fn begun(visit: &Visit, old: &Session, hello: Bytes) -> Option<Session> {
    let mut fresh = visit.renewed()?;
    fresh.session = None;
    let spoken = visit.headers.get(REVISION);
    let permit = decide::open(Door::Always)?;
    let answer = forward(&fresh, permit, Outgoing::post(hello)).await.ok()?.answer;
    let upstream = answer.headers().get(SESSION).cloned()?;
    let agreed = agreed(&fresh, answer).await?;
    if spoken.is_some_and(|spoken| spoken.as_bytes() != agreed.as_bytes()) {
        // The client must know that another revision is spoken now.
        return None;
    }
    fresh.headers.extend(spoken.map(|spoken| (REVISION, spoken.clone())));
    fresh.session = Some(Session { id: Arc::clone(&old.id), upstream });
    let permit = decide::open(Door::Always)?;
    let ready = forward(&fresh, permit, Outgoing::post(READY)).await.ok()?.answer;
    fresh.session.filter(|_| ready.status().is_success())
}

/// The revision that an introduction's answer agrees to.
async fn agreed(visit: &Visit, answer: Response<AnswerBody>) -> Option<String> {
    if !answer.status().is_success() {
        return None;
    }
    let is_stream = is_event_stream(answer.headers());
    let read = async {
        let bounds = visit.gateway.settings.answer_bounds();
        if is_stream {
            return streamed(visit, answer.into_body()).await;
        }
        let bytes = collect(answer.into_body(), bounds.bytes).await.ok()?;
        revision(&Document::parse(bytes, &bounds).ok()?)
    };
    tokio::time::timeout(visit.server.link.timeout, read).await.ok()?
}

async fn streamed(visit: &Visit, mut body: AnswerBody) -> Option<String> {
    let bounds = visit.gateway.settings.answer_bounds();
    let mut decoder = Decoder::new(bounds.bytes);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.ok()?.into_data() else { continue };
        let mut found = None;
        decoder
            .push(&data, |event| {
                let data = event.into_message();
                let document = data.and_then(|data| Document::parse(data, &bounds).ok());
                found = found.take().or_else(|| revision(&document?));
            })
            .ok()?;
        if found.is_some() {
            return found;
        }
    }
    None
}

fn revision(document: &Document) -> Option<String> {
    let result = document.root().get("result")?;
    result.get("protocolVersion").and_then(Value::as_str).map(str::to_owned)
}
