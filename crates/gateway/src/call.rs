//! The path of a call, which every posted message follows, whichever transport it arrived
//! on.
//!
//! The caller is identified from headers alone, before the body is read (`identify`);
//! everything else is in [`carry`].

use std::sync::Arc;

use http::Response;
use sluice_http::headers::SESSION;
use sluice_wire::{
    json::Document,
    rpc::{Id, Message},
};

use crate::{
    answer::relay,
    body::ClientBody,
    exchange::Exchange,
    judge::{Route, judge},
    outlive::{Ends, outlive},
    protocol_version, receive,
    refusal::Refusal,
    reserve::reserve,
    send::send,
    session::Session,
    settle::settle,
    subscriptions,
};

/// Answers a message given as bytes. A legacy client that disconnects has not cancelled
/// its request, so the request is finished anyway.
pub(crate) async fn post(exchange: Exchange, bytes: Vec<u8>) -> Response<ClientBody> {
    let ends = Ends::of(&exchange.headers);
    let answering = async move {
        match receive::parse(&exchange.gateway.settings.bounds, bytes) {
            Ok(document) => answer(exchange, document).await,
            Err(refusal) => refusal.respond(None),
        }
    };
    outlive(ends, answering).await
}

/// Answers a message that is already parsed.
pub(crate) async fn answer(exchange: Exchange, document: Document) -> Response<ClientBody> {
    let carried = carry(exchange, &document).await;
    carried.unwrap_or_else(|refusal| refusal.respond(answer_id(&document).as_ref()))
}

/// Carries a message to its server and the answer back.
///
/// 1. `read` takes the one message in the document.
/// 2. `identify` determines its protocol version and its session; the grant is known already.
/// 3. `judge` decides on it and edits it. Nothing is written.
/// 4. `reserve` charges and records the decision. Only it makes a `Permitted` request.
/// 5. `send` takes nothing but a `Permitted` request.
/// 6. `relay` checks and filters the answer.
/// 7. `settle` records how it ended; if the answer streams, the stream does so at its end.
async fn carry(exchange: Exchange, document: &Document) -> Result<Response<ClientBody>, Refusal> {
    let message = read(document)?;
    let exchange = Arc::new(identify(exchange, &message)?);
    let judged = match judge(&exchange, document, message).await? {
        Route::Decided(judged) => judged,
        Route::Subscribe(id) => {
            return Box::pin(subscriptions::listen(&exchange, document, &id)).await;
        }
    };
    let permitted = reserve(&exchange, judged).await?;
    let (exchange, answered) = send(&exchange, permitted).await?;
    let relayed = relay(&exchange, answered).await;
    settle(relayed)
}

fn read(document: &Document) -> Result<Message<'_>, Refusal> {
    Message::read(document).map_err(|error| Refusal::Request(error.to_string()))
}

/// The id that the answer to a message must carry.
fn answer_id(document: &Document) -> Option<Id> {
    match Message::read(document) {
        Ok(message) => message.request_id().cloned(),
        Err(_) => readable_id(document),
    }
}

/// The id of a message that is otherwise malformed.
pub(crate) fn readable_id(document: &Document) -> Option<Id> {
    document.root().get("id").and_then(|id| Id::read(id).ok())
}

/// Determines the protocol version and the session.
fn identify(mut exchange: Exchange, message: &Message<'_>) -> Result<Exchange, Refusal> {
    let (method, params) = match message {
        Message::Request { method, params, .. } | Message::Notification { method, params } => {
            (Some(*method), *params)
        }
        Message::Response { .. } | Message::Failure { .. } => (None, None),
    };
    exchange.revision = protocol_version::revision(&exchange.headers, method, params)?;
    let sealed = exchange.headers.get(SESSION).and_then(|value| value.to_str().ok());
    if let Some(sealed) = sealed.filter(|_| !exchange.is_modern() && method != Some("initialize")) {
        let (holder, server) = (&exchange.holder, exchange.server_name());
        exchange.session = Some(Session::open(&exchange.gateway, holder, server, sealed)?);
    }
    Ok(exchange)
}
