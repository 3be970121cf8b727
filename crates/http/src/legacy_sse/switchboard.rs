//! Routes the messages on a server's one stream: to the request that is answered, to a
//! listener, or to a queue.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sluice_wire::{
    json::{Bounds, Document, Value},
    rpc::{Id, Message, resembles_message},
};
use tokio::{sync::mpsc, time::Instant};

/// Requests of one session that may wait at a time.
const MOST_WAITING: usize = 256;
/// Messages on their way to one who waits.
const AHEAD: usize = 16;
/// Messages kept for a listener that has not come yet, and their bytes; the
/// oldest are forgotten.
const MOST_KEPT: usize = 64;
const MOST_KEPT_BYTES: usize = 1 << 20;
/// How long a receiver may take to read before it is dropped, so that a stalled one
/// does not delay the others of the session for longer.
const STALLED: Duration = Duration::from_secs(30);

/// One message for a waiting request or listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SseDelivery {
    /// A notification or a request of the server.
    Besides(String),
    /// The answer, after which nothing comes.
    Answer { text: String, is_failure: bool },
    /// There will be no answer.
    Broken(String),
}

/// Why a request cannot be registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// The stream is over.
    Over,
    /// Another request with this id waits.
    Twice,
    /// Too many wait.
    Full,
}

/// Routes the messages of one stream.
#[derive(Debug)]
pub(super) struct Switchboard {
    state: Mutex<State>,
    /// Whether the session is ours and lasts for one request, so that the server
    /// has nobody to ask.
    is_passing: bool,
}

#[derive(Debug)]
struct State {
    waiting: HashMap<Id, Waiting>,
    listener: Option<mpsc::Sender<SseDelivery>>,
    kept: VecDeque<String>,
    kept_bytes: usize,
    is_over: bool,
    used: Instant,
    next: u64,
}

#[derive(Debug)]
struct Waiting {
    sender: mpsc::Sender<SseDelivery>,
    /// The progress token, as JSON.
    token: Option<String>,
    /// Counts requests, so that the newest can be told.
    order: u64,
}

impl Switchboard {
    pub(super) fn new(is_passing: bool) -> Switchboard {
        let state = State {
            waiting: HashMap::new(),
            listener: None,
            kept: VecDeque::new(),
            kept_bytes: 0,
            is_over: false,
            used: Instant::now(),
            next: 0,
        };
        Switchboard { state: Mutex::new(state), is_passing }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock, and if it did, the table is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the answer to a request, which is given a place in their order.
    pub(super) fn wait(
        &self,
        id: &Id,
        token: Option<String>,
    ) -> Result<(u64, mpsc::Receiver<SseDelivery>), Refused> {
        let mut state = self.state();
        if state.is_over {
            return Err(Refused::Over);
        }
        if state.waiting.contains_key(id) {
            return Err(Refused::Twice);
        }
        if state.waiting.len() >= MOST_WAITING {
            return Err(Refused::Full);
        }
        state.next += 1;
        state.used = Instant::now();
        let (sender, receiver) = mpsc::channel(AHEAD);
        let order = state.next;
        state.waiting.insert(id.clone(), Waiting { sender, token, order });
        Ok((order, receiver))
    }

    /// Nobody waits for this any more. By now the id may be another request's,
    /// which the order tells.
    pub(super) fn forget(&self, id: &Id, order: u64) {
        let mut state = self.state();
        if state.waiting.get(id).is_some_and(|waiting| waiting.order == order) {
            state.waiting.remove(id);
        }
    }

    /// Registers the listener for all other messages, replacing an earlier one.
    pub(super) fn listen(&self) -> Result<mpsc::Receiver<SseDelivery>, Refused> {
        let mut state = self.state();
        if state.is_over {
            return Err(Refused::Over);
        }
        let (sender, receiver) = mpsc::channel(MOST_KEPT + AHEAD);
        for text in std::mem::take(&mut state.kept) {
            // There is room for all that may be kept.
            let _ = sender.try_send(SseDelivery::Besides(text));
        }
        state.kept_bytes = 0;
        state.used = Instant::now();
        state.listener = Some(sender);
        Ok(receiver)
    }

    pub(super) fn is_over(&self) -> bool {
        self.state().is_over
    }

    /// For how long the session has been idle; `None` while a request waits.
    pub(super) fn idle(&self) -> Option<Duration> {
        let state = self.state();
        let listens = state.listener.as_ref().is_some_and(|listener| !listener.is_closed());
        (!listens && state.waiting.is_empty()).then(|| state.used.elapsed())
    }

    /// The stream has ended: all waiting requests fail at once.
    pub(super) fn end(&self, why: &str) {
        let mut state = self.state();
        state.is_over = true;
        state.listener = None;
        state.kept.clear();
        state.waiting.drain().for_each(|(_, waiting)| {
            // A receiver with unread messages finds the end of the channel.
            let _ = waiting.sender.try_send(SseDelivery::Broken(why.to_owned()));
        });
    }

    /// Hands one message to whom it is for. An error says why the stream cannot
    /// be followed further.
    pub(super) async fn take(&self, text: String, bounds: &Bounds) -> Result<(), String> {
        let document = Document::parse(text, bounds)
            .map_err(|refusal| format!("a message is not valid JSON: {}", refusal.reason))?;
        let message = match Message::read(&document) {
            Ok(message) => message,
            // Some servers keep a stream alive by events that carry nothing.
            Err(_) if !resembles_message(document.text()) => return Ok(()),
            Err(error) => return Err(format!("an event is no JSON-RPC message: {error}")),
        };
        let (heard, said) = match message {
            Message::Response { id, .. } => (
                self.take_waiting(&id),
                SseDelivery::Answer { text: document.into_text(), is_failure: false },
            ),
            Message::Failure { id: Some(id), .. } => (
                self.take_waiting(&id),
                SseDelivery::Answer { text: document.into_text(), is_failure: true },
            ),
            // It names no request, so no request can fail.
            Message::Failure { id: None, .. } => return Ok(()),
            Message::Request { .. } if self.is_passing => return Ok(()),
            Message::Request { .. } => {
                let heard = self.besides(None, &document);
                (heard, SseDelivery::Besides(document.into_text()))
            }
            Message::Notification { method, params } => {
                let token = params
                    .filter(|_| method == "notifications/progress")
                    .and_then(|params| params.get("progressToken"))
                    .map(|token| token.raw().to_owned());
                let heard = self.besides(token.as_deref(), &document);
                (heard, SseDelivery::Besides(document.into_text()))
            }
        };
        if let Some(sender) = heard {
            self.hand_over(&sender, said).await;
        }
        Ok(())
    }

    async fn hand_over(&self, sender: &mpsc::Sender<SseDelivery>, said: SseDelivery) {
        if tokio::time::timeout(STALLED, sender.send(said)).await.is_err() {
            let mut state = self.state();
            state.waiting.retain(|_, waiting| !waiting.sender.same_channel(sender));
            if state.listener.as_ref().is_some_and(|listener| listener.same_channel(sender)) {
                state.listener = None;
            }
        }
    }

    /// Takes the request that waits for this answer.
    fn take_waiting(&self, id: &Id) -> Option<mpsc::Sender<SseDelivery>> {
        let mut state = self.state();
        state.used = Instant::now();
        state.waiting.remove(id).map(|waiting| waiting.sender)
    }

    /// The receiver of a message that is no answer: the request whose progress it is, the
    /// only one that waits, the listener, or the newest request. If there is
    /// nobody, it is kept.
    fn besides(
        &self,
        token: Option<&str>,
        document: &Document,
    ) -> Option<mpsc::Sender<SseDelivery>> {
        let mut state = self.state();
        state.listener.take_if(|listener| listener.is_closed());
        let meant = token.and_then(|token| {
            state.waiting.values().find(|waiting| waiting.token.as_deref() == Some(token))
        });
        let newest = state.waiting.values().max_by_key(|waiting| waiting.order);
        let only = newest.filter(|_| state.waiting.len() == 1);
        let request = meant.or(only).map(|waiting| &waiting.sender);
        let heard =
            request.or(state.listener.as_ref()).or(newest.map(|waiting| &waiting.sender)).cloned();
        // News of a request's progress mean nothing once it is over.
        if heard.is_none() && token.is_none() {
            state.keep(document.text());
        }
        heard
    }
}

impl State {
    fn keep(&mut self, text: &str) {
        if text.len() > MOST_KEPT_BYTES {
            return;
        }
        self.kept_bytes += text.len();
        self.kept.push_back(text.to_owned());
        while self.kept.len() > MOST_KEPT || self.kept_bytes > MOST_KEPT_BYTES {
            let Some(oldest) = self.kept.pop_front() else { return };
            self.kept_bytes -= oldest.len();
        }
    }
}

/// The progress token of a request.
pub(super) fn progress_token(params: Option<Value<'_>>) -> Option<String> {
    let token = params?.get("_meta")?.get("progressToken")?;
    Some(token.raw().to_owned())
}

#[cfg(test)]
mod tests;
