//! The gateway over stdio, for a client that started this process as a wrapper of one
//! server. Each line of the client follows the same path as messages of every other
//! transport (`call`).

mod line;
mod lines;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use http::HeaderMap;
use sluice_stdio::Lines;
use sluice_store::{AttachedPolicy, Server, TokenHash, new_id};
use sluice_upstream::Upstream;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{mpsc, oneshot},
    task::AbortHandle,
};

use crate::{
    authenticate::Caller,
    exchange::Exchange,
    gateway::Gateway,
    grants::Holder,
    legacy_sse::Client,
    session_stream::WAITING,
    snapshot::{ApplyError, ServerState, Snapshot},
};

/// Requests of the client that may be in progress at a time.
const MOST_REQUESTS: u32 = 1000;
/// How long requests in progress may take after the client has closed its side.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// The same after the server is lost or the gateway is stopped.
const QUICK_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The wrapped server, how it is reached, and the policy for its client.
#[derive(Debug)]
pub struct Wrap {
    pub server: Server,
    pub upstream: Upstream,
    pub policy: AttachedPolicy,
}

/// A wrapped server. Its client is judged as grant `wrap:<server>`.
#[derive(Debug)]
pub struct Wrapped {
    gateway: Gateway,
    server: Arc<ServerState>,
    holder: Arc<Holder>,
    token: TokenHash,
}

/// Why the client's connection has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The client closed its input or output.
    ByClient,
    /// The server has lost the session, which could not be re-established.
    BySession,
    /// The gateway was told to stop.
    Stopped,
}

impl Gateway {
    /// Activates one server and nothing else.
    pub fn wrap(&self, wrap: Wrap) -> Result<Wrapped, ApplyError> {
        let Wrap { server, upstream, policy } = wrap;
        let holder = Arc::new(Holder::wrap(&server.name, &policy.name));
        let (snapshot, state) = Snapshot::of_one(&server, upstream, &policy, &self.inner.settings)?;
        // Connected callers are looked up by token again now and then. This token is
        // never issued, and no caller could present it: there is no listener.
        let token = TokenHash::of(&new_id(self.inner.settings.clock.now()).to_string());
        self.inner.config.hold(snapshot, &token, &holder);
        Ok(Wrapped { gateway: self.clone(), server: state, holder, token })
    }
}

impl Wrapped {
    /// Serves the client until one side closes, or `stop` completes. Requests in progress
    /// then have a few seconds to finish.
    pub async fn run<R, W>(
        &self,
        input: R,
        output: W,
        stop: impl Future<Output = ()> + Send,
    ) -> Ended
    where
        R: AsyncRead + Unpin + Send,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, said) = mpsc::channel(WAITING);
        let (done, is_done) = oneshot::channel();
        let writing = tokio::spawn(lines::write(output, said, is_done));
        let conversation = Conversation {
            wrapped: self,
            client: Arc::new(Client::new(
                &self.gateway.inner,
                &self.holder,
                sender,
                MOST_REQUESTS as usize,
            )),
            under_way: Arc::default(),
            is_introduced: AtomicBool::new(false),
        };
        let client = &conversation.client;
        let ended = tokio::select! {
            () = conversation.read(input) => Ended::ByClient,
            () = client.sender.closed() => Ended::ByClient,
            () = client.ended.notified() => Ended::BySession,
            () = stop => Ended::Stopped,
        };
        let timeout = if ended == Ended::ByClient { DRAIN_TIMEOUT } else { QUICK_DRAIN_TIMEOUT };
        conversation.finish(timeout).await;
        let _ = done.send(());
        // A client that does not read cannot delay the end.
        let _ = tokio::time::timeout(QUICK_DRAIN_TIMEOUT, writing).await;
        conversation.end_session().await;
        ended
    }

    fn exchange(&self, headers: HeaderMap) -> Exchange {
        let caller = Caller { holder: Arc::clone(&self.holder), token: Some(self.token) };
        Exchange::new(Arc::clone(&self.gateway.inner), caller, Arc::clone(&self.server), headers)
    }
}

/// The conversation with the client.
struct Conversation<'w> {
    wrapped: &'w Wrapped,
    client: Arc<Client>,
    under_way: Arc<UnderWay>,
    /// Whether a legacy command has been initialized for a modern client.
    is_introduced: AtomicBool,
}

/// Requests in progress, by their id as JSON. A cancelled request is aborted here, even
/// if it has not been sent yet.
#[derive(Debug, Default)]
struct UnderWay(Mutex<HashMap<String, Cancellable>>);

#[derive(Debug)]
struct Cancellable {
    task: AbortHandle,
    /// Whether it runs until it is cancelled.
    is_endless: bool,
}

impl UnderWay {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Cancellable>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Aborts a request.
    fn cancel(&self, id: &str) {
        if let Some(one) = self.all().remove(id) {
            one.task.abort();
        }
    }
}

impl Conversation<'_> {
    async fn read(&self, input: impl AsyncRead + Unpin) {
        let most = self.wrapped.gateway.inner.settings.bounds.bytes;
        let mut lines = Lines::new(input, most);
        // Memory is bounded by the longest message that is accepted, however long a line
        // is.
        while let Ok(Some(line)) = lines.next(u64::MAX).await {
            self.handle_line(line).await;
        }
    }

    /// Waits for requests in progress, but aborts subscriptions, which never end by
    /// themselves.
    async fn finish(&self, timeout: Duration) {
        for one in self.under_way.all().values().filter(|one| one.is_endless) {
            one.task.abort();
        }
        let all = self.client.room.acquire_many(MOST_REQUESTS);
        if tokio::time::timeout(timeout, all).await.is_err() {
            tracing::warn!("some requests were still under way at the end");
        }
    }

    async fn end_session(&self) {
        if let Some(ending) = self.client.ending(self.wrapped.exchange(HeaderMap::new()).into()) {
            // Best effort: an unused session expires anyway.
            let _ = tokio::time::timeout(QUICK_DRAIN_TIMEOUT, ending).await;
        }
    }
}
