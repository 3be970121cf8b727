//! Sends one permitted request to its server: the body as it was judged, and only those of
//! the client's headers that may be forwarded. `link` adds the server's credential.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use sluice_bridge::{Caller, Rounds};
use sluice_http::{
    AnswerBody, SendError,
    headers::{EITHER_ANSWER, LAST_EVENT, METHOD, NAME, PARAMETER_PREFIX, REVISION, SESSION},
};
use sluice_wire::mcp::header_text;

use crate::{
    cancel::Cancellation,
    exchange::Exchange,
    hops::HOPS,
    judge::Outgoing,
    refusal::Refusal,
    repair,
    reserve::{Introduction, Permitted},
    settle::{CallFailure, Settlement},
};

/// Client headers that are forwarded unchanged in either era.
const PASSING: [HeaderName; 6] = [
    header::ACCEPT,
    REVISION,
    HOPS,
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("baggage"),
];

/// A response whose body has begun to arrive, and the request it answers.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) answer: Response<AnswerBody>,
    permitted: Permitted,
}

impl Answered {
    /// The request, to be sent again, if the server did not accept it. Its charges stay
    /// reserved.
    pub(crate) fn into_unsent(self) -> Option<Permitted> {
        self.answer.status().is_client_error().then_some(self.permitted)
    }

    /// Splits this into the answer, the request and its settlement.
    pub(crate) fn into_parts(self) -> (Response<AnswerBody>, Outgoing, Option<Settlement>) {
        let (request, settlement) = self.permitted.into_parts();
        (self.answer, request, settlement)
    }

    /// The client's `initialize`, if that was the request.
    pub(crate) fn introduction(&self) -> Option<Introduction> {
        Introduction::of(&self.permitted)
    }

    pub(crate) fn request(&self) -> &Outgoing {
        self.permitted.request()
    }

    pub(crate) fn settlement(&mut self) -> Option<&mut Settlement> {
        self.permitted.settlement()
    }
}

/// Sends a request and waits for the answer to begin. If the server has lost the session,
/// it is re-established if possible and the request is sent again; the exchange then
/// continues with another upstream session.
pub(crate) async fn send(
    exchange: &Arc<Exchange>,
    permitted: Permitted,
) -> Result<(Arc<Exchange>, Answered), Refusal> {
    if permitted.request().is_lasting {
        repair::bind(exchange);
    }
    let answered = forward_for_client(exchange, permitted).await?;
    let is_suspicious = repair::is_suspicious(exchange, answered.answer.status());
    match is_suspicious {
        true if answered.request().expected.is_some() => {
            Box::pin(repair::send_again(exchange, answered)).await
        }
        true => {
            let answered = Box::pin(repair::replace(exchange, answered)).await?;
            Ok((Arc::clone(exchange), answered))
        }
        false => Ok((Arc::clone(exchange), answered)),
    }
}

/// Sends a request of a client once. It is cancelled at the server if nobody waits any more.
pub(crate) async fn forward_for_client(
    exchange: &Arc<Exchange>,
    mut permitted: Permitted,
) -> Result<Answered, Refusal> {
    let expected = permitted.request().expected.as_ref();
    let cancellation = expected.and_then(|expected| Cancellation::of(exchange, expected));
    if let Some(settlement) = permitted.settlement() {
        settlement.note_cancellation(cancellation);
    }
    forward(exchange, permitted).await
}

/// Sends a request once, and waits for the answer to begin.
pub(crate) async fn forward(
    exchange: &Exchange,
    mut permitted: Permitted,
) -> Result<Answered, Refusal> {
    let headers = build_headers(exchange, permitted.request());
    if let Some(settlement) = permitted.settlement() {
        settlement.note_departure();
    }
    let link = &exchange.server.link;
    let caller = || caller(exchange, &permitted);
    let sending = link.send(exchange.revision.era(), headers, &permitted, caller);
    let sent = tokio::time::timeout(link.timeout, sending).await;
    match sent {
        Ok(Ok(answer)) => {
            if let Some(settlement) = permitted.settlement() {
                settlement.note_answer(&answer);
            }
            Ok(Answered { answer, permitted })
        }
        Ok(Err(error)) => {
            let (server, request) = (exchange.server_name(), exchange.request);
            tracing::warn!(server, %request, %error, "no answer");
            Err(Box::pin(fail(exchange, permitted.into_parts().1, &error)).await)
        }
        Err(_) => {
            let why = CallFailure::Timeout;
            count_unrecorded(exchange, permitted.settlement().as_deref(), &why);
            if let Some(settlement) = permitted.settlement() {
                settlement.fail(&why);
            }
            let words = link.state.words_at_start();
            Err(words.map_or_else(Refusal::timeout, |words| {
                Refusal::late(format!("the server has not started in time: \"{words}\""))
            }))
        }
    }
}

/// Replaces the server's answer to a message that expects none by an empty acceptance.
pub(crate) fn accept(answered: Answered) -> Answered {
    let mut answer = Response::new(AnswerBody::Whole(http_body_util::Full::default()));
    *answer.status_mut() = StatusCode::ACCEPTED;
    Answered { answer, ..answered }
}

/// The caller whose bridge state this request uses.
fn caller(exchange: &Exchange, permitted: &Permitted) -> Caller {
    let session = exchange.session.as_ref().map_or("", |session| &session.id);
    let key = format!("{}\0{session}", exchange.holder.id());
    let rounds = permitted.follow_rounds(exchange).map(|rounds| rounds as Arc<dyn Rounds>);
    Caller { key, bounds: exchange.gateway.settings.answer_bounds(), rounds }
}

async fn fail(exchange: &Exchange, settlement: Option<Settlement>, error: &SendError) -> Refusal {
    let why = match error {
        SendError::NotSent(_) => CallFailure::Unreachable,
        SendError::NotStarted(why) => CallFailure::NotStarted(why.clone()),
        SendError::BadAnswer(why) => CallFailure::BadAnswer(why.clone()),
        SendError::Lost(_) => CallFailure::ConnectionLost,
    };
    count_unrecorded(exchange, settlement.as_ref(), &why);
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

/// Counts the failure of a request that has no record, such as a list.
fn count_unrecorded(exchange: &Exchange, settlement: Option<&Settlement>, why: &CallFailure) {
    let is_recorded = settlement.is_some_and(Settlement::is_recorded);
    if let Some(kind) = why.kind().filter(|_| !is_recorded) {
        exchange.gateway.metrics.note_upstream_error(&exchange.server.link.name, kind);
    }
}

/// The headers of a request, without the server's credential, which its link adds.
fn build_headers(exchange: &Exchange, outgoing: &Outgoing) -> HeaderMap {
    // This capacity fits one of the allocator's small blocks.
    let mut headers = HeaderMap::with_capacity(6);
    let is_post = outgoing.method == Method::POST;
    // There are few headers, so one pass is faster than looking up each name.
    for (name, value) in &exchange.headers {
        if PASSING.contains(name) {
            headers.append(name.clone(), value.clone());
        }
    }
    if is_post {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.entry(header::ACCEPT).or_insert(EITHER_ANSWER);
    }
    if let Some((method, target)) = &outgoing.mirrors {
        mirror(&mut headers, method, target.as_deref());
        for (name, value) in &exchange.headers {
            if name.as_str().starts_with(PARAMETER_PREFIX) {
                headers.insert(name.clone(), value.clone());
            }
        }
    } else if let Some(session) = &exchange.session {
        headers.insert(SESSION, session.upstream.clone());
        let resumes = outgoing.method == Method::GET;
        if let Some(last) = exchange.resumes_after.as_ref().filter(|_| resumes) {
            headers.insert(LAST_EVENT, last.clone());
        }
    }
    headers
}

/// Writes the headers that mirror a modern message.
pub(crate) fn mirror(headers: &mut HeaderMap, method: &str, target: Option<&str>) {
    for (name, text) in [(METHOD, Some(method)), (NAME, target)] {
        if let Some(value) = text.and_then(|text| HeaderValue::try_from(header_text(text)).ok()) {
            headers.insert(name, value);
        }
    }
}
