//! A request of a legacy server (sampling, elicitation, roots) that a call has accepted: it
//! is answered, reassigned to another call, or refused.

use std::sync::Arc;

use sluice_wire::{
    json::{Document, Value},
    rpc::Message,
};

use super::{dispatch::Dispatcher, refuse_server_request, session::Session};
use crate::message::{INTERNAL, error, response, splice_members};

/// See the module. On drop, an unanswered question is offered to another call if it
/// arrived on the session stream and no client was asked yet; otherwise it is refused.
#[derive(Debug)]
pub(super) struct ServerRequest {
    session: Arc<Session>,
    document: Document,
    /// The id of the server's request, as JSON.
    id: String,
    method: String,
    /// Whether it arrived on the session stream.
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

impl ServerRequest {
    pub(super) fn new(
        session: &Arc<Session>,
        document: &Document,
        id: String,
        method: &str,
        is_beside: bool,
    ) -> ServerRequest {
        ServerRequest {
            session: Arc::clone(session),
            document: document.clone(),
            id,
            method: method.to_owned(),
            is_beside,
            progress: Progress::Taken,
        }
    }

    /// The key of the question in the client's `inputRequests`.
    pub(super) fn key(&self) -> String {
        format!("request-{}", self.id).replace('"', "")
    }

    /// The question to the client, as JSON.
    pub(super) fn request(&self) -> String {
        let drop = |key: &str| matches!(key, "jsonrpc" | "id" | "result" | "error");
        splice_members(Some(self.document.root()), drop, &[])
    }

    /// Notes that the client has been asked.
    pub(super) fn mark_asked(&mut self) {
        self.progress = Progress::Asked;
    }

    /// Sends the client's answer to the server; an error says why the server did not
    /// accept it.
    pub(super) async fn answer(mut self, result: Option<Value<'_>>) -> Result<(), String> {
        let answer = response(&self.id, result.map_or("{}", Value::raw));
        self.progress = Progress::Answered;
        self.session.deliver(answer).await
    }
}

impl Drop for ServerRequest {
    fn drop(&mut self) {
        let refusal = match self.progress {
            Progress::Answered => return,
            Progress::Taken if self.is_beside => {
                if Dispatcher::offer(&self.session, self.document.clone()) {
                    return;
                }
                refuse_server_request(&self.id, &self.method)
            }
            Progress::Taken => refuse_server_request(&self.id, &self.method),
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
        send(session, refuse_server_request(&id.to_json(), method));
    }
}

fn send(session: Arc<Session>, message: String) {
    // Without a runtime the process is ending, and the server will notice that.
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(async move { session.tell(message).await });
    }
}
