//! The answer to a bridged client: a JSON body if there is only one message, else an event
//! stream.

use bytes::Bytes;
use http::{Response, StatusCode};
use sluice_http::{
    AnswerBody, SendError,
    answer::{after_another, empty, event_stream, json},
    sse::encode_message,
};
use tokio::sync::{mpsc, oneshot};

use super::message::upstream_error;

/// Messages that may be queued for a slow client.
const WAITING: usize = 8;

/// How a bridged request is answered.
pub(super) type Answer = Result<Response<AnswerBody>, SendError>;

/// The sending side of the answer to one client.
#[derive(Debug)]
pub(super) struct ResponseWriter {
    /// Sends how the answer begins; `None` once it has begun.
    head: Option<oneshot::Sender<Head>>,
    /// The messages of a stream; `None` once it has ended.
    sender: Option<mpsc::Sender<Bytes>>,
    /// Whether the request was sent before, and is sent again.
    is_repeated: bool,
}

/// How an answer begins.
#[derive(Debug)]
enum Head {
    /// With the whole answer.
    Whole(Answer),
    Stream {
        is_repeated: bool,
    },
}

/// The receiving side of an answer. When it, or the response made from it, is dropped,
/// the client counts as disconnected.
#[derive(Debug)]
pub(super) struct Beginning {
    head: oneshot::Receiver<Head>,
    body: mpsc::Receiver<Bytes>,
}

impl Beginning {
    /// Waits for the answer to begin.
    pub(super) async fn answer(self) -> Answer {
        match self.head.await {
            Ok(Head::Whole(answer)) => answer,
            Ok(Head::Stream { is_repeated }) => {
                let answer = event_stream(AnswerBody::Fed(self.body));
                Ok(if is_repeated { after_another(answer) } else { answer })
            }
            Err(_) => Err(SendError::Lost("the bridge gave no answer".into())),
        }
    }
}

impl ResponseWriter {
    /// Makes both sides of an answer.
    pub(super) fn new() -> (ResponseWriter, Beginning) {
        let (begins, head) = oneshot::channel();
        let (sender, body) = mpsc::channel(WAITING);
        let (head_sender, sender) = (Some(begins), Some(sender));
        let output = ResponseWriter { head: head_sender, sender, is_repeated: false };
        (output, Beginning { head, body })
    }

    /// Begins a stream, even if there is no message yet.
    pub(super) fn begin(&mut self) {
        if let Some(head) = self.head.take() {
            // If the client is gone, the next send will notice.
            let _ = head.send(Head::Stream { is_repeated: self.is_repeated });
        }
    }

    /// Notes whether the request is sent for the second time, which the answer will say.
    pub(super) fn note_repeat(&mut self, is_repeated: bool) {
        self.is_repeated = is_repeated;
    }

    /// Sends a message that is not the answer.
    pub(super) async fn say(&mut self, message: &str) {
        self.begin();
        if let Some(sender) = &self.sender {
            let _ = sender.send(encode_message(message)).await;
        }
    }

    /// Sends the answer, with this status unless a stream has begun.
    pub(super) async fn finish(&mut self, status: StatusCode, message: String) {
        if self.head.is_some() {
            return self.answer(json(status, message));
        }
        if let Some(sender) = self.sender.take() {
            let _ = sender.send(encode_message(&message)).await;
        }
    }

    /// Ends without an answer, because the client has cancelled its request.
    pub(super) async fn cancel(&mut self) {
        if self.head.is_some() {
            return self.answer(AnswerBody::end_cancelled());
        }
        if let Some(sender) = self.sender.take() {
            let _ = sender.send(Bytes::new()).await;
        }
    }

    /// Fails before any message was sent.
    pub(super) fn fail(&mut self, error: SendError) {
        self.whole(Err(error));
    }

    /// Reports that the server's answer was invalid.
    pub(super) async fn report_bad_answer(&mut self, id: &str, why: &str) {
        if self.head.is_some() {
            return self.fail(SendError::BadAnswer(why.to_owned()));
        }
        self.finish(StatusCode::OK, upstream_error(id, why)).await;
    }

    /// Answers without a message.
    pub(super) fn finish_empty(&mut self, status: StatusCode) {
        self.answer(empty(status));
    }

    /// Answers with a complete response.
    pub(super) fn answer(&mut self, answer: Response<AnswerBody>) {
        self.whole(Ok(answer));
    }

    fn whole(&mut self, answer: Answer) {
        self.sender = None;
        let answer = if self.is_repeated { answer.map(after_another) } else { answer };
        if let Some(head) = self.head.take() {
            let _ = head.send(Head::Whole(answer));
        }
    }

    /// Waits until the client has disconnected.
    pub(super) fn wait_for_disconnect(&self) -> impl Future<Output = ()> + use<> {
        let sender = self.sender.clone();
        async move {
            if let Some(sender) = sender {
                sender.closed().await;
            }
        }
    }
}
