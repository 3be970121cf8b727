//! Requests of a server to its client: sampling, elicitation, roots.
//!
//! In the legacy era they are requests on a stream. Their ids are replaced by sealed ones,
//! so that an answer reaches only a request that was passed on. In the modern era they
//! are part of a result.

use std::sync::Arc;

use sluice_policy::{AccessDenial, AccessRequest, ServerRequest};
use sluice_wire::{
    edit::{Edits, quote},
    json::{Document, Value},
    rpc::Id,
};

use super::{events::Rewriting, refused_requests::RefusedRequests};
use crate::{
    exchange::Exchange,
    refusal::Refusal,
    reserve::{Asked, allow_server_request, deny_server_request},
    seal::Purpose,
};

/// Inputs that one result may request, so that it makes no more records.
const MOST_INPUTS: usize = 64;

/// The policy's name for a method of a server request.
fn kind(method: &str) -> Option<ServerRequest> {
    match method {
        "sampling/createMessage" => Some(ServerRequest::Sampling),
        "elicitation/create" => Some(ServerRequest::Elicitation),
        "roots/list" => Some(ServerRequest::Roots),
        _ => None,
    }
}

/// Why a request may not pass, if so.
fn find_denial(exchange: &Exchange, method: &str) -> Option<AccessDenial> {
    if method == "ping" {
        return None;
    }
    let request =
        kind(method).map_or(AccessRequest::OtherServerRequest, AccessRequest::ServerRequest);
    exchange.check_access(request).err()
}

/// What happens to a request of the server.
pub(super) enum Handed {
    /// The client does not get it.
    Withheld,
    /// It is passed on with this text.
    On(String),
    /// It is passed on when its record is on disk.
    OnceRecorded(Rewriting),
}

/// Decides about a request on a stream. It is passed on under an id of ours, or the server gets a
/// refusal. An error says why the stream must be cut.
pub(super) fn pass(
    exchange: &Arc<Exchange>,
    refused: &mut RefusedRequests,
    document: &Document,
    id: &Id,
    method: &str,
) -> Result<Handed, String> {
    let asked = Asked::read(exchange, method, document.root().get("params"));
    let denial = find_denial(exchange, method);
    let is_recorded = denial.is_none() && kind(method).is_some();
    if let Some(denial) = denial {
        let in_shadow = denial.in_shadow;
        refused.add(exchange, id, asked.clone(), denial)?;
        if !in_shadow {
            return Ok(Handed::Withheld);
        }
    }
    let Some(text) = seal_id(exchange, document, id) else { return Ok(Handed::Withheld) };
    if !is_recorded {
        return Ok(Handed::On(text));
    }
    let exchange = Arc::clone(exchange);
    Ok(Handed::OnceRecorded(Box::pin(async move {
        allow_server_request(&exchange, &asked).await?;
        Ok(text)
    })))
}

impl Asked {
    /// Reads a request of the server. Nothing in it repeats the server's secrets.
    fn read(exchange: &Exchange, method: &str, params: Option<Value<'_>>) -> Asked {
        let link = &exchange.server.link;
        // Where a person is sent to. The query may be meant for nobody else.
        let url = params.and_then(|params| params.get("url")?.as_str());
        let url = url.and_then(|url| url.split(['?', '#']).next());
        let target = url.map(|url| link.without_secrets(url).into_owned());
        Asked { method: link.without_secrets(method).into_owned(), target }
    }
}

fn seal_id(exchange: &Exchange, document: &Document, id: &Id) -> Option<String> {
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

/// Refuses a result that asks for input which the policy does not let the server request. What
/// may be requested is recorded.
pub(super) async fn check_input(exchange: &Exchange, input: Value<'_>) -> Result<(), Refusal> {
    let malformed =
        || Refusal::bad_gateway("the answer cannot be filtered: `inputRequests` is malformed");
    let mut permitted = Vec::new();
    for (_, request) in input.members().ok_or_else(malformed)? {
        let method = request.get("method").and_then(Value::as_str).ok_or_else(malformed)?;
        let asked = Asked::read(exchange, method, request.get("params"));
        if let Some(denial) = find_denial(exchange, method) {
            deny_server_request(exchange, &asked, denial).await?;
        } else if kind(method).is_some() {
            permitted.push(asked);
        }
    }
    if permitted.len() > MOST_INPUTS {
        let why = format!("the server requests more than {MOST_INPUTS} inputs at once");
        return Err(Refusal::bad_gateway(why));
    }
    for asked in &permitted {
        allow_server_request(exchange, asked).await?;
    }
    Ok(())
}
