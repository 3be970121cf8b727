//! The client's session with one server behind `/mcp`, opened on first use, and the exchanges
//! in it.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};
use http_body_util::BodyExt as _;
use sluice_http::{
    headers::{EITHER_ANSWER, NAME, REVISION, SESSION, is_event_stream},
    offload,
};
use sluice_wire::{
    json::{Document, Value},
    mcp::{Era, Revision, header_text},
    rpc::Id,
};
use tokio::time::Instant;

use super::{
    Stack,
    client_state::{Opened, StackSession},
    gather::PART_TIMEOUT,
};
use crate::{
    answer::parse_answer, authenticate::Caller, body::ClientBody, call, exchange::Exchange,
    gateway::Inner, receive, reserve::INITIALIZED, session_stream, snapshot::ServerState,
};

/// An exchange with one server; `own` is the target's name at that server.
///
/// If the server does not answer `initialize`, the request is sent without a session: it
/// is judged and recorded, and the client gets the result.
pub(super) async fn open_exchange(
    stack: &Stack,
    server: &Arc<ServerState>,
    own: Option<&str>,
) -> Exchange {
    let mut headers = stack.headers.clone();
    headers.remove(SESSION);
    if stack.is_modern() {
        let own = own.and_then(|own| HeaderValue::try_from(header_text(own)).ok());
        if let (Some(own), true) = (own, headers.contains_key(NAME)) {
            headers.insert(NAME, own);
        }
    } else if let Some(session) = &stack.session
        && let Some(opened) = open_session(stack, session, server).await
    {
        add_agreement(&mut headers, opened);
    }
    build_exchange(stack, server, headers)
}

/// An exchange in a session that is already open; `None` if there is none.
pub(super) async fn resume_exchange(
    stack: &Stack,
    session: &StackSession,
    server: &Arc<ServerState>,
) -> Option<Exchange> {
    let opened = session.member(&server.link.name).lock().await.opened.clone();
    let opened = opened.filter(|opened| is_same(opened, server))?;
    opened.session.as_ref()?;
    let mut headers = stack.headers.clone();
    add_agreement(&mut headers, opened);
    Some(build_exchange(stack, server, headers))
}

fn build_exchange(stack: &Stack, server: &Arc<ServerState>, headers: HeaderMap) -> Exchange {
    let caller = Caller { holder: Arc::clone(&stack.holder), token: stack.token };
    let exchange = Exchange::new(Arc::clone(&stack.gateway), caller, Arc::clone(server), headers);
    Exchange { is_part: true, ..exchange }
}

/// Adds the agreed session and protocol version to the headers of a message.
fn add_agreement(headers: &mut HeaderMap, opened: Opened) {
    headers.remove(SESSION);
    headers.insert(REVISION, opened.revision);
    if let Some(session) = opened.session {
        headers.insert(SESSION, session);
    }
}

fn is_same(opened: &Opened, server: &ServerState) -> bool {
    opened.link.upgrade().is_some_and(|link| Arc::ptr_eq(&link, &server.link.state))
}

/// The session with a server, opened if necessary.
async fn open_session(
    stack: &Stack,
    session: &StackSession,
    server: &Arc<ServerState>,
) -> Option<Opened> {
    let begun = Instant::now();
    let member = session.member(&server.link.name);
    let mut place = member.lock().await;
    if let Some(opened) = place.opened.as_ref().filter(|opened| is_same(opened, server)) {
        return Some(opened.clone());
    }
    if place.failed.is_some_and(|failed| failed > begun) {
        // Another request has tried meanwhile and failed.
        return None;
    }
    let (opened, _) = Box::pin(introduce_client(stack, session, server)).await.unzip();
    place.failed = opened.is_none().then(Instant::now);
    place.opened.clone_from(&opened);
    opened
}

/// Sends the client's `initialize` to a server, and returns the answer.
pub(super) async fn introduce(
    stack: &Stack,
    session: &StackSession,
    server: &Arc<ServerState>,
) -> Option<Document> {
    let member = session.member(&server.link.name);
    let mut place = member.lock().await;
    let (opened, said) = Box::pin(introduce_client(stack, session, server)).await.unzip();
    place.failed = opened.is_none().then(Instant::now);
    place.opened = opened;
    said
}

/// Forgets the session with a server that has lost it.
pub(super) async fn forget(stack: &Stack, server: &ServerState) {
    if let Some(session) = &stack.session {
        session.member(&server.link.name).lock().await.opened = None;
    }
}

async fn introduce_client(
    stack: &Stack,
    session: &StackSession,
    server: &Arc<ServerState>,
) -> Option<(Opened, Document)> {
    let mut headers = stack.headers.clone();
    for name in [SESSION, REVISION] {
        headers.remove(name);
    }
    headers.insert(header::ACCEPT, EITHER_ANSWER);
    let hello = &session.hello;
    let document =
        receive::parse(&stack.gateway.settings.bounds, hello.text.clone().into_bytes()).ok()?;
    let answer = call::answer(build_exchange(stack, server, headers.clone()), document).await;
    let sealed = answer.headers().get(SESSION).cloned();
    let said = read_answer(&stack.gateway, answer, &hello.id).await?;
    let agreed = said.root().get("result")?.get("protocolVersion").and_then(Value::as_str)?;
    let agreed = Revision::from_name(agreed).filter(|agreed| agreed.era() == Era::Legacy)?;
    let revision = HeaderValue::from_static(agreed.name());
    let opened = Opened { link: Arc::downgrade(&server.link.state), session: sealed, revision };
    add_agreement(&mut headers, opened.clone());
    let level = session.level().clone();
    for message in [Some(INITIALIZED), level.as_deref()].into_iter().flatten() {
        let document =
            receive::parse(&stack.gateway.settings.bounds, message.as_bytes().to_vec()).ok()?;
        call::answer(build_exchange(stack, server, headers.clone()), document).await;
    }
    Some((opened, said))
}

/// Sends a message to every server with an open session, and waits only briefly.
pub(super) async fn notify_all(stack: &Stack, message: &str) {
    let Some(session) = &stack.session else { return };
    let telling = stack.servers.iter().map(|server| async move {
        let exchange = resume_exchange(stack, session, server).await?;
        let document =
            receive::parse(&stack.gateway.settings.bounds, message.as_bytes().to_vec()).ok()?;
        Some(call::answer(exchange, document).await.status())
    });
    within_timeout(telling).await;
}

/// Ends the sessions with all servers. Best effort: unused sessions expire anyway.
pub(super) async fn end_sessions(stack: &Stack, session: &StackSession) {
    let ending = stack.servers.iter().map(|server| async move {
        let exchange = resume_exchange(stack, session, server).await?;
        session_stream::delete(exchange).await.ok()
    });
    within_timeout(ending).await;
}

async fn within_timeout<F: Future>(all: impl Iterator<Item = F>) {
    let _ = tokio::time::timeout(PART_TIMEOUT, futures_util::future::join_all(all)).await;
}

/// Reads the answer to a request, skipping messages before it.
pub(super) async fn read_answer(
    gateway: &Inner,
    answer: http::Response<ClientBody>,
    id: &Id,
) -> Option<Document> {
    let bounds = gateway.settings.answer_bounds();
    let is_stream = is_event_stream(answer.headers());
    let mut body = answer.into_body();
    if !is_stream {
        let bytes = sluice_http::collect(body, bounds.bytes).await.ok()?;
        return offload::parse(bytes, &bounds).await?.ok();
    }
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.ok()?.into_data() else { continue };
        // INVARIANT: each piece of such a stream is one event.
        if let Some(answer) = parse_answer(&data, id, &bounds) {
            return Some(answer);
        }
    }
    None
}
