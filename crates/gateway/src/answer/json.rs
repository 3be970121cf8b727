//! Answers that are a single JSON text.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use sluice_http::{AnswerBody, Pace, collect, offload};
use sluice_wire::{answer::AnswerCheck, json::Document, rpc::Message};
use tokio::time::{Instant, Sleep};

use super::{
    Expected, HELD, Passed, Shape, is_discovery, is_modern_error, read_whole, rewrite, unreadable,
};
use crate::{
    body::{ClientBody, Cut, PieceSource},
    exchange::Exchange,
    listen::Load,
    refusal::Refusal,
    response,
    settle::{CallEnd, CallFailure, Settlement},
};

/// Relays a JSON answer: whole if it is small or must be rewritten, else as it arrives.
pub(super) async fn relay(
    exchange: &Arc<Exchange>,
    expected: Expected,
    body: AnswerBody,
    settlement: &mut Option<Settlement>,
) -> Result<Passed, Refusal> {
    if must_be_read_whole(exchange, &expected.shape) {
        let (document, portion) = Box::pin(read_whole(exchange, body)).await?;
        let (response, end) = Box::pin(change(exchange, &expected, document)).await?;
        return Ok((response.map(|body| body.occupy(portion)), end));
    }
    check(exchange, &expected, body, settlement).await
}

/// Whether an answer may have to be rewritten, however long it is.
fn must_be_read_whole(exchange: &Exchange, shape: &Shape) -> bool {
    match shape {
        Shape::Plain => false,
        // Only in the modern era do results contain requests of the server.
        Shape::Call { .. } => exchange.is_modern() && rewrite::restricts_server_requests(exchange),
        _ => true,
    }
}

/// Rewrites an answer that was read whole.
async fn change(
    exchange: &Arc<Exchange>,
    expected: &Expected,
    document: Document,
) -> Result<Passed, Refusal> {
    let message = Message::read(&document)
        .map_err(|_| Refusal::bad_gateway("the answer is not a JSON-RPC response"))?;
    let (is_error, is_result) = match message {
        Message::Response { id, result } if id == expected.id => {
            (result.get("isError").and_then(sluice_wire::json::Value::as_bool), true)
        }
        Message::Failure { id: Some(id), error } if id == expected.id => {
            if is_discovery(exchange, expected) && !is_modern_error(error) {
                return Err(Refusal::LegacyServer);
            }
            (Some(true), false)
        }
        _ => return Err(Refusal::bad_gateway("the answer is to another request")),
    };
    let text = if is_result {
        rewrite::message(exchange, expected, document).await?
    } else {
        document.into_text()
    };
    let response = response::ok(text);
    Ok((response, CallEnd::Answered { is_error }))
}

/// Checks an answer that is passed on unchanged.
async fn check(
    exchange: &Arc<Exchange>,
    expected: &Expected,
    mut body: AnswerBody,
    settlement: &mut Option<Settlement>,
) -> Result<Passed, Refusal> {
    let settings = &exchange.gateway.settings;
    let deadline = Instant::now() + exchange.server.link.timeout;
    let mut checker = AnswerCheck::new(expected.id.clone(), settings.bounds.depth);
    let mut held = VecDeque::new();
    let mut size = 0;
    while size <= HELD {
        let next = tokio::time::timeout_at(deadline, body.frame())
            .await
            .map_err(|_| Refusal::timeout())?;
        let Some(frame) = next else {
            let outline = checker.finish().map_err(|error| bad_answer(&error))?;
            if outline.is_special && matches!(expected.shape, Shape::Call { .. }) {
                let document = Document::parse(join(held).to_vec(), &settings.answer_bounds());
                let document = document
                    .map_err(|refusal| Refusal::bad_gateway(unreadable("the answer", &refusal)))?;
                return Box::pin(change(exchange, expected, document)).await;
            }
            let is_error = if outline.is_failure { Some(true) } else { outline.is_error };
            return Ok((response::ok(join(held)), CallEnd::Answered { is_error }));
        };
        let frame = frame.map_err(|_| Refusal::bad_gateway("the answer did not arrive whole"))?;
        let Ok(data) = frame.into_data() else { continue };
        checker.push(&data).map_err(|error| bad_answer(&error))?;
        size += data.len();
        held.push_back(data);
    }
    if checker.outline().is_special && matches!(expected.shape, Shape::Call { .. }) {
        let rest = Box::pin(read_rest(exchange, held, body, deadline)).await?;
        return Box::pin(change(exchange, expected, rest)).await;
    }
    let stream = JsonStream {
        held,
        body,
        check: checker,
        left: settings.answer.saturating_sub(size),
        may_be_special: !matches!(expected.shape, Shape::Call { .. }),
        deadline: Box::pin(tokio::time::sleep_until(deadline)),
        settlement: settlement.take(),
        pace: Pace::default(),
        _load: Load::of_long_answer(),
    };
    let mut response = response::ok(Bytes::new());
    *response.body_mut() = ClientBody::pump(stream, settings.times.unread);
    Ok((response, CallEnd::Later))
}

/// Reads the rest of an answer that must be rewritten after all.
async fn read_rest(
    exchange: &Exchange,
    held: VecDeque<Bytes>,
    body: AnswerBody,
    deadline: Instant,
) -> Result<Document, Refusal> {
    let settings = &exchange.gateway.settings;
    let mut bytes = join(held).to_vec();
    let left = settings.answer.saturating_sub(bytes.len());
    let rest = tokio::time::timeout_at(deadline, collect(body, left)).await;
    let rest = rest.map_err(|_| Refusal::timeout())?;
    bytes.extend(rest.map_err(|_| Refusal::bad_gateway("the answer did not arrive whole"))?);
    let parsed = offload::parse(bytes, &settings.answer_bounds()).await;
    parsed
        .ok_or(Refusal::Internal)?
        .map_err(|refusal| Refusal::bad_gateway(unreadable("the answer", &refusal)))
}

fn bad_answer(error: &sluice_wire::answer::AnswerError) -> Refusal {
    Refusal::bad_gateway(format!("the answer cannot be passed on: {error}"))
}

fn join(mut pieces: VecDeque<Bytes>) -> Bytes {
    match (pieces.pop_front(), pieces.is_empty()) {
        (Some(only), true) => only,
        (first, _) => {
            let mut all = first.unwrap_or_default().to_vec();
            for piece in pieces {
                all.extend_from_slice(&piece);
            }
            all.into()
        }
    }
}

/// The rest of a long answer, checked as it streams. An error cuts it.
struct JsonStream {
    held: VecDeque<Bytes>,
    body: AnswerBody,
    check: AnswerCheck,
    /// How many more bytes are allowed.
    left: usize,
    /// Whether a result may be passed on that asks for input or begins a task.
    may_be_special: bool,
    deadline: Pin<Box<Sleep>>,
    settlement: Option<Settlement>,
    pace: Pace,
    _load: Load,
}

impl JsonStream {
    fn take(&mut self, data: &Bytes) -> Result<(), CallFailure> {
        self.left = self.left.checked_sub(data.len()).ok_or("the answer is too long")?;
        self.check.push(data).map_err(|error| error.to_string())?;
        if self.check.outline().is_special && !self.may_be_special {
            return Err("a long answer turned out to ask for something".into());
        }
        Ok(())
    }

    fn cut(&mut self, why: &CallFailure) -> Poll<Option<Result<Bytes, Cut>>> {
        if let Some(mut settlement) = self.settlement.take() {
            settlement.fail(why);
        }
        Poll::Ready(Some(Err(Cut)))
    }
}

impl PieceSource for JsonStream {
    fn give_up(&mut self) {
        let _ = self.cut(&CallFailure::Unread);
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        if let Some(data) = self.held.pop_front() {
            return Poll::Ready(Some(Ok(data)));
        }
        if self.deadline.as_mut().poll(context).is_ready() {
            return self.cut(&"the answer did not end in time".into());
        }
        ready!(self.pace.poll_turn(context));
        // Trailers carry nothing here.
        let frame = loop {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        break Some(Ok(data));
                    }
                }
                Some(Err(error)) => break Some(Err(error)),
                None => break None,
            }
        };
        match frame {
            Some(Ok(data)) => match self.take(&data) {
                Ok(()) => {
                    self.pace.note(data.len());
                    Poll::Ready(Some(Ok(data)))
                }
                Err(why) => self.cut(&why),
            },
            Some(Err(_)) => self.cut(&"the answer did not arrive whole".into()),
            None => match self.check.finish() {
                Ok(outline) => {
                    let is_error = if outline.is_failure { Some(true) } else { outline.is_error };
                    if let Some(mut settlement) = self.settlement.take() {
                        settlement.succeed(is_error);
                    }
                    Poll::Ready(None)
                }
                Err(error) => self.cut(&error.to_string().into()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::VecDeque,
        future::poll_fn,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::Poll,
        time::Duration,
    };

    use bytes::Bytes;
    use http_body_util::BodyExt as _;
    use sluice_http::{AnswerBody, Pace, PollBody};
    use sluice_wire::{answer::AnswerCheck, rpc::Id};

    use super::JsonStream;
    use crate::{body::PieceSource as _, listen::Load};

    /// A server that always has more to say, beside another task of the same thread.
    #[tokio::test]
    async fn others_run_while_a_long_answer_is_relayed() {
        const PIECES: usize = 128;
        let piece = Bytes::from(vec![b'x'; 64 << 10]);
        let mut pieces: VecDeque<_> = std::iter::repeat_n(piece, PIECES).collect();
        pieces.push_front(Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"result":{"x":""#));
        pieces.push_back(Bytes::from_static(br#""}}"#));
        let body = PollBody::new(move |_| Poll::Ready(pieces.pop_front().map(Ok)));
        let mut stream = JsonStream {
            held: VecDeque::new(),
            body: AnswerBody::Made(body.boxed_unsync()),
            check: AnswerCheck::new(Id::Integer("1".into()), 64),
            left: usize::MAX,
            may_be_special: true,
            deadline: Box::pin(tokio::time::sleep(Duration::from_mins(1))),
            settlement: None,
            pace: Pace::default(),
            _load: Load::of_long_answer(),
        };
        let turns = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&turns);
        let others = tokio::spawn(async move {
            loop {
                tokio::task::yield_now().await;
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut relayed = 0;
        while let Some(piece) = poll_fn(|context| stream.poll_piece(context)).await {
            relayed += piece.unwrap().len();
        }
        others.abort();
        assert!(relayed > PIECES * (64 << 10));
        let turns = turns.load(Ordering::Relaxed);
        assert!(turns >= PIECES / 4, "others had {turns} turns");
    }
}
