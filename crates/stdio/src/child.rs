//! One running child process, and the requests that wait for its answers.
//!
//! Many callers share its input. Each request gets a number assigned by the gateway as its id
//! and its progress token; messages that return under that number go to the waiting caller,
//! with the caller's own id and token.

use std::{
    collections::{BTreeMap, HashSet},
    process::ExitStatus,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
};

use bytes::Bytes;
use sluice_wire::{
    edit::{Edits, quote},
    json::{Bounds, Document, LoneSurrogates, Value},
    mcp::{Era, META_SUBSCRIPTION},
    rpc::Id,
};
use tokio::{runtime::Handle, sync::watch, time::Instant};

use super::{
    health::{Health, Verdict},
    launch::Limits,
    output_log::Chatter,
    queue::{Answer, CallEvent, Caller, Full, Inbox, Outbox, caller, single_line},
    recent_output::LastWords,
    shared_sessions::{Mailbox, Sessions},
};

/// The most requests of the child that its client has not answered yet.
const MOST_ASKED: usize = 1000;
/// The most requests that wait for the child.
const MOST_WAITING: usize = 100_000;

/// A child process and its pending requests. The process is stopped when this is dropped.
#[derive(Debug)]
pub(super) struct Child {
    outbox: Outbox,
    /// The longest message from it, and the most that may be queued for one caller, in
    /// bytes.
    pub(super) most: usize,
    pub(super) chatter: Chatter,
    /// The last lines it wrote to stderr, unless its owner keeps them.
    pub(super) words: Option<LastWords>,
    pub(super) audience: Audience,
    /// The result of its `initialize` or `server/discover`.
    pub(super) introduction: OnceLock<Introduction>,
    pub(super) began: Instant,
    state: Mutex<State>,
    /// The exit status of its process, once it has exited.
    pub(super) exited: watch::Receiver<Option<ExitStatus>>,
    /// Dropped when the child is finished, which tells the task that owns the process.
    held: Mutex<Option<watch::Sender<()>>>,
}

/// The receivers of messages that belong to no request.
#[derive(Debug)]
pub(super) enum Audience {
    /// All sessions; the message must show which of them it concerns.
    Many(Weak<Sessions>),
    /// The one session that the child was started for.
    One(Arc<Mailbox>),
}

/// A child's introduction: the result of its handshake.
#[derive(Debug)]
pub(super) struct Introduction {
    pub(super) era: Era,
    /// The result, exactly as the child wrote it.
    pub(super) result: String,
}

#[derive(Debug)]
struct State {
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
    /// Ids, as JSON, of the child's requests that were passed on.
    asked: HashSet<String>,
    health: Health,
    over: Option<(Arc<str>, Instant)>,
}

impl State {
    /// Forgets a cancelled request that has no answer yet.
    fn give_up(&mut self, number: u64) -> Option<(Waiting, Verdict)> {
        let waiting = self.waiting.remove(&number)?;
        let verdict = self.health.give_up(waiting.asked);
        Some((waiting, verdict))
    }

    /// Removes an answered request, and returns its caller if it still waits.
    fn take_waiting(&mut self, number: u64) -> Option<Waiting> {
        if (1..=self.next).contains(&number) {
            self.health.answer();
        }
        self.waiting.remove(&number)
    }
}

/// The sender of a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Asker<'s> {
    /// A client, in this session if it has one.
    Client(Option<&'s Arc<str>>),
    /// The gateway itself, which answers no requests of the child.
    Gateway,
}

impl<'s> Asker<'s> {
    fn session(self) -> Option<&'s Arc<str>> {
        match self {
            Asker::Client(session) => session,
            Asker::Gateway => None,
        }
    }
}

/// How likely a message of the child belongs to a request, if it does not name one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// A client's call, during which servers ask and report.
    Call,
    /// Another request of a client.
    Other,
    /// A request of the gateway itself, which must not get the client's messages.
    Never,
}

/// Methods during which a server may need to ask its client something.
const CALLS: [&str; 5] =
    ["tools/call", "prompts/get", "resources/read", "completion/complete", "tasks/result"];

impl Fit {
    fn of(asker: Asker<'_>, method: Option<&str>) -> Fit {
        match asker {
            Asker::Gateway => Fit::Never,
            Asker::Client(_) if method.is_some_and(|method| CALLS.contains(&method)) => Fit::Call,
            Asker::Client(_) => Fit::Other,
        }
    }
}

/// A caller that waits for an answer.
#[derive(Debug)]
struct Waiting {
    /// The caller's own id, and its progress token if it gave one, as JSON.
    id: String,
    token: Option<String>,
    session: Option<Arc<str>>,
    fit: Fit,
    asked: Instant,
    to: Caller,
}

/// Why a request was not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AskError {
    Full,
    Over(Arc<str>),
}

/// A request in progress. If this is dropped before the answer, the request is cancelled
/// at the child, which can serve others instead, and later messages are discarded.
#[derive(Debug)]
pub(super) struct Asking {
    child: Arc<Child>,
    number: u64,
    /// The protocol forbids to cancel the handshake.
    is_handshake: bool,
    pub(super) inbox: Inbox,
}

impl Child {
    pub(super) fn new(
        outbox: Outbox,
        limits: Limits,
        chatter: Chatter,
        audience: Audience,
        held: watch::Sender<()>,
        exited: watch::Receiver<Option<ExitStatus>>,
        words: Option<LastWords>,
    ) -> Child {
        let Limits { message: most, timeout } = limits;
        let state = State {
            next: 0,
            waiting: BTreeMap::new(),
            asked: HashSet::new(),
            health: Health::new(timeout),
            over: None,
        };
        Child {
            outbox,
            most,
            chatter,
            words,
            audience,
            introduction: OnceLock::new(),
            began: Instant::now(),
            state: Mutex::new(state),
            exited,
            held: Mutex::new(Some(held)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why and when it ended, if it has.
    pub(super) fn over(&self) -> Option<(Arc<str>, Instant)> {
        self.state().over.clone()
    }

    pub(super) fn is_modern(&self) -> bool {
        self.introduction.get().is_some_and(|introduction| introduction.era == Era::Modern)
    }

    pub(super) fn is_introduced(&self) -> bool {
        self.introduction.get().is_some()
    }

    /// Explains why a started child is unusable, with its last stderr lines. They contain
    /// nothing of any client, because no client was served before the introduction.
    pub(super) fn explain(&self, why: &str) -> String {
        match &self.words {
            Some(words) => match words.text() {
                Some(text) => format!("{why}: \"{text}\""),
                None => format!(
                    "{why}\nhint: it wrote nothing that says why: try the command by itself"
                ),
            },
            None => why.to_owned(),
        }
    }

    /// Whether no request is pending.
    pub(super) fn is_idle(&self) -> bool {
        self.state().waiting.is_empty()
    }

    /// Limits on its messages.
    pub(super) fn bounds(&self) -> Bounds {
        Bounds {
            bytes: self.most,
            string: self.most,
            number: self.most,
            members: 1 << 20,
            nodes: 1 << 20,
            depth: 128,
            lone_surrogates: LoneSurrogates::Replace,
        }
    }

    /// Sends a request under a number of ours.
    pub(super) async fn ask(
        self: &Arc<Child>,
        request: &Document,
        asker: Asker<'_>,
    ) -> Result<Asking, AskError> {
        let root = request.root();
        let id = root.get("id");
        let token = root
            .get("params")
            .and_then(|params| params.get("_meta"))
            .and_then(|meta| meta.get("progressToken"));
        let (to, inbox) = caller();
        let waiting = Waiting {
            id: id.map_or_else(|| "null".into(), |id| id.raw().to_owned()),
            token: token.map(|token| token.raw().to_owned()),
            session: asker.session().cloned(),
            fit: Fit::of(asker, root.get("method").and_then(Value::as_str)),
            asked: Instant::now(),
            to,
        };
        let number = self.register(waiting)?;
        let is_handshake = root.get("method").and_then(Value::as_str) == Some("initialize");
        let asking = Asking { child: Arc::clone(self), number, is_handshake, inbox };
        let mut edits = Edits::new(request);
        for place in id.into_iter().chain(token) {
            edits.replace(place, number.to_string());
        }
        if self.outbox.put(edits.finish()).await.is_ok() {
            return Ok(asking);
        }
        // It was never sent, so there is nothing to cancel.
        let removed = self.state().give_up(number);
        if let Some((_, verdict)) = removed {
            self.follow(verdict);
        }
        Err(self.over().map_or(AskError::Full, |(why, _)| AskError::Over(why)))
    }

    fn register(&self, waiting: Waiting) -> Result<u64, AskError> {
        let mut state = self.state();
        if let Some((why, _)) = &state.over {
            return Err(AskError::Over(Arc::clone(why)));
        }
        if state.waiting.len() >= MOST_WAITING {
            return Err(AskError::Full);
        }
        state.next += 1;
        let number = state.next;
        state.waiting.insert(number, waiting);
        Ok(number)
    }

    /// Sends a message that expects no answer.
    pub(super) async fn tell(&self, message: String) -> Result<(), Full> {
        self.outbox.put(message).await
    }

    /// The same, but only if there is room now.
    pub(super) fn tell_now(&self, message: String) -> Result<(), Full> {
        self.outbox.put_now(message)
    }

    /// Cancels a request that this session made: `id` is its own, as JSON.
    pub(super) async fn cancel(self: &Arc<Child>, session: &Arc<str>, notification: &Document) {
        let place = notification.root().get("params").and_then(|params| params.get("requestId"));
        let Some(place) = place else { return };
        let found = {
            let mut state = self.state();
            let own = |(_, waiting): &(&u64, &Waiting)| {
                waiting.id == place.raw() && waiting.session.as_ref() == Some(session)
            };
            let number = state.waiting.iter().find(own).map(|(number, _)| *number);
            number.and_then(|number| Some((number, state.give_up(number)?)))
        };
        let Some((number, (waiting, verdict))) = found else { return };
        let mut edits = Edits::new(notification);
        edits.replace(place, number.to_string());
        // Servers do not answer cancelled requests, so the caller would wait in vain.
        waiting.to.tell(CallEvent::Cancelled, self.most);
        let _ = self.tell(edits.finish()).await;
        self.follow(verdict);
    }

    /// Registers a request of the child that its client must answer.
    pub(super) fn expect_reply(&self, id: &Id) -> bool {
        let mut state = self.state();
        state.asked.len() < MOST_ASKED && state.asked.insert(id.to_json())
    }

    /// Whether the child expects this answer; each is expected only once.
    pub(super) fn takes_reply(&self, id: &Id) -> bool {
        self.state().asked.remove(&id.to_json())
    }

    /// Passes an answer to the caller that waits for it.
    pub(super) fn deliver_answer(&self, id: &Id, message: &Document, code: Option<&str>) {
        let Some(waiting) = number(id).and_then(|number| self.state().take_waiting(number)) else {
            return;
        };
        let root = message.root();
        let mut edits = Edits::new(message);
        if let Some(place) = root.get("id") {
            edits.replace(place, waiting.id.clone());
        }
        let meta = root.get("result").and_then(|result| result.get("_meta"));
        if let Some(place) = meta.and_then(|meta| meta.get(META_SUBSCRIPTION)) {
            edits.replace(place, waiting.id.clone());
        }
        let message = single_line(edits.finish()).into();
        let answer = Answer { message, code: code.map(Into::into) };
        waiting.to.tell(CallEvent::Answer(answer), self.most);
    }

    /// Passes a notification to the request that it belongs to. The value at `place` is
    /// our number; it is replaced by the request's own id or token.
    pub(super) fn aside<'d>(&self, message: &'d Document, place: Value<'d>, kind: Kind) {
        let Some(number) = Id::read(place).ok().as_ref().and_then(number) else { return };
        let State { waiting: all, health, .. } = &mut *self.state();
        let Some(waiting) = all.get(&number) else { return };
        let own = match kind {
            Kind::Subscription => Some(&waiting.id),
            Kind::Progress => waiting.token.as_ref(),
        };
        let Some(own) = own else { return };
        if kind == Kind::Progress {
            // The child is working on a pending request.
            health.answer();
        }
        let mut edits = Edits::new(message);
        edits.replace(place, own.clone());
        let said = CallEvent::Aside(single_line(edits.finish()).into());
        if !waiting.to.tell(said, self.most) && kind == Kind::Subscription {
            // The caller is gone, or must learn that it has missed an event. Progress may
            // be missed, because the answer still comes.
            all.remove(&number);
        }
    }

    /// Passes a message to the newest request with this `fit` whose caller is still
    /// there, and to no other. Returns whether that caller had room, or `None` if there
    /// is none.
    pub(super) fn to_newest(&self, fit: Fit, message: &str) -> Option<bool> {
        let state = self.state();
        let is_fitting = |waiting: &&Waiting| waiting.fit == fit && !waiting.to.is_gone();
        let newest = state.waiting.values().rev().find(is_fitting)?;
        let message = Bytes::from(single_line(message.to_owned()));
        Some(newest.to.tell(CallEvent::Aside(message), self.most))
    }

    /// Fails a request whose answer cannot be read.
    pub(super) fn fail(&self, number: u64, why: &str) {
        let waiting = self.state().take_waiting(number);
        if let Some(waiting) = waiting {
            waiting.to.tell(CallEvent::Failed(why.into()), self.most);
        }
    }

    /// Acts on the result of a health check.
    fn follow(self: &Arc<Child>, verdict: Verdict) {
        match verdict {
            Verdict::Fine => {}
            Verdict::Doubtful => self.ping(),
            Verdict::Dead => {
                self.chatter.warn("it does not answer any more, and is replaced");
                self.finish("the server has not answered several calls in a row, and was ended");
            }
        }
    }

    /// Sends a `ping`. Any answer proves health, even one that says that `ping` is
    /// unknown.
    fn ping(self: &Arc<Child>) {
        let (number, timeout) = {
            let mut state = self.state();
            state.next += 1;
            (state.next, state.health.timeout())
        };
        // If there is no room, the child does not read its input and will not answer.
        let _ = self.tell_now(format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"ping"}}"#));
        // Requests are also dropped when the runtime ends.
        let (Some(timeout), Ok(runtime)) = (timeout, Handle::try_current()) else { return };
        let child = Arc::downgrade(self);
        runtime.spawn(async move {
            tokio::time::sleep(timeout).await;
            let Some(child) = child.upgrade().filter(|child| child.over().is_none()) else {
                return;
            };
            let verdict = child.state().health.expire();
            child.follow(verdict);
        });
    }

    /// The child has ended or is being ended: all pending requests fail.
    pub(super) fn finish(&self, why: &str) {
        let why: Arc<str> = why.into();
        let waiting = {
            let mut state = self.state();
            state.over.get_or_insert_with(|| (Arc::clone(&why), Instant::now()));
            std::mem::take(&mut state.waiting)
        };
        for waiting in waiting.into_values() {
            waiting.to.tell(CallEvent::Failed(Arc::clone(&why)), self.most);
        }
        if let Audience::One(mailbox) = &self.audience {
            mailbox.close();
        }
        drop(self.held.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Which kind of request id a notification carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Progress,
    Subscription,
}

/// The number of ours in an id.
fn number(id: &Id) -> Option<u64> {
    match id {
        Id::Integer(text) => text.parse().ok(),
        Id::String(_) => None,
    }
}

impl Asking {
    pub(super) fn child(&self) -> &Child {
        &self.child
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let given_up = self.child.state().give_up(self.number);
        let Some((_, verdict)) = given_up else { return };
        if !self.is_handshake {
            let number = self.number;
            let reason = quote("nobody waits for the answer any more");
            let _ = self.child.tell_now(format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{number},"reason":{reason}}}}}"#
            ));
        }
        self.child.follow(verdict);
    }
}
