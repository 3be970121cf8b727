//! A built-in server as a streamable HTTP endpoint.
//!
//! The only state between requests is the set of calls in progress: a session is an id that
//! lets a legacy client cancel its own calls.

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header::ALLOW};
use sluice_http::{
    AnswerBody, PollBody,
    answer::{empty, event_stream, json},
    headers::SESSION,
};
use sluice_wire::{
    json::{Bounds, Document, Value},
    rpc::{Id, Message},
};
use tokio::sync::mpsc;

use super::{
    Builtin, Progress,
    calls::Calls,
    fault::{self, Fault},
    mirror, serve,
};

/// The maximum number of unread progress reports.
const MOST_REPORTS: usize = 16;

/// The HTTP endpoint of a built-in server.
#[derive(Clone)]
pub struct Endpoint {
    server: Arc<dyn Builtin>,
    calls: Calls,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({})", self.server.identity().name)
    }
}

/// Whether a tool call failed, even if its caller is not told. It is attached to the response,
/// outside of the body, and is final once the body has ended.
#[derive(Debug, Clone, Default)]
pub struct Verdict(Arc<AtomicBool>);

impl Verdict {
    /// Whether the call is known to have failed.
    pub fn has_failed(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// An answer: a status and a body, which may be empty.
type Answer = (StatusCode, String);
type Work = Pin<Box<dyn Future<Output = Answer> + Send>>;

impl Endpoint {
    pub fn new(server: Arc<dyn Builtin>) -> Endpoint {
        Endpoint { server, calls: Calls::default() }
    }

    /// Answers one request: as JSON, or as events if there is progress to report before the answer.
    /// Dropping the answer cancels the call.
    pub async fn answer(&self, request: Request<Bytes>) -> Response<AnswerBody> {
        let (head, body) = request.into_parts();
        if head.method != Method::POST {
            return not_allowed();
        }
        let document = match Document::parse(body, &Bounds::default()) {
            Ok(document) => document,
            Err(refusal) => return fault_response(&Fault::unreadable(&refusal)),
        };
        let session = match Message::read(&document) {
            Ok(Message::Request { method: "initialize", params, .. })
                if self.server.has_long_calls() && serve::negotiate_revision(params).is_some() =>
            {
                new_session()
            }
            Ok(Message::Request { .. }) => None,
            Ok(message @ Message::Notification { .. }) => {
                self.calls.hear(session_of(&head.headers), &message);
                return empty(StatusCode::ACCEPTED);
            }
            Ok(Message::Response { .. } | Message::Failure { .. }) => {
                let problem = "this server asks nothing, so it takes no answers";
                return fault_response(&Fault::invalid(&problem));
            }
            Err(error) => return fault_response(&Fault::invalid(&error)),
        };
        let mut response = self.begin(head.headers, document).await;
        if let Some(session) = session.filter(|_| response.status().is_success()) {
            response.headers_mut().insert(SESSION, session);
        }
        response
    }

    /// Starts a request, and waits for its answer or the first progress report.
    async fn begin(&self, headers: HeaderMap, document: Document) -> Response<AnswerBody> {
        let (reports, mut reported) = mpsc::channel(MOST_REPORTS);
        let verdict = Verdict::default();
        let (endpoint, told) = (self.clone(), verdict.clone());
        let mut work: Work =
            Box::pin(async move { endpoint.work(&headers, &document, reports, &told).await });
        let mut response = tokio::select! {
            biased;
            Some(first) = reported.recv() => events(Telling {
                first: Some(first),
                reported,
                work,
                answer: None,
                is_over: false,
            }),
            (status, text) = &mut work => json(status, text),
        };
        response.extensions_mut().insert(verdict);
        response
    }

    async fn work(
        &self,
        headers: &HeaderMap,
        document: &Document,
        reports: mpsc::Sender<String>,
        verdict: &Verdict,
    ) -> Answer {
        let Ok(Message::Request { id, method, params }) = Message::read(document) else {
            let fault = Fault::invalid(&"no request");
            return (fault.status, fault.body(None));
        };
        let answered = self.handle_request(headers, &id, method, params, reports).await;
        match answered {
            Ok(served) => {
                verdict.0.store(served.has_failed, Ordering::Release);
                (StatusCode::OK, fault::response(&id, &served.result))
            }
            Err(fault) => (fault.status, fault.body(Some(&id))),
        }
    }

    async fn handle_request(
        &self,
        headers: &HeaderMap,
        id: &Id,
        method: &str,
        params: Option<Value<'_>>,
        reports: mpsc::Sender<String>,
    ) -> Result<serve::Served, Fault> {
        let revision = mirror::revision(headers, method, params)?;
        let progress = Progress::of(params, reports);
        let serving = serve::serve(&*self.server, revision, method, params, &progress);
        let session = session_of(headers);
        // Without a session, an id does not tell whose call it is.
        let ticket = if session.is_empty() { None } else { self.calls.begin(session, id) };
        match ticket {
            Some(ticket) => {
                ticket.unless_cancelled(serving).await.unwrap_or_else(|| Err(Fault::cancellation()))
            }
            None => serving.await,
        }
    }
}

fn session_of(headers: &HeaderMap) -> &str {
    headers.get(SESSION).and_then(|session| session.to_str().ok()).unwrap_or_default()
}

/// A unique session id. If the system has no random numbers, there is none, and the session's calls
/// cannot be cancelled.
fn new_session() -> Option<HeaderValue> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).ok()?;
    HeaderValue::from_str(&BASE64URL_NOPAD.encode(&random)).ok()
}

/// An event stream of progress reports, followed by the answer.
struct Telling {
    first: Option<String>,
    reported: mpsc::Receiver<String>,
    work: Work,
    /// The answer, until all reports before it are sent.
    answer: Option<String>,
    is_over: bool,
}

impl Telling {
    fn poll_said(&mut self, context: &mut Context<'_>) -> Poll<Option<String>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        loop {
            if let Poll::Ready(Some(report)) = self.reported.poll_recv(context) {
                return Poll::Ready(Some(report));
            }
            if self.is_over {
                return Poll::Ready(self.answer.take());
            }
            let (_, text) = ready!(self.work.as_mut().poll(context));
            self.answer = Some(text);
            self.is_over = true;
        }
    }
}

fn events(mut telling: Telling) -> Response<AnswerBody> {
    let event = |message| Ok(Bytes::from(format!("data: {message}\n\n")));
    let body = PollBody::new(move |context| telling.poll_said(context).map(|said| said.map(event)));
    event_stream(AnswerBody::from_body(body))
}

/// The response to a message whose id is unknown.
fn fault_response(fault: &Fault) -> Response<AnswerBody> {
    json(fault.status, fault.body(None))
}

/// Sessions need no end and there are no streams, so only POST is allowed.
fn not_allowed() -> Response<AnswerBody> {
    let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    response
}
