//! Answers that are event streams: each event is checked before it is passed on.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::Response;
use http_body::Body as _;
use sluice_http::{
    AnswerBody,
    sse::{Decoder, Event, SseError},
};
use sluice_wire::{
    json::{Bounds, Document, Value},
    look_alike::Governed,
    rpc::{Id, Message, resembles_message},
};
use tokio::time::{Instant, Sleep};

use super::{Expected, Shape, rewrite, server_request};
use crate::{
    body::{ClientBody, Cut},
    exchange::Exchange,
    refusal::Refusal,
    response,
    sealed_ids::seal_task,
    settle::{CallFailure, Settlement},
};

type Rewriting = Pin<Box<dyn Future<Output = Result<String, Refusal>> + Send>>;

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
    /// An event whose message is being rewritten.
    rewriting: Option<(Event, Rewriting, Option<bool>)>,
    /// When the upstream has been silent for too long; `None` if the stream answers no
    /// request.
    silence: Option<Pin<Box<Sleep>>>,
    settlement: Option<Settlement>,
    /// Bytes that were checked before the response began.
    first: Option<Bytes>,
    is_answered: bool,
    has_ended: bool,
    /// Events that were skipped because they are not messages.
    skipped: u64,
}

/// What happens to one event.
enum Passing {
    /// It is passed on, in canonical form.
    Bytes(Bytes),
    /// It is dropped.
    Nothing,
    /// It is being rewritten.
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
                stream.first = Some(bytes);
                Ok(response::event_stream(ClientBody::stream(move |context| {
                    stream.poll_piece(context)
                })))
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
            rewriting: None,
            silence: None,
            settlement: None,
            first: None,
            is_answered: false,
            has_ended: false,
            skipped: 0,
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
            match self.poll_rewriting(context) {
                Poll::Pending => return self.poll_silence(context),
                Poll::Ready(Some(bytes)) => return Poll::Ready(Some(bytes)),
                Poll::Ready(None) => {}
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
                return Poll::Ready(self.end());
            }
            // A server may keep sending bytes without ever sending a message.
            if let Poll::Ready(silent) = self.poll_silence(context) {
                return Poll::Ready(silent);
            }
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => self.has_ended = true,
                Poll::Ready(Some(Err(_))) => {
                    return Poll::Ready(Some(Err("the stream broke off".into())));
                }
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
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

    /// Continues rewriting a message; `None` if none is being rewritten.
    fn poll_rewriting(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, CallFailure>>> {
        let Some((_, rewriting, _)) = &mut self.rewriting else { return Poll::Ready(None) };
        let Poll::Ready(rewritten) = rewriting.as_mut().poll(context) else { return Poll::Pending };
        let Some((event, _, is_error)) = self.rewriting.take() else {
            return Poll::Ready(None);
        };
        Poll::Ready(Some(match rewritten {
            Ok(message) => {
                self.note_answer(is_error);
                Ok(event.encode_with(&message))
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
            // A keep-alive is needed only if no other event is queued. An id or a retry
            // time tells the client how to resume the stream.
            let left = Event { name: None, ..event };
            let is_needed = self.events.is_empty() || left != Event::default();
            return Ok(if is_needed { Passing::Bytes(left.encode()) } else { Passing::Nothing });
        };
        if !event.is_message() {
            return Ok(Passing::Nothing);
        }
        let bounds = self.exchange.gateway.settings.answer_bounds();
        let document = match Document::parse(data.as_str(), &bounds) {
            Ok(document) => document,
            Err(refusal) => {
                return self.skip(&data, &format!("an event is not valid JSON: {refusal}"));
            }
        };
        let message = match Message::read(&document) {
            Ok(message) => message,
            Err(error) => {
                return self.skip(&data, &format!("an event is not a JSON-RPC message: {error}"));
            }
        };
        if let Some(silence) = &mut self.silence {
            silence.as_mut().reset(Instant::now() + self.exchange.server.link.timeout);
        }
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
            Message::Request { id, method, .. } => {
                let passed = server_request::pass(&self.exchange, &document, &id, method);
                Ok(passed.map_or(Passing::Nothing, |message| {
                    Passing::Bytes(event.encode_with(&message))
                }))
            }
            Message::Notification { method, params } => {
                self.notification(&event, &document, method, params)
            }
        }
    }

    /// Skips an event that is not a message. If an answer is expected and the event may
    /// have been meant as the answer, the stream ends: another answer may never come.
    fn skip(&mut self, data: &str, why: &str) -> Result<Passing, CallFailure> {
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
            None if self.replays => Some(Expected { id: id.clone(), shape: guess_shape(result) }),
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
        let rewriting = Box::pin(async move {
            let result = document.root().get("result").ok_or(Refusal::Internal)?;
            let changed = rewrite::result(&exchange, &expected, &document, result).await?;
            Ok(changed.unwrap_or_else(|| document.into_text()))
        });
        self.rewriting = Some((event, rewriting, is_error));
    }

    fn notification(
        &self,
        event: &Event,
        document: &Document,
        method: &str,
        params: Option<Value<'_>>,
    ) -> Result<Passing, CallFailure> {
        let link = &self.exchange.server.link;
        let named = |name: &str| params.and_then(|params| params.get(name));
        let changed = match method {
            "notifications/tools/list_changed" => {
                link.state.tools.mark_stale();
                None
            }
            "notifications/resources/updated" => {
                let uri = named("uri").and_then(Value::as_str).ok_or("an update of no resource")?;
                if !self.exchange.lets_pass(|policy| policy.permits_resource(uri)) {
                    return Ok(Passing::Nothing);
                }
                None
            }
            "notifications/tasks/status" | "notifications/tasks" => {
                let id = named("taskId").ok_or("news of no task")?;
                let text = id.as_str().ok_or("news of no task")?;
                if !link.state.tools.is_task_of(self.exchange.holder.id(), text) {
                    return Ok(Passing::Nothing);
                }
                let sealed = seal_task(&self.exchange, text).map_err(|_| "no seal")?;
                Some(replace(document, id, &sealed))
            }
            "notifications/cancelled" if !self.exchange.is_modern() => {
                // It cancels a request of the server, which the client knows by our id.
                let id = named("requestId").ok_or("a cancellation of nothing")?;
                let sealed =
                    server_request::seal_request_id(&self.exchange, id.raw()).ok_or("no seal")?;
                Some(replace(document, id, &sealed))
            }
            _ => None,
        };
        Ok(Passing::Bytes(event.encode_with(changed.as_deref().unwrap_or(document.text()))))
    }
}

fn replace(document: &Document, value: Value<'_>, text: &str) -> String {
    let (start, end) = (value.offset(), value.offset() + value.raw().len());
    let whole = document.text();
    let (before, after) =
        (whole.get(..start).unwrap_or_default(), whole.get(end..).unwrap_or_default());
    format!("{before}{}{after}", sluice_wire::edit::quote(text))
}

/// Guesses the kind of a result from its members, or from members that a client may take
/// for them. Rewriting finds out whether it is malformed.
fn guess_shape(result: Option<Value<'_>>) -> Shape {
    let has = |name: &str| {
        let governed = Governed::new(name);
        let is_it = |key: &str| key == name || governed.resembles(key);
        let members = result.and_then(Value::members).into_iter().flatten();
        members.filter_map(|(key, _)| key.as_str()).any(is_it)
    };
    match () {
        () if has("tools") => Shape::Tools,
        () if has("resources") => Shape::Resources,
        () if has("resourceTemplates") => Shape::Templates,
        () if has("prompts") => Shape::Prompts,
        () if has("tasks") => Shape::Tasks,
        () if has("capabilities") => Shape::Introduction,
        () if has("task") || has("taskId") => Shape::Task,
        () => Shape::Plain,
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
}
