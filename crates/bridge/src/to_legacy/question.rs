//! A request of a legacy server that a call has accepted: it is answered, handed to another
//! call, or refused.

use std::sync::Arc;

use sluice_wire::{
    json::{Document, Value},
    rpc::Message,
};

use super::{nobody, session::Session, side::Side};
use crate::message::{INTERNAL, error, response, splice_members};

/// See the module. Dropped, it is put to another call if it did not come on the
/// stream of its own call and no client was asked; else it is refused.
#[derive(Debug)]
pub(super) struct Question {
    session: Arc<Session>,
    document: Document,
    /// The id of the server's request, as JSON.
    id: String,
    method: String,
    /// Whether it came on the stream of the session.
    is_beside: bool,
    progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Taken,
    /// The client was asked.
    Asked,
    Answered,
}

impl Question {
    pub(super) fn new(
        session: &Arc<Session>,
        document: &Document,
        id: String,
        method: &str,
        is_beside: bool,
    ) -> Question {
        Question {
            session: Arc::clone(session),
            document: document.clone(),
            id,
            method: method.to_owned(),
            is_beside,
            progress: Progress::Taken,
        }
    }

    /// Under which name a client is asked.
    pub(super) fn key(&self) -> String {
        format!("request-{}", self.id).replace('"', "")
    }

    /// The question to the client, as JSON.
    pub(super) fn request(&self) -> String {
        let drop = |key: &str| matches!(key, "jsonrpc" | "id" | "result" | "error");
        splice_members(Some(self.document.root()), drop, &[])
    }

    /// Its client has been asked.
    pub(super) fn mark_asked(&mut self) {
        self.progress = Progress::Asked;
    }

    /// Gives the server its answer, or says why it could not be given.
    pub(super) async fn answer(mut self, result: Option<Value<'_>>) -> Result<(), String> {
        let answer = response(&self.id, result.map_or("{}", Value::raw));
        self.progress = Progress::Answered;
        self.session.deliver(answer).await
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        let refusal = match self.progress {
            Progress::Answered => return,
            Progress::Taken if self.is_beside => {
                if Side::offer(&self.session, self.document.clone()) {
                    return;
                }
                nobody(&self.id, &self.method)
            }
            Progress::Taken => nobody(&self.id, &self.method),
            Progress::Asked => {
                error(&self.id, INTERNAL, &format!("the client did not answer `{}`", self.method))
            }
        };
        send(Arc::clone(&self.session), refusal);
    }
}

/// Refuses a request of the server that no call can take.
pub(super) fn refuse(session: Arc<Session>, request: &Document) {
    if let Ok(Message::Request { id, method, .. }) = Message::read(request) {
        send(session, nobody(&id.to_json(), method));
    }
}

fn send(session: Arc<Session>, message: String) {
    // Without a runtime everything ends, and the server hears that.
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(async move { session.tell(message).await });
    }
}
