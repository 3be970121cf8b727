//! What a legacy server says beside its answers. Many servers make their
//! requests on the stream of the session, where nothing tells which call they
//! belong to: they go to a call of the session that is under way.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::Method;
use sluice_wire::{
    json::{Bounds, Document, Value},
    rpc::Message,
};
use tokio::{sync::mpsc, task::AbortHandle};

use super::{nobody, session::Session};
use crate::bridge::{
    exchange::{Reader, bare, is_events, set},
    message::response,
};

/// How often a stream that ends is opened again without anything on it.
const MOST_TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);
/// How long a server may take to open its stream before a first call is made.
const PATIENCE: Duration = Duration::from_secs(2);
/// Messages that may wait for one call.
const WAITING: usize = 64;

/// The stream of a session, and the calls that hear it.
#[derive(Debug, Default)]
pub(super) struct Side {
    calls: Mutex<Vec<Call>>,
    next: AtomicU64,
    task: Mutex<Option<AbortHandle>>,
}

#[derive(Debug)]
struct Call {
    number: u64,
    may_want_input: bool,
    /// The token of its progress, as JSON.
    token: Option<String>,
    sender: mpsc::Sender<Document>,
}

/// What one call hears.
#[derive(Debug)]
pub(super) struct Ear {
    side: Arc<Side>,
    number: u64,
    receiver: mpsc::Receiver<Document>,
}

impl Side {
    fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        // The list is whole after every step, so a panic elsewhere spoils nothing.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a call hear what is said.
    pub(super) fn listen(self: &Arc<Side>, may_want_input: bool, token: Option<String>) -> Ear {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = mpsc::channel(WAITING);
        self.calls().push(Call { number, may_want_input, token, sender });
        Ear { side: Arc::clone(self), number, receiver }
    }

    /// Opens the stream, if the server has one, and follows it from now on.
    pub(super) async fn begin(session: &Arc<Session>, bounds: Bounds) {
        let opening = tokio::time::timeout(PATIENCE, opened(session, None, bounds));
        let Ok(Some(reader)) = opening.await else { return };
        let task = tokio::spawn(follow(Arc::downgrade(session), reader, bounds));
        if let Ok(mut kept) = session.side.task.lock() {
            *kept = Some(task.abort_handle());
        }
    }

    /// Hands a request to a call that can take it; whether there was one.
    fn asked(&self, request: &Document) -> bool {
        let calls = self.calls();
        let mut able = calls.iter().filter(|call| call.may_want_input);
        able.any(|call| call.sender.try_send(request.clone()).is_ok())
    }

    fn told(&self, notification: &Document, method: &str, params: Option<Value<'_>>) {
        let token = params.and_then(|params| params.get("progressToken")).map(Value::raw);
        for call in self.calls().iter() {
            let is_for = match method {
                "notifications/message" => true,
                "notifications/progress" => token.is_some() && call.token.as_deref() == token,
                _ => false,
            };
            if is_for {
                let _ = call.sender.try_send(notification.clone());
            }
        }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        if let Some(task) = self.task.lock().ok().and_then(|mut task| task.take()) {
            task.abort();
        }
    }
}

impl Ear {
    pub(super) async fn next(&mut self) -> Document {
        match self.receiver.recv().await {
            Some(document) => document,
            None => std::future::pending().await,
        }
    }

    pub(super) fn arrived(&mut self) -> Option<Document> {
        self.receiver.try_recv().ok()
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.side.calls().retain(|call| call.number != self.number);
    }
}

async fn follow(session: Weak<Session>, mut reader: Reader, bounds: Bounds) {
    let mut tries = 0;
    loop {
        let Ok(Some(document)) = reader.next().await else {
            tries += 1;
            let Some(next) = reopened(&session, &mut reader, tries, bounds).await else { return };
            reader = next;
            continue;
        };
        tries = 0;
        let Some(session) = session.upgrade() else { return };
        match Message::read(&document) {
            Ok(Message::Request { id, method: "ping", .. }) => {
                session.tell(response(&id.to_json(), "{}")).await;
            }
            Ok(Message::Request { id, method, .. }) if !session.side.asked(&document) => {
                session.tell(nobody(&id.to_json(), method)).await;
            }
            Ok(Message::Notification { method, params }) => {
                session.side.told(&document, method, params);
            }
            _ => {}
        }
    }
}

/// The rest of a stream that the server has ended: it may do so at will, and
/// goes on when it is asked to.
pub(super) async fn reopened(
    session: &Weak<Session>,
    reader: &mut Reader,
    tries: u32,
    bounds: Bounds,
) -> Option<Reader> {
    if tries >= MOST_TRIES {
        return None;
    }
    tokio::time::sleep(PAUSE).await;
    let last = reader.last_event.take();
    opened(&*session.upgrade()?, last.as_deref(), bounds).await
}

/// The stream of a session, from where it ended on; `None` if there is none.
pub(super) async fn opened(
    session: &Session,
    last: Option<&str>,
    bounds: Bounds,
) -> Option<Reader> {
    let mut headers = session.headers();
    set(&mut headers, "accept", "text/event-stream");
    if let Some(last) = last {
        set(&mut headers, "last-event-id", last);
    }
    let answer = session.link().upstream.send(bare(Method::GET, headers)).await.ok()?;
    let is_stream = answer.status().is_success() && is_events(answer.headers());
    is_stream.then(|| Reader::new(answer, bounds))
}
