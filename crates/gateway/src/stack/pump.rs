//! A stream on which all servers are heard: what each one's follower says is
//! passed on, and the client is told when what it may see changes.

use std::sync::Arc;

use bytes::Bytes;
use sluice_http::sse::encode_message;
use sluice_wire::mcp::META_SUBSCRIPTION;
use tokio::{
    sync::{broadcast, mpsc},
    task::JoinSet,
};

use super::{Stack, event_ids::Seen};
use crate::{
    body::{ClientBody, Cut},
    gateway::CLOSING,
    response,
    stream::{KEEP_ALIVE, WAITING, expired, handed_over},
    subscriptions::tagged,
};

/// What a follower has to say of its server.
#[derive(Debug)]
pub(super) enum Said {
    /// What the server agrees to tell, as JSON; nothing if it tells nothing.
    Agreed(Option<String>),
    /// One event for the client.
    Event(Bytes),
    /// The client may see something else than before.
    Changed,
    /// The server is not there any more, or nobody who may follow it.
    Over,
}

/// A follower's way to the client.
#[derive(Debug, Clone)]
pub(super) struct Voice {
    server: Arc<str>,
    sender: mpsc::Sender<(Arc<str>, Said)>,
}

impl Voice {
    /// Says something; `None` if nobody listens any more.
    pub(super) async fn say(&self, said: Said) -> Option<()> {
        self.sender.send((Arc::clone(&self.server), said)).await.ok()
    }
}

/// How a client is spoken to.
#[derive(Debug)]
pub(super) enum Form {
    Legacy(Seen),
    Modern {
        /// The id of its request, as JSON.
        id: String,
        /// What it wants to hear of.
        methods: Vec<&'static str>,
    },
}

/// Every kind of list, and the wish to hear when it changes.
pub(super) const LISTS: [(&str, &str); 3] = [
    ("notifications/tools/list_changed", "toolsListChanged"),
    ("notifications/resources/list_changed", "resourcesListChanged"),
    ("notifications/prompts/list_changed", "promptsListChanged"),
];

impl Form {
    fn event(&mut self, server: &Arc<str>, bytes: Bytes) -> Bytes {
        match self {
            Form::Legacy(seen) => seen.labelled(server, bytes),
            Form::Modern { .. } => bytes,
        }
    }

    /// Says that lists have changed.
    fn changed(&self) -> Bytes {
        let blocks: Vec<Bytes> = match self {
            Form::Legacy(_) => LISTS
                .iter()
                .map(|(method, _)| format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#))
                .map(|message| encode_message(&message))
                .collect(),
            Form::Modern { id, methods } => methods
                .iter()
                .filter_map(|method| tagged(method, "{}", id))
                .map(|message| encode_message(&message))
                .collect(),
        };
        blocks.concat().into()
    }

    /// The end of a stream in good order.
    fn end(&self) -> Option<Bytes> {
        let Form::Modern { id, .. } = self else { return None };
        let end = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","_meta":{{"{META_SUBSCRIPTION}":{id}}}}}}}"#
        );
        Some(encode_message(&end))
    }
}

/// What has become of a stack since its stream was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Now {
    Same,
    /// The grant has other servers.
    Other,
    /// Nobody may listen here any more.
    Gone,
}

/// A stream to one client.
pub(super) struct Pump {
    stack: Arc<Stack>,
    form: Form,
    pub(super) said: mpsc::Receiver<(Arc<str>, Said)>,
    /// Kept, so that a stack without servers is merely silent.
    sender: mpsc::Sender<(Arc<str>, Said)>,
    followers: JoinSet<()>,
}

impl Pump {
    pub(super) fn new(stack: &Arc<Stack>, form: Form) -> Pump {
        let (sender, said) = mpsc::channel(WAITING);
        Pump { stack: Arc::clone(stack), form, said, sender, followers: JoinSet::new() }
    }

    /// Has a server followed.
    pub(super) fn follow<F>(&mut self, server: &Arc<str>, follower: impl FnOnce(Voice) -> F)
    where
        F: Future<Output = Option<()>> + Send + 'static,
    {
        let voice = Voice { server: Arc::clone(server), sender: self.sender.clone() };
        let following = follower(voice.clone());
        self.followers.spawn(async move {
            following.await;
            voice.say(Said::Over).await;
        });
    }

    /// The stream to the client, which begins with these bytes.
    pub(super) async fn run(mut self, first: Bytes, body: &mpsc::Sender<Result<Bytes, Cut>>) {
        let mut changes = self.stack.gateway.changes.subscribe();
        let mut arrivals = self.stack.gateway.stacks.arrivals.subscribe();
        let (gateway, holder) = (Arc::clone(&self.stack.gateway), Arc::clone(&self.stack.holder));
        let mut send = Some(Ok(first));
        loop {
            if !handed_over(body, send).await {
                return;
            }
            if self.now() != Now::Same {
                break;
            }
            send = tokio::select! {
                said = self.said.recv() => match said {
                    Some((server, Said::Event(bytes))) => Some(Ok(self.form.event(&server, bytes))),
                    Some((_, Said::Changed)) => Some(Ok(self.form.changed())),
                    Some((_, Said::Agreed(_))) => None,
                    Some((_, Said::Over)) | None => break,
                },
                // What has become of it is looked at above.
                _ = changes.changed() => None,
                arrived = arrivals.recv() => self.arrival(arrived).map(Ok),
                () = expired(&gateway, &holder) => break,
                () = tokio::time::sleep(KEEP_ALIVE) => Some(Ok(Bytes::from_static(b":\n\n"))),
                () = body.closed() => return,
            };
        }
        self.finish(body).await;
    }

    /// A server that was missing is there: who may have missed it looks again.
    fn arrival(
        &self,
        arrived: Result<super::kept::Pair, broadcast::error::RecvError>,
    ) -> Option<Bytes> {
        match arrived {
            Ok((grant, _)) if grant != self.stack.holder.reference.id => None,
            _ => Some(self.form.changed()),
        }
    }

    /// Where the grant lives on with other servers, the client is told to look
    /// again, and to listen again.
    async fn finish(self, body: &mpsc::Sender<Result<Bytes, Cut>>) {
        if self.now() == Now::Gone {
            return;
        }
        let last = [Some(self.form.changed()), self.form.end()];
        for bytes in last.into_iter().flatten() {
            if !handed_over(body, Some(Ok(bytes))).await {
                return;
            }
        }
    }

    fn now(&self) -> Now {
        let stack = &self.stack;
        if *stack.gateway.changes.borrow() == CLOSING {
            return Now::Gone;
        }
        let Some(Stack { servers: there, .. }) = stack.renew() else { return Now::Gone };
        let is_same = there.len() == stack.servers.len()
            && there.iter().zip(&stack.servers).all(|(a, b)| a.link.shares_state(&b.link));
        if is_same { Now::Same } else { Now::Other }
    }
}

/// A stream that a task feeds.
pub(super) fn fed<F>(
    feed: impl FnOnce(mpsc::Sender<Result<Bytes, Cut>>) -> F,
) -> http::Response<ClientBody>
where
    F: Future<Output = ()> + Send + 'static,
{
    let (body, receiver) = mpsc::channel(WAITING);
    tokio::spawn(feed(body));
    response::event_stream(ClientBody::channel(receiver))
}
