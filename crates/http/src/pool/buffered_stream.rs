//! An HTTP/1.1 client connection: one request, then its answer.
//!
//! A client built on tasks and channels needs twice as many instructions per call, so this is our
//! own code: here the sender of the request polls the connection, and both buffers are reused.

use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    task::{Context, Poll, Waker, ready},
    thread::{self, ThreadId},
};

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderValue, Request, Uri};
use tokio::io::AsyncWrite as _;
use tokio_util::io::{poll_read_buf, poll_write_buf};

use super::{
    framing::{Framing, Piece},
    head::{self, Head},
};
use crate::connect::Stream;

/// The initial read size, and the size for large answers.
const SOME: usize = 4 << 10;
const MANY: usize = 64 << 10;
/// The largest head of an answer, in bytes.
const MOST_HEAD: usize = 64 << 10;
/// Bodies up to this size are written together with the head.
const SMALL: usize = 16 << 10;

/// A connection with its read and write buffers.
#[derive(Debug)]
pub(super) struct BufferedStream {
    stream: Stream,
    read: BytesMut,
    /// The current read size.
    step: usize,
    /// The head of a request, followed by a small body.
    out: Vec<u8>,
    /// How many bytes of `out` were written.
    written: usize,
    /// The unsent part of a large body.
    body: Bytes,
    sending: Sending,
    /// The thread whose runtime polls this connection. Use on another thread would cost a
    /// cross-thread wake-up for each answer.
    pub(super) home: ThreadId,
}

/// The progress of sending a request.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Sending {
    Going,
    /// Everything was sent.
    Over,
    Failed(String),
}

impl BufferedStream {
    pub(super) fn new(stream: Stream) -> BufferedStream {
        BufferedStream {
            stream,
            read: BytesMut::new(),
            step: SOME,
            out: Vec::new(),
            written: 0,
            body: Bytes::new(),
            sending: Sending::Over,
            home: thread::current().id(),
        }
    }

    /// Whether an idle connection can still be used: it is not closed, and no unexpected bytes have
    /// arrived.
    pub(super) fn is_usable(&mut self) -> bool {
        // Tokio's task budget must not matter here: with an exhausted budget, the poll would read
        // nothing.
        let look = pin!(tokio::task::unconstrained(poll_fn(|context| self.poll_read(context))));
        look.poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    /// Sends a request and waits for the start of its answer.
    pub(super) async fn send(
        &mut self,
        url: &Uri,
        host: &HeaderValue,
        request: &Request<Bytes>,
    ) -> Result<Head, String> {
        self.out.clear();
        head::write(&mut self.out, url, host, request);
        let body = request.body();
        if body.len() <= SMALL {
            self.out.extend_from_slice(body);
        } else {
            self.body = body.clone();
        }
        (self.written, self.sending) = (0, Sending::Going);
        let mut searched = 0;
        poll_fn(|context| self.poll_answer(context, &mut searched)).await
    }

    /// The bytes before `searched` are known not to contain the end of the answer's head.
    fn poll_answer(
        &mut self,
        context: &mut Context<'_>,
        searched: &mut usize,
    ) -> Poll<Result<Head, String>> {
        self.go_on_sending(context);
        loop {
            let found = Head::take(&mut self.read, searched);
            if let Some(head) = found.map_err(str::to_owned)? {
                return Poll::Ready(Ok(head));
            }
            if self.read.len() > MOST_HEAD {
                return Poll::Ready(Err("its headers are too long".into()));
            }
            let why = match ready!(self.poll_read(context)) {
                Ok(0) => "it was closed before it answered".to_owned(),
                Ok(_) => continue,
                Err(error) => error.to_string(),
            };
            return Poll::Ready(Err(match &self.sending {
                Sending::Failed(error) => error.clone(),
                Sending::Going | Sending::Over => why,
            }));
        }
    }

    /// Sends as much as possible now. A server that stops reading may still have answered, so a
    /// failed write does not stop reading.
    fn go_on_sending(&mut self, context: &mut Context<'_>) {
        if self.sending != Sending::Going {
            return;
        }
        match self.poll_send(context) {
            Poll::Pending => {}
            Poll::Ready(Ok(())) => self.sending = Sending::Over,
            Poll::Ready(Err(error)) => self.sending = Sending::Failed(error.to_string()),
        }
    }

    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let head = self.out.get(self.written..).unwrap_or_default();
            let mut stream = Pin::new(&mut self.stream);
            let written = ready!(match (head.is_empty(), self.body.is_empty()) {
                (true, true) => return stream.poll_flush(context),
                (_, true) => stream.as_mut().poll_write(context, head),
                (_, false) => poll_write_buf(stream, context, &mut head.chain(&*self.body)),
            })?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let of_head = written.min(head.len());
            self.written += of_head;
            self.body.advance(written - of_head);
            if self.body.is_empty() {
                // An empty rest would keep the whole body in memory, as long as the
                // connection is idle.
                self.body = Bytes::new();
            }
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.read.reserve(self.step);
        let room = self.read.capacity() - self.read.len();
        let read = ready!(poll_read_buf(Pin::new(&mut self.stream), context, &mut self.read));
        if read.as_ref().is_ok_and(|count| *count == room) {
            self.step = (self.step * 2).min(MANY);
        }
        Poll::Ready(read)
    }

    /// The next chunk of an answer's body; `None` at its end.
    pub(super) fn poll_data(
        &mut self,
        context: &mut Context<'_>,
        framing: &mut Framing,
    ) -> Poll<Option<Result<Bytes, String>>> {
        // An answer may start before the request has been sent completely.
        self.go_on_sending(context);
        loop {
            match framing.take(&mut self.read) {
                Ok(Piece::Data(data)) => return Poll::Ready(Some(Ok(data))),
                Ok(Piece::End) => return Poll::Ready(None),
                Ok(Piece::Lacking) => {}
                Err(why) => return Poll::Ready(Some(Err(why.to_owned()))),
            }
            if framing.remaining().is_some_and(|left| left > SOME as u64) {
                self.step = MANY;
            }
            match ready!(self.poll_read(context)) {
                Ok(0) if framing.close() => return Poll::Ready(None),
                Ok(0) => return Poll::Ready(Some(Err("the connection has ended".into()))),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Some(Err(error.to_string()))),
            }
        }
    }

    /// Prepares the connection for the pool and shrinks its buffers. Returns whether it can be
    /// reused: the request was sent completely, and no unexpected bytes have arrived.
    pub(super) fn comes_to_rest(&mut self) -> bool {
        if self.sending != Sending::Over || !self.read.is_empty() {
            return false;
        }
        self.step = SOME;
        if self.read.capacity() > SOME {
            self.read = BytesMut::new();
        }
        if self.out.capacity() > SOME {
            self.out = Vec::new();
        }
        true
    }
}
