//! What a bridged client is answered: one JSON text if that is all there is to
//! say, else an event stream that begins with the first thing said.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use tokio::sync::{mpsc, oneshot};

use super::message::upstream_error;
use crate::{AnswerBody, SendError};

/// Messages on their way to a client that reads slowly.
const WAITING: usize = 8;

/// How a bridged request is answered.
pub(super) type Answer = Result<Response<AnswerBody>, SendError>;

/// The way back to one client.
#[derive(Debug)]
pub(super) struct Output {
    state: State,
}

#[derive(Debug)]
enum State {
    /// Nothing was said yet.
    Silent(oneshot::Sender<Answer>),
    Streaming(mpsc::Sender<Bytes>),
    Over,
}

impl Output {
    /// A way back, and where its beginning can be waited for.
    pub(super) fn new() -> (Output, oneshot::Receiver<Answer>) {
        let (sender, receiver) = oneshot::channel();
        (Output { state: State::Silent(sender) }, receiver)
    }

    /// Begins a stream, even if there is nothing to say yet.
    pub(super) fn begin(&mut self) {
        if !matches!(self.state, State::Silent(_)) {
            return;
        }
        let (sender, receiver) = mpsc::channel(WAITING);
        if let State::Silent(head) = std::mem::replace(&mut self.state, State::Streaming(sender)) {
            let mut answer = Response::new(AnswerBody::Fed(receiver));
            set_type(&mut answer, "text/event-stream");
            // Whoever asked may be gone; sending finds out.
            let _ = head.send(Ok(answer));
        }
    }

    /// Says something that is not the answer.
    pub(super) async fn say(&mut self, message: &str) {
        self.begin();
        if let State::Streaming(sender) = &self.state {
            let _ = sender.send(event(message)).await;
        }
    }

    /// Says the answer, with this status unless a stream has begun.
    pub(super) async fn finish(&mut self, status: StatusCode, message: String) {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Silent(head) => drop(head.send(Ok(json(status, message)))),
            State::Streaming(sender) => drop(sender.send(event(&message)).await),
            State::Over => {}
        }
    }

    /// Gives up before anything was said.
    pub(super) fn fail(&mut self, error: SendError) {
        if let State::Silent(head) = std::mem::replace(&mut self.state, State::Over) {
            let _ = head.send(Err(error));
        }
    }

    /// The server has not answered as it must.
    pub(super) async fn broken(&mut self, id: &str, why: &str) {
        if matches!(self.state, State::Silent(_)) {
            return self.fail(SendError::Lost(why.to_owned()));
        }
        self.finish(StatusCode::OK, upstream_error(id, why)).await;
    }

    /// Answers without a message.
    pub(super) fn finish_empty(&mut self, status: StatusCode) {
        self.answer(empty(status));
    }

    /// Answers with something that is ready.
    pub(super) fn answer(&mut self, answer: Response<AnswerBody>) {
        if let State::Silent(head) = std::mem::replace(&mut self.state, State::Over) {
            let _ = head.send(Ok(answer));
        }
    }

    /// Waits until nobody is there any more to be answered.
    pub(super) async fn gone(&mut self) {
        match &mut self.state {
            State::Silent(head) => head.closed().await,
            State::Streaming(sender) => sender.closed().await,
            State::Over => {}
        }
    }
}

/// A JSON answer.
pub(super) fn json(status: StatusCode, text: String) -> Response<AnswerBody> {
    let mut answer = Response::new(AnswerBody::Whole(Full::new(text.into())));
    *answer.status_mut() = status;
    set_type(&mut answer, "application/json");
    answer
}

/// An answer without a body.
pub(super) fn empty(status: StatusCode) -> Response<AnswerBody> {
    let mut answer = Response::new(AnswerBody::Whole(Full::default()));
    *answer.status_mut() = status;
    answer
}

fn set_type(answer: &mut Response<AnswerBody>, media_type: &'static str) {
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
}

/// A message as an event. One that is spread over lines is so many lines of data.
fn event(message: &str) -> Bytes {
    let mut text = String::with_capacity(message.len() + 8);
    for line in message.split(['\n', '\r']) {
        text.extend(["data: ", line, "\n"]);
    }
    text.push('\n');
    text.into()
}
