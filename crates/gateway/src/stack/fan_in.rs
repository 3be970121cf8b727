//! One event stream fed by all servers: events of each are passed on, and the client is
//! notified when its lists change.

use std::sync::Arc;

use bytes::Bytes;
use sluice_http::sse::encode_message;
use sluice_wire::mcp::META_SUBSCRIPTION;
use tokio::{
    sync::{broadcast, mpsc},
    task::JoinSet,
};

use super::{
    Stack,
    event_ids::{EventIds, Seen},
};
use crate::{
    body::{ClientBody, Cut},
    response,
    session_stream::{KEEP_ALIVE, WAITING, pass_on, wait_for_expiry},
    shares::StreamPlace,
    subscriptions::{LISTS, tag},
};

/// What a follower reports about its server.
#[derive(Debug)]
pub(super) enum FollowerEvent {
    /// The notifications that the server acknowledged, as JSON; `None` if it sends none.
    Agreed(Option<String>),
    /// One event for the client.
    Event(Bytes),
    /// The client may see other items than before.
    Changed,
    /// The server is gone, or the grant may no longer use it.
    Over,
}

/// Sends a follower's events to the client's stream.
#[derive(Debug, Clone)]
pub(super) struct FollowerSender {
    server: Arc<str>,
    sender: mpsc::Sender<(Arc<str>, FollowerEvent)>,
}

impl FollowerSender {
    /// Sends an event; `None` if the client's stream has ended.
    pub(super) async fn send(&self, event: FollowerEvent) -> Option<()> {
        self.sender.send((Arc::clone(&self.server), event)).await.ok()
    }
}

/// The format of a client's stream.
#[derive(Debug)]
pub(super) enum StreamFormat {
    Legacy(Seen),
    Modern {
        /// The id of its request, as JSON.
        id: String,
        /// The notifications that it subscribed to.
        methods: Vec<&'static str>,
    },
}

impl StreamFormat {
    fn event(&mut self, ids: &EventIds, server: &Arc<str>, bytes: Bytes) -> Bytes {
        match self {
            StreamFormat::Legacy(seen) => seen.label(ids, server, bytes),
            StreamFormat::Modern { .. } => bytes,
        }
    }

    /// The notifications that all lists have changed.
    fn list_changed(&self) -> Bytes {
        let blocks: Vec<Bytes> = match self {
            StreamFormat::Legacy(_) => LISTS
                .iter()
                .map(|(method, _)| format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#))
                .map(|message| encode_message(&message))
                .collect(),
            StreamFormat::Modern { id, methods } => methods
                .iter()
                .filter_map(|method| tag(method, "{}", id))
                .map(|message| encode_message(&message))
                .collect(),
        };
        blocks.concat().into()
    }

    /// The message that ends a stream properly.
    fn end(&self) -> Option<Bytes> {
        let StreamFormat::Modern { id, .. } = self else { return None };
        let end = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","_meta":{{"{META_SUBSCRIPTION}":{id}}}}}}}"#
        );
        Some(encode_message(&end))
    }
}

/// How the servers of a stack have changed since its stream was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StackStatus {
    Same,
    /// The grant's servers are not the same any more.
    Other,
    /// The grant is no longer valid, or the gateway shuts down.
    Gone,
}

/// One client's stream, fed by the followers of all servers.
pub(super) struct FanIn {
    stack: Arc<Stack>,
    format: StreamFormat,
    pub(super) events: mpsc::Receiver<(Arc<str>, FollowerEvent)>,
    /// Kept open, so that the stream of a stack without servers does not end.
    sender: mpsc::Sender<(Arc<str>, FollowerEvent)>,
    followers: JoinSet<()>,
}

impl FanIn {
    pub(super) fn new(stack: &Arc<Stack>, format: StreamFormat) -> FanIn {
        let (sender, events) = mpsc::channel(WAITING);
        FanIn { stack: Arc::clone(stack), format, events, sender, followers: JoinSet::new() }
    }

    /// Starts a follower of a server.
    pub(super) fn follow<F>(
        &mut self,
        server: &Arc<str>,
        follower: impl FnOnce(FollowerSender) -> F,
    ) where
        F: Future<Output = Option<()>> + Send + 'static,
    {
        let sender = FollowerSender { server: Arc::clone(server), sender: self.sender.clone() };
        let following = follower(sender.clone());
        self.followers.spawn(async move {
            following.await;
            sender.send(FollowerEvent::Over).await;
        });
    }

    /// Runs the stream to the client; `first` is sent first.
    pub(super) async fn run(mut self, first: Bytes, body: &mpsc::Sender<Result<Bytes, Cut>>) {
        let mut changes = self.stack.gateway.config.changes();
        let mut arrivals = self.stack.gateway.sessions.stacks.arrivals.subscribe();
        let (gateway, holder) = (Arc::clone(&self.stack.gateway), Arc::clone(&self.stack.holder));
        let unread = gateway.settings.times.unread;
        let ids = EventIds::of(&self.stack);
        let mut send = Some(Ok(first));
        loop {
            if !pass_on(body, send, unread).await {
                return;
            }
            if self.status() != StackStatus::Same {
                break;
            }
            send = tokio::select! {
                said = self.events.recv() => match said {
                    Some((server, FollowerEvent::Event(bytes))) => Some(Ok(self.format.event(&ids, &server, bytes))),
                    Some((_, FollowerEvent::Changed)) => Some(Ok(self.format.list_changed())),
                    Some((_, FollowerEvent::Agreed(_))) => None,
                    Some((_, FollowerEvent::Over)) | None => break,
                },
                // The status is checked at the top of the loop.
                _ = changes.next() => None,
                arrived = arrivals.recv() => self.arrival(arrived).map(Ok),
                () = wait_for_expiry(&gateway, &holder) => break,
                () = tokio::time::sleep(KEEP_ALIVE) => Some(Ok(Bytes::from_static(b":\n\n"))),
                () = body.closed() => return,
            };
        }
        self.finish(body).await;
    }

    /// A missing server has answered, so clients that may have missed it must list again.
    fn arrival(
        &self,
        arrived: Result<super::client_state::Pair, broadcast::error::RecvError>,
    ) -> Option<Bytes> {
        match arrived {
            Ok((grant, _)) if grant != self.stack.holder.reference.id => None,
            _ => Some(self.format.list_changed()),
        }
    }

    /// If the grant is still valid with other servers, tells the client to list again and
    /// to reopen the stream.
    async fn finish(self, body: &mpsc::Sender<Result<Bytes, Cut>>) {
        if self.status() == StackStatus::Gone {
            return;
        }
        let unread = self.stack.gateway.settings.times.unread;
        let last = [Some(self.format.list_changed()), self.format.end()];
        for bytes in last.into_iter().flatten() {
            if !pass_on(body, Some(Ok(bytes)), unread).await {
                return;
            }
        }
    }

    fn status(&self) -> StackStatus {
        let stack = &self.stack;
        if stack.gateway.config.is_closing() {
            return StackStatus::Gone;
        }
        let Some(Stack { servers: there, .. }) = stack.renew() else { return StackStatus::Gone };
        let is_same = there.len() == stack.servers.len()
            && there.iter().zip(&stack.servers).all(|(a, b)| a.link.shares_state(&b.link));
        if is_same { StackStatus::Same } else { StackStatus::Other }
    }
}

/// A response stream that a task feeds.
pub(super) fn feed<F>(
    place: StreamPlace,
    feed: impl FnOnce(mpsc::Sender<Result<Bytes, Cut>>) -> F,
) -> http::Response<ClientBody>
where
    F: Future<Output = ()> + Send + 'static,
{
    let (body, receiver) = mpsc::channel(WAITING);
    let feeding = feed(body);
    tokio::spawn(async move {
        feeding.await;
        drop(place);
    });
    response::event_stream(ClientBody::standing(receiver))
}
