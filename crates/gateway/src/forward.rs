//! Sending one permitted request upstream: the body as it was judged, and only
//! the headers that are meant to travel.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header};
use sluice_bridge::Caller;
use sluice_http::{
    AnswerBody, SendError,
    headers::{EITHER_ANSWER, LAST_EVENT, METHOD, NAME, PARAMETER_PREFIX, REVISION, SESSION},
};
use sluice_wire::mcp::header_text;

use crate::{
    decide::Permit,
    refusal::Refusal,
    settle::{CallFailure, Settlement},
    visit::Visit,
};

/// Headers of the client that travel unchanged in either era.
const PASSING: [HeaderName; 5] = [
    header::ACCEPT,
    REVISION,
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("baggage"),
];

/// What is to be sent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) body: Bytes,
    /// On modern requests: the method, and what is aimed at.
    pub(crate) mirrors: Option<(String, Option<String>)>,
}

impl Outgoing {
    /// A message to be posted.
    pub(crate) fn post(body: impl Into<Bytes>) -> Outgoing {
        Outgoing { method: Method::POST, body: body.into(), mirrors: None }
    }
}

/// An answer that has begun, and what is still to be recorded of its call.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) answer: Response<AnswerBody>,
    pub(crate) settlement: Option<Settlement>,
}

/// Sends a request that has its permit, and waits for the answer to begin.
pub(crate) async fn forward(
    visit: &Visit,
    permit: Permit,
    outgoing: Outgoing,
) -> Result<Answered, Refusal> {
    let mut settlement = permit.into_settlement();
    let request = made(visit, outgoing);
    if let Some(settlement) = &mut settlement {
        settlement.sending();
    }
    let link = &visit.server.link;
    let sending = link.send(visit.revision.era(), request, || caller(visit));
    let sent = tokio::time::timeout(link.timeout, sending).await;
    match sent {
        Ok(Ok(answer)) => {
            if let Some(settlement) = &mut settlement {
                settlement.answered(&answer);
            }
            Ok(Answered { answer, settlement })
        }
        Ok(Err(error)) => {
            tracing::warn!(server = visit.server_name(), request = %visit.request, %error, "no answer");
            Err(Box::pin(failed(settlement, &error)).await)
        }
        Err(_) => {
            if let Some(mut settlement) = settlement {
                settlement.fail(&CallFailure::Timeout);
            }
            let words = link.state.upstream.words_at_start();
            Err(words.map_or_else(Refusal::timeout, |words| {
                Refusal::late(format!("the server has not started in time: \"{words}\""))
            }))
        }
    }
}

/// What belongs to one caller alone where a request is bridged.
fn caller(visit: &Visit) -> Caller {
    let session = visit.session.as_ref().map_or("", |session| &session.id);
    let key = format!("{}\0{session}", visit.holder.id());
    Caller { key, bounds: visit.gateway.settings.answer_bounds() }
}

async fn failed(settlement: Option<Settlement>, error: &SendError) -> Refusal {
    let why = match error {
        SendError::NotSent(_) => CallFailure::Unreachable,
        SendError::NotStarted(why) => CallFailure::NotStarted(why.clone()),
        SendError::BadAnswer(why) => CallFailure::BadAnswer(why.clone()),
        SendError::Lost(_) => CallFailure::ConnectionLost,
    };
    match (settlement, error) {
        (Some(mut settlement), SendError::NotSent(_) | SendError::NotStarted(_)) => {
            settlement.give_back(&why).await;
        }
        (Some(mut settlement), SendError::Lost(_) | SendError::BadAnswer(_)) => {
            settlement.fail(&why);
        }
        (None, _) => {}
    }
    why.to_refusal()
}

/// Boxed, because it is handed on several times.
fn made(visit: &Visit, outgoing: Outgoing) -> Box<Request<Bytes>> {
    let mut request = Box::new(Request::new(outgoing.body));
    let is_post = outgoing.method == Method::POST;
    *request.method_mut() = outgoing.method;
    let headers = request.headers_mut();
    // As many as fit into one of the allocator's small blocks.
    headers.reserve(6);
    // There are few, and looking each of ours up would take longer.
    for (name, value) in &visit.headers {
        if PASSING.contains(name) {
            headers.append(name.clone(), value.clone());
        }
    }
    if is_post {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.entry(header::ACCEPT).or_insert(EITHER_ANSWER);
    }
    if let Some((method, target)) = outgoing.mirrors {
        mirror(visit, headers, &method, target.as_deref());
    } else if let Some(session) = &visit.session {
        headers.insert(SESSION, session.upstream.clone());
        if let Some(last) = visit.headers.get(LAST_EVENT).filter(|_| !is_post) {
            headers.insert(LAST_EVENT, last.clone());
        }
    }
    visit.server.link.credential.add_to(headers);
    request
}

/// Writes the mirrored headers from the body, and passes those of parameters on.
fn mirror(visit: &Visit, headers: &mut HeaderMap, method: &str, target: Option<&str>) {
    let pairs = [(METHOD, Some(method)), (NAME, target)];
    for (name, text) in pairs {
        if let Some(value) = text.and_then(|text| HeaderValue::try_from(header_text(text)).ok()) {
            headers.insert(name, value);
        }
    }
    for (name, value) in &visit.headers {
        if name.as_str().starts_with(PARAMETER_PREFIX) {
            headers.insert(name.clone(), value.clone());
        }
    }
}
