//! The stream of a legacy session, which is kept open as long as the session lasts.
//!
//! A server may close it at any time. It is reopened soon, and in any case before the
//! next call, because server requests could be lost meanwhile.

use std::{
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{Method, header};
use sluice_http::headers::{LAST_EVENT, is_event_stream};
use sluice_wire::{
    json::{Bounds, Document},
    mcp::is_without_stream,
    rpc::Message,
};
use tokio::{
    sync::{Notify, watch},
    task::AbortHandle,
    time::Instant,
};

use super::{dispatch::Dispatcher, session::Session};
use crate::{
    exchange::{Reader, bare, set},
    message::response,
};

/// How often a short-lived stream is reopened before the next call.
const MOST_TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);
/// A stream that lasted this long does not count as short-lived.
const LASTING: Duration = Duration::from_secs(10);
/// How long a call waits for the stream before it is sent.
const STREAM_WAIT: Duration = Duration::from_secs(2);

/// The state of a session's stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Closed,
    Open,
    /// The server has no streams.
    None,
}

/// The stream of one session. Dropping it stops its task.
#[derive(Debug, Default)]
pub(super) struct Stream {
    shared: Arc<Shared>,
    task: Mutex<Option<AbortHandle>>,
}

/// The state that the stream's task shares with the calls.
#[derive(Debug, Default)]
struct Shared {
    state: watch::Sender<State>,
    /// Notified when a call is about to be sent.
    wanted: Notify,
    /// Whether a call has waited for the stream in vain. Others then do not wait, until
    /// the stream has opened in time again.
    is_late: AtomicBool,
}

/// The result of requesting a stream.
enum Opened {
    Reader(Box<Reader>),
    /// The server has no streams, or none for this session.
    Refused,
    /// There was no answer, or a temporary failure.
    Failed,
}

impl Stream {
    /// Starts the task that keeps the stream open, and waits for the stream.
    pub(super) async fn begin(session: &Arc<Session>, bounds: Bounds) {
        let stream = &session.dispatcher.stream;
        let following = follow(Arc::downgrade(session), Arc::clone(&stream.shared), bounds);
        let task = tokio::spawn(following).abort_handle();
        *stream.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        stream.ready().await;
    }

    /// Waits until the stream is open, for a limited time; not at all if an earlier wait
    /// was in vain.
    pub(super) async fn ready(&self) {
        let mut state = self.shared.state.subscribe();
        if *state.borrow_and_update() == State::Closed {
            self.shared.wanted.notify_one();
            if self.shared.is_late.load(Ordering::Relaxed) {
                return;
            }
            let is_settled = state.wait_for(|state| *state != State::Closed);
            if tokio::time::timeout(STREAM_WAIT, is_settled).await.is_err() {
                self.shared.is_late.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            task.abort();
        }
    }
}

/// Keeps a session's stream open as far as the server allows. It holds no reference to
/// the session, so that an unused session can end.
async fn follow(session: Weak<Session>, shared: Arc<Shared>, bounds: Bounds) {
    let (mut tries, mut last) = (0, None);
    loop {
        let asking = session.upgrade().map(|session| ask(&session, last.as_deref(), bounds));
        let Some(asking) = asking else { return };
        let asked = Instant::now();
        let opened = asking.await;
        let since = Instant::now();
        let pause = match opened {
            Opened::Refused => {
                shared.state.send_replace(State::None);
                return;
            }
            Opened::Failed => PAUSE * (1 << tries.min(MOST_TRIES)),
            Opened::Reader(mut reader) => {
                if since - asked < STREAM_WAIT {
                    shared.is_late.store(false, Ordering::Relaxed);
                }
                shared.state.send_replace(State::Open);
                if read(&session, &mut reader).await || since.elapsed() >= LASTING {
                    tries = 0;
                }
                last = reader.last_event.take().or(last);
                if tries == 0 { reader.retry() } else { PAUSE.max(reader.retry()) }
            }
        };
        shared.state.send_replace(State::Closed);
        tries += 1;
        let wanted = shared.wanted.notified();
        if tries < MOST_TRIES {
            let _ = tokio::time::timeout(pause, wanted).await;
        } else {
            wanted.await;
        }
    }
}

/// Reads a stream to its end; returns whether it had any messages.
async fn read(session: &Weak<Session>, reader: &mut Reader) -> bool {
    let mut has_spoken = false;
    while let Ok(Some(document)) = reader.next().await {
        has_spoken = true;
        let Some(session) = session.upgrade() else { break };
        if let Err(why) = hear(&session, document).await {
            tracing::warn!(%why, "the stream of a server is cut");
            break;
        }
    }
    has_spoken
}

/// Handles one message. An error says why the stream is not read any further.
async fn hear(session: &Arc<Session>, document: Document) -> Result<(), String> {
    match Message::read(&document) {
        Ok(Message::Request { id, method: "ping", .. }) => {
            session.tell(response(&id.to_json(), "{}")).await;
        }
        Ok(Message::Request { id, method, .. }) => {
            let is_taken = session.lets_ask(method) && Dispatcher::offer(session, document.clone());
            if !is_taken {
                // One after the other: a server that floods waits for itself.
                session.turn_away(&id, method).await?;
            }
        }
        Ok(Message::Notification { method: "notifications/cancelled", params }) => {
            if let Some(id) = params.and_then(|params| params.get("requestId")) {
                session.dispatcher.withdraw(id.raw());
            }
        }
        Ok(Message::Notification { method, params }) => {
            session.dispatcher.tell(&document, method, params);
        }
        _ => {}
    }
    Ok(())
}

/// Resumes a stream that the server has ended, as it may at any time.
pub(super) async fn reopen(
    session: &Session,
    reader: &mut Reader,
    tries: u32,
    bounds: Bounds,
) -> Option<Reader> {
    if tries >= MOST_TRIES {
        return None;
    }
    tokio::time::sleep(PAUSE).await;
    let last = reader.last_event.take();
    open(session, last.as_deref(), bounds).await
}

/// Opens a session's stream, resuming after `last`; `None` if that fails.
pub(super) async fn open(session: &Session, last: Option<&str>, bounds: Bounds) -> Option<Reader> {
    match ask(session, last, bounds).await {
        Opened::Reader(reader) => Some(*reader),
        Opened::Refused | Opened::Failed => None,
    }
}

/// Requests a session's stream, resuming after `last`.
fn ask(
    session: &Session,
    last: Option<&str>,
    bounds: Bounds,
) -> impl Future<Output = Opened> + use<> {
    let mut headers = session.headers();
    set(&mut headers, header::ACCEPT, "text/event-stream");
    if let Some(last) = last {
        set(&mut headers, LAST_EVENT, last);
    }
    let link = Arc::clone(session.link());
    async move {
        match link.upstream.send(bare(Method::GET, headers)).await {
            Ok(answer) if answer.status().is_success() && is_event_stream(answer.headers()) => {
                Opened::Reader(Box::new(Reader::new(answer, bounds)))
            }
            Ok(answer)
                if answer.status().is_success() || is_without_stream(answer.status().as_u16()) =>
            {
                Opened::Refused
            }
            Ok(_) | Err(_) => Opened::Failed,
        }
    }
}

#[cfg(test)]
mod tests;
