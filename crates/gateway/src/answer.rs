//! What comes back: checked, filtered where the policy bears on it, and passed
//! on unchanged where it does not.

mod events;
mod json;
mod rewrite;
mod server_request;

use std::sync::Arc;

use http::{Response, StatusCode, header};
use sluice_http::{AnswerBody, CollectError, collect, headers::SESSION};
use sluice_wire::{
    json::{self as json_text, Document, Value},
    mcp::{is_modern_error_code, is_unknown_era},
    rpc::{Id, Message},
};

use crate::{
    body::ClientBody,
    forward::Answered,
    refusal::Refusal,
    response,
    session::Session,
    settle::{CallFailure, Settlement},
    visit::Visit,
};

pub(crate) use events::{EventStream, answer_in, event_in};
pub(crate) use rewrite::sealed_task;
pub(crate) use server_request::opened_id;

/// Bytes of an answer that are held back until it is known to be good so far.
const HELD: usize = 64 << 10;

/// What a request's answer must look like, and what is done with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Passes as it is.
    Plain,
    /// Who the server is: `capabilities` are completed.
    Introduction,
    Tools,
    Resources,
    Templates,
    Prompts,
    Tasks,
    /// One task: its id is ours.
    Task,
    /// May ask the client for something, or begin a task: of this method and target.
    Call {
        method: &'static str,
        target: String,
    },
}

/// The answer that a request waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) id: Id,
    pub(crate) shape: Shape,
}

/// Passes on the answer to a request.
pub(crate) async fn relay(
    visit: &Arc<Visit>,
    expected: Expected,
    answered: Answered,
) -> Result<Response<ClientBody>, Refusal> {
    let Answered { answer, mut settlement } = answered;
    let (parts, body) = answer.into_parts();
    let begun = parts
        .headers
        .get(SESSION)
        .filter(|_| expected.shape == Shape::Introduction && !visit.is_modern());
    let session = begun.and_then(|upstream| Session::begin(visit, upstream));
    let status = parts.status;
    let relayed = match (status.as_u16(), media_type(&parts.headers)) {
        (200..=201, MediaType::Json) => json::relay(visit, expected, body, settlement.take()).await,
        (200..=201, MediaType::Events) => {
            Box::pin(EventStream::relay(visit, expected, body, settlement.take())).await
        }
        (401 | 407, _) => {
            Err(Refusal::bad_gateway("the server refuses the gateway's own credential"))
        }
        (400..=499, MediaType::Json) => {
            Box::pin(failure(visit, &expected, status, body, settlement.take())).await
        }
        (status, _) if is_discovery(visit, &expected) && is_unknown_era(status) => {
            Err(Refusal::LegacyServer)
        }
        (404, _) if visit.session.is_some() => Err(Refusal::Session),
        _ => Err(Refusal::answered_with(status)),
    };
    if let (Err(refusal), Some(mut settlement)) = (&relayed, settlement) {
        settlement.fail(&CallFailure::of(refusal));
    }
    let mut answer = relayed?;
    if let Some(session) = session {
        visit.gateway.metrics.session_begun();
        answer.headers_mut().insert(SESSION, session);
    }
    Ok(answer)
}

fn is_discovery(visit: &Visit, expected: &Expected) -> bool {
    visit.is_modern() && expected.shape == Shape::Introduction
}

/// Whether an error is one that only servers of the modern era know.
fn is_modern_error(error: Value<'_>) -> bool {
    error.get("code").and_then(Value::as_number).is_some_and(is_modern_error_code)
}

/// Whether an error may answer a request for discovery as it is: clients go on
/// to `initialize` from bad parameters as they do from what we would say.
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

/// Passes on a JSON-RPC error with its status; anything else is no answer.
async fn failure(
    visit: &Visit,
    expected: &Expected,
    status: StatusCode,
    body: AnswerBody,
    settlement: Option<Settlement>,
) -> Result<Response<ClientBody>, Refusal> {
    let read = whole(visit, body).await;
    let is_discovery = is_discovery(visit, expected);
    let is_failure = |document: &Document| match Message::read(document) {
        Ok(Message::Failure { id, error }) => {
            id.is_none_or(|id| id == expected.id) && (!is_discovery || tells_enough(status, error))
        }
        _ => false,
    };
    let passed = match read {
        Ok(document) if is_failure(&document) => Ok(response::json(status, document.into_text())),
        _ if is_discovery && is_unknown_era(status.as_u16()) => Err(Refusal::LegacyServer),
        _ if status == StatusCode::NOT_FOUND && visit.session.is_some() => Err(Refusal::Session),
        _ => Err(Refusal::answered_with(status)),
    };
    if let Some(mut settlement) = settlement {
        settlement.fail(&CallFailure::Status(status.as_u16()));
    }
    passed
}

/// The refusal of a request without a message: the server's own JSON-RPC error, or
/// one of ours.
pub(crate) async fn read_refusal(
    visit: &Visit,
    parts: &http::response::Parts,
    body: AnswerBody,
) -> Refusal {
    let status = parts.status;
    let is_readable = status.is_client_error() && !matches!(status.as_u16(), 401 | 407);
    if is_readable && let MediaType::Json = media_type(&parts.headers) {
        let read = whole(visit, body).await;
        if let Ok(document) = read
            && let Ok(Message::Failure { id: None, .. }) = Message::read(&document)
        {
            return Refusal::Passed { status, text: document.into_text() };
        }
    }
    Refusal::answered_with(status)
}

/// Reads an answer whole, within its bounds.
async fn whole(visit: &Visit, body: AnswerBody) -> Result<Document, Refusal> {
    let settings = &visit.gateway.settings;
    let read =
        tokio::time::timeout(visit.server.link.timeout, collect(body, settings.answer)).await;
    let bytes = match read {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(CollectError::TooLong(_))) => {
            return Err(Refusal::bad_gateway(format!(
                "the answer is longer than {} bytes",
                settings.answer
            )));
        }
        Ok(Err(CollectError::Lost(_))) => {
            return Err(Refusal::bad_gateway("the answer did not arrive whole"));
        }
        Err(_) => return Err(Refusal::timeout()),
    };
    Document::parse(bytes, &settings.answer_bounds())
        .map_err(|refusal| Refusal::bad_gateway(unreadable(&refusal)))
}

/// What is wrong with an answer's text, in no words of its own.
fn unreadable(refusal: &json_text::Refusal) -> String {
    match refusal.reason {
        json_text::Reason::DuplicateKey(_) => "the answer has a key twice".into(),
        _ => format!("the answer is not valid JSON: {}", refusal.reason),
    }
}
