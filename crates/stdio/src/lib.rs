//! MCP servers that are local commands and communicate over stdio.
//!
//! [`StdioServer`] and [`OnlyChild`] answer HTTP requests for such a command, in the
//! child's own era, so that the gateway treats it like a remote server. Clients of the
//! two eras never share a child: a server that speaks both eras runs once for each era in
//! use. Translation between eras is left to `bridge`.
//!
//! This crate is large because one child is shared by many clients: ids, sessions,
//! progress and subscriptions are kept apart, and a child that hangs or exits is
//! replaced.

mod child;
mod child_per_session;
mod handshake;
mod health;
mod launch;
mod lines;
mod output_log;
mod queue;
mod reader;
mod recent_output;
mod reply;
mod shared_child;
mod shared_clients;
mod shared_sessions;
mod single_client;
mod stderr;
mod timeout;

use std::{
    fmt::{self, Write as _},
    sync::{Arc, Once, atomic::AtomicBool},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use sluice_http::answer::{empty, json};
use sluice_http::{
    AnswerBody, Lease, SendError,
    headers::{REVISION, SESSION},
};
use sluice_wire::{
    json::{Bounds, Document, Value},
    mcp::{Era, META_VERSION, Revision},
    rpc::{Id, Message},
};
use tokio::sync::Mutex;

pub use launch::{Errors, Launch, Limits, Program, Supervisor};
pub use lines::{Line, Lines};
pub use queue::single_line;
pub use reader::NOBODY_ASKED;
pub use recent_output::Overheard;
pub use single_client::{NotStarted, OnlyChild};
pub use timeout::Timeout;

use self::{
    child::{AskError, Asker},
    child_per_session::{OwnSessions, ask_error},
    handshake::Core,
    output_log::Chatter,
    reply::failure,
    shared_child::{SharedChild, StartError, Started},
    shared_clients::SharedClients,
    shared_sessions::Sessions,
};

/// Which sessions share a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Instances {
    /// All sessions share one.
    #[default]
    Shared,
    /// Each session has its own. Requests without a session share one.
    Session,
}

/// Marks a request that the gateway makes for itself. A request of a child goes to the
/// newest call of its single client; a marked call is skipped, because the gateway would
/// never answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inquiry;

/// What the gateway says about a message besides its headers.
#[derive(Debug)]
struct Asked {
    /// Whether the gateway makes the request for itself.
    is_ours: bool,
    lease: Option<Lease>,
}

/// A server that runs as a command.
pub struct StdioServer {
    instances: Instances,
    shared: SharedClients,
    modern: Arc<SharedChild>,
    own: Arc<OwnSessions>,
}

impl fmt::Debug for StdioServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments may contain secrets.
        write!(f, "StdioServer({:?})", self.shared.core.program.command.first())
    }
}

impl StdioServer {
    /// A server with this name. Nothing is started yet.
    pub fn new(
        name: &str,
        launch: Launch,
        program: Program,
        instances: Instances,
        limits: Limits,
    ) -> StdioServer {
        let core = Core {
            chatter: Chatter::read_by(name, program.secrets.clone(), &launch.errors),
            launch,
            program,
            limits,
            sessions: Arc::new(Sessions::default()),
            is_legacy: AtomicBool::new(false),
            is_shared: instances == Instances::Shared,
            kept: Mutex::default(),
            newest: std::sync::Mutex::default(),
            shared: std::sync::Mutex::default(),
        };
        StdioServer {
            instances,
            shared: SharedClients {
                core: Arc::new(core),
                slot: Arc::default(),
                sweeping: Once::new(),
            },
            modern: Arc::default(),
            own: Arc::default(),
        }
    }

    /// Whether each session has a child of its own.
    pub fn has_child_per_session(&self) -> bool {
        self.instances == Instances::Session
    }

    /// Whether a session of the shared child is subscribed to a resource.
    pub fn is_subscribed(&self, session: &str, uri: &str) -> bool {
        self.shared.core.sessions.is_subscribed(session, uri)
    }

    /// Starts the shared child in advance. Errors are logged.
    pub async fn begin(&self) {
        if self.instances == Instances::Session {
            return;
        }
        if let Err(StartError::Failed(why)) = self.modern_child().await {
            let program = &self.shared.core.program;
            let (command, why) = (program.command.first(), program.secrets.mask(&why));
            tracing::warn!(command, %why, "a server could not be started");
        }
    }

    /// Changes the timeout of answers, also for running children.
    pub fn set_timeout(&self, timeout: Duration) {
        if let Some(shared) = &self.shared.core.limits.timeout {
            shared.set(timeout);
        }
    }

    /// The last stderr lines of the newest child.
    pub fn last_words(&self) -> Option<String> {
        self.shared.core.last_words()
    }

    async fn modern_child(&self) -> Started {
        let core = Arc::clone(&self.shared.core);
        self.modern.get(|| handshake::modern(core)).await
    }

    /// Answers one HTTP request as the server's MCP endpoint would.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<AnswerBody>, SendError> {
        let (head, body) = request.into_parts();
        let session = head.headers.get(SESSION).and_then(|value| value.to_str().ok());
        match (head.method, session) {
            (Method::POST, session) => {
                let is_ours = head.extensions.get::<Inquiry>().is_some();
                let asked = Asked { is_ours, lease: head.extensions.get().cloned() };
                self.post(&head.headers, session, body, asked).await
            }
            (Method::GET, Some(session)) => Ok(self.open(session)),
            (Method::DELETE, Some(session)) => {
                let is_there = match self.instances {
                    Instances::Shared => self.shared.end(session).await,
                    Instances::Session => self.own.end(session),
                };
                let status = if is_there { StatusCode::OK } else { StatusCode::NOT_FOUND };
                Ok(empty(status))
            }
            _ => Ok(empty(StatusCode::METHOD_NOT_ALLOWED)),
        }
    }

    fn open(&self, session: &str) -> Response<AnswerBody> {
        let opened = match self.instances {
            Instances::Shared => {
                let sessions = &self.shared.core.sessions;
                sessions.open(session, self.shared.core.limits.message).map(reply::standing)
            }
            Instances::Session => self.own.use_one(session).map(|own| own.open()),
        };
        opened.unwrap_or_else(|| empty(StatusCode::NOT_FOUND))
    }

    async fn post(
        &self,
        headers: &HeaderMap,
        session: Option<&str>,
        body: Bytes,
        asked: Asked,
    ) -> Result<Response<AnswerBody>, SendError> {
        let Some(document) = parse_judged(body) else { return Ok(no_message()) };
        let Ok(message) = Message::read(&document) else { return Ok(no_message()) };
        if is_modern(headers, &message) {
            return match message {
                Message::Request { id, .. } => self.ask_modern(&document, &id).await,
                // Notifications of a modern client are not meant for the server.
                _ => Ok(empty(StatusCode::ACCEPTED)),
            };
        }
        if let Message::Request { id, method: "initialize", params } = &message {
            let session = new_id()?;
            return match self.instances {
                Instances::Shared => self.shared.begin(session, id, *params, asked.lease).await,
                Instances::Session => {
                    self.own.begin(&self.shared.core, session, &document, asked).await
                }
            };
        }
        self.post_legacy(session, document, asked).await
    }

    async fn post_legacy(
        &self,
        session: Option<&str>,
        document: Document,
        asked: Asked,
    ) -> Result<Response<AnswerBody>, SendError> {
        let accepted = empty(StatusCode::ACCEPTED);
        let unknown = || Ok(empty(StatusCode::NOT_FOUND));
        match (session, self.instances) {
            (None, _) => self.shared.post(document, None, asked.lease, accepted).await,
            (Some(session), Instances::Shared) => {
                match self.shared.core.sessions.use_one(session) {
                    Some(session) => {
                        self.shared.post(document, Some(session), asked.lease, accepted).await
                    }
                    None => unknown(),
                }
            }
            (Some(session), Instances::Session) => match self.own.use_one(session) {
                Some(own) => own.post(document, asked.is_ours, accepted).await,
                None => unknown(),
            },
        }
    }

    async fn ask_modern(
        &self,
        document: &Document,
        id: &Id,
    ) -> Result<Response<AnswerBody>, SendError> {
        let id = id.to_json();
        let mut is_first = true;
        loop {
            let child = match self.shared.core.wait_until_started(self.modern_child()).await {
                Ok(child) => child,
                Err(StartError::Failed(why)) => return Err(SendError::NotStarted(why.to_string())),
                Err(StartError::Legacy | StartError::Modern) => {
                    let why = "this server speaks only the legacy era: begin with `initialize`";
                    return Ok(json(StatusCode::BAD_REQUEST, failure(&id, -32000, why)));
                }
            };
            match child.ask(document, Asker::Client(None)).await {
                Ok(asking) => return reply::answer(asking, id, true).await,
                // The child has just ended: try once more with a new one.
                Err(AskError::Over(_)) if is_first => is_first = false,
                Err(error) => return Err(ask_error(error)),
            }
        }
    }
}

/// Parses a message. It was judged before it was sent, so no limits are needed here.
fn parse_judged(body: Bytes) -> Option<Document> {
    let bounds = Bounds {
        bytes: usize::MAX,
        string: usize::MAX,
        members: usize::MAX,
        nodes: usize::MAX,
        depth: 256,
        ..Bounds::default()
    };
    Document::parse(body, &bounds).ok()
}

/// Whether a message belongs to the modern era.
fn is_modern(headers: &HeaderMap, message: &Message<'_>) -> bool {
    let said = headers.get(REVISION).and_then(|value| value.to_str().ok());
    if let Some(revision) = said.and_then(Revision::from_name) {
        return revision.era() == Era::Modern;
    }
    match message {
        Message::Request { method: "server/discover", .. } => true,
        Message::Request { params, .. } | Message::Notification { params, .. } => {
            let meta = params.and_then(|params| params.get("_meta"));
            meta.and_then(|meta| meta.get(META_VERSION)).and_then(Value::as_str).is_some()
        }
        _ => false,
    }
}

fn no_message() -> Response<AnswerBody> {
    let why = "this is not a JSON-RPC message";
    json(StatusCode::BAD_REQUEST, failure("null", -32600, why))
}

/// A new session id, which is never reused.
fn new_id() -> Result<Arc<str>, SendError> {
    let mut random = [0_u8; 16];
    getrandom::fill(&mut random)
        .map_err(|_| SendError::NotSent("the system gives no random numbers".into()))?;
    let mut id = String::with_capacity(2 * random.len());
    for byte in random {
        // Writing to a string cannot fail.
        let _ = write!(id, "{byte:02x}");
    }
    Ok(id.into())
}
