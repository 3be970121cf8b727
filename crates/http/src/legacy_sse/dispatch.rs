//! Routes the messages on a server's single stream: to the request that they answer, to a listener,
//! or to a queue.

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

/// The maximum number of waiting requests in one session.
const MOST_WAITING: usize = 256;
/// The channel capacity of one receiver.
const AHEAD: usize = 16;
/// The maximum number of messages kept for a later listener, and of their bytes; the oldest are
/// dropped.
const MOST_KEPT: usize = 64;
const MOST_KEPT_BYTES: usize = 1 << 20;
/// How long a receiver may stall before it is dropped, so that it cannot delay the others of the
/// session any longer.
const STALLED: Duration = Duration::from_secs(30);

/// One message for a waiting request or listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SseDelivery {
    /// A notification or a request of the server.
    Besides(String),
    /// The answer, which is the last message.
    Answer { text: String, is_failure: bool },
    /// The stream broke, so there will be no answer.
    Broken(String),
}

/// Why a request cannot be registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// The stream has ended.
    Over,
    /// Another request with this id is waiting.
    Twice,
    /// Too many requests are waiting.
    Full,
}

/// Routes the messages of one stream.
#[derive(Debug)]
pub(super) struct Dispatcher {
    state: Mutex<State>,
    /// Whether the gateway opened this session for a single request, so that nobody can answer
    /// requests of the server.
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
    /// Increases with each request, to find the newest.
    order: u64,
}

impl Dispatcher {
    pub(super) fn new(is_passing: bool) -> Dispatcher {
        let state = State {
            waiting: HashMap::new(),
            listener: None,
            kept: VecDeque::new(),
            kept_bytes: 0,
            is_over: false,
            used: Instant::now(),
            next: 0,
        };
        Dispatcher { state: Mutex::new(state), is_passing }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Even after a panic, the table is consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a request that waits for its answer; returns its sequence number and its messages.
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

    /// Deregisters a request. Its id may belong to another request by now, which `order` tells
    /// apart.
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
            // The channel has room for all kept messages.
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

    /// Delivers one message. The error says why the stream cannot be read any further.
    pub(super) async fn take(&self, text: String, bounds: &Bounds) -> Result<(), String> {
        let document = Document::parse(text, bounds)
            .map_err(|refusal| format!("a message is not valid JSON: {}", refusal.reason))?;
        let message = match Message::read(&document) {
            Ok(message) => message,
            // Some servers send events without a message to keep the stream alive.
            Err(_) if !resembles_message(document.text()) => return Ok(()),
            Err(error) => return Err(format!("an event is not a JSON-RPC message: {error}")),
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
            // It names no request, so no request fails.
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

    /// Removes the request that waits for this answer.
    fn take_waiting(&self, id: &Id) -> Option<mpsc::Sender<SseDelivery>> {
        let mut state = self.state();
        state.used = Instant::now();
        state.waiting.remove(id).map(|waiting| waiting.sender)
    }

    /// Finds the receiver of a message that is not an answer: the request whose progress it reports,
    /// the only waiting request, the listener, or the newest request. If there is none, the message
    /// is kept.
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
        // A progress notification is useless once its request is over.
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
