//! One endpoint for all servers of a grant: `/mcp`.
//!
//! A message for one server follows the same path as at `/mcp/<server>`, under the
//! server's own names: it is judged, charged and recorded there. A message for all
//! servers is sent to each of them in that way, and the answers are merged.

mod client_state;
mod event_ids;
mod fan_in;
mod follow;
mod gather;
mod initialize;
mod listen;
mod lists;
mod merge;
mod owners;
mod route;
mod server_session;

use std::sync::Arc;

use http::{HeaderMap, Response, StatusCode};
use sluice_http::headers::{LAST_EVENT, NAME, SESSION};
use sluice_policy::Timestamp;
use sluice_store::{Id, TokenHash, new_id};
use sluice_wire::{
    json::Document,
    mcp::{Era, Revision},
    rpc::Message,
};
use tokio::time::Instant;

use crate::{
    authenticate::Caller,
    body::ClientBody,
    call::{self, readable_id},
    gateway::Inner,
    grants::Holder,
    outlive::{Absence, Ends, outlive},
    protocol_version,
    receive::{self, RequestBody},
    refusal::Refusal,
    response, session_stream,
    shares::Turn,
    snapshot::ServerState,
};
use event_ids::{EventIds, LastEvent, label};
use route::StackRoute;

pub(crate) use client_state::Stacks;

/// A request to all servers of a grant while it is handled.
#[derive(Debug, Clone)]
pub(crate) struct Stack {
    pub(crate) gateway: Arc<Inner>,
    pub(crate) holder: Arc<Holder>,
    /// The grant's servers that exist, in the grant's order.
    servers: Vec<Arc<ServerState>>,
    pub(crate) session: Option<Arc<client_state::StackSession>>,
    pub(crate) revision: Revision,
    pub(crate) headers: HeaderMap,
    token: Option<TokenHash>,
    pub(crate) request: Id,
    pub(crate) at: Timestamp,
    pub(crate) started: Instant,
}

impl Stack {
    pub(crate) fn new(gateway: Arc<Inner>, caller: Caller, headers: HeaderMap) -> Stack {
        let Caller { holder, token } = caller;
        let at = gateway.settings.clock.now();
        Stack {
            servers: gateway.config.servers_of(&holder),
            gateway,
            holder,
            session: None,
            revision: Revision::UNSAID,
            headers,
            token,
            request: new_id(at),
            at,
            started: Instant::now(),
        }
    }

    fn is_modern(&self) -> bool {
        self.revision.era() == Era::Modern
    }

    /// The server of that name, if the grant includes it.
    fn server(&self, name: &str) -> Option<&Arc<ServerState>> {
        self.servers.iter().find(|server| *server.link.name == *name)
    }

    /// The same request under the current configuration; `None` if the grant is gone.
    pub(crate) fn renew(&self) -> Option<Stack> {
        let token = self.token?;
        let holder = self.gateway.config.grant(&token)?;
        let now = self.gateway.settings.clock.now();
        let is_same = holder.id() == self.holder.id() && holder.is_valid(now);
        let caller = Caller { holder, token: Some(token) };
        is_same.then(|| Stack::new(Arc::clone(&self.gateway), caller, self.headers.clone()))
    }

    /// The same request without its servers, for long-lived holders.
    pub(crate) fn without_servers(self) -> Stack {
        Stack { servers: Vec::new(), ..self }
    }

    /// Waits until the grant is no longer valid, or the gateway shuts down.
    pub(crate) async fn until_gone(&self) {
        let mut changes = self.gateway.config.changes();
        loop {
            if changes.is_closing() || self.renew().is_none() {
                return;
            }
            tokio::select! {
                next = changes.next() => if next.is_none() { return },
                () = session_stream::wait_for_expiry(&self.gateway, &self.holder) => {}
            }
        }
    }

    /// The session that the client's headers name.
    fn named_session(&self) -> Result<Option<Arc<client_state::StackSession>>, Refusal> {
        let Some(sealed) = self.headers.get(SESSION).and_then(|value| value.to_str().ok()) else {
            return Ok(None);
        };
        self.gateway.sessions.stacks.open(&self.gateway, &self.holder, sealed).map(Some)
    }
}

/// Answers a posted message.
pub(crate) async fn post(stack: Stack, body: RequestBody) -> Response<ClientBody> {
    let ends = Ends::of(&stack.headers);
    let absence = Absence::new(&stack.gateway, &stack.holder);
    outlive(ends, absence, Box::pin(answer(stack, body))).await
}

async fn answer(stack: Stack, body: RequestBody) -> Response<ClientBody> {
    let RequestBody { bytes, portion } = body;
    let answer = match receive::parse_body(&stack.gateway.settings.bounds, bytes).await {
        Ok(document) => answer_parsed(stack, document).await,
        Err(refusal) => refusal.respond(None),
    };
    drop(portion);
    answer
}

/// Answers a message that is already parsed.
pub(crate) async fn answer_parsed(stack: Stack, document: Document) -> Response<ClientBody> {
    let message = match Message::read(&document) {
        Ok(message) => message,
        Err(error) => {
            return Refusal::Request(error.to_string()).respond(readable_id(&document).as_ref());
        }
    };
    let id = message.request_id().cloned();
    // Answers and notifications are never refused: a call may wait for them.
    let turn = match id.as_ref().map(|_| Turn::take_for_all(&stack.gateway, &stack.holder)) {
        Some(Ok(turn)) => Some(turn),
        Some(Err(refusal)) => return refusal.respond(id.as_ref()),
        None => None,
    };
    let routed = match identify(stack, &message) {
        Ok(stack) => Box::pin(find_route(stack, &document, &message)).await,
        Err(refusal) => Err(refusal),
    };
    let answered = match (routed, id.as_ref()) {
        (Ok((stack, StackRoute::Here { server, spliced, own })), _) => {
            Box::pin(answer_by_one(&stack, &server, document, spliced, own)).await
        }
        (Ok((_, StackRoute::Result(result))), id) => Ok(response::result(id, &result)),
        (Ok((_, StackRoute::Nobody)), _) => Ok(response::empty_accepted()),
        (Ok((stack, StackRoute::Everybody)), _) => {
            Box::pin(server_session::notify_all(&stack, document.text())).await;
            Ok(response::empty_accepted())
        }
        (Ok((stack, StackRoute::Hello)), Some(id)) => {
            initialize::initialize(stack, &document, id).await
        }
        (Ok((stack, StackRoute::Discover)), Some(id)) => {
            initialize::discover(&stack, &document, id).await
        }
        (Ok((stack, StackRoute::List(list))), Some(id)) => {
            Box::pin(lists::list(&stack, list, &document, id)).await
        }
        (Ok((stack, StackRoute::Level)), Some(id)) => {
            initialize::level(&stack, &document, id).await
        }
        (Ok((stack, StackRoute::Listen)), Some(id)) => {
            Box::pin(listen::listen(&stack, &document, id)).await
        }
        (Ok(_), None) => Err(Refusal::Internal),
        (Err(refusal), _) => Err(refusal),
    };
    let answer = answered.unwrap_or_else(|refusal| refusal.respond(id.as_ref()));
    match turn {
        Some(turn) => answer.map(|body| body.hold(turn)),
        None => answer,
    }
}

/// Determines the protocol version and the session.
fn identify(mut stack: Stack, message: &Message<'_>) -> Result<Stack, Refusal> {
    let (method, params) = match message {
        Message::Request { method, params, .. } | Message::Notification { method, params } => {
            (Some(*method), *params)
        }
        Message::Response { .. } | Message::Failure { .. } => (None, None),
    };
    stack.revision = protocol_version::revision(&stack.headers, method, params)?;
    if stack.is_modern() && matches!(message, Message::Request { .. }) {
        protocol_version::check_capabilities(params)?;
    }
    if !stack.is_modern() && method != Some("initialize") {
        stack.session = stack.named_session()?;
    }
    Ok(stack)
}

/// Finds the destination of a message, and compares the headers of a message that one server
/// does not judge. A server's policy comes before the comparison, here as at its own URL.
async fn find_route<'d>(
    stack: Stack,
    document: &'d Document,
    message: &Message<'d>,
) -> Result<(Arc<Stack>, StackRoute), Refusal> {
    let mut stack = Arc::new(stack);
    let route = route::route(&stack, document, message).await?;
    if let Err(refusal) = check_headers(&stack, message) {
        if !matches!(route, StackRoute::Here { .. }) {
            return Err(refusal);
        }
        // Without the header, the comparison after the server's decision fails as this one.
        Arc::make_mut(&mut stack).headers.remove(NAME);
    }
    Ok((stack, route))
}

fn check_headers(stack: &Stack, message: &Message<'_>) -> Result<(), Refusal> {
    match message {
        Message::Request { method, params, .. } | Message::Notification { method, params }
            if stack.is_modern() =>
        {
            protocol_version::check_mirrors(&stack.headers, method, *params)
        }
        _ => Ok(()),
    }
}

/// Passes a message to one server, under the server's own names.
async fn answer_by_one(
    stack: &Arc<Stack>,
    server: &Arc<ServerState>,
    document: Document,
    spliced: Option<String>,
    own: Option<String>,
) -> Result<Response<ClientBody>, Refusal> {
    let document = match spliced {
        Some(text) => receive::parse(&stack.gateway.settings.bounds, text.into_bytes())?,
        None => document,
    };
    let exchange = server_session::open_exchange(stack, server, own.as_deref()).await;
    let answer = call::answer(exchange, document).await;
    if answer.status() == StatusCode::NOT_FOUND {
        // The client is told that the session is gone. If it continues with it anyway, it
        // is initialized with this server again.
        server_session::forget(stack, server).await;
    }
    Ok(if stack.is_modern() {
        answer
    } else {
        label(answer, EventIds::of(stack), &server.link.name)
    })
}

/// Opens the stream of a session, with the notifications and requests of all servers.
pub(crate) async fn get(mut stack: Stack) -> Result<Response<ClientBody>, Refusal> {
    stack.revision = protocol_version::without_message(&stack.headers)?;
    stack.session = stack.named_session()?;
    if !session_stream::accepts_events(&stack.headers) {
        return Err(Refusal::NotAcceptable);
    }
    if stack.session.is_none() {
        return Err(Refusal::Request("a stream needs a session: send `Mcp-Session-Id`".into()));
    }
    let last = stack.headers.remove(LAST_EVENT);
    let last = match last.as_ref().map(|last| last.to_str().unwrap_or_default()) {
        None => LastEvent::default(),
        Some(text) => LastEvent::read(&EventIds::of(&stack), text).ok_or_else(|| {
            Refusal::Request("`Last-Event-ID` was not given out in this session".into())
        })?,
    };
    if let LastEvent::OfAnswer { server, id } = last {
        // Resumes one answer, and nothing else.
        let server = stack.server(&server).cloned().ok_or(Refusal::Session)?;
        let ids = EventIds::of(&stack);
        let mut exchange = server_session::open_exchange(&Arc::new(stack), &server, None).await;
        exchange.resumes_after = Some(id);
        return Ok(label(session_stream::get(exchange).await?, ids, &server.link.name));
    }
    follow::open(&Arc::new(stack), last)
}

/// Ends a session, at every server.
pub(crate) async fn delete(mut stack: Stack) -> Result<Response<ClientBody>, Refusal> {
    stack.revision = protocol_version::without_message(&stack.headers)?;
    stack.session = stack.named_session()?;
    let Some(session) = stack.session.clone() else {
        return Err(Refusal::Request("there is no session to end: send `Mcp-Session-Id`".into()));
    };
    stack.gateway.sessions.stacks.forget(&stack.holder, &session.id);
    Box::pin(server_session::end_sessions(&stack, &session)).await;
    Ok(response::empty(StatusCode::OK))
}
