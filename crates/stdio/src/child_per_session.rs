//! Sessions with one child process each (`instances = "session"`).

use std::{
    sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak},
    time::Duration,
};

use http::{Response, StatusCode};
use sluice_expiring::{ExpiringMap, Limits};
use sluice_http::answer::json;
use sluice_http::{AnswerBody, Lease, SendError};
use sluice_wire::{json::Document, mcp::Era, rpc::Message};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::{
    Asked,
    child::{AskError, Asker, Audience, Child, Introduction},
    handshake::{Core, LATE, answer_of, result_of},
    reply,
    shared_sessions::{IDLE, Mailbox},
};

/// Children that may run for one server.
const MOST: usize = 256;
/// How often idle sessions are searched for.
pub(super) const SWEEP: Duration = Duration::from_mins(1);

/// The sessions of one server.
#[derive(Debug)]
pub(super) struct OwnSessions {
    all: Mutex<ExpiringMap<Arc<str>, Arc<OwnSession>>>,
    /// Bounds the map: each session holds a permit. Children that are starting, or that still
    /// carry out calls of an ended session, hold one as well.
    room: Arc<Semaphore>,
    sweeping: Once,
}

/// One session and its child.
#[derive(Debug)]
pub(super) struct OwnSession {
    pub(super) id: Arc<str>,
    pub(super) child: Arc<Child>,
    pub(super) mailbox: Arc<Mailbox>,
    /// Its reserved place; `None` for the client of an only child.
    _room: Option<OwnedSemaphorePermit>,
    _lease: Option<Lease>,
}

impl Default for OwnSessions {
    fn default() -> OwnSessions {
        OwnSessions {
            all: Mutex::new(ExpiringMap::new(Limits { idle: IDLE, ..Limits::NONE })),
            room: Arc::new(Semaphore::new(MOST)),
            sweeping: Once::new(),
        }
    }
}

impl OwnSessions {
    fn all(&self) -> MutexGuard<'_, ExpiringMap<Arc<str>, Arc<OwnSession>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a child with the client's own `initialize`, and opens a session if it
    /// succeeds.
    pub(super) async fn begin(
        self: &Arc<OwnSessions>,
        core: &Core,
        id: Arc<str>,
        hello: &Document,
        asked: Asked,
    ) -> Result<Response<AnswerBody>, SendError> {
        let full = || SendError::NotStarted(format!("{MOST} sessions are open at this server"));
        let room = Arc::clone(&self.room).try_acquire_owned().map_err(|_| full())?;
        let failed = |why: Arc<str>| SendError::NotStarted(why.to_string());
        // The gateway opens no stream, so no messages are kept for one.
        let mailbox = if asked.is_ours { Mailbox::default() } else { Mailbox::holding() };
        let mailbox = Arc::new(mailbox);
        let child = core.start(Audience::One(Arc::clone(&mailbox))).map_err(failed)?;
        let mut asking = child.ask(hello, Asker::Gateway).await.map_err(ask_error)?;
        let answer = core.in_time(answer_of(&mut asking)).await;
        let answer = answer.unwrap_or_else(|| Err(child.explain(LATE).into())).map_err(failed)?;
        drop(asking);
        let response = json(StatusCode::OK, answer.message.clone());
        let Some(result) = result_of(&child, &answer) else { return Ok(response) };
        let introduction = Introduction { era: Era::Legacy, result: result.into_text() };
        let _ = child.introduction.set(introduction);
        let own = OwnSession {
            _lease: asked.lease,
            ..OwnSession::new(Arc::clone(&id), child, mailbox, Some(room))
        };
        self.all().insert(Arc::clone(&id), Arc::new(own), 0, Instant::now().into_std());
        let weak = Arc::downgrade(self);
        self.sweeping.call_once(|| drop(tokio::spawn(sweep(weak))));
        Ok(reply::in_session(response, &id))
    }

    /// The session with this id, marked as used. A session whose child has ended is gone.
    pub(super) fn use_one(&self, id: &str) -> Option<Arc<OwnSession>> {
        let mut all = self.all();
        let own = Arc::clone(all.touch(id, Instant::now().into_std())?.1);
        if own.child.over().is_some() {
            all.remove(id);
            return None;
        }
        Some(own)
    }

    /// Ends a session; returns whether it existed.
    pub(super) fn end(&self, id: &str) -> bool {
        let ended = self.all().remove(id);
        ended.is_some_and(|own| {
            // Calls in progress must not keep the child running.
            own.child.finish("the session was ended");
            true
        })
    }
}

/// Ends idle sessions as long as the server exists.
async fn sweep(sessions: Weak<OwnSessions>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(sessions) = sessions.upgrade() else { return };
        let mut all = sessions.all();
        while all.evict_where(|_, own| own.child.over().is_some()).is_some() {}
        // Dropping a session ends its child.
        all.expire(Instant::now().into_std(), |_, own| own.is_busy());
    }
}

impl OwnSession {
    pub(super) fn new(
        id: Arc<str>,
        child: Arc<Child>,
        mailbox: Arc<Mailbox>,
        room: Option<OwnedSemaphorePermit>,
    ) -> OwnSession {
        OwnSession { id, child, mailbox, _room: room, _lease: None }
    }

    fn is_busy(&self) -> bool {
        self.mailbox.is_open() || !self.child.is_idle()
    }

    /// Opens the session's stream.
    pub(super) fn open(&self) -> Response<AnswerBody> {
        reply::standing(self.mailbox.open(self.child.most))
    }

    /// Passes a message of the client, or of the gateway if `is_ours`, to the child, and
    /// its answer back.
    pub(super) async fn post(
        &self,
        document: Document,
        is_ours: bool,
        accepted: Response<AnswerBody>,
    ) -> Result<Response<AnswerBody>, SendError> {
        match Message::read(&document) {
            Ok(Message::Request { id, .. }) => {
                let asker = if is_ours { Asker::Gateway } else { Asker::Client(Some(&self.id)) };
                let asking = self.child.ask(&document, asker).await.map_err(ask_error)?;
                let id = id.to_json();
                return reply::answer(asking, id, false).await;
            }
            Ok(Message::Notification { method: "notifications/cancelled", .. }) => {
                self.child.cancel(&self.id, &document).await;
                return Ok(accepted);
            }
            // An answer that the child does not expect is dropped.
            Ok(Message::Response { id, .. } | Message::Failure { id: Some(id), .. })
                if !self.child.takes_reply(&id) =>
            {
                return Ok(accepted);
            }
            _ => {}
        }
        let told = self.child.tell(document.into_text()).await;
        told.map_err(|_| ask_error(AskError::Full))?;
        Ok(accepted)
    }
}

/// Converts the error for the layers above.
pub(super) fn ask_error(error: AskError) -> SendError {
    match error {
        AskError::Full => SendError::NotSent("the server does not read its input".into()),
        AskError::Over(why) => SendError::NotStarted(why.to_string()),
    }
}
