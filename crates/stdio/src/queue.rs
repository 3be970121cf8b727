//! Byte-bounded queues: one to the child, with back-pressure, and one per caller. A slow
//! caller delays nobody else.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Bytes that may be queued for the child.
const OUTBOX: u32 = 32 << 20;
/// How long a message waits for room in the queue.
const ROOM_WAIT: Duration = Duration::from_secs(5);
/// The overhead of a message in bytes.
const OVERHEAD: usize = 128;
/// Messages that may be queued for one caller, whatever their size.
const MOST_WAITING: usize = 1024;

/// The queue of lines to a child.
#[derive(Debug)]
pub(super) struct Outbox {
    sender: mpsc::UnboundedSender<(Bytes, OwnedSemaphorePermit)>,
    room: Arc<Semaphore>,
}

pub(super) type Outgoing = mpsc::UnboundedReceiver<(Bytes, OwnedSemaphorePermit)>;

/// The queue to the child is full or closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

impl Outbox {
    pub(super) fn new() -> (Outbox, Outgoing) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(OUTBOX as usize));
        (Outbox { sender, room }, receiver)
    }

    /// Queues a message as soon as there is room.
    pub(super) async fn put(&self, message: String) -> Result<(), Full> {
        let room = Arc::clone(&self.room).acquire_many_owned(cost(&message));
        let permit = tokio::time::timeout(ROOM_WAIT, room).await.map_err(|_| Full)?;
        self.hand_over(message, permit.map_err(|_| Full)?)
    }

    /// Queues a message if there is room now.
    pub(super) fn put_now(&self, message: String) -> Result<(), Full> {
        let permit = Arc::clone(&self.room).try_acquire_many_owned(cost(&message));
        self.hand_over(message, permit.map_err(|_| Full)?)
    }

    fn hand_over(&self, message: String, permit: OwnedSemaphorePermit) -> Result<(), Full> {
        self.sender.send((frame_line(message), permit)).map_err(|_| Full)
    }
}

fn cost(message: &str) -> u32 {
    u32::try_from(message.len() + OVERHEAD).unwrap_or(OUTBOX).min(OUTBOX)
}

/// A message as one line. In JSON, line breaks occur only between tokens, where a space
/// means the same.
fn frame_line(message: String) -> Bytes {
    let mut line = single_line(message).into_bytes();
    line.push(b'\n');
    line.into()
}

/// A JSON text without line breaks.
pub fn single_line(json: String) -> String {
    if memchr::memchr2(b'\n', b'\r', json.as_bytes()).is_none() {
        return json;
    }
    json.replace(['\n', '\r'], " ")
}

/// An event for a waiting caller.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CallEvent {
    /// A notification, or a request of the server.
    Aside(Bytes),
    Answer(Answer),
    /// There will be no answer.
    Failed(Arc<str>),
    /// The client has cancelled the request and expects no answer.
    Cancelled,
}

/// The message that answers a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) message: Bytes,
    /// The code, if it is an error.
    pub(super) code: Option<Box<str>>,
}

/// The sender to a waiting caller.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    sender: mpsc::UnboundedSender<CallEvent>,
    waiting: Arc<Waiting>,
}

/// The receiver of a waiting caller.
#[derive(Debug)]
pub(super) struct Inbox {
    receiver: mpsc::UnboundedReceiver<CallEvent>,
    waiting: Arc<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: AtomicUsize,
    messages: AtomicUsize,
}

impl Waiting {
    /// Notes that a message of this size is no longer queued.
    fn take_back(&self, size: usize) {
        self.bytes.fetch_sub(size, Ordering::Relaxed);
        self.messages.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Both ends of the queue to a waiting caller.
pub(super) fn caller() -> (Caller, Inbox) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let waiting = Arc::new(Waiting::default());
    (Caller { sender, waiting: Arc::clone(&waiting) }, Inbox { receiver, waiting })
}

impl Caller {
    /// Queues an event for the caller; `false` if it is gone or too far behind. The event
    /// is accepted if at most `most` bytes are queued before it.
    pub(super) fn tell(&self, said: CallEvent, most: usize) -> bool {
        let size = said.size();
        let bytes = self.waiting.bytes.fetch_add(size, Ordering::Relaxed);
        let messages = self.waiting.messages.fetch_add(1, Ordering::Relaxed);
        let is_sent = bytes <= most && messages < MOST_WAITING && self.sender.send(said).is_ok();
        if !is_sent {
            // A refused message does not count, so a caller that catches up recovers.
            self.waiting.take_back(size);
        }
        is_sent
    }

    pub(super) fn is_gone(&self) -> bool {
        self.sender.is_closed()
    }
}

impl CallEvent {
    fn size(&self) -> usize {
        match self {
            CallEvent::Aside(message) | CallEvent::Answer(Answer { message, .. }) => message.len(),
            CallEvent::Failed(why) => why.len(),
            CallEvent::Cancelled => 0,
        }
    }
}

impl Inbox {
    pub(super) async fn next(&mut self) -> Option<CallEvent> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<CallEvent>> {
        let next = self.receiver.poll_recv(context);
        if let Poll::Ready(Some(said)) = &next {
            self.waiting.take_back(said.size());
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::{CallEvent, Full, MOST_WAITING, Outbox, caller, single_line};

    #[tokio::test(start_paused = true)]
    async fn the_queue_to_a_child_that_does_not_read_fills_up() {
        let (outbox, mut outgoing) = Outbox::new();
        let large = "x".repeat(20 << 20);
        assert_eq!(outbox.put(large.clone()).await, Ok(()));
        assert_eq!(outbox.put_now(large.clone()), Err(Full));
        assert_eq!(outbox.put(large.clone()).await, Err(Full));
        assert_eq!(outbox.put_now("{}".into()), Ok(()));
        drop(outgoing.recv().await);
        assert_eq!(outbox.put(large).await, Ok(()));
    }

    #[tokio::test]
    async fn events_for_a_caller_that_does_not_read_are_refused() {
        let (to, mut inbox) = caller();
        let aside = |size| CallEvent::Aside(vec![b'x'; size].into());
        assert!(to.tell(aside(100), 10));
        assert!(!to.tell(aside(1), 10));
        let (to, _inbox) = caller();
        assert!((0..MOST_WAITING).all(|_| to.tell(aside(0), 10)));
        assert!(!to.tell(aside(0), 10));
        assert_eq!(inbox.next().await, Some(aside(100)));
    }

    #[tokio::test]
    async fn a_caller_that_has_caught_up_gets_events_again() {
        let (to, mut inbox) = caller();
        let aside = |size| CallEvent::Aside(vec![b'x'; size].into());
        assert!(to.tell(aside(100), 10));
        assert!((0..2 * MOST_WAITING).all(|_| !to.tell(aside(100), 10)));
        assert_eq!(inbox.next().await, Some(aside(100)));
        assert!(to.tell(aside(1), 10));
        assert_eq!(inbox.next().await, Some(aside(1)));
    }

    #[test]
    fn messages_are_written_as_one_line() {
        assert_eq!(single_line("{\r\n \"a\":\n1}".into()), "{   \"a\": 1}");
    }
}
