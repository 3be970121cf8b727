//! Sends one message to the server and reads the messages of its answer, from JSON or an
//! event stream.

use std::{collections::VecDeque, fmt, pin::Pin, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use sluice_http::{
    AnswerBody, Collector, SendError, TooLong,
    headers::{EITHER_ANSWER, LAST_EVENT, PREFIX, is_event_stream},
    offload,
    sse::{Decoder, Event},
};
use sluice_upstream::Upstream;
use sluice_wire::{
    json::{Bounds, Document},
    rpc::{Id, Message, resembles_message},
};

/// Reads the messages of an answer.
#[derive(Debug)]
pub(super) struct Reader {
    body: AnswerBody,
    bounds: Bounds,
    form: BodyFormat,
    parsing: Option<Parsing>,
    /// The id of the last event that had one.
    pub(super) last_event: Option<String>,
    /// How long the server asks to wait before resuming the stream, in milliseconds.
    retry: u64,
}

/// The longest wait that a server can ask for, in milliseconds.
const LONGEST_RETRY: u64 = 10_000;

#[derive(Debug)]
enum BodyFormat {
    Json(Collector),
    Events { decoder: Box<Decoder>, events: VecDeque<Event> },
    Over,
}

/// A large message that is being parsed on another thread. It stays here if the future that waits
/// for it is dropped.
struct Parsing(Pin<Box<dyn Future<Output = Option<Document>> + Send>>);

impl fmt::Debug for Parsing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Parsing(…)")
    }
}

impl Reader {
    pub(super) fn new(answer: Response<AnswerBody>, bounds: Bounds) -> Reader {
        let form = if is_event_stream(answer.headers()) {
            BodyFormat::Events {
                decoder: Box::new(Decoder::new(bounds.bytes)),
                events: VecDeque::new(),
            }
        } else {
            BodyFormat::Json(Collector::new(bounds.bytes))
        };
        Reader { body: answer.into_body(), bounds, form, parsing: None, last_event: None, retry: 0 }
    }

    /// The next message, `None` at the end, or why it cannot be read. Cancel safe: no
    /// message is lost if this future is dropped.
    pub(super) async fn next(&mut self) -> Result<Option<Document>, String> {
        loop {
            if let Some(document) = self.try_next()? {
                return Ok(Some(document));
            }
            if let Some(Parsing(parsing)) = &mut self.parsing {
                let parsed = parsing.await;
                self.parsing = None;
                return parsed.map(Some).ok_or_else(|| NOT_JSON.to_owned());
            }
            let Some(frame) = self.body.frame().await else {
                match self.last() {
                    None => return Ok(None),
                    Some(bytes) => self.parse(bytes),
                }
                continue;
            };
            let Ok(data) = frame.map_err(|_| "its answer broke off".to_owned())?.into_data() else {
                continue;
            };
            match &mut self.form {
                BodyFormat::Json(collected) => collected
                    .push(data)
                    .map_err(|TooLong(most)| format!("its answer is longer than {most} bytes"))?,
                BodyFormat::Events { decoder, events } => decoder
                    .push(&data, |event| events.push_back(event))
                    .map_err(|error| error.to_string())?,
                BodyFormat::Over => return Ok(None),
            }
        }
    }

    fn parse(&mut self, bytes: Vec<u8>) {
        let bounds = self.bounds;
        let parsing = async move { offload::parse(bytes, &bounds).await?.ok() };
        self.parsing = Some(Parsing(Box::pin(parsing)));
    }

    /// A message that has already arrived, without waiting; large ones are left to
    /// [`Reader::next`].
    pub(super) fn try_next(&mut self) -> Result<Option<Document>, String> {
        if self.parsing.is_some() {
            return Ok(None);
        }
        let BodyFormat::Events { events, .. } = &mut self.form else { return Ok(None) };
        while let Some(mut event) = events.pop_front() {
            self.last_event = event.id.take().or(self.last_event.take());
            self.retry = event.retry.map_or(self.retry, |retry| retry.min(LONGEST_RETRY));
            let Some(data) = event.into_message() else { continue };
            if offload::is_large(data.len()) {
                self.parse(data.into());
                return Ok(None);
            }
            match Document::parse(data.as_str(), &self.bounds) {
                // Some servers send keep-alive events whose data is not a message.
                Ok(document) if Message::read(&document).is_err() && !resembles_message(&data) => {}
                Err(_) if !resembles_message(&data) => {}
                read => return read.map(Some).map_err(|_| NOT_JSON.to_owned()),
            }
        }
        Ok(None)
    }

    /// How long to wait before resuming a stream that has ended.
    pub(super) fn retry(&self) -> Duration {
        Duration::from_millis(self.retry)
    }

    /// The text of an answer that is one document.
    fn last(&mut self) -> Option<Vec<u8>> {
        match std::mem::replace(&mut self.form, BodyFormat::Over) {
            BodyFormat::Json(collected) => {
                Some(collected.finish()).filter(|bytes| !bytes.is_empty())
            }
            BodyFormat::Events { .. } | BodyFormat::Over => None,
        }
    }
}

/// The error never quotes the server's text.
const NOT_JSON: &str = "its answer is not valid JSON";

/// The result of a request whose other messages are ignored.
#[derive(Debug)]
pub(super) struct Exchanged {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// The message that answers the request, if there was one.
    pub(super) answer: Option<Document>,
}

impl Exchanged {
    /// The answer, if it is a result.
    pub(super) fn result(self) -> Option<Document> {
        let is_result = |document: &Document| document.root().get("result").is_some();
        self.answer.filter(|answer| self.status.is_success() && is_result(answer))
    }
}

/// Sends a request and reads until its answer.
pub(super) async fn exchange(
    upstream: &Upstream,
    request: Request<Bytes>,
    id: &Id,
    bounds: Bounds,
) -> Result<Exchanged, SendError> {
    let answer = upstream.send(request).await?;
    let (status, headers) = (answer.status(), answer.headers().clone());
    let mut reader = Reader::new(answer, bounds);
    let answer = loop {
        match reader.next().await {
            Ok(Some(document)) if answers(&document, id, status) => break Some(document),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => break None,
        }
    };
    Ok(Exchanged { status, headers, answer })
}

/// Whether a message answers this request. An error with an HTTP error status need not
/// name the request.
fn answers(document: &Document, id: &Id, status: StatusCode) -> bool {
    match Message::read(document) {
        Ok(Message::Response { id: found, .. } | Message::Failure { id: Some(found), .. }) => {
            found == *id || !status.is_success()
        }
        Ok(Message::Failure { id: None, .. }) => !status.is_success(),
        _ => false,
    }
}

/// The headers of a request that mean the same in either era: credentials and tracing.
pub(super) fn plain_headers(headers: &HeaderMap) -> HeaderMap {
    let is_of_protocol =
        |name: &HeaderName| name.as_str().starts_with(PREFIX) || name == LAST_EVENT;
    let kept = headers.iter().filter(|(name, _)| !is_of_protocol(name));
    let mut kept: HeaderMap = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    kept.insert(header::ACCEPT, EITHER_ANSWER);
    kept
}

/// A POST request with this message.
pub(super) fn post(headers: HeaderMap, body: String) -> Request<Bytes> {
    let mut request = bare(Method::POST, headers);
    *request.body_mut() = body.into();
    let json = HeaderValue::from_static("application/json");
    request.headers_mut().insert(header::CONTENT_TYPE, json);
    request
}

/// A request without a message.
pub(super) fn bare(method: Method, headers: HeaderMap) -> Request<Bytes> {
    let mut request = Request::new(Bytes::new());
    *request.method_mut() = method;
    *request.headers_mut() = headers;
    request
}

/// Sets a header, if the text is a valid value.
pub(super) fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(name, value);
    }
}
