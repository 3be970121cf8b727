//! The agent listener: routes requests by path, and runs the checks that need only headers.
//! Clients rely on the order of these checks.

use std::{net::IpAddr, panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt as _;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header, request::Parts};
use hyper::body::Incoming;
use sluice_wire::edit::quote;

use crate::{
    authenticate::{self, Caller},
    body::ClientBody,
    call,
    exchange::Exchange,
    gateway::Inner,
    legacy_sse, receive,
    refusal::Refusal,
    response, session_stream,
    snapshot::ServerState,
    stack::{self, Stack},
};

/// The address a connection comes from, and whether it is encrypted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    pub(crate) is_tls: bool,
}

/// Answers one request. If the handler panics, only this request is refused.
pub(crate) async fn answer(
    gateway: Arc<Inner>,
    request: Request<Incoming>,
    peer: Peer,
) -> Response<ClientBody> {
    let in_flight = gateway.metrics.in_flight();
    let answered = AssertUnwindSafe(dispatch(gateway, request, peer)).catch_unwind().await;
    drop(in_flight);
    answered.unwrap_or_else(|_| Refusal::Internal.respond(None))
}

/// Answers a request on a connection that was accepted for health probes only.
pub(crate) fn answer_probe(gateway: &Inner, request: &Request<Incoming>) -> Response<ClientBody> {
    match request.uri().path() {
        "/healthz" => response::ok(r#"{"status":"ok"}"#),
        "/readyz" => ready(gateway),
        _ => Refusal::Busy("no place for a further connection").respond(None),
    }
}

async fn dispatch(
    gateway: Arc<Inner>,
    request: Request<Incoming>,
    peer: Peer,
) -> Response<ClientBody> {
    if request.version() < Version::HTTP_11 {
        // HTTP/1.0 clients could not tell an answer that is cut short from a whole one.
        return response::empty(StatusCode::HTTP_VERSION_NOT_SUPPORTED);
    }
    match request.uri().path() {
        "/healthz" => response::ok(r#"{"status":"ok"}"#),
        "/readyz" => ready(&gateway),
        path if path.starts_with("/.well-known/oauth-protected-resource") => {
            let (parts, _) = request.into_parts();
            authenticate::check_host_and_origin(&gateway, &parts)
                .map_or_else(|refusal| refusal.respond(None), |()| metadata(&parts, peer))
        }
        path => {
            let answered = match PathKind::of_all(&gateway, path) {
                // Boxed, so that calls of one server do not reserve memory for it.
                Some(kind) => Box::pin(answer_for_all(gateway, request, kind, peer)).await,
                None => answer_for_server(gateway, request, peer).await,
            };
            answered.unwrap_or_else(|refusal| refusal.respond(None))
        }
    }
}

/// Whether calls can be judged and recorded at the moment.
fn ready(gateway: &Inner) -> Response<ClientBody> {
    let health = gateway.store.health();
    if health.ok && health.log.is_full() {
        response::json(
            StatusCode::SERVICE_UNAVAILABLE,
            r#"{"status":"not ready","reason":"the audit log is full"}"#,
        )
    } else if health.ok {
        response::ok(r#"{"status":"ready"}"#)
    } else {
        response::json(
            StatusCode::SERVICE_UNAVAILABLE,
            r#"{"status":"not ready","reason":"the store fails"}"#,
        )
    }
}

fn authority(parts: &Parts) -> &str {
    let host = parts.headers.get(http::header::HOST).and_then(|value| value.to_str().ok());
    parts.uri.authority().map(http::uri::Authority::as_str).or(host).unwrap_or("localhost")
}

fn base(parts: &Parts, peer: Peer) -> String {
    let scheme = if peer.is_tls { "https" } else { "http" };
    format!("{scheme}://{}", authority(parts))
}

/// The metadata that tells a client how to authenticate.
fn metadata(parts: &Parts, peer: Peer) -> Response<ClientBody> {
    let of =
        parts.uri.path().strip_prefix("/.well-known/oauth-protected-resource").unwrap_or_default();
    if parts.method != Method::GET || !(of.is_empty() || of == "/mcp" || of.starts_with("/mcp/")) {
        return response::empty(StatusCode::NOT_FOUND);
    }
    let resource = quote(&format!("{}{of}", base(parts, peer)));
    response::json(
        StatusCode::OK,
        format!(r#"{{"resource":{resource},"bearer_methods_supported":["header"]}}"#),
    )
}

/// The purpose of a path, below a server's name or for all servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathKind {
    Endpoint,
    /// The event stream of the oldest transport (HTTP+SSE).
    LegacyStream,
    LegacyMessages,
}

impl PathKind {
    /// Splits a path into the server's name and its purpose.
    fn of(path: &str) -> (&str, PathKind) {
        match path.split_once('/') {
            Some((name, "sse")) => (name, PathKind::LegacyStream),
            Some((name, "messages")) => (name, PathKind::LegacyMessages),
            _ => (path, PathKind::Endpoint),
        }
    }

    /// The endpoint that a path names for all servers of a grant. A server named `sse`
    /// or `messages` takes precedence.
    fn of_all(gateway: &Inner, path: &str) -> Option<PathKind> {
        let (name, kind) = match path {
            "/mcp" => return Some(PathKind::Endpoint),
            "/mcp/sse" => ("sse", PathKind::LegacyStream),
            "/mcp/messages" => ("messages", PathKind::LegacyMessages),
            _ => return None,
        };
        gateway.config.server(name).is_none().then_some(kind)
    }
}

/// Answers a request for one server: identifies the caller, then dispatches by method.
async fn answer_for_server(
    gateway: Arc<Inner>,
    request: Request<Incoming>,
    peer: Peer,
) -> Result<Response<ClientBody>, Refusal> {
    let (parts, body) = request.into_parts();
    authenticate::check_host_and_origin(&gateway, &parts)?;
    let path = parts.uri.path();
    let (name, kind) = PathKind::of(path.strip_prefix("/mcp/").unwrap_or_default());
    let server = gateway.config.server(name);
    let caller = authenticate_caller(&gateway, &parts, server.as_deref(), name, peer)?;
    let shown = || name.chars().take(64).collect::<String>();
    let server = server.ok_or_else(|| Refusal::UnknownServer(shown()))?;
    if !caller.holder.servers.contains(&server.link.server.name) {
        note_not_granted(&gateway, &caller, &server, peer);
        return Err(Refusal::NotGranted(shown()));
    }
    authenticate::check_headers(&parts.headers)?;
    gateway.settings.hops.check(&parts.headers)?;
    match (kind, parts.method) {
        (PathKind::LegacyStream, Method::GET) => {
            legacy_sse::open(Exchange::new(gateway, caller, server, parts.headers))
        }
        (PathKind::LegacyMessages, Method::POST) => {
            let exchange = Exchange::new(gateway, caller, server, parts.headers);
            let query = parts.uri.query().unwrap_or_default();
            Box::pin(legacy_sse::message(exchange, query, body)).await
        }
        (PathKind::Endpoint, Method::POST) => {
            receive::check_media_type(&parts.headers)?;
            let body = receive::body(&gateway, &caller.holder, body).await?;
            Ok(call::post(Exchange::new(gateway, caller, server, parts.headers), body).await)
        }
        (PathKind::Endpoint, Method::GET) => {
            Box::pin(session_stream::get(Exchange::new(gateway, caller, server, parts.headers)))
                .await
        }
        (PathKind::Endpoint, Method::DELETE) => {
            Box::pin(session_stream::delete(Exchange::new(gateway, caller, server, parts.headers)))
                .await
        }
        (PathKind::Endpoint, _) => Err(Refusal::MethodNotAllowed),
        (PathKind::LegacyStream, _) => Ok(not_allowed("GET")),
        (PathKind::LegacyMessages, _) => Ok(not_allowed("POST")),
    }
}

/// Answers a request for all servers of a grant.
async fn answer_for_all(
    gateway: Arc<Inner>,
    request: Request<Incoming>,
    kind: PathKind,
    peer: Peer,
) -> Result<Response<ClientBody>, Refusal> {
    let (parts, body) = request.into_parts();
    authenticate::check_host_and_origin(&gateway, &parts)?;
    let caller = authenticate_caller(&gateway, &parts, None, "", peer)?;
    authenticate::check_headers(&parts.headers)?;
    gateway.settings.hops.check(&parts.headers)?;
    let stack = Stack::new(Arc::clone(&gateway), caller, parts.headers);
    match (kind, parts.method) {
        (PathKind::Endpoint, Method::POST) => {
            receive::check_media_type(&stack.headers)?;
            let body = receive::body(&gateway, &stack.holder, body).await?;
            Ok(stack::post(stack, body).await)
        }
        (PathKind::Endpoint, Method::GET) => Box::pin(stack::get(stack)).await,
        (PathKind::Endpoint, Method::DELETE) => stack::delete(stack).await,
        (PathKind::LegacyStream, Method::GET) => legacy_sse::open(stack),
        (PathKind::LegacyMessages, Method::POST) => {
            let query = parts.uri.query().unwrap_or_default();
            legacy_sse::message(stack, query, body).await
        }
        (PathKind::Endpoint, _) => Err(Refusal::MethodNotAllowed),
        (PathKind::LegacyStream, _) => Ok(not_allowed("GET")),
        (PathKind::LegacyMessages, _) => Ok(not_allowed("POST")),
    }
}

/// Identifies the caller of one server or of all servers; a failure is counted.
fn authenticate_caller(
    gateway: &Arc<Inner>,
    parts: &Parts,
    server: Option<&ServerState>,
    name: &str,
    peer: Peer,
) -> Result<Caller, Refusal> {
    authenticate::authenticate(gateway, &parts.headers, server, peer.address).map_err(|reason| {
        note_failure(gateway, peer.address, name, reason);
        // A path may contain characters that would end the header's quoted string.
        let of = parts.uri.path().replace('"', "%22").replace('\\', "%5C");
        let metadata = format!("{}/.well-known/oauth-protected-resource{of}", base(parts, peer));
        Refusal::Token { reason, metadata }
    })
}

/// Counts a failed authentication, and records it if it is one of the first of its minute.
fn note_failure(gateway: &Inner, source: IpAddr, server: &str, reason: &str) {
    gateway.metrics.note_unauthenticated();
    let failures = gateway.failures.note(source, reason, gateway.settings.clock.now().as_millis());
    let server: String = server.chars().take(64).collect();
    gateway.record_failures(failures, Some(&server));
}

/// Records a call of a server that the grant does not include, as failed authentications are.
fn note_not_granted(gateway: &Inner, caller: &Caller, server: &ServerState, peer: Peer) {
    let now = gateway.settings.clock.now();
    let reason = "the token's grant does not include this server";
    let failures = gateway.failures.note(peer.address, reason, now.as_millis());
    gateway.record_failures_of(failures, Some(&server.link.name), Some(&caller.holder));
}

/// The answer for paths that accept fewer methods than most.
fn not_allowed(allowed: &'static str) -> Response<ClientBody> {
    let mut answer = Refusal::MethodNotAllowed.respond(None);
    answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    answer
}
