//! Constructors of responses that are built locally, in place of a server.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt as _, Full};

use crate::{AnswerBody, BodyError};

/// How often a request was sent until it was answered. It is in the extensions of an answer
/// whose request was sent more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sendings(pub u32);

/// Notes that the request was also sent before, and that the answer to that was not used.
#[must_use]
pub fn after_another<B>(mut answer: Response<B>) -> Response<B> {
    let Sendings(sendings) = answer.extensions().get().copied().unwrap_or(Sendings(1));
    answer.extensions_mut().insert(Sendings(sendings + 1));
    answer
}

/// An answer with a JSON body.
pub fn json(status: StatusCode, text: impl Into<Bytes>) -> Response<AnswerBody> {
    let mut answer = Response::new(AnswerBody::Whole(Full::new(text.into())));
    *answer.status_mut() = status;
    set_type(&mut answer, "application/json");
    answer
}

/// An answer without a body.
pub fn empty(status: StatusCode) -> Response<AnswerBody> {
    let mut answer = Response::new(AnswerBody::Whole(Full::default()));
    *answer.status_mut() = status;
    answer
}

/// An event stream with any kind of body.
pub fn event_stream(body: AnswerBody) -> Response<AnswerBody> {
    let mut answer = Response::new(body);
    set_type(&mut answer, "text/event-stream");
    answer
}

impl AnswerBody {
    /// An answer with a body that is built here.
    pub fn from_body(
        body: impl Body<Data = Bytes, Error = BodyError> + Send + 'static,
    ) -> AnswerBody {
        AnswerBody::Made(body.boxed_unsync())
    }
}

fn set_type(answer: &mut Response<AnswerBody>, media_type: &'static str) {
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
}
