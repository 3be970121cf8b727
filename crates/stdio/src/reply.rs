//! Builds the HTTP answer to a request from the events of its call.

use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use http_body_util::BodyExt as _;
use sluice_http::{
    AnswerBody, PollBody, SendError,
    answer::{event_stream, json},
    headers::SESSION,
    sse::encode_message,
};
use sluice_wire::{edit::quote, mcp::is_modern_error_code};

use super::{
    child::Asking,
    queue::{Answer, CallEvent, Inbox},
};

/// The events of a call, as an event stream.
#[derive(Debug)]
struct Events {
    first: Option<Bytes>,
    source: Source,
    is_over: bool,
}

#[derive(Debug)]
enum Source {
    /// The answer to the request with this id, as JSON.
    Answer { asking: Asking, id: String },
    /// A session stream, which answers no request.
    Standing(Inbox),
}

impl Events {
    fn of(first: Option<Bytes>, source: Source) -> Events {
        Events { first, source, is_over: false }
    }

    /// The next event. It is empty if the client has cancelled the request and there is
    /// no answer.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(event(&first)));
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        let next = match &mut self.source {
            Source::Answer { asking, .. } => asking.inbox.poll_next(context),
            Source::Standing(inbox) => inbox.poll_next(context),
        };
        let Poll::Ready(said) = next else { return Poll::Pending };
        Poll::Ready(match (said, &self.source) {
            (Some(CallEvent::Aside(message)), _) => Some(event(&message)),
            (Some(CallEvent::Answer(Answer { message, .. })), _) => {
                self.is_over = true;
                Some(event(&message))
            }
            (Some(CallEvent::Failed(why)), Source::Answer { id, .. }) => {
                let message = failure(id, -32603, &why);
                self.is_over = true;
                Some(event(message.as_bytes()))
            }
            (None, Source::Answer { id, .. }) => {
                let message = failure(id, -32603, "the answer was not read fast enough");
                self.is_over = true;
                Some(event(message.as_bytes()))
            }
            (Some(CallEvent::Cancelled), _) => {
                self.is_over = true;
                Some(Bytes::new())
            }
            (Some(CallEvent::Failed(_)) | None, Source::Standing(_)) => None,
        })
    }
}

/// A JSON-RPC error; `id` is JSON.
pub(super) fn failure(id: &str, code: i32, message: &str) -> String {
    let message = quote(message);
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message},"data":{{"side":"upstream"}}}}}}"#
    )
}

/// A message as an event.
fn event(message: &[u8]) -> Bytes {
    // The message is valid UTF-8, so nothing is lost.
    encode_message(&String::from_utf8_lossy(message))
}

/// Waits for the first event: a JSON response if it is the answer, else a stream.
pub(super) async fn answer(
    mut asking: Asking,
    id: String,
    is_modern: bool,
) -> Result<Response<AnswerBody>, SendError> {
    let first = asking.inbox.next().await;
    begin_reply(first, asking, id, is_modern)
}

/// The response that begins with this event.
pub(super) fn begin_reply(
    first: Option<CallEvent>,
    asking: Asking,
    id: String,
    is_modern: bool,
) -> Result<Response<AnswerBody>, SendError> {
    match first {
        Some(CallEvent::Answer(Answer { message, code })) => {
            let status = match code.as_deref() {
                Some("-32601") if is_modern => StatusCode::NOT_FOUND,
                Some(code) if is_modern && is_modern_error_code(code) => StatusCode::BAD_REQUEST,
                _ => StatusCode::OK,
            };
            Ok(json(status, message))
        }
        Some(CallEvent::Aside(message)) => {
            let source = Source::Answer { asking, id };
            Ok(stream(Events::of(Some(message), source)))
        }
        Some(CallEvent::Cancelled) => Ok(AnswerBody::end_cancelled()),
        Some(CallEvent::Failed(why)) => Err(SendError::Lost(why.to_string())),
        None => Err(SendError::Lost("the answer was not read fast enough".into())),
    }
}

/// The response for a session stream.
pub(super) fn standing(inbox: Inbox) -> Response<AnswerBody> {
    stream(Events::of(None, Source::Standing(inbox)))
}

fn stream(mut events: Events) -> Response<AnswerBody> {
    let body = PollBody::new(move |context| events.poll_next(context).map(|next| next.map(Ok)));
    event_stream(AnswerBody::Said(body.boxed_unsync()))
}

/// The response with this result, as JSON, for the request with this id.
pub(super) fn result(id: &str, result: &str) -> Response<AnswerBody> {
    json(StatusCode::OK, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
}

/// Adds the session id to a response that begins a session.
pub(super) fn in_session(
    mut response: Response<AnswerBody>,
    session: &str,
) -> Response<AnswerBody> {
    if let Ok(value) = HeaderValue::try_from(session) {
        response.headers_mut().insert(SESSION, value);
    }
    response
}
