//! One request in flight at a legacy server. Messages that belong to it arrive on the stream
//! of its answer and on the session stream; both are merged here.

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use http::{Method, Response};
use sluice_http::{
    AnswerBody, SendError,
    headers::{LAST_EVENT, is_event_stream},
};
use sluice_wire::{
    json::{Bounds, Document},
    rpc::Id,
};

use super::{dispatch::CallReceiver, session::Session};
use crate::{
    exchange::{Reader, bare, set},
    response::ResponseWriter,
};

/// A request in progress at the server. If this is dropped before the answer, the request
/// is cancelled.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) under_way: UnderWay,
    pub(super) source: Source,
    /// Messages on the session stream.
    pub(super) receiver: CallReceiver,
    /// A message that arrived on the session stream before the answer began.
    pub(super) early: Option<Document>,
}

/// A message from the server.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) document: Document,
    /// Whether it arrived on the session stream.
    pub(super) is_beside: bool,
}

impl Heard {
    fn of_call(document: Document) -> Heard {
        Heard { document, is_beside: false }
    }

    fn beside(document: Document) -> Heard {
        Heard { document, is_beside: true }
    }
}

/// An answer that has not begun.
pub(super) type Sending =
    Pin<Box<dyn Future<Output = Result<Response<AnswerBody>, SendError>> + Send>>;

/// Where the answer comes from.
pub(super) enum Source {
    Awaited(Sending),
    Read(Reader),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Awaited(_) => f.write_str("Awaited(…)"),
            Source::Read(reader) => reader.fmt(f),
        }
    }
}

impl Source {
    /// The next message of the answer. Cancel safe: no message is lost if this future is
    /// dropped.
    async fn next(&mut self, bounds: Bounds) -> Result<Option<Document>, String> {
        loop {
            match self {
                Source::Awaited(sending) => {
                    let answer = sending.await.map_err(|error| error.to_string())?;
                    *self = Source::Read(Reader::new(answer, bounds));
                }
                Source::Read(reader) => return reader.next().await,
            }
        }
    }
}

/// Cancels a request on drop, unless it was answered.
#[derive(Debug)]
pub(super) struct UnderWay {
    pub(super) session: Arc<Session>,
    /// Our id of the request.
    pub(super) id: Id,
    pub(super) is_answered: bool,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (session, id) = (Arc::clone(&self.session), self.id.to_json());
        let message = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"the client is gone"}}}}"#
        );
        runtime.spawn(async move { session.tell(message).await });
    }
}

impl InFlight {
    /// The next message; if `waits` is false, only one that has already arrived. `None`
    /// if there is none, or the client is gone.
    pub(super) async fn next(
        &mut self,
        waits: bool,
        bounds: Bounds,
        output: &mut ResponseWriter,
    ) -> Result<Option<Heard>, String> {
        if let Some(early) = self.early.take() {
            return Ok(Some(Heard::beside(early)));
        }
        if !waits {
            let arrived = match &mut self.source {
                Source::Awaited(_) => None,
                Source::Read(reader) => reader.try_next()?,
            };
            let arrived = arrived.map(Heard::of_call);
            return Ok(arrived.or_else(|| self.receiver.try_take().map(Heard::beside)));
        }
        loop {
            let next = tokio::select! {
                next = self.source.next(bounds) => next,
                said = self.receiver.next() => return Ok(Some(Heard::beside(said))),
                () = output.wait_for_disconnect() => return Ok(None),
            };
            match next {
                Ok(Some(document)) => return Ok(Some(Heard::of_call(document))),
                ended => {
                    let Some((last, pause)) = self.last_event() else {
                        let none = || "its stream ended without an answer".to_owned();
                        return Err(ended.err().unwrap_or_else(none));
                    };
                    tokio::time::sleep(pause).await;
                    let session = Arc::clone(&self.under_way.session);
                    self.source = Source::Read(resume_stream(&session, &last, bounds).await?);
                }
            }
        }
    }

    /// The event id from which a stream that ended can be resumed, and how long to wait.
    fn last_event(&mut self) -> Option<(String, Duration)> {
        let Source::Read(reader) = &mut self.source else { return None };
        Some((reader.last_event.take()?, reader.retry()))
    }
}

/// Resumes a stream that the server has ended.
async fn resume_stream(session: &Session, last: &str, bounds: Bounds) -> Result<Reader, String> {
    let mut headers = session.headers();
    set(&mut headers, LAST_EVENT, last);
    let sent = session.link().upstream.send(bare(Method::GET, headers)).await;
    let answer = sent.map_err(|error| error.to_string())?;
    if !answer.status().is_success() || !is_event_stream(answer.headers()) {
        return Err("its stream ended without an answer".into());
    }
    Ok(Reader::new(answer, bounds))
}
