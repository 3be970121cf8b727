//! Requests of a server to its client: sampling, elicitation, roots.
//!
//! In the legacy era they are requests on a stream. Their ids are replaced by sealed ones,
//! so that an answer reaches only a request that was passed on. In the modern era they
//! are part of a result.

use std::sync::Arc;

use sluice_policy::ServerRequest;
use sluice_wire::{
    edit::{Edits, quote},
    json::{Document, Value},
    rpc::Id,
};

use crate::{
    exchange::Exchange,
    refusal::Refusal,
    reserve::{Permitted, deny_server_request},
    seal::Purpose,
    send::forward,
};

/// The policy's name for a method of a server request.
fn kind(method: &str) -> Option<ServerRequest> {
    match method {
        "sampling/createMessage" => Some(ServerRequest::Sampling),
        "elicitation/create" => Some(ServerRequest::Elicitation),
        "roots/list" => Some(ServerRequest::Roots),
        _ => None,
    }
}

fn is_permitted(exchange: &Exchange, method: &str) -> bool {
    let permits =
        |request| exchange.rules().is_some_and(|policy| policy.permits_server_request(request));
    method == "ping" || kind(method).is_some_and(permits)
}

/// The request under an id of ours. `None` if it must not be passed on; the server then
/// gets a refusal.
pub(super) fn pass(
    exchange: &Arc<Exchange>,
    document: &Document,
    id: &Id,
    method: &str,
) -> Option<String> {
    if !is_permitted(exchange, method) {
        tokio::spawn(turn_away(Arc::clone(exchange), id.clone(), method.to_owned()));
        if !exchange.is_shadow() {
            return None;
        }
    }
    let sealed = seal_request_id(exchange, &id.to_json())?;
    let mut edits = Edits::new(document);
    edits.replace(document.root().get("id")?, quote(&sealed));
    Some(edits.finish())
}

/// The session a request belongs to, including the server's id of it: a session that was
/// re-established may use the same request ids again.
fn session(exchange: &Exchange) -> String {
    let session = exchange.session.as_ref();
    session.map_or_else(String::new, |session| {
        format!("{} {}", session.id, session.upstream.to_str().unwrap_or_default())
    })
}

/// Our id for a request of the server.
pub(super) fn seal_request_id(exchange: &Exchange, id: &str) -> Option<String> {
    let session = session(exchange);
    let parts = [exchange.holder.id(), exchange.server_name(), &session, id];
    exchange.gateway.keys.seal.seal(Purpose::ServerRequest, &parts)
}

/// The server's own id, as JSON, for an id of ours that was issued in this session of
/// this grant.
pub(crate) fn open_request_id(exchange: &Exchange, id: &Id) -> Option<String> {
    let Id::String(sealed) = id else { return None };
    let [grant, server, session, own] =
        exchange.gateway.keys.seal.open(Purpose::ServerRequest, sealed)?;
    let is_ours = grant == exchange.holder.id()
        && server == exchange.server_name()
        && session == self::session(exchange);
    is_ours.then_some(own)
}

/// Records that a request of the server is refused, and answers it with an error.
async fn turn_away(exchange: Arc<Exchange>, id: Id, method: String) {
    if deny_server_request(&exchange, &method).await.is_ok() {
        // In shadow mode the request is passed on, and the client answers it.
        return;
    }
    let permitted = Permitted::refuse_server_request(&id, method);
    if let Err(refusal) = forward(&exchange, permitted).await {
        tracing::warn!(
            server = exchange.server_name(),
            ?refusal,
            "a server could not be told that its request was refused"
        );
    }
}

/// Refuses a result that asks for input which the policy does not let the server request.
pub(super) async fn check_input(exchange: &Exchange, input: Value<'_>) -> Result<(), Refusal> {
    let malformed =
        || Refusal::bad_gateway("the answer cannot be filtered: `inputRequests` is malformed");
    for (_, request) in input.members().ok_or_else(malformed)? {
        let method = request.get("method").and_then(Value::as_str).ok_or_else(malformed)?;
        if !is_permitted(exchange, method) {
            deny_server_request(exchange, method).await?;
        }
    }
    Ok(())
}
