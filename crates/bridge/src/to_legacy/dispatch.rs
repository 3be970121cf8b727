//! Dispatches messages on the stream of a legacy session to the calls of that session.
//!
//! Nothing on that stream says which call a server request belongs to. So it goes to a
//! call whose client can be asked now: first to the one with the fewest requests, then to
//! the oldest. While every call waits for its client, the request is queued, for a
//! limited time; when no call is left that could take it, it is refused. A request is
//! never dropped without an answer.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use sluice_wire::json::{Document, Value};
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};

use super::{server_request, session::Session, session_stream::Stream};

/// Notifications that may be queued for one call, and requests for any call.
const WAITING: usize = 64;
/// How long a request waits for a call that can take it.
const PICKUP_TIMEOUT: Duration = Duration::from_secs(30);

/// The stream of a session, and the calls that receive its messages.
#[derive(Debug, Default)]
pub(super) struct Dispatcher {
    state: Mutex<State>,
    /// Wakes the timeout task if a request now expires earlier than it expects.
    sooner: Arc<Notify>,
    pub(super) stream: Stream,
}

#[derive(Debug, Default)]
struct State {
    calls: Vec<Call>,
    next: u64,
    /// Subscribers to change notifications.
    listeners: Vec<mpsc::Sender<Document>>,
    /// Requests of the server that no call has taken yet.
    waiting: VecDeque<Waiting>,
    /// When the task that refuses expired requests checks next; `None` if it is not
    /// running.
    watched: Option<Instant>,
}

#[derive(Debug)]
struct Waiting {
    request: Document,
    until: Instant,
}

/// One call, as a possible receiver of server requests.
#[derive(Debug)]
struct Call {
    number: u64,
    may_want_input: bool,
    /// Its progress token, as JSON.
    token: Option<String>,
    notifications: mpsc::Sender<Document>,
    listening: Listening,
    /// How many requests it was given.
    asked: u32,
    /// A request that was assigned to it and that it has not picked up yet.
    handed: Option<Waiting>,
    woken: Arc<Notify>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listening {
    /// It can pick up a request now.
    Now,
    /// It is busy with something else, but not for long.
    Soon,
    /// It waits for its client, which may take any time.
    Later,
}

/// The receiver of one call.
#[derive(Debug)]
pub(super) struct CallReceiver {
    session: Arc<Session>,
    number: u64,
    notifications: mpsc::Receiver<Document>,
    woken: Arc<Notify>,
}

impl State {
    fn call(&mut self, number: u64) -> Option<&mut Call> {
        self.calls.iter_mut().find(|call| call.number == number)
    }

    /// Assigns queued requests to calls that are listening.
    fn hand_out(&mut self) {
        while !self.waiting.is_empty() {
            let listening = self.calls.iter_mut().filter(|call| {
                call.may_want_input && call.listening == Listening::Now && call.handed.is_none()
            });
            let Some(call) = listening.min_by_key(|call| (call.asked, call.number)) else { return };
            call.handed = self.waiting.pop_front();
            call.asked += 1;
            call.woken.notify_one();
        }
    }

    /// Takes back a request from a call that no longer listens.
    fn take_back(&mut self, number: u64) {
        let handed = self.call(number).and_then(|call| {
            let handed = call.handed.take()?;
            call.asked -= 1;
            Some(handed)
        });
        self.waiting.extend(handed);
        self.waiting.make_contiguous().sort_by_key(|waiting| waiting.until);
    }

    /// Whether a request may be queued. If it may belong to a call whose client cannot be
    /// asked, waiting for another call's client would block that call.
    fn may_wait(&self) -> bool {
        let is = |call: &Call, listening| call.may_want_input && call.listening == listening;
        let is_soon =
            self.calls.iter().any(|call| is(call, Listening::Soon) || is(call, Listening::Now));
        let is_later = self.calls.iter().any(|call| is(call, Listening::Later));
        is_soon || is_later && self.calls.iter().all(|call| call.may_want_input)
    }
}

impl Dispatcher {
    fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent after every step, so a poisoned lock is still usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a call as a receiver.
    pub(super) fn listen(
        session: &Arc<Session>,
        may_want_input: bool,
        token: Option<String>,
    ) -> CallReceiver {
        let (sender, notifications) = mpsc::channel(WAITING);
        let woken = Arc::new(Notify::new());
        let mut state = session.dispatcher.state();
        state.next += 1;
        let number = state.next;
        state.calls.push(Call {
            number,
            may_want_input,
            token,
            notifications: sender,
            listening: Listening::Soon,
            asked: 0,
            handed: None,
            woken: Arc::clone(&woken),
        });
        CallReceiver { session: Arc::clone(session), number, notifications, woken }
    }

    /// Assigns a request to a call, or queues it; returns whether that was possible.
    pub(super) fn offer(session: &Arc<Session>, request: Document) -> bool {
        let mut state = session.dispatcher.state();
        if state.waiting.len() >= WAITING || !state.may_wait() {
            return false;
        }
        state.waiting.push_back(Waiting { request, until: Instant::now() + PICKUP_TIMEOUT });
        Dispatcher::hand_out(session, &mut state);
        true
    }

    /// Assigns queued requests, and makes sure that the rest will time out.
    fn hand_out(session: &Arc<Session>, state: &mut State) {
        state.hand_out();
        let Some(next) = state.waiting.front().map(|waiting| waiting.until) else { return };
        match state.watched {
            Some(watched) if watched <= next => {}
            Some(_) => {
                state.watched = Some(next);
                session.dispatcher.sooner.notify_one();
            }
            None => {
                // Without a runtime the process is ending, and the server will notice
                // that.
                if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                    state.watched = Some(next);
                    let sooner = Arc::clone(&session.dispatcher.sooner);
                    runtime.spawn(watch(Arc::downgrade(session), sooner));
                }
            }
        }
    }

    /// Removes a queued request that the server has cancelled.
    pub(super) fn withdraw(&self, id: &str) {
        let is_other = |waiting: &Waiting| {
            waiting.request.root().get("id").is_none_or(|found| found.raw() != id)
        };
        self.state().waiting.retain(is_other);
    }

    /// Subscribes to change notifications; a subscriber that is too slow is dropped.
    pub(super) fn news(&self) -> mpsc::Receiver<Document> {
        let (sender, receiver) = mpsc::channel(WAITING);
        self.state().listeners.push(sender);
        receiver
    }

    /// Passes a notification to the calls and subscribers that it may concern.
    pub(super) fn tell(&self, notification: &Document, method: &str, params: Option<Value<'_>>) {
        let token = params.and_then(|params| params.get("progressToken")).map(Value::raw);
        let mut state = self.state();
        if method.ends_with("/list_changed") || method == "notifications/resources/updated" {
            state.listeners.retain(|listener| listener.try_send(notification.clone()).is_ok());
        }
        for call in &state.calls {
            let is_for = match method {
                "notifications/message" => true,
                "notifications/progress" => token.is_some() && call.token.as_deref() == token,
                _ => false,
            };
            if is_for {
                let _ = call.notifications.try_send(notification.clone());
            }
        }
    }

    /// Removes expired requests from the queue; also returns when the next one expires,
    /// if any.
    fn late(&self) -> (Vec<Document>, Option<Instant>) {
        let mut state = self.state();
        let now = Instant::now();
        let mut late = Vec::new();
        while state.waiting.front().is_some_and(|waiting| waiting.until <= now) {
            late.extend(state.waiting.pop_front().map(|waiting| waiting.request));
        }
        let next = state.waiting.front().map(|waiting| waiting.until);
        state.watched = next;
        (late, next)
    }
}

/// Refuses requests that no call has picked up in time; stops when none are queued.
async fn watch(session: Weak<Session>, sooner: Arc<Notify>) {
    loop {
        let Some(strong) = session.upgrade() else { return };
        let (late, next) = strong.dispatcher.late();
        for request in late {
            server_request::refuse(Arc::clone(&strong), &request);
        }
        drop(strong);
        let Some(next) = next else { return };
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            () = sooner.notified() => {}
        }
    }
}

impl CallReceiver {
    /// The next message for this call. Cancel safe: no message is lost if this future is
    /// dropped.
    pub(super) async fn next(&mut self) -> Document {
        let CallReceiver { session, number, notifications, woken } = self;
        let open = Open::new(session, *number);
        loop {
            if let Some(request) = open.take() {
                return request;
            }
            tokio::select! {
                Some(notification) = notifications.recv() => return notification,
                () = woken.notified() => {}
            }
        }
    }

    /// A message that has already arrived, for a call that is about to ask its client.
    pub(super) fn try_take(&mut self) -> Option<Document> {
        if let Ok(notification) = self.notifications.try_recv() {
            return Some(notification);
        }
        let mut state = self.session.dispatcher.state();
        // If another call were listening, the request would not be queued any more.
        let waiting =
            state.call(self.number)?.may_want_input.then(|| state.waiting.pop_front())??;
        state.call(self.number)?.asked += 1;
        Some(waiting.request)
    }

    /// Notes that the call waits for its client, until it listens again.
    pub(super) fn rest(&self) {
        if let Some(call) = self.session.dispatcher.state().call(self.number) {
            call.listening = Listening::Later;
        }
    }
}

impl Drop for CallReceiver {
    fn drop(&mut self) {
        let mut state = self.session.dispatcher.state();
        state.take_back(self.number);
        state.calls.retain(|call| call.number != self.number);
        Dispatcher::hand_out(&self.session, &mut state);
        if state.may_wait() {
            return;
        }
        let left: Vec<_> = state.waiting.drain(..).collect();
        drop(state);
        for waiting in left {
            server_request::refuse(Arc::clone(&self.session), &waiting.request);
        }
    }
}

/// Marks a call as listening; ends that on drop.
struct Open<'s> {
    session: &'s Arc<Session>,
    number: u64,
}

impl Open<'_> {
    fn new(session: &Arc<Session>, number: u64) -> Open<'_> {
        let mut state = session.dispatcher.state();
        if let Some(call) = state.call(number) {
            call.listening = Listening::Now;
        }
        Dispatcher::hand_out(session, &mut state);
        Open { session, number }
    }

    fn take(&self) -> Option<Document> {
        let handed = self.session.dispatcher.state().call(self.number)?.handed.take();
        handed.map(|waiting| waiting.request)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let mut state = self.session.dispatcher.state();
        state.take_back(self.number);
        if let Some(call) = state.call(self.number) {
            call.listening = Listening::Soon;
        }
        Dispatcher::hand_out(self.session, &mut state);
    }
}

#[cfg(test)]
pub(super) mod tests;
