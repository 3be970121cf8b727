//! Relaying answers: each is checked, filtered where the policy applies to it, and
//! otherwise passed on unchanged. `settle` records how the call ended.

mod definitions;
mod events;
mod findings;
mod json;
mod refused_requests;
mod rewrite;
mod server_request;

use std::sync::Arc;

use http::{Response, StatusCode, header};
use sluice_http::{AnswerBody, headers::SESSION, offload};
use sluice_wire::{
    json::{self as json_text, Document, Value},
    look_alike::Governed,
    mcp::{is_modern_error_code, is_unknown_era},
    rpc::{Id, Message},
};

use crate::{
    body::ClientBody,
    budget::{Portion, ReadFailure, collect},
    exchange::Exchange,
    refusal::Refusal,
    reserve::Introduction,
    response,
    send::Answered,
    session::Session,
    settle::{CallEnd, CallFailure, Settlement},
};

pub(crate) use definitions::{Checked, MOST_ITEMS, check as check_definition};
pub(crate) use events::{EventStream, parse_answer, parse_event};
pub(crate) use server_request::open_request_id;

/// Bytes of an answer that are held back until that much of it has been checked.
const HELD: usize = 64 << 10;

/// What a request's answer must look like, and how it is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Passed on as it is.
    Plain,
    /// The server's introduction: `capabilities` are completed.
    Introduction,
    Tools,
    Resources,
    Templates,
    Prompts,
    Tasks,
    /// One task: its id is replaced by ours.
    Task,
    /// May ask the client for input or begin a task, for a call of this method and
    /// target.
    Call {
        method: &'static str,
        target: String,
    },
}

/// Guesses the kind of a result from its members, or from members that a client may take
/// for them. Rewriting finds out whether it is malformed.
fn guess_shape(result: Option<Value<'_>>) -> Shape {
    let has = |name: &str| {
        let governed = Governed::new(name);
        let is_it = |key: &str| key == name || governed.resembles(key);
        let members = result.and_then(Value::members).into_iter().flatten();
        members.filter_map(|(key, _)| key.as_str()).any(is_it)
    };
    match () {
        () if has("tools") => Shape::Tools,
        () if has("resources") => Shape::Resources,
        () if has("resourceTemplates") => Shape::Templates,
        () if has("prompts") => Shape::Prompts,
        () if has("tasks") => Shape::Tasks,
        () if has("capabilities") => Shape::Introduction,
        () if has("task") || has("taskId") => Shape::Task,
        () => Shape::Plain,
    }
}

/// The answer that a request expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) id: Id,
    pub(crate) shape: Shape,
}

/// The answer as a client gets it, and its outcome if that is still unrecorded.
#[derive(Debug)]
pub(crate) struct Relayed {
    pub(crate) response: Result<Response<ClientBody>, Refusal>,
    pub(crate) end: CallEnd,
    /// The unrecorded outcome; `None` if the stream took it over.
    pub(crate) settlement: Option<Settlement>,
}

/// A response for the client, and how the call ended.
type Passed = (Response<ClientBody>, CallEnd);

/// Checks and filters an answer, and passes it on.
pub(crate) async fn relay(exchange: &Arc<Exchange>, answered: Answered) -> Relayed {
    let introduction = answered.introduction();
    let (answer, request, mut settlement) = answered.into_parts();
    let relayed = match request.expected {
        Some(expected) => {
            relay_expected(exchange, expected, introduction, answer, &mut settlement).await
        }
        None => Box::pin(relay_unexpected(exchange, answer)).await,
    };
    let (response, end) = match relayed {
        Ok((response, end)) => (Ok(response), end),
        Err(refusal) => {
            let failure = CallFailure::of(&refusal);
            (Err(refusal), CallEnd::Failed(failure))
        }
    };
    Relayed { response, end, settlement }
}

/// Passes on the answer to a message that expects none.
async fn relay_unexpected(
    exchange: &Exchange,
    answer: Response<AnswerBody>,
) -> Result<Passed, Refusal> {
    if answer.status().is_success() {
        return Ok((response::empty_accepted(), CallEnd::Answered { is_error: None }));
    }
    let (parts, body) = answer.into_parts();
    Err(read_refusal(exchange, &parts, body).await)
}

/// Passes on the answer to a request.
async fn relay_expected(
    exchange: &Arc<Exchange>,
    expected: Expected,
    introduction: Option<Introduction>,
    answer: Response<AnswerBody>,
    settlement: &mut Option<Settlement>,
) -> Result<Passed, Refusal> {
    let (parts, body) = answer.into_parts();
    let begun = parts.headers.get(SESSION).filter(|_| introduction.is_some());
    let session = begun.and_then(|upstream| Session::begin(exchange, upstream));
    let status = parts.status;
    let (mut response, end) = match (status.as_u16(), media_type(&parts.headers)) {
        (200..=201, MediaType::Json) => json::relay(exchange, expected, body, settlement).await?,
        (200..=201, MediaType::Events) => {
            let stream = EventStream::relay(exchange, expected, body, settlement.take());
            (Box::pin(stream).await?, CallEnd::Later)
        }
        (401 | 407, _) => {
            return Err(Refusal::bad_gateway("the server refuses the gateway's own credential"));
        }
        (400..=499, MediaType::Json) => {
            Box::pin(relay_failure(exchange, &expected, status, body)).await?
        }
        (status, _) if is_discovery(exchange, &expected) && is_unknown_era(status) => {
            return Err(Refusal::LegacyServer);
        }
        (404, _) if exchange.session.is_some() => return Err(Refusal::Session),
        _ => return Err(Refusal::from_status(status)),
    };
    if let (Some((id, sealed)), Some(introduction)) = (session, introduction) {
        exchange.gateway.metrics.note_session();
        response.headers_mut().insert(SESSION, sealed);
        exchange.gateway.sessions.repairs.keep(id, introduction);
    }
    Ok((response, end))
}

fn is_discovery(exchange: &Exchange, expected: &Expected) -> bool {
    exchange.is_modern() && expected.shape == Shape::Introduction
}

/// Whether an error code exists only in the modern era.
fn is_modern_error(error: Value<'_>) -> bool {
    error.get("code").and_then(Value::as_number).is_some_and(is_modern_error_code)
}

/// Whether an error is passed on as the answer to a discovery request: on bad parameters,
/// clients fall back to `initialize`, as they do on our own error.
fn tells_enough(status: StatusCode, error: Value<'_>) -> bool {
    let code = error.get("code").and_then(Value::as_number);
    is_modern_error(error) || (status == StatusCode::BAD_REQUEST && code == Some("-32602"))
}

enum MediaType {
    Json,
    Events,
    Other,
}

fn media_type(headers: &http::HeaderMap) -> MediaType {
    if headers.contains_key(header::CONTENT_ENCODING) {
        return MediaType::Other;
    }
    let stated =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let stated = stated.split(';').next().unwrap_or_default().trim();
    let is = |media_type| stated.eq_ignore_ascii_case(media_type);
    match () {
        () if is("application/json") => MediaType::Json,
        () if is("text/event-stream") => MediaType::Events,
        () => MediaType::Other,
    }
}

/// Passes on a JSON-RPC error with its status; any other failure becomes a refusal.
async fn relay_failure(
    exchange: &Exchange,
    expected: &Expected,
    status: StatusCode,
    body: AnswerBody,
) -> Result<Passed, Refusal> {
    let read = read_whole(exchange, body).await;
    let is_discovery = is_discovery(exchange, expected);
    let is_failure = |document: &Document| match Message::read(document) {
        Ok(Message::Failure { id, error }) => {
            id.is_none_or(|id| id == expected.id) && (!is_discovery || tells_enough(status, error))
        }
        _ => false,
    };
    match read {
        Ok((document, portion)) if is_failure(&document) => {
            let end = CallEnd::Failed(CallFailure::Status(status.as_u16()));
            let text = portion.attach(document.into_text().into());
            Ok((response::json(status, text), end))
        }
        _ if is_discovery && is_unknown_era(status.as_u16()) => Err(Refusal::LegacyServer),
        _ if status == StatusCode::NOT_FOUND && exchange.session.is_some() => Err(Refusal::Session),
        _ => Err(Refusal::from_status(status)),
    }
}

/// The refusal of a request that carried no message: the server's own JSON-RPC error, or
/// one of ours.
pub(crate) async fn read_refusal(
    exchange: &Exchange,
    parts: &http::response::Parts,
    body: AnswerBody,
) -> Refusal {
    let status = parts.status;
    let is_readable = status.is_client_error() && !matches!(status.as_u16(), 401 | 407);
    if is_readable && let MediaType::Json = media_type(&parts.headers) {
        let read = read_whole(exchange, body).await;
        if let Ok((document, _)) = read
            && let Ok(Message::Failure { id: None, .. }) = Message::read(&document)
        {
            return Refusal::Passed { status, text: document.into_text() };
        }
    }
    Refusal::from_status(status)
}

/// Reads a whole answer, within the limits, with what it takes of the budget.
async fn read_whole(exchange: &Exchange, body: AnswerBody) -> Result<(Document, Portion), Refusal> {
    let settings = &exchange.gateway.settings;
    let mut portion = exchange.gateway.bytes.open(&exchange.holder.reference.id);
    let collecting = collect(body, settings.answer, &mut portion);
    let read = tokio::time::timeout(exchange.server.link.timeout, collecting).await;
    let bytes = match read {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(ReadFailure::TooLong)) => {
            return Err(Refusal::bad_gateway(format!(
                "the answer is longer than {} bytes",
                settings.answer
            )));
        }
        Ok(Err(ReadFailure::Lost)) => {
            return Err(Refusal::bad_gateway("the answer did not arrive whole"));
        }
        Ok(Err(ReadFailure::NoRoom(refusal))) => return Err(refusal),
        Err(_) => return Err(Refusal::timeout()),
    };
    let parsed = offload::parse(bytes, &settings.answer_bounds()).await;
    let document = parsed
        .ok_or(Refusal::Internal)?
        .map_err(|refusal| Refusal::bad_gateway(unreadable("the answer", &refusal)))?;
    Ok((document, portion))
}

/// What is wrong with the text of an answer or an event, without quoting it.
fn unreadable(what: &str, refusal: &json_text::Refusal) -> String {
    match refusal.reason {
        json_text::Reason::DuplicateKey(_) => format!("{what} has a key twice"),
        _ => format!("{what} is not valid JSON: {}", refusal.reason),
    }
}
