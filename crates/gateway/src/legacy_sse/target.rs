//! The destination of an HTTP+SSE connection: one server, or all servers of the grant.

use std::sync::Arc;

use http::{HeaderMap, Response, header};
use http_body_util::BodyExt as _;
use sluice_http::headers::{EVENT_STREAM, REVISION, SESSION};
use sluice_policy::Timestamp;
use sluice_wire::json::Document;
use tokio::time::sleep;

use super::{
    Agreed, Client,
    follow::{FIRST_PAUSE, LONGEST_PAUSE, follow},
};
use crate::{
    body::ClientBody,
    call,
    exchange::Exchange,
    gateway::Inner,
    grants::Holder,
    refusal::Refusal,
    session::Session,
    session_stream::{News, Watcher, end_session},
    stack::{self, Stack},
};

/// The other end of a connection, with the headers of the current request.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    One(Box<Exchange>),
    All(Box<Stack>),
}

impl From<Exchange> for Target {
    fn from(exchange: Exchange) -> Target {
        Target::One(Box::new(exchange))
    }
}

impl From<Stack> for Target {
    fn from(stack: Stack) -> Target {
        Target::All(Box::new(stack))
    }
}

impl Target {
    pub(super) fn gateway(&self) -> &Arc<Inner> {
        match self {
            Target::One(exchange) => &exchange.gateway,
            Target::All(stack) => &stack.gateway,
        }
    }

    pub(super) fn holder(&self) -> &Holder {
        match self {
            Target::One(exchange) => &exchange.holder,
            Target::All(stack) => &stack.holder,
        }
    }

    /// The server's name; empty for all servers, because no server has an empty name.
    pub(super) fn name(&self) -> &str {
        match self {
            Target::One(exchange) => exchange.server_name(),
            Target::All(_) => "",
        }
    }

    /// The path to which the client posts its messages.
    pub(super) fn messages_path(&self) -> String {
        match self {
            Target::One(exchange) => format!("/mcp/{}/messages", exchange.server_name()),
            Target::All(_) => "/mcp/messages".into(),
        }
    }

    pub(super) fn at(&self) -> Timestamp {
        match self {
            Target::One(exchange) => exchange.at,
            Target::All(stack) => stack.at,
        }
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        match self {
            Target::One(exchange) => &exchange.headers,
            Target::All(stack) => &stack.headers,
        }
    }

    pub(super) fn headers_mut(&mut self) -> &mut HeaderMap {
        match self {
            Target::One(exchange) => &mut exchange.headers,
            Target::All(stack) => &mut stack.headers,
        }
    }

    /// Answers a message as if it was posted on the later transport.
    pub(super) async fn answer(self, document: Document) -> Response<ClientBody> {
        match self {
            Target::One(exchange) => call::answer(*exchange, document).await,
            Target::All(stack) => Box::pin(stack::answer_parsed(*stack, document)).await,
        }
    }

    /// Passes on notifications and requests of the server until the client or the
    /// session is gone.
    pub(super) async fn follow(self, client: Arc<Client>) {
        match self {
            Target::One(exchange) => follow(client, *exchange).await,
            Target::All(stack) => follow_all(&client, *stack).await,
        }
    }

    /// Drops the references to servers: a connection must not keep a removed server alive.
    pub(super) fn drop_servers(self) -> Target {
        match self {
            Target::One(exchange) => Target::One(exchange),
            Target::All(stack) => Target::All(Box::new(stack.without_servers())),
        }
    }

    /// Ends the agreed session, if there is one.
    pub(super) fn end(mut self, agreed: Agreed) -> Option<impl Future<Output = ()> + use<>> {
        let session = agreed.session?;
        self.headers_mut().extend(agreed.revision.map(|value| (REVISION, value)));
        Some(async move {
            // Best effort: an unused session expires anyway.
            match self {
                Target::One(mut exchange) => {
                    let sealed = session.to_str().unwrap_or_default();
                    let (holder, name) = (&exchange.holder, exchange.server_name());
                    exchange.session = Session::open(&exchange.gateway, holder, name, sealed).ok();
                    if exchange.session.is_some() {
                        let _ = end_session(&exchange).await;
                    }
                }
                Target::All(stack) => {
                    let Some(mut stack) = stack.renew() else { return };
                    stack.headers.insert(SESSION, session);
                    let _ = stack::delete(stack).await;
                }
            }
        })
    }
}

/// Watches for changes of the client's tools, and for the end of its grant.
#[derive(Debug)]
pub(super) enum Watch {
    One(Watcher),
    /// Changes are announced on the session's stream, which is relayed.
    All(Box<Stack>),
}

impl Watch {
    pub(super) fn new(target: &Target) -> Watch {
        match target {
            Target::One(exchange) => Watch::One(Watcher::new(Arc::new(Exchange::clone(exchange)))),
            Target::All(stack) => Watch::All(stack.clone()),
        }
    }

    /// Waits until the client must list its tools again; `None` once its grant is gone.
    pub(super) async fn change(&mut self) -> Option<()> {
        match self {
            Watch::One(watcher) => loop {
                let News { is_changed, .. } = watcher.news().await?;
                if is_changed {
                    return Some(());
                }
            },
            Watch::All(stack) => {
                stack.until_gone().await;
                None
            }
        }
    }
}

/// Relays the stream of all servers. It ends when the grant's servers change, and is then
/// opened again.
async fn follow_all(client: &Client, mut stack: Stack) {
    stack.headers.insert(header::ACCEPT, EVENT_STREAM);
    let mut pause = FIRST_PAUSE;
    loop {
        match stack::get(stack.clone()).await {
            Ok(answer) => {
                if pass_all_on(client, answer.into_body()).await.is_none() {
                    return;
                }
            }
            Err(Refusal::Session) => return client.ended.notify_one(),
            Err(_) => {}
        }
        tokio::select! {
            () = sleep(pause) => {}
            () = client.sender.closed() => return,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
        let Some(renewed) = stack.renew() else { return };
        stack = renewed;
    }
}

/// Passes on a stream to its end; `None` once the client is gone. That must be watched
/// separately, because it does not show while there is nothing to send.
async fn pass_all_on(client: &Client, mut body: ClientBody) -> Option<()> {
    loop {
        let frame = tokio::select! {
            frame = body.frame() => frame,
            () = client.sender.closed() => return None,
        };
        let Some(Ok(frame)) = frame else { return Some(()) };
        if let Ok(data) = frame.into_data() {
            client.pass_on(&data).await?;
        }
    }
}
