//! Sends one message to an HTTP+SSE server and waits for the start of its answer.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use sluice_wire::{
    json::{Bounds, Document},
    mcp::Revision,
    rpc::{EnvelopeError, Id, Message},
};

use super::{
    answer::{Caller, failure},
    dispatch::{Refused, SseDelivery, progress_token},
    session::Session,
};
use crate::{AnswerBody, HttpUpstream, Lease, SendError, answer::empty};

/// How long to wait for the status of a posted message after its stream broke: a refusal proves
/// that the server has not accepted the message.
const LAST_WORD: Duration = Duration::from_secs(1);

/// A message to be sent, with the facts that are needed here.
pub(super) struct Outgoing {
    request: Request<Bytes>,
    /// `None` for messages without an answer.
    id: Option<Id>,
    token: Option<String>,
    is_hello: bool,
}

/// Why a body is not a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("this is no JSON: {0}")]
    Json(String),
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
}

impl Unreadable {
    pub(super) fn answer(&self) -> Response<AnswerBody> {
        let code = match self {
            Unreadable::Json(_) => -32700,
            Unreadable::Envelope(_) => -32600,
        };
        failure(StatusCode::BAD_REQUEST, None, code, &self.to_string())
    }
}

impl Outgoing {
    /// Parses the message to send; its bytes are sent unchanged.
    pub(super) fn read(request: Request<Bytes>) -> Result<Outgoing, Unreadable> {
        let bounds = Bounds {
            bytes: usize::MAX,
            string: usize::MAX,
            members: usize::MAX,
            nodes: usize::MAX,
            ..Bounds::default()
        };
        let document = Document::parse(request.body().to_vec(), &bounds)
            .map_err(|refusal| Unreadable::Json(refusal.to_string()))?;
        let message = Message::read(&document)?;
        let (id, token, is_hello) = match message {
            Message::Request { id, method, params } => {
                (Some(id), progress_token(params), method == "initialize")
            }
            _ => (None, None, false),
        };
        Ok(Outgoing { request, id, token, is_hello })
    }

    /// What its client holds for the session that it begins.
    pub(super) fn lease(&self) -> Option<Lease> {
        self.request.extensions().get().cloned()
    }

    pub(super) fn is_request(&self) -> bool {
        self.id.is_some()
    }

    pub(super) fn is_hello(&self) -> bool {
        self.is_hello
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        self.request.headers()
    }

    pub(super) fn into_request(self) -> Request<Bytes> {
        self.request
    }
}

/// Sends a message and returns its answer, and whether that is a result.
pub(super) async fn carry_out(
    server: &HttpUpstream,
    session: Arc<Session>,
    message: Outgoing,
) -> Result<(Response<AnswerBody>, bool), SendError> {
    let Outgoing { request, id, token, .. } = message;
    let (parts, body) = request.into_parts();
    let Some(id) = id else {
        let posted =
            session.post(server, &parts.headers, body).await.map_err(describe_lost_message)??;
        let is_taken = posted.status().is_success();
        return Ok((if is_taken { empty(StatusCode::ACCEPTED) } else { posted }, is_taken));
    };
    let (order, said) = match session.dispatcher.wait(&id, token) {
        Ok(waiting) => waiting,
        Err(Refused::Over) => return Ok((empty(StatusCode::NOT_FOUND), false)),
        Err(Refused::Full) => return Ok((empty(StatusCode::SERVICE_UNAVAILABLE), false)),
        Err(Refused::Twice) => {
            let why = "another request with this id is under way";
            return Ok((failure(StatusCode::BAD_REQUEST, Some(&id), -32600, why), false));
        }
    };
    let mut posting = session.post(server, &parts.headers, body);
    let mut caller = Caller { session, id, order, said };
    let first = tokio::select! {
        biased;
        first = caller.said.recv() => first,
        posted = &mut posting => {
            let posted = posted.map_err(describe_lost_message)??;
            if !posted.status().is_success() {
                return Ok((posted, false));
            }
            return caller.answer().await;
        }
    };
    if matches!(first, None | Some(SseDelivery::Broken(_)))
        && let Ok(Ok(Ok(posted))) = tokio::time::timeout(LAST_WORD, posting).await
        && !posted.status().is_success()
    {
        // The session was gone before the message arrived.
        return Ok((posted, false));
    }
    caller.respond_from(first)
}

fn describe_lost_message(_: tokio::task::JoinError) -> SendError {
    SendError::Lost("the message could not be sent".into())
}

/// Sends `initialize` on behalf of the gateway, in a session for a single request.
pub(super) async fn introduce(
    server: &HttpUpstream,
    session: &Arc<Session>,
    headers: &HeaderMap,
) -> Result<(), SendError> {
    let hello = format!(
        r#"{{"jsonrpc":"2.0","id":"sluicegate-hello","method":"initialize","params":{{"protocolVersion":"{}","capabilities":{{}},"clientInfo":{{"name":"sluicegate","version":"{}"}}}}}}"#,
        Revision::V2025_11_25.name(),
        env!("CARGO_PKG_VERSION")
    );
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned();
    for text in [hello, ready] {
        let mut request = Request::new(Bytes::from(text));
        *request.headers_mut() = headers.clone();
        // The client's message was not sent, and this session was only for that message.
        let not_sent = || SendError::NotSent("the server does not begin a session".into());
        let message = Outgoing::read(request).map_err(|_| not_sent())?;
        let (_, is_taken) =
            carry_out(server, Arc::clone(session), message).await.map_err(|_| not_sent())?;
        if !is_taken {
            return Err(not_sent());
        }
    }
    Ok(())
}
