//! Builds streamable HTTP answers from the messages of an HTTP+SSE server.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use sluice_wire::{edit::quote, rpc::Id};
use tokio::sync::mpsc;

use super::{dispatch::SseDelivery, session::Session};
use crate::{
    AnswerBody, BodyError, PollBody, SendError,
    answer::{empty, event_stream, json},
};

/// A request that waits for its answer; dropping it deregisters it.
pub(super) struct Caller {
    pub(super) session: Arc<Session>,
    pub(super) id: Id,
    pub(super) order: u64,
    pub(super) said: mpsc::Receiver<SseDelivery>,
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.session.dispatcher.forget(&self.id, self.order);
    }
}

impl Caller {
    /// Waits for the start of the answer; also returns whether it is a result.
    pub(super) async fn answer(mut self) -> Result<(Response<AnswerBody>, bool), SendError> {
        let first = self.said.recv().await;
        self.respond_from(first)
    }

    pub(super) fn respond_from(
        self,
        first: Option<SseDelivery>,
    ) -> Result<(Response<AnswerBody>, bool), SendError> {
        match first {
            Some(SseDelivery::Answer { text, is_failure }) => {
                Ok((json(StatusCode::OK, text), !is_failure))
            }
            Some(SseDelivery::Besides(text)) => {
                let first = Some(SseDelivery::Besides(text));
                Ok((events(Events { first, caller: Source::Caller(self) }), true))
            }
            Some(SseDelivery::Broken(why)) => Err(SendError::Lost(why)),
            None => Err(SendError::Lost("the session ended".into())),
        }
    }
}

/// A stream of messages that belong to no request.
pub(super) fn listen(session: &Arc<Session>) -> Response<AnswerBody> {
    match session.dispatcher.listen() {
        Ok(said) => events(Events { first: None, caller: Source::Listener(said) }),
        Err(_) => empty(StatusCode::NOT_FOUND),
    }
}

/// An event stream that is built from messages.
struct Events {
    first: Option<SseDelivery>,
    caller: Source,
}

enum Source {
    /// Ends with the answer.
    Caller(Caller),
    /// Ends with the session.
    Listener(mpsc::Receiver<SseDelivery>),
    Over,
}

impl Events {
    fn poll_said(&mut self, context: &mut Context<'_>) -> Poll<Option<SseDelivery>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        match &mut self.caller {
            Source::Caller(caller) => caller
                .said
                .poll_recv(context)
                .map(|said| said.or_else(|| Some(SseDelivery::Broken("the session ended".into())))),
            Source::Listener(said) => said.poll_recv(context),
            Source::Over => Poll::Ready(None),
        }
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        self.poll_said(context).map(|said| {
            let said = said?;
            if matches!(said, SseDelivery::Answer { .. } | SseDelivery::Broken(_)) {
                self.caller = Source::Over;
            }
            Some(said.into_event().map_err(BodyError))
        })
    }
}

fn events(mut events: Events) -> Response<AnswerBody> {
    let body = PollBody::new(move |context| events.poll_event(context));
    event_stream(AnswerBody::from_body(body))
}

pub(super) fn failure(
    status: StatusCode,
    id: Option<&Id>,
    code: i32,
    why: &str,
) -> Response<AnswerBody> {
    let id = id.map_or_else(|| "null".into(), Id::to_json);
    let why = quote(why);
    json(
        status,
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{why}}}}}"#),
    )
}

/// Refuses features that HTTP+SSE servers lack: the modern era, and streams without a session.
pub(super) fn refuse_modern(method: &Method) -> Response<AnswerBody> {
    if method == Method::POST {
        let why = "this server speaks an older revision: initialize";
        return failure(StatusCode::BAD_REQUEST, None, -32601, why);
    }
    empty(StatusCode::METHOD_NOT_ALLOWED)
}
