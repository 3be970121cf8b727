//! The path of a call, which every posted message follows, whichever transport it arrived
//! on.
//!
//! The caller is authenticated by headers alone, before the body is read
//! (`authenticate`); everything else is in [`carry`].

use std::sync::Arc;

use http::Response;
use sluice_http::headers::SESSION;
use sluice_wire::{
    json::Document,
    rpc::{Id, Message},
};

use crate::{
    answer::relay,
    assess::look_up_tools,
    body::ClientBody,
    decide::{Decided, decide, decide_apart, may_take_long},
    exchange::Exchange,
    outlive::{Absence, Ends, outlive},
    protocol_version,
    receive::{self, RequestBody},
    refusal::Refusal,
    response,
    send::send,
    session::Session,
    settle::settle,
    shares::Turn,
    subscriptions,
};

/// Answers a message given as bytes. A legacy client that disconnects has not cancelled
/// its request, so the request is finished anyway.
///
/// This is no `async fn`, so that the large future of the answer is moved only once, into its box.
pub(crate) fn post(
    exchange: Exchange,
    body: RequestBody,
) -> impl Future<Output = Response<ClientBody>> + Send {
    let ends = Ends::of(&exchange.headers);
    let absence = Absence::new(&exchange.gateway, &exchange.holder);
    let answering = Box::pin(async move {
        let RequestBody { bytes, portion } = body;
        let answer = match receive::parse_body(&exchange.gateway.settings.bounds, bytes).await {
            Ok(document) => answer(exchange, document).await,
            Err(refusal) => refusal.respond(None),
        };
        drop(portion);
        answer
    });
    outlive(ends, absence, answering)
}

/// Answers a message that is already parsed.
pub(crate) async fn answer(exchange: Exchange, document: Document) -> Response<ClientBody> {
    if may_take_long(&exchange, &document) {
        let document = Arc::new(document);
        let carried = Box::pin(carry(exchange, &document, Some(&document))).await;
        return carried.unwrap_or_else(|refusal| refusal.respond(answer_id(&document).as_ref()));
    }
    let carried = carry(exchange, &document, None).await;
    carried.unwrap_or_else(|refusal| refusal.respond(answer_id(&document).as_ref()))
}

/// Carries a message to its server and the answer back.
///
/// 1. `read` takes the one message in the document.
/// 2. `identify` determines its protocol version and its session; the grant is known already.
/// 3. `judge` decides on it and edits it. It does no I/O: the tool definitions that the
///    decision may depend on are looked up before. If that may take long, it is done on
///    another thread, together with step 4; the document is then `shared`.
/// 4. `reserve` charges and records the decision. Only it makes a `Permitted` request.
/// 5. `send` takes nothing but a `Permitted` request.
/// 6. `relay` checks and filters the answer.
/// 7. `settle` records how it ended; if the answer streams, the stream does so at its end.
///
/// After `judge`, a message may take another way: a subscription joins the one that clients of
/// the server share; a list that the policy denies entirely is answered here; a message that has
/// no effect (a late answer, say) is accepted and dropped.
async fn carry(
    exchange: Exchange,
    document: &Document,
    shared: Option<&Arc<Document>>,
) -> Result<Response<ClientBody>, Refusal> {
    let message = read(document)?;
    let exchange = Arc::new(identify(exchange, &message)?);
    // Answers and notifications are never refused: a call may wait for them.
    let turn = matches!(message, Message::Request { .. }).then(|| Turn::take(&exchange));
    let turn = turn.transpose()?;
    let tools = look_up_tools(&exchange, &message).await;
    let decided = match shared {
        Some(shared) => Box::pin(decide_apart(&exchange, shared, tools)).await?,
        None => decide(&exchange, document, message, tools).await?,
    };
    let permitted = match decided {
        Decided::Permitted(permitted) => permitted,
        Decided::Subscribe(id) => {
            return Box::pin(subscriptions::listen(&exchange, document, &id)).await;
        }
        Decided::Answered { id, result } => return Ok(response::result(Some(&id), &result)),
        Decided::Ignored => return Ok(response::empty_accepted()),
    };
    let (exchange, answered) = send(&exchange, permitted).await?;
    let relayed = relay(&exchange, answered).await;
    let response = settle(relayed)?;
    Ok(match turn {
        Some(turn) => response.map(|body| body.hold(turn)),
        None => response,
    })
}

pub(crate) fn read(document: &Document) -> Result<Message<'_>, Refusal> {
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
