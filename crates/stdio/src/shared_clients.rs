//! One child shared by all clients (`instances = "shared"`): the gateway manages the
//! sessions, and keeps the state of clients separate.

use std::sync::{Arc, Once};

use http::{Response, StatusCode};
use sluice_http::answer::json;
use sluice_http::{AnswerBody, Lease, SendError};
use sluice_wire::{
    edit::{Edits, quote},
    json::{Bounds, Document, Value},
    mcp::Revision,
    rpc::{Id, Message},
};

use super::{
    child::{AskError, Asker, Asking, Child},
    child_per_session::{SWEEP, ask_error},
    handshake::{self, Core},
    reply::{self, failure},
    shared_child::{SharedChild, StartError, Started},
};

/// The legacy clients of a shared child.
#[derive(Debug)]
pub(super) struct SharedClients {
    pub(super) core: Arc<Core>,
    pub(super) slot: Arc<SharedChild>,
    pub(super) sweeping: Once,
}

impl SharedClients {
    async fn start(&self) -> Started {
        let core = Arc::clone(&self.core);
        self.core.wait_until_started(self.slot.get(|| handshake::legacy(core))).await
    }

    async fn child(&self) -> Result<Arc<Child>, SendError> {
        self.start().await.map_err(|error| match error {
            StartError::Failed(why) => SendError::NotStarted(why.to_string()),
            StartError::Legacy | StartError::Modern => {
                SendError::NotSent("the server speaks another era".into())
            }
        })
    }

    /// The answer for a server that speaks only the modern era, as an HTTP server would
    /// give it.
    async fn other_era(&self, id: &str) -> Result<Option<Response<AnswerBody>>, SendError> {
        let why = "this server speaks only the modern era: ask it with `server/discover`";
        match self.start().await {
            Err(StartError::Modern) => {
                Ok(Some(json(StatusCode::BAD_REQUEST, failure(id, -32000, why))))
            }
            // Returned at once, so that a failed start is not waited for twice.
            Err(StartError::Failed(why)) => Err(SendError::NotStarted(why.to_string())),
            Ok(_) | Err(StartError::Legacy) => Ok(None),
        }
    }

    async fn ask(
        &self,
        document: &Document,
        session: Option<&Arc<str>>,
    ) -> Result<Asking, SendError> {
        let client = Asker::Client(session);
        match self.child().await?.ask(document, client).await {
            // The child has just ended: try once more with a new one.
            Err(AskError::Over(_)) => {
                self.child().await?.ask(document, client).await.map_err(ask_error)
            }
            asked => asked.map_err(ask_error),
        }
    }

    /// Opens a session with the child's stored introduction.
    pub(super) async fn begin(
        &self,
        session: Arc<str>,
        id: &Id,
        params: Option<Value<'_>>,
        lease: Option<Lease>,
    ) -> Result<Response<AnswerBody>, SendError> {
        if let Some(answer) = self.other_era(&id.to_json()).await? {
            return Ok(answer);
        }
        let child = self.child().await?;
        let introduction = child.introduction.get().map(|introduction| &introduction.result);
        let asked = params.and_then(|params| params.get("protocolVersion")).and_then(Value::as_str);
        let result = introduction.and_then(|result| with_agreed_revision(result, asked));
        let result = result.ok_or_else(|| SendError::Lost("the server said nothing".into()))?;
        self.core
            .sessions
            .begin(&session, lease)
            .map_err(|_| SendError::NotStarted("too many sessions are open".into()))?;
        self.sweep();
        Ok(reply::in_session(reply::result(&id.to_json(), &result), &session))
    }

    /// Passes a message to the child, unless it is answered here.
    pub(super) async fn post(
        &self,
        document: Document,
        session: Option<Arc<str>>,
        lease: Option<Lease>,
        accepted: Response<AnswerBody>,
    ) -> Result<Response<AnswerBody>, SendError> {
        let message = Message::read(&document).ok();
        match message {
            Some(Message::Request { id, method, params }) => {
                let id = id.to_json();
                let here = self.answer_locally(&id, method, params, session.as_ref(), lease);
                if let Some(answer) = here {
                    return Ok(answer);
                }
                if let Some(answer) = self.other_era(&id).await? {
                    return Ok(answer);
                }
                let asking = self.ask(&document, session.as_ref()).await?;
                reply::answer(asking, id, false).await
            }
            Some(Message::Notification { method, .. }) => {
                self.notify(method, &document, session.as_ref()).await?;
                Ok(accepted)
            }
            // The child's requests are answered by the gateway, so it expects no answers.
            _ => Ok(accepted),
        }
    }

    /// Answers requests whose effect would extend to other clients.
    fn answer_locally(
        &self,
        id: &str,
        method: &str,
        params: Option<Value<'_>>,
        session: Option<&Arc<str>>,
        lease: Option<Lease>,
    ) -> Option<Response<AnswerBody>> {
        let uri = || params.and_then(|params| params.get("uri")).and_then(Value::as_str);
        let refused = |why: &str| json(StatusCode::OK, failure(id, -32600, why));
        let sessions = &self.core.sessions;
        match (method, session) {
            // The log level would apply to all clients, and log messages go to the
            // gateway's log.
            ("logging/setLevel", _) => Some(reply::result(id, "{}")),
            ("resources/subscribe", None) => Some(refused("subscribing needs a session")),
            ("resources/subscribe", Some(session)) => {
                let is_taken = uri().is_none_or(|uri| sessions.subscribe(session, uri, lease));
                (!is_taken).then(|| refused("the session has too many subscriptions"))
            }
            ("resources/unsubscribe", session) => {
                let session = session.map_or("", |session| session);
                let is_last = uri().is_none_or(|uri| sessions.unsubscribe(session, uri));
                (!is_last).then(|| reply::result(id, "{}"))
            }
            _ => None,
        }
    }

    async fn notify(
        &self,
        method: &str,
        document: &Document,
        session: Option<&Arc<str>>,
    ) -> Result<(), SendError> {
        match (method, session) {
            ("notifications/cancelled", Some(session)) => {
                if let Some(child) = self.slot.running() {
                    child.cancel(session, document).await;
                }
                Ok(())
            }
            // These are about requests that a shared child never sends to its clients.
            (
                "notifications/cancelled"
                | "notifications/initialized"
                | "notifications/progress"
                | "notifications/roots/list_changed",
                _,
            ) => Ok(()),
            _ => {
                let told = self.child().await?.tell(document.text().to_owned()).await;
                told.map_err(|_| ask_error(AskError::Full))
            }
        }
    }

    /// Ends a session; returns whether it existed.
    pub(super) async fn end(&self, session: &str) -> bool {
        let Some(left) = self.core.sessions.end(session) else { return false };
        unsubscribe(&self.slot, left).await;
        true
    }

    /// Ends idle sessions from now on, as long as the server exists.
    fn sweep(&self) {
        self.sweeping.call_once(|| {
            let (core, slot) = (Arc::downgrade(&self.core), Arc::downgrade(&self.slot));
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(SWEEP).await;
                    let (Some(core), Some(slot)) = (core.upgrade(), slot.upgrade()) else { return };
                    unsubscribe(&slot, core.sessions.expire()).await;
                }
            });
        });
    }
}

/// Ends these subscriptions at the child, if it runs.
async fn unsubscribe(slot: &SharedChild, uris: Vec<String>) {
    let Some(child) = slot.running() else { return };
    for uri in uris {
        let uri = quote(&uri);
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":0,"method":"resources/unsubscribe","params":{{"uri":{uri}}}}}"#
        );
        if let Ok(request) = Document::parse(text, &Bounds::default()) {
            // The answer is not needed.
            let _ = child.ask(&request, Asker::Gateway).await;
        }
    }
}

/// The child's introduction, with the protocol version that both support: the
/// client's, unless the child's is older.
fn with_agreed_revision(introduction: &str, asked: Option<&str>) -> Option<String> {
    let bounds = Bounds { bytes: usize::MAX, string: usize::MAX, ..Bounds::default() };
    let document = Document::parse(introduction, &bounds).ok()?;
    let spoken = document.root().get("protocolVersion")?;
    let theirs = Revision::from_name(spoken.as_str()?);
    let ours = asked.and_then(Revision::from_name);
    let mut edits = Edits::new(&document);
    if let (Some(theirs), Some(ours)) = (theirs, ours)
        && ours < theirs
    {
        edits.replace(spoken, quote(ours.name()));
    }
    Some(edits.finish())
}

#[cfg(test)]
mod tests {
    use super::with_agreed_revision;

    #[test]
    fn client_and_child_agree_on_the_older_protocol_version() {
        let check = |child: &str, client: Option<&str>, expected: &str| {
            let introduction = format!(r#"{{"x":1,"protocolVersion":"{child}"}}"#);
            let expected = format!(r#"{{"x":1,"protocolVersion":"{expected}"}}"#);
            assert_eq!(with_agreed_revision(&introduction, client), Some(expected));
        };
        check("2025-11-25", Some("2025-06-18"), "2025-06-18");
        check("2024-11-05", Some("2025-11-25"), "2024-11-05");
        check("2025-11-25", Some("2030-01-01"), "2025-11-25");
        check("2025-11-25", None, "2025-11-25");
    }
}
