//! The single child of a single client, for `sluice wrap`: it is started once, receives
//! its client's messages in either era, and is never restarted.
//!
//! Other users of the server, such as the gateway when it lists tools, share the child. They
//! get the `initialize` result that it gave its client.

use std::{
    collections::BTreeSet,
    process::ExitStatus,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, request::Parts};
use sluice_http::answer::{empty, json};
use sluice_http::{AnswerBody, SendError, headers::SESSION};
use sluice_wire::{
    json::Document,
    mcp::Era,
    rpc::{Id, Message},
};
use tokio::sync::{OnceCell, watch};

use super::{
    child::{Asker, Audience, Child, Introduction},
    child_per_session::{OwnSession, ask_error},
    handshake::{self, refuses_modern, result_of},
    is_modern,
    launch::{self, Launch, Limits, Program},
    new_id, no_message,
    output_log::Chatter,
    parse_judged,
    queue::CallEvent,
    reply::{self, failure},
    shared_sessions::Mailbox,
};
use crate::Inquiry;

/// How long it may take until its era is known: some commands are downloaded first. A
/// shared child has as long for its handshake.
const ERA_TIMEOUT: Duration = Duration::from_mins(2);

/// A child, its client, and its guests.
#[derive(Debug)]
pub struct OnlyChild {
    /// `None` once it is being ended.
    own: Mutex<Option<Arc<OwnSession>>>,
    guests: Mutex<BTreeSet<Arc<str>>>,
    /// The child's answer to its client's `initialize`, in the legacy era.
    hello: OnceLock<String>,
    /// Whether it has refused `server/discover`.
    is_legacy: AtomicBool,
    /// The era that a probe found, if there was one.
    era: OnceCell<Era>,
    exited: watch::Receiver<Option<ExitStatus>>,
}

/// Why a command was not started, as text for people.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotStarted(String);

impl OnlyChild {
    /// Starts a command. None of its messages may be longer than `most` bytes.
    pub fn start(
        name: &str,
        launch: &Launch,
        program: &Program,
        most: usize,
    ) -> Result<OnlyChild, NotStarted> {
        let failed = |error: String| NotStarted(error);
        let mailbox = Arc::new(Mailbox::holding());
        let audience = Audience::One(Arc::clone(&mailbox));
        let chatter = Chatter::read_by(name, program.secrets.clone(), &launch.errors);
        // The child has no timeout: its client notices if it hangs, and can restart it.
        let limits = Limits { message: most, timeout: None };
        let child = launch::launch(launch, program, limits, &chatter, audience)
            .map_err(|error| failed(error.to_string()))?;
        let exited = child.exited.clone();
        let id = new_id().map_err(|error| failed(error.to_string()))?;
        let own = OwnSession::new(id, child, mailbox, None);
        Ok(OnlyChild {
            own: Mutex::new(Some(Arc::new(own))),
            guests: Mutex::default(),
            hello: OnceLock::new(),
            is_legacy: AtomicBool::new(false),
            era: OnceCell::new(),
            exited,
        })
    }

    /// The era of the child; `None` if it does not answer in time, because it may still
    /// be starting. It is probed until it has answered, and only if it was not
    /// initialized before.
    pub async fn era(&self) -> Option<Era> {
        if self.is_legacy() {
            return Some(Era::Legacy);
        }
        let own = self.own().ok()?;
        if let Some(introduction) = own.child.introduction.get() {
            return Some(introduction.era);
        }
        let ask = async || handshake::era(&own.child, ERA_TIMEOUT).await.ok_or(());
        self.era.get_or_try_init(ask).await.ok().copied()
    }

    fn is_legacy(&self) -> bool {
        self.hello.get().is_some()
            || self.is_legacy.load(Ordering::Relaxed)
            || self.era.get() == Some(&Era::Legacy)
    }

    /// Waits until the process has exited; `None` if its status is unknown.
    pub async fn wait_exit(&self) -> Option<ExitStatus> {
        let mut exited = self.exited.clone();
        exited.wait_for(Option::is_some).await.ok().and_then(|status| *status)
    }

    /// The last stderr lines; if `at_start`, only as long as the handshake is not
    /// complete.
    pub fn last_words(&self, at_start: bool) -> Option<String> {
        let child = &self.own().ok()?.child;
        child.words.as_ref().filter(|_| !at_start || !child.is_introduced())?.text()
    }

    /// Ends the child: closes its input, and signals it if that does not help.
    pub fn close(&self) {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(own) = own {
            own.child.finish("the server is being ended");
        }
    }

    fn own(&self) -> Result<Arc<OwnSession>, SendError> {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner).clone();
        own.ok_or_else(|| SendError::NotStarted("the server is being ended".into()))
    }

    fn guests(&self) -> MutexGuard<'_, BTreeSet<Arc<str>>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers one HTTP request as the server's MCP endpoint would.
    pub async fn send(&self, head: Parts, body: Bytes) -> Result<Response<AnswerBody>, SendError> {
        let session = head.headers.get(SESSION).and_then(|value| value.to_str().ok());
        let is_guest = session.is_some_and(|session| self.guests().contains(session));
        match head.method {
            Method::POST => {
                let is_ours = is_guest || head.extensions.get::<Inquiry>().is_some();
                self.post(&head.headers, is_guest, is_ours, body).await
            }
            Method::GET if !is_guest => Ok(self.own()?.open()),
            Method::DELETE if is_guest => {
                self.guests().remove(session.unwrap_or_default());
                Ok(empty(StatusCode::OK))
            }
            // The child ends with its client, not with a session.
            Method::DELETE => Ok(empty(StatusCode::OK)),
            _ => Ok(empty(StatusCode::METHOD_NOT_ALLOWED)),
        }
    }

    async fn post(
        &self,
        headers: &HeaderMap,
        is_guest: bool,
        is_ours: bool,
        body: Bytes,
    ) -> Result<Response<AnswerBody>, SendError> {
        let Some(document) = parse_judged(body) else { return Ok(no_message()) };
        let Ok(message) = Message::read(&document) else { return Ok(no_message()) };
        let accepted = empty(StatusCode::ACCEPTED);
        match &message {
            Message::Request { id, method, .. } if is_modern(headers, &message) => {
                let is_discovery = *method == "server/discover";
                self.ask_modern(&document, id, is_discovery, is_ours).await
            }
            Message::Request { id, method: "initialize", .. } => {
                self.begin(&document, id, is_ours).await
            }
            // The client has already sent this notification to the child.
            Message::Notification { method: "notifications/initialized", .. } if is_guest => {
                Ok(accepted)
            }
            _ => self.own()?.post(document, is_ours, accepted).await,
        }
    }

    /// Initializes the child for its client; guests get the stored result.
    async fn begin(
        &self,
        document: &Document,
        id: &Id,
        is_ours: bool,
    ) -> Result<Response<AnswerBody>, SendError> {
        let id = id.to_json();
        if let Some(hello) = self.hello.get() {
            let guest = new_id()?;
            self.guests().insert(Arc::clone(&guest));
            return Ok(reply::in_session(reply::result(&id, hello), &guest));
        }
        let own = self.own()?;
        if own.child.is_modern() {
            let why = "this server is spoken to in the modern era";
            return Ok(json(StatusCode::OK, failure(&id, -32601, why)));
        }
        if is_ours {
            // The gateway is the only user, for example to list the tools.
            own.mailbox.keep_nothing();
        }
        let mut asking = own.child.ask(document, Asker::Gateway).await.map_err(ask_error)?;
        let first = asking.inbox.next().await;
        if let Some(error) = not_introduced(&own.child, first.as_ref(), true) {
            return Err(error);
        }
        let result = match &first {
            Some(CallEvent::Answer(answer)) => result_of(&own.child, answer),
            _ => None,
        };
        let response = reply::begin_reply(first, asking, id, false)?;
        let Some(result) = result else { return Ok(response) };
        set_era(&own.child, Era::Legacy);
        let _ = self.hello.set(result.into_text());
        Ok(reply::in_session(response, &own.id))
    }

    async fn ask_modern(
        &self,
        document: &Document,
        id: &Id,
        is_discovery: bool,
        is_ours: bool,
    ) -> Result<Response<AnswerBody>, SendError> {
        let id = id.to_json();
        if self.is_legacy() {
            let why = "this server is spoken to in the legacy era";
            return Ok(json(StatusCode::BAD_REQUEST, failure(&id, -32000, why)));
        }
        let own = self.own()?;
        let asker = if is_ours { Asker::Gateway } else { Asker::Client(None) };
        let mut asking = own.child.ask(document, asker).await.map_err(ask_error)?;
        let first = asking.inbox.next().await;
        if let Some(error) = not_introduced(&own.child, first.as_ref(), is_discovery) {
            return Err(error);
        }
        if let Some(CallEvent::Answer(answer)) = &first {
            if answer.code.is_none() {
                set_era(&own.child, Era::Modern);
            } else if is_discovery && refuses_modern(answer) {
                self.is_legacy.store(true, Ordering::Relaxed);
            }
        }
        reply::begin_reply(first, asking, id, true)
    }
}

/// The error for a child that ended before its handshake was complete, if its last lines
/// may be quoted here. Any request other than the handshake may have had an effect.
fn not_introduced(
    child: &Child,
    first: Option<&CallEvent>,
    is_introduction: bool,
) -> Option<SendError> {
    match first {
        Some(CallEvent::Failed(why)) if child.words.is_some() && !child.is_introduced() => {
            let why = child.explain(&format!("{why} before it introduced itself"));
            Some(if is_introduction { SendError::NotStarted(why) } else { SendError::Lost(why) })
        }
        _ => None,
    }
}

/// Stores the era, once it is known.
fn set_era(child: &Child, era: Era) {
    let _ = child.introduction.set(Introduction { era, result: String::new() });
}
