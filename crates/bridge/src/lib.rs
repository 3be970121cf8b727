//! Translation between protocol eras: a client of one era with a server that speaks
//! only the other.
//!
//! Requests in an era that the server speaks pass untouched. Otherwise the bridge acts
//! as a server of the client's era: `to_modern` in front of a modern server,
//! `to_legacy` in front of a legacy one. Eras are detected when the server refuses one,
//! and again if a known era stops working. Connections and processes are left to
//! `upstream` and the crates below it.
//!
//! This crate is large because each direction is a complete implementation: sessions,
//! event streams, requests of servers and subscriptions differ in each.

mod eras;
mod exchange;
mod message;
mod response;
mod rounds;
mod to_legacy;
mod to_modern;

use std::{pin::pin, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, header};
use http_body_util::Full;
use sluice_http::{
    AnswerBody, CollectError, Outdated, SendError, ServerProtocol, Speaks,
    answer::after_another,
    collect,
    headers::{METHOD, SESSION, is_event_stream},
};
use sluice_upstream::Upstream;
use sluice_wire::{
    json::{Bounds, Document, Value},
    mcp::{Era, is_unknown_era},
};
use tokio::time::Instant;

pub use self::rounds::{RefusedRound, RoundEnd, RoundPermission, Rounds};
use self::{message::is_modern_error, to_legacy::ToLegacy, to_modern::ToModern};

/// One server, for clients of both eras.
#[derive(Debug)]
pub struct Bridge {
    link: Arc<Link>,
    offer: Offer,
    to_modern: Arc<ToModern>,
    to_legacy: Arc<ToLegacy>,
}

/// How a legacy server is presented to a modern client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// As a legacy server, so that clients of both eras use the legacy era.
    OwnEra,
    /// As a modern server.
    Modern,
}

/// The caller that bridge state belongs to.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The grant, and in the legacy era the session. Callers with different keys never
    /// share state.
    pub key: String,
    /// Limits on an answer.
    pub bounds: Bounds,
    /// Permits that a request is repeated; without it, none is.
    pub rounds: Option<Arc<dyn Rounds>>,
}

/// The server, and what it is known to speak.
#[derive(Debug)]
struct Link {
    upstream: Upstream,
    protocol: Arc<ServerProtocol>,
    /// Held while the server is probed for its eras; contains the time of the last probe.
    probed: tokio::sync::Mutex<Option<Instant>>,
}

impl Link {
    fn new(upstream: Upstream, protocol: Arc<ServerProtocol>) -> Link {
        Link { upstream, protocol, probed: tokio::sync::Mutex::default() }
    }

    /// Whether the server is a command that was started for a single client. It can be
    /// initialized only once, so there is one session with it, which is never closed.
    fn has_one_client(&self) -> bool {
        matches!(self.upstream.server(), Upstream::Only(_))
    }
}

/// What to do with the answer to a request that was sent unchanged.
enum Examined {
    Passes(Response<AnswerBody>),
    /// The server does not speak this era, but speaks the other one.
    Crosses,
}

/// The longest answer in bytes that is examined for an error before it is passed on.
const SHORT: usize = 64 << 10;

impl Bridge {
    /// A bridge to a server, which reads and notes in `protocol` the eras that the server
    /// speaks.
    pub fn new(upstream: Upstream, offer: Offer, protocol: Arc<ServerProtocol>) -> Bridge {
        let link = Arc::new(Link::new(upstream, protocol));
        Bridge {
            to_modern: Arc::new(ToModern::new(Arc::clone(&link))),
            to_legacy: Arc::new(ToLegacy::new(Arc::clone(&link))),
            link,
            offer,
        }
    }

    /// How a legacy server is presented to a modern client.
    pub fn offer(&self) -> Offer {
        self.offer
    }

    /// Sends a request of this era.
    pub async fn send(
        &self,
        era: Era,
        request: Box<Request<Bytes>>,
        caller: impl FnOnce() -> Caller,
    ) -> Result<Response<AnswerBody>, SendError> {
        let speaks = self.link.protocol.speaks(era);
        let passes = era == Era::Modern || !to_modern::is_own_session(&request);
        if speaks == Speaks::Yes && passes {
            // Pinned here, because awaiting a future moves it first.
            let answer = pin!(self.link.upstream.send(request)).await?;
            if is_unknown_era(answer.status().as_u16()) {
                // The server may have been replaced by another.
                self.link.protocol.forget(Outdated::Era(era));
            }
            return Ok(answer);
        }
        Box::pin(self.send_carefully(era, speaks, request, caller())).await
    }

    async fn send_carefully(
        &self,
        era: Era,
        speaks: Speaks,
        request: Box<Request<Bytes>>,
        caller: Caller,
    ) -> Result<Response<AnswerBody>, SendError> {
        let is_own_session = era == Era::Legacy && to_modern::is_own_session(&request);
        let is_discovery = request.headers().get(METHOD).is_some_and(is_discover);
        let tells_own_era = is_discovery && era == Era::Modern && self.offer == Offer::OwnEra;
        if is_own_session || speaks == Speaks::No && !tells_own_era {
            return self.cross(era, *request, caller).await;
        }
        if tells_own_era {
            // The server's own answer to discovery is passed on, so no probe is needed.
            return self.link.upstream.send(request).await;
        }
        let kept = request.clone();
        let answer = self.link.upstream.send(request).await?;
        match self.examine_answer(era, &kept, answer, caller.bounds).await? {
            Examined::Passes(answer) => Ok(answer),
            Examined::Crosses => {
                let crossed = self.cross(era, *kept, caller).await;
                crossed.map(after_another).map_err(SendError::after_sending)
            }
        }
    }

    async fn cross(
        &self,
        era: Era,
        request: Request<Bytes>,
        caller: Caller,
    ) -> Result<Response<AnswerBody>, SendError> {
        match era {
            Era::Legacy => self.to_modern.answer(request, caller).await,
            Era::Modern => self.to_legacy.answer(request, caller).await,
        }
    }

    /// Examines the answer to a request in an era that the server may not speak.
    async fn examine_answer(
        &self,
        era: Era,
        request: &Request<Bytes>,
        answer: Response<AnswerBody>,
        bounds: Bounds,
    ) -> Result<Examined, SendError> {
        let status = answer.status();
        let in_session = request.headers().contains_key(SESSION) && era == Era::Legacy;
        let is_strange = is_unknown_era(status.as_u16());
        if request.method() != Method::POST
            || !(status.is_success() || is_strange)
            || is_strange && in_session
        {
            return Ok(Examined::Passes(answer));
        }
        let method = method_of(request, &bounds);
        let is_introduction = matches!(method.as_deref(), Some("initialize" | "server/discover"));
        let is_examined = is_strange || is_introduction || is_short(answer.headers());
        if is_event_stream(answer.headers()) || !is_examined {
            if status.is_success() {
                self.link.protocol.note_era(era, Speaks::Yes);
            }
            return Ok(Examined::Passes(answer));
        }
        let (parts, body) = answer.into_parts();
        let bytes = collect(body, bounds.bytes).await;
        let lost = |error| match error {
            CollectError::TooLong(most) => {
                SendError::Lost(format!("the answer is longer than {most} bytes"))
            }
            CollectError::Lost(_) => SendError::Lost("the answer did not arrive whole".into()),
        };
        let bytes = Bytes::from(bytes.map_err(lost)?);
        let document = Document::parse(bytes.to_vec(), &bounds).ok();
        let answer = Response::from_parts(parts, AnswerBody::Whole(Full::new(bytes)));
        let error = document.as_ref().and_then(|document| document.root().get("error"));
        let is_understood = (status.is_success() && error.is_none())
            || era == Era::Modern && error.is_some_and(is_modern_error);
        if is_understood {
            if document.is_some() {
                self.link.protocol.note_era(era, Speaks::Yes);
            }
            return Ok(Examined::Passes(answer));
        }
        // The refusal may be specific to this client, so the gateway probes the server
        // itself.
        let headers = exchange::plain_headers(request.headers());
        let crosses = self.link.crosses(era, headers, bounds).await;
        Ok(if crosses { Examined::Crosses } else { Examined::Passes(answer) })
    }
}

fn is_discover(method: &http::HeaderValue) -> bool {
    method.as_bytes() == b"server/discover"
}

/// The method of a posted message.
fn method_of(request: &Request<Bytes>, bounds: &Bounds) -> Option<String> {
    let document = Document::parse(request.body().to_vec(), bounds).ok()?;
    document.root().get("method").and_then(Value::as_str).map(str::to_owned)
}

/// Whether an answer is short enough to be examined before it is passed on.
fn is_short(headers: &HeaderMap) -> bool {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    length.and_then(|length| length.parse::<usize>().ok()).is_some_and(|length| length <= SHORT)
}
