//! Answers that are event streams: each event is checked before it is passed on.

mod notification;

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::Response;
use http_body::Body as _;
use sluice_http::{
    AnswerBody, Pace,
    sse::{Decoder, Event, SseError},
};
use sluice_wire::{
    json::{Bounds, Document, Value},
    rpc::{Id, Message, resembles_message},
};
use tokio::time::{Instant, Sleep};

use super::{
    Expected,
    refused_requests::RefusedRequests,
    rewrite,
    server_request::{self, Handed},
    unreadable,
};
use crate::{
    body::{ClientBody, Cut, PieceSource},
    exchange::Exchange,
    list_changes::ListChanges,
    refusal::Refusal,
    response,
    sealed_ids::seal_event,
    session_stream::LIST_CHANGED,
    settle::{CallFailure, Settlement},
};

/// How often its time-out a call may take in all. A server extends the time-out by sending
/// messages, such as its progress.
const LONGEST_CALL: u32 = 10;

/// Makes the text of a message that is passed on.
pub(super) type Rewriting = Pin<Box<dyn Future<Output = Result<String, Refusal>> + Send>>;

/// An event whose message is being rewritten or recorded.
struct Awaited {
    event: Event,
    rewriting: Rewriting,
    message: AwaitedMessage,
}

enum AwaitedMessage {
    /// The answer, and whether it is an error of the tool.
    Answer(Option<bool>),
    /// A request of the server.
    Request,
}

/// An event stream from a server to a client.
pub(crate) struct EventStream {
    exchange: Arc<Exchange>,
    /// The answer that ends the stream; `None` if the stream answers no request.
    expected: Option<Expected>,
    /// Whether the stream may repeat answers to earlier requests.
    replays: bool,
    body: AnswerBody,
    decoder: Decoder,
    events: VecDeque<Result<Event, SseError>>,
    awaited: Option<Awaited>,
    /// When the upstream has been silent for too long; `None` if the stream answers no
    /// request.
    silence: Option<Pin<Box<Sleep>>>,
    /// When the call must have its answer, whatever the server says until then.
    latest: Instant,
    settlement: Option<Settlement>,
    /// Bytes that were checked before the response began.
    first: Option<Bytes>,
    is_answered: bool,
    has_ended: bool,
    refused: RefusedRequests,
    list_changes: ListChanges<Event>,
    /// Events that were skipped because they are not messages.
    skipped: u64,
    pace: Pace,
}

/// What happens to one event.
enum Passing {
    /// It is passed on, in canonical form.
    Bytes(Bytes),
    /// It is dropped.
    Nothing,
    /// It is awaited.
    Waiting,
}

impl EventStream {
    /// Relays the stream that answers a request, once its first event has passed the
    /// checks.
    pub(super) async fn relay(
        exchange: &Arc<Exchange>,
        expected: Expected,
        body: AnswerBody,
        settlement: Option<Settlement>,
    ) -> Result<Response<ClientBody>, Refusal> {
        let timeout = exchange.server.link.timeout;
        let mut stream = EventStream::new(exchange, body);
        stream.expected = Some(expected);
        stream.settlement = settlement;
        stream.silence = Some(Box::pin(tokio::time::sleep(timeout)));
        let first = std::future::poll_fn(|context| stream.poll_next(context)).await;
        match first {
            Some(Ok(bytes)) => {
                if stream.is_answered {
                    return Ok(response::event_stream(ClientBody::whole(bytes)));
                }
                stream.first = Some(bytes);
                let unread = exchange.gateway.settings.times.unread;
                Ok(response::event_stream(ClientBody::pump(stream, unread)))
            }
            Some(Err(why)) => Err(stream.fail(&why)),
            None if stream.body.was_cancelled() => Ok(response::event_stream(ClientBody::empty())),
            None => Err(stream.fail(&"the stream ended without an answer".into())),
        }
    }

    /// A stream that answers no request, as the upstream sends it.
    pub(crate) fn standing(
        exchange: &Arc<Exchange>,
        body: AnswerBody,
        replays: bool,
    ) -> EventStream {
        EventStream { replays, ..EventStream::new(exchange, body) }
    }

    /// Continues under the current rules.
    pub(crate) fn renew(&mut self, exchange: Arc<Exchange>) {
        self.exchange = exchange;
    }

    fn new(exchange: &Arc<Exchange>, body: AnswerBody) -> EventStream {
        EventStream {
            exchange: Arc::clone(exchange),
            expected: None,
            replays: false,
            body,
            decoder: Decoder::new(exchange.gateway.settings.answer),
            events: VecDeque::new(),
            awaited: None,
            silence: None,
            latest: Instant::now() + LONGEST_CALL * exchange.server.link.timeout,
            settlement: None,
            first: None,
            is_answered: false,
            has_ended: false,
            refused: RefusedRequests::default(),
            list_changes: ListChanges::default(),
            skipped: 0,
            pace: Pace::default(),
        }
    }

    fn fail(&mut self, why: &CallFailure) -> Refusal {
        if let Some(mut settlement) = self.settlement.take() {
            settlement.fail(why);
        }
        why.to_refusal()
    }

    /// The next bytes for the client, `None` at the end, or the reason to cut the stream.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, CallFailure>>> {
        loop {
            match self.poll_awaited(context) {
                Poll::Pending => return self.poll_silence(context),
                Poll::Ready(Some(bytes)) => return Poll::Ready(Some(bytes)),
                Poll::Ready(None) => {}
            }
            if let Poll::Ready(changed) = self.list_changes.poll_due(context) {
                return Poll::Ready(Some(Ok(changed.encode())));
            }
            if let Some(event) = self.events.pop_front() {
                match event
                    .map_err(|error| error.to_string().into())
                    .and_then(|event| self.pass(event))
                {
                    Ok(Passing::Bytes(bytes)) => return Poll::Ready(Some(Ok(bytes))),
                    Ok(Passing::Nothing | Passing::Waiting) => continue,
                    Err(why) => return Poll::Ready(Some(Err(why))),
                }
            }
            if self.has_ended || self.is_answered {
                if let Some(changed) = self.list_changes.flush() {
                    return Poll::Ready(Some(Ok(changed.encode())));
                }
                return Poll::Ready(self.end());
            }
            // A server may keep sending bytes without ever sending a message.
            if let Poll::Ready(silent) = self.poll_silence(context) {
                return Poll::Ready(silent);
            }
            ready!(self.pace.poll_turn(context));
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => self.has_ended = true,
                Poll::Ready(Some(Err(_))) => {
                    return Poll::Ready(Some(Err("the stream broke off".into())));
                }
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    self.pace.note(data.len());
                    let events = &mut self.events;
                    let pushed = self.decoder.push(&data, |event| events.push_back(Ok(event)));
                    if let Err(error) = pushed {
                        events.push_back(Err(error));
                    }
                }
            }
        }
    }

    fn poll_silence(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, CallFailure>>> {
        let Some(silence) = &mut self.silence else { return Poll::Pending };
        silence.as_mut().poll(context).map(|()| Some(Err(CallFailure::Timeout)))
    }

    /// The message that is awaited; `None` if none is.
    fn poll_awaited(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, CallFailure>>> {
        let Some(awaited) = &mut self.awaited else { return Poll::Ready(None) };
        let rewritten = ready!(awaited.rewriting.as_mut().poll(context));
        let Some(Awaited { event, message, .. }) = self.awaited.take() else {
            return Poll::Ready(None);
        };
        Poll::Ready(Some(match rewritten {
            Ok(text) => {
                if let AwaitedMessage::Answer(is_error) = message {
                    self.note_answer(is_error);
                }
                Ok(event.encode_with(&text))
            }
            Err(refusal) => Err(CallFailure::of(&refusal)),
        }))
    }

    /// Ends the stream, which is complete once the answer was seen.
    fn end(&mut self) -> Option<Result<Bytes, CallFailure>> {
        if self.body.was_cancelled() {
            if let Some(mut settlement) = self.settlement.take() {
                settlement.cancel();
            }
            return None;
        }
        // A legacy server may end a stream that its client can resume.
        let may_resume = !self.exchange.is_modern() && self.exchange.session.is_some();
        if self.expected.is_some() && !self.is_answered && !may_resume {
            return Some(Err("the stream ended without an answer".into()));
        }
        if let Some(mut settlement) = self.settlement.take() {
            settlement.fail(&CallFailure::StreamEnded);
        }
        None
    }

    fn note_answer(&mut self, is_error: Option<bool>) {
        if self.expected.is_none() {
            return;
        }
        self.is_answered = true;
        if let Some(mut settlement) = self.settlement.take() {
            settlement.succeed(is_error);
        }
    }

    /// Checks one event.
    fn pass(&mut self, mut event: Event) -> Result<Passing, CallFailure> {
        let Some(data) = event.data.take_if(|data| !data.is_empty()) else {
            return Ok(self.pass_empty(event));
        };
        if !event.is_message() {
            return Ok(Passing::Nothing);
        }
        let bounds = self.exchange.gateway.settings.answer_bounds();
        let document = match Document::parse(data.as_str(), &bounds) {
            Ok(document) => document,
            Err(refusal) => return self.skip(&data, &unreadable("an event", &refusal)),
        };
        let message = match Message::read(&document) {
            Ok(message) => message,
            Err(error) => {
                return self.skip(&data, &format!("an event is not a JSON-RPC message: {error}"));
            }
        };
        self.note_message();
        if matches!(message, Message::Response { .. } | Message::Failure { .. })
            && let Some(changed) = self.list_changes.flush()
        {
            // A client may read no further than the answer.
            event.data = Some(data);
            self.events.push_front(Ok(event));
            return Ok(Passing::Bytes(changed.encode()));
        }
        self.seal_id(&mut event);
        match message {
            Message::Response { id, result } => {
                let is_error = result.get("isError").and_then(Value::as_bool);
                let expected =
                    self.expects(&id, Some(result)).ok_or("an answer to another request")?;
                drop(id);
                self.rewrite(event, expected, document, is_error);
                Ok(Passing::Waiting)
            }
            Message::Failure { id, .. } => {
                let id = id.ok_or("an error without the id of its request")?;
                self.expects(&id, None).ok_or("an answer to another request")?;
                self.note_answer(Some(true));
                Ok(Passing::Bytes(event.encode_with(document.text())))
            }
            Message::Request { .. } if self.exchange.is_modern() => {
                Err("a request of the server on a stream".into())
            }
            Message::Request { id, method, .. } => self.request(event, &document, &id, method),
            Message::Notification { method, .. } if ListChanges::<Event>::concerns(method) => {
                event.data = Some(document.text().to_owned());
                Ok(self.list_changed(event, method))
            }
            Message::Notification { method, params } => {
                self.notification(&event, &document, method, params)
            }
        }
    }

    /// Passes on a request of the server, if the policy permits it.
    fn request(
        &mut self,
        event: Event,
        document: &Document,
        id: &Id,
        method: &str,
    ) -> Result<Passing, CallFailure> {
        match server_request::pass(&self.exchange, &mut self.refused, document, id, method)? {
            Handed::Withheld => Ok(Passing::Nothing),
            Handed::On(text) => Ok(Passing::Bytes(event.encode_with(&text))),
            Handed::OnceRecorded(rewriting) => {
                self.awaited = Some(Awaited { event, rewriting, message: AwaitedMessage::Request });
                Ok(Passing::Waiting)
            }
        }
    }

    /// The server is not silent.
    fn note_message(&mut self) {
        if let Some(silence) = &mut self.silence {
            let next = Instant::now() + self.exchange.server.link.timeout;
            silence.as_mut().reset(next.min(self.latest));
        }
    }

    /// Passes on an event without a message.
    fn pass_empty(&self, mut event: Event) -> Passing {
        // A keep-alive is needed only if no other event is queued. An id or a retry
        // time tells the client how to resume the stream.
        self.seal_id(&mut event);
        let left = Event { name: None, ..event };
        let is_needed = self.events.is_empty() || left != Event::default();
        if is_needed { Passing::Bytes(left.encode()) } else { Passing::Nothing }
    }

    /// Passes on the notification that a list has changed, now or later.
    fn list_changed(&mut self, event: Event, method: &str) -> Passing {
        if method == LIST_CHANGED {
            self.exchange.server.link.state.tools.mark_stale();
        }
        let admitted = self.list_changes.admit(method, event);
        admitted.map_or(Passing::Nothing, |event| Passing::Bytes(event.encode()))
    }

    /// Replaces the id of an event by one that resumes the stream only in this session.
    fn seal_id(&self, event: &mut Event) {
        let exchange = &self.exchange;
        let is_sealed = exchange.session.is_some() && !exchange.is_part;
        // An empty id tells the client to forget the last one.
        if let Some(own) = event.id.take_if(|id| is_sealed && !id.is_empty()) {
            event.id = seal_event(exchange, &own);
        }
    }

    /// Skips an event that is not a message. If an answer is expected and the event may
    /// have been meant as the answer, the stream ends: another answer may never come.
    fn skip(&mut self, data: &str, why: &str) -> Result<Passing, CallFailure> {
        let why = &*self.exchange.server.link.without_secrets(why);
        if self.expected.is_some() && resembles_message(data) {
            return Err(why.into());
        }
        self.skipped += 1;
        if self.skipped == 1 {
            tracing::warn!(
                server = self.exchange.server_name(),
                request = %self.exchange.request,
                why,
                "skipped an event of the server; further ones on this stream are not logged"
            );
        }
        Ok(Passing::Nothing)
    }

    /// The expected shape of an answer on this stream; `None` if it must not be here.
    fn expects(&self, id: &Id, result: Option<Value<'_>>) -> Option<Expected> {
        match &self.expected {
            Some(expected) => (expected.id == *id && !self.is_answered).then(|| expected.clone()),
            // A replayed answer does not name its request, so its members tell what it
            // is.
            None if self.replays => {
                Some(Expected { id: id.clone(), shape: super::guess_shape(result) })
            }
            None => None,
        }
    }

    fn rewrite(
        &mut self,
        event: Event,
        expected: Expected,
        document: Document,
        is_error: Option<bool>,
    ) {
        let exchange = Arc::clone(&self.exchange);
        let rewriting =
            Box::pin(async move { rewrite::message(&exchange, &expected, document).await });
        self.awaited =
            Some(Awaited { event, rewriting, message: AwaitedMessage::Answer(is_error) });
    }
}

/// Reads one event in canonical form.
pub(crate) fn parse_event(piece: &[u8]) -> Option<Event> {
    let mut event = None;
    Decoder::new(piece.len()).push(piece, |read| event = Some(read)).ok()?;
    event
}

/// The answer to a request, if this piece of a stream contains it.
pub(crate) fn parse_answer(piece: &[u8], own: &Id, bounds: &Bounds) -> Option<Document> {
    let document = Document::parse(parse_event(piece)?.data?, bounds).ok()?;
    let is_answer = match Message::read(&document) {
        Ok(Message::Response { id, .. } | Message::Failure { id: Some(id), .. }) => id == *own,
        _ => false,
    };
    is_answer.then_some(document)
}

impl EventStream {
    /// The next event that may be passed on.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, Cut>> {
        std::future::poll_fn(|context| self.poll_piece(context)).await
    }
}

impl PieceSource for EventStream {
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        self.poll_next(context).map_err(|why| {
            let (server, request) = (self.exchange.server_name(), self.exchange.request);
            tracing::warn!(server, %request, %why, "a stream was cut");
            self.fail(&why);
            Cut
        })
    }

    fn give_up(&mut self) {
        self.fail(&CallFailure::Unread);
    }
}
