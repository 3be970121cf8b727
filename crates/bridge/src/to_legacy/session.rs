//! Sessions with a legacy server, one for each caller that must be kept apart.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use sluice_expiring::{ExpiringMap, Limits};
use sluice_http::{
    SendError, Speaks,
    headers::{REVISION, SESSION},
};
use sluice_wire::{
    json::{Bounds, Document, Value},
    mcp::{Era, Revision},
    rpc::{Id, Message},
};
use tokio::time::Instant;

use super::{
    dispatch::Dispatcher, refusals::Refusals, refuse_server_request, session_stream::Stream,
};
use crate::{
    Link,
    eras::hello,
    exchange::{Reader, bare, exchange, post, set},
    message::{Declared, LEVELS, lets_ask, response},
};

/// The most sessions at one server; the least recently used are ended.
const MOST: usize = 1_000;
/// The most sessions of one caller.
const MOST_OF_CALLER: usize = 32;
/// A session that has been idle this long is ended.
const IDLE: Duration = Duration::from_mins(10);
/// The timeout of requests that no client waits for.
const BACKGROUND_TIMEOUT: Duration = Duration::from_secs(30);
/// No level was set yet, so no messages pass.
const UNSET: u8 = u8::MAX;

/// One session. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Session {
    link: Arc<Link>,
    /// Headers of every request in it: the credential, the protocol version, its id.
    headers: HeaderMap,
    /// The answer to `initialize`.
    pub(super) introduction: Document,
    next: AtomicU64,
    /// The most verbose level that was requested.
    level: AtomicU8,
    /// The declaration of its client.
    capabilities: Option<Document>,
    pub(super) dispatcher: Dispatcher,
    refusals: Refusals,
}

/// Why there is no session.
#[derive(Debug)]
pub(super) enum OpenError {
    Send(SendError),
    Status(StatusCode),
    /// The server refused, or gave no usable answer.
    Refused,
}

/// All sessions at one server.
#[derive(Debug)]
pub(super) struct Sessions {
    link: Arc<Link>,
    slots: Mutex<ExpiringMap<String, Arc<Slot>>>,
}

#[derive(Debug)]
struct Slot {
    caller: Box<str>,
    /// Locked while the session is being opened.
    session: tokio::sync::Mutex<Option<Arc<Session>>>,
}

impl Sessions {
    pub(super) fn new(link: Arc<Link>) -> Sessions {
        let limits = Limits { entries: MOST, idle: IDLE, ..Limits::NONE };
        Sessions { link, slots: Mutex::new(ExpiringMap::new(limits)) }
    }

    fn slots(&self) -> MutexGuard<'_, ExpiringMap<String, Arc<Slot>>> {
        // The map is consistent after every step, so a poisoned lock is still usable.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session with this key, opened if there is none.
    pub(super) async fn get(
        self: &Arc<Self>,
        caller: &str,
        key: &str,
        headers: &HeaderMap,
        declared: &Declared,
        bounds: Bounds,
    ) -> Result<Arc<Session>, OpenError> {
        let slot = self.slot(caller, key);
        let mut session = slot.session.lock().await;
        if let Some(begun) = session.clone() {
            drop(session);
            begun.dispatcher.stream.ready().await;
            return Ok(begun);
        }
        let begun = Session::begin(&self.link, headers, declared, bounds).await?;
        let begun = Arc::new(begun);
        Stream::begin(&begun, bounds).await;
        *session = Some(Arc::clone(&begun));
        Ok(begun)
    }

    fn slot(self: &Arc<Self>, caller: &str, key: &str) -> Arc<Slot> {
        let now = Instant::now().into_std();
        let mut slots = self.slots();
        if let Some((_, slot)) = slots.touch(key, now) {
            return Arc::clone(slot);
        }
        if slots.is_empty() && !self.link.has_one_client() {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
        let is_own = |_: &String, slot: &Arc<Slot>| *slot.caller == *caller;
        if slots.iter().filter(|(key, slot)| is_own(key, slot)).count() >= MOST_OF_CALLER {
            slots.evict_where(is_own);
        }
        let slot = Slot { caller: caller.into(), session: tokio::sync::Mutex::default() };
        let slot = Arc::new(slot);
        // An evicted session stays alive as long as it is in use.
        slots.insert(key.to_owned(), Arc::clone(&slot), 0, now);
        slot
    }

    /// Forgets a session that the server has lost.
    pub(super) async fn forget(&self, key: &str, lost: &Arc<Session>) {
        let slot = self.slots().get(key).cloned();
        if let Some(slot) = slot {
            let mut session = slot.session.lock().await;
            if session.as_ref().is_some_and(|session| Arc::ptr_eq(session, lost)) {
                *session = None;
            }
        }
    }
}

/// Ends idle sessions; stops when there are none left.
async fn sweep(sessions: std::sync::Weak<Sessions>) {
    loop {
        tokio::time::sleep(IDLE / 10).await;
        let Some(sessions) = sessions.upgrade() else { return };
        let mut slots = sessions.slots();
        let now = Instant::now().into_std();
        slots.expire(now, |_, slot| Arc::strong_count(slot) > 1);
        if slots.is_empty() {
            return;
        }
    }
}

impl Session {
    /// Opens a session with this client declaration.
    pub(super) async fn begin(
        link: &Arc<Link>,
        headers: &HeaderMap,
        declared: &Declared,
        bounds: Bounds,
    ) -> Result<Session, OpenError> {
        let request = post(headers.clone(), hello(declared, "0"));
        let zero = Id::Integer("0".into());
        let said =
            exchange(&link.upstream, request, &zero, bounds).await.map_err(OpenError::Send)?;
        let (status, session) = (said.status, said.headers.get(SESSION).cloned());
        let introduction = match said.answer {
            Some(answer) if answer.root().get("result").is_some() => answer,
            said => {
                link.forget_eras();
                let error = said.as_ref().and_then(|said| said.root().get("error"));
                let has_said = error.is_some() || status.is_success();
                return Err(if has_said { OpenError::Refused } else { OpenError::Status(status) });
            }
        };
        link.protocol.note_era(Era::Legacy, Speaks::Yes);
        let agreed = introduction.root().get("result").and_then(|said| said.get("protocolVersion"));
        let revision = agreed.and_then(Value::as_str).unwrap_or(Revision::UNSAID.name());
        let mut headers = headers.clone();
        set(&mut headers, REVISION, revision);
        if let Some(session) = session {
            headers.insert(SESSION, session);
        }
        let begun = Session {
            link: Arc::clone(link),
            headers,
            introduction,
            next: AtomicU64::new(1),
            level: AtomicU8::new(UNSET),
            capabilities: Document::parse(&*declared.capabilities, &bounds).ok(),
            dispatcher: Dispatcher::default(),
            refusals: Refusals::default(),
        };
        begun.tell(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.into()).await;
        Ok(begun)
    }

    /// The headers of a request in this session.
    pub(super) fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    pub(super) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// An id that no other request of this session has.
    pub(super) fn next_id(&self) -> Id {
        Id::Integer(self.next.fetch_add(1, Ordering::Relaxed).to_string())
    }

    /// Posts a message that expects no answer.
    pub(super) async fn tell(&self, message: String) {
        let _ = self.deliver(message).await;
    }

    /// Posts a message that expects no answer; an error says why the server did not
    /// accept it.
    pub(super) async fn deliver(&self, message: String) -> Result<(), String> {
        let sending = self.link.upstream.send(post(self.headers(), message));
        let sent = tokio::time::timeout(BACKGROUND_TIMEOUT, sending).await;
        let status = match sent {
            Ok(Ok(answer)) => answer.status(),
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err("it did not take an answer in time".into()),
        };
        if status.is_success() {
            return Ok(());
        }
        Err(format!("it refused an answer with HTTP {}", status.as_u16()))
    }

    /// Whether the client's capabilities allow a server request of this method.
    pub(super) fn lets_ask(&self, method: &str) -> bool {
        self.capabilities.as_ref().is_some_and(|capabilities| lets_ask(capabilities.root(), method))
    }

    /// Sends a request and ignores the result; returns whether it succeeded.
    pub(super) async fn request_and_confirm(
        &self,
        method: &str,
        params: &str,
        bounds: Bounds,
    ) -> bool {
        let id = self.next_id();
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{},"method":"{method}","params":{params}}}"#,
            id.to_json()
        );
        let asking = self.is_granted(post(self.headers(), body), &id, bounds);
        tokio::time::timeout(BACKGROUND_TIMEOUT, asking).await.unwrap_or(false)
    }

    async fn is_granted(&self, request: Request<Bytes>, own: &Id, bounds: Bounds) -> bool {
        let Ok(answer) = self.link.upstream.send(request).await else { return false };
        if !answer.status().is_success() {
            return false;
        }
        let mut reader = Reader::new(answer, bounds);
        while let Ok(Some(document)) = reader.next().await {
            match Message::read(&document) {
                Ok(Message::Response { id, .. }) if id == *own => return true,
                Ok(Message::Failure { id: Some(id), .. }) if id == *own => return false,
                Ok(Message::Request { id, method, .. }) => self.put_off(&id, method).await,
                _ => {}
            }
        }
        false
    }

    /// Answers a server request for which no client can be asked.
    pub(super) async fn put_off(&self, id: &Id, method: &str) {
        let id = id.to_json();
        self.tell(if method == "ping" {
            response(&id, "{}")
        } else {
            refuse_server_request(&id, method)
        })
        .await;
    }

    /// Refuses a server request that no client can answer. An error says that there were too many
    /// of them.
    pub(super) async fn turn_away(&self, id: &Id, method: &str) -> Result<(), String> {
        self.refusals.count()?;
        self.tell(refuse_server_request(&id.to_json(), method)).await;
        Ok(())
    }

    /// The server's value for a capability.
    pub(super) fn can(&self, capability: &str) -> Option<Value<'_>> {
        self.introduction.root().get("result")?.get("capabilities")?.get(capability)
    }

    /// Lowers the server's log level to this one, if it is higher.
    pub(super) async fn set_level(&self, level: u8, bounds: Bounds) {
        let before = self.level.fetch_min(level, Ordering::Relaxed);
        let Some(name) = LEVELS.get(usize::from(level)).filter(|_| level < before) else { return };
        if self.can("logging").is_some() {
            let params = format!(r#"{{"level":"{name}"}}"#);
            self.request_and_confirm("logging/setLevel", &params, bounds).await;
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.headers.contains_key(SESSION) {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let end = bare(Method::DELETE, std::mem::take(&mut self.headers));
        let link = Arc::clone(&self.link);
        runtime.spawn(async move {
            let _ = tokio::time::timeout(BACKGROUND_TIMEOUT, link.upstream.send(end)).await;
        });
    }
}
