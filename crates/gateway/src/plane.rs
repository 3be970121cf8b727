//! The agents' plane: what each path is for, and the checks before any message,
//! in their order.

use std::{convert::Infallible, net::IpAddr, panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt as _;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header, request::Parts};
use hyper::body::Incoming;
use sluice_wire::edit::quoted;

use crate::{
    body::ClientBody,
    gateway::Inner,
    identify::{self, Caller},
    legacy_sse, post, receive,
    refusal::Refusal,
    response,
    snapshot::ServerState,
    stack::{self, Stack},
    stream,
    visit::Visit,
};

/// Where a connection comes from, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    pub(crate) is_tls: bool,
}

/// Answers one request. A panic on the way refuses it and nothing else.
pub(crate) async fn answer(
    gateway: Arc<Inner>,
    request: Request<Incoming>,
    peer: Peer,
) -> Result<Response<ClientBody>, Infallible> {
    let in_flight = gateway.metrics.in_flight();
    let answered = AssertUnwindSafe(dispatched(gateway, request, peer)).catch_unwind().await;
    drop(in_flight);
    Ok(answered.unwrap_or_else(|_| Refusal::Internal.respond(None)))
}

async fn dispatched(
    gateway: Arc<Inner>,
    request: Request<Incoming>,
    peer: Peer,
) -> Response<ClientBody> {
    if request.version() < Version::HTTP_11 {
        // An answer that is cut short could not be told from a whole one.
        return response::empty(StatusCode::HTTP_VERSION_NOT_SUPPORTED);
    }
    match request.uri().path() {
        "/healthz" => response::ok(r#"{"status":"ok"}"#),
        "/readyz" => ready(&gateway),
        path if path.starts_with("/.well-known/oauth-protected-resource") => {
            let (parts, _) = request.into_parts();
            identify::check_names(&gateway, &parts)
                .map_or_else(|refusal| refusal.respond(None), |()| metadata(&parts, peer))
        }
        path => {
            let answered = match Place::of_all(&gateway, path) {
                // Boxed, so that calls of one server need not have room for it.
                Some(place) => Box::pin(stacked(gateway, request, place, peer)).await,
                None => called(gateway, request, peer).await,
            };
            answered.unwrap_or_else(|refusal| refusal.respond(None))
        }
    }
}

/// Whether calls can be judged and recorded now.
fn ready(gateway: &Inner) -> Response<ClientBody> {
    let health = gateway.store.health();
    if health.ok {
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

/// Says how to authenticate here.
fn metadata(parts: &Parts, peer: Peer) -> Response<ClientBody> {
    let of =
        parts.uri.path().strip_prefix("/.well-known/oauth-protected-resource").unwrap_or_default();
    if parts.method != Method::GET || !(of.is_empty() || of == "/mcp" || of.starts_with("/mcp/")) {
        return response::empty(StatusCode::NOT_FOUND);
    }
    let resource = quoted(&format!("{}{of}", base(parts, peer)));
    response::json(
        StatusCode::OK,
        format!(r#"{{"resource":{resource},"bearer_methods_supported":["header"]}}"#),
    )
}

/// What a path is for, below a server's name or for all servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Endpoint,
    /// Of the oldest transport.
    LegacyStream,
    LegacyMessages,
}

impl Place {
    /// The server's name, and what is wanted of it.
    fn of(path: &str) -> (&str, Place) {
        match path.split_once('/') {
            Some((name, "sse")) => (name, Place::LegacyStream),
            Some((name, "messages")) => (name, Place::LegacyMessages),
            _ => (path, Place::Endpoint),
        }
    }

    /// The endpoint that a path names for all servers of a grant. A server named `sse`
    /// or `messages` takes precedence.
    fn of_all(gateway: &Inner, path: &str) -> Option<Place> {
        let (name, place) = match path {
            "/mcp" => return Some(Place::Endpoint),
            "/mcp/sse" => ("sse", Place::LegacyStream),
            "/mcp/messages" => ("messages", Place::LegacyMessages),
            _ => return None,
        };
        gateway.snapshot.load().server(name).is_none().then_some(place)
    }
}

/// A request for a server: who calls, which server, what.
async fn called(
    gateway: Arc<Inner>,
    request: Request<Incoming>,
    peer: Peer,
) -> Result<Response<ClientBody>, Refusal> {
    let (parts, body) = request.into_parts();
    identify::check_names(&gateway, &parts)?;
    let path = parts.uri.path();
    let (name, place) = Place::of(path.strip_prefix("/mcp/").unwrap_or_default());
    let snapshot = gateway.snapshot.load();
    let server = snapshot.server(name);
    let caller = identified(&gateway, &parts, server.map(|server| &**server), name, peer)?;
    let shown = || name.chars().take(64).collect::<String>();
    let server = Arc::clone(server.ok_or_else(|| Refusal::UnknownServer(shown()))?);
    drop(snapshot);
    if !caller.holder.servers.contains(&server.link.server.name) {
        return Err(Refusal::NotGranted(shown()));
    }
    identify::check_headers(&parts.headers)?;
    match (place, parts.method) {
        (Place::LegacyStream, Method::GET) => {
            legacy_sse::open(Visit::new(gateway, caller, server, parts.headers))
        }
        (Place::LegacyMessages, Method::POST) => {
            let visit = Visit::new(gateway, caller, server, parts.headers);
            let query = parts.uri.query().unwrap_or_default();
            Box::pin(legacy_sse::message(visit, query, body)).await
        }
        (Place::Endpoint, Method::POST) => {
            receive::check_media_type(&parts.headers)?;
            let bytes = receive::body(&gateway, body).await?;
            Ok(post::post(Visit::new(gateway, caller, server, parts.headers), bytes).await)
        }
        (Place::Endpoint, Method::GET) => {
            Box::pin(stream::get(Visit::new(gateway, caller, server, parts.headers))).await
        }
        (Place::Endpoint, Method::DELETE) => {
            Box::pin(stream::delete(Visit::new(gateway, caller, server, parts.headers))).await
        }
        (Place::Endpoint, _) => Err(Refusal::MethodNotAllowed),
        (Place::LegacyStream, _) => Ok(not_allowed("GET")),
        (Place::LegacyMessages, _) => Ok(not_allowed("POST")),
    }
}

/// A request for all servers of a grant.
async fn stacked(
    gateway: Arc<Inner>,
    request: Request<Incoming>,
    place: Place,
    peer: Peer,
) -> Result<Response<ClientBody>, Refusal> {
    let (parts, body) = request.into_parts();
    identify::check_names(&gateway, &parts)?;
    let caller = identified(&gateway, &parts, None, "", peer)?;
    identify::check_headers(&parts.headers)?;
    let stack = Stack::new(Arc::clone(&gateway), caller, parts.headers);
    match (place, parts.method) {
        (Place::Endpoint, Method::POST) => {
            receive::check_media_type(&stack.headers)?;
            let bytes = receive::body(&gateway, body).await?;
            Ok(stack::post(stack, bytes).await)
        }
        (Place::Endpoint, Method::GET) => Box::pin(stack::get(stack)).await,
        (Place::Endpoint, Method::DELETE) => stack::delete(stack).await,
        (Place::LegacyStream, Method::GET) => legacy_sse::open(stack),
        (Place::LegacyMessages, Method::POST) => {
            let query = parts.uri.query().unwrap_or_default();
            legacy_sse::message(stack, query, body).await
        }
        (Place::Endpoint, _) => Err(Refusal::MethodNotAllowed),
        (Place::LegacyStream, _) => Ok(not_allowed("GET")),
        (Place::LegacyMessages, _) => Ok(not_allowed("POST")),
    }
}

/// Finds out who calls a server, or all of theirs; a failure is noted.
fn identified(
    gateway: &Arc<Inner>,
    parts: &Parts,
    server: Option<&ServerState>,
    name: &str,
    peer: Peer,
) -> Result<Caller, Refusal> {
    identify::identify(gateway, &parts.headers, server, peer.address).map_err(|reason| {
        gateway.failures.note(gateway, peer.address, name, reason);
        // A path may hold what would end the header's quotes.
        let of = parts.uri.path().replace('"', "%22").replace('\\', "%5C");
        let metadata = format!("{}/.well-known/oauth-protected-resource{of}", base(parts, peer));
        Refusal::Token { reason, metadata }
    })
}

/// For paths that take fewer methods than most.
fn not_allowed(allowed: &'static str) -> Response<ClientBody> {
    let mut answer = Refusal::MethodNotAllowed.respond(None);
    answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    answer
}
