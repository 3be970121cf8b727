//! The body of an answer, from any kind of server.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{Full, combinators::UnsyncBoxBody};

use crate::{answer::event_stream, masked_body::MaskedBody, pool::Arriving};

/// The body of an answer, as it arrives.
#[derive(Debug)]
pub enum AnswerBody {
    Arriving(Box<Arriving>),
    Whole(Full<Bytes>),
    /// Built here from messages that arrived elsewhere.
    Made(UnsyncBoxBody<Bytes, BodyError>),
    /// From a command that runs here. An empty chunk ends it, because the client has cancelled the
    /// request.
    Said(UnsyncBoxBody<Bytes, BodyError>),
    /// Written by one of our tasks. An empty chunk ends it, because the client has cancelled the
    /// request.
    Fed(tokio::sync::mpsc::Receiver<Bytes>),
    /// One of the others, without the secrets of its server.
    Masked(Box<MaskedBody>),
    /// No body: the client has cancelled the request and expects no answer.
    Cancelled,
}

/// Why an answer is incomplete.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the answer broke off: {0}")]
pub struct BodyError(pub String);

impl AnswerBody {
    /// The answer to a cancelled request: an event stream without events, because HTTP requires
    /// some answer.
    pub fn end_cancelled() -> Response<AnswerBody> {
        event_stream(AnswerBody::Cancelled)
    }

    /// Whether it ended without an answer because the client has cancelled the request.
    pub fn was_cancelled(&self) -> bool {
        match self {
            AnswerBody::Cancelled => true,
            AnswerBody::Masked(body) => body.was_cancelled(),
            _ => false,
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        match this {
            AnswerBody::Arriving(body) => body.poll_frame(context),
            AnswerBody::Made(body) => Pin::new(body).poll_frame(context),
            AnswerBody::Masked(body) => body.poll_frame(context),
            AnswerBody::Whole(body) => {
                Pin::new(body).poll_frame(context).map_err(|never| match never {})
            }
            AnswerBody::Said(events) => {
                let next = Pin::new(events).poll_frame(context);
                let is_cancelled =
                    |frame: &Frame<Bytes>| frame.data_ref().is_some_and(Bytes::is_empty);
                if matches!(&next, Poll::Ready(Some(Ok(frame))) if is_cancelled(frame)) {
                    *this = AnswerBody::Cancelled;
                    return Poll::Ready(None);
                }
                next
            }
            AnswerBody::Fed(body) => match body.poll_recv(context) {
                Poll::Ready(Some(bytes)) if bytes.is_empty() => {
                    *this = AnswerBody::Cancelled;
                    Poll::Ready(None)
                }
                next => next.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
            },
            AnswerBody::Cancelled => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AnswerBody::Arriving(body) => body.is_end_stream(),
            AnswerBody::Whole(body) => body.is_end_stream(),
            AnswerBody::Made(body) => body.is_end_stream(),
            AnswerBody::Masked(body) => body.is_end_stream(),
            AnswerBody::Said(_) | AnswerBody::Fed(_) => false,
            AnswerBody::Cancelled => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AnswerBody::Arriving(body) => body.size_hint(),
            AnswerBody::Whole(body) => body.size_hint(),
            AnswerBody::Made(body) => body.size_hint(),
            AnswerBody::Masked(_) | AnswerBody::Said(_) | AnswerBody::Fed(_) => SizeHint::default(),
            AnswerBody::Cancelled => SizeHint::with_exact(0),
        }
    }
}
