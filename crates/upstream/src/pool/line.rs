//! An HTTP/1.1 connection to a server: one request, then its answer.
//!
//! Our own, because it is simpler to drive than a client made for tasks and
//! channels, and that is a third of the cost of a call's way to the server: whoever
//! sends the request polls the connection, and both buffers are used again.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
    thread::{self, ThreadId},
};

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method};
use tokio::io::AsyncWrite as _;
use tokio_util::io::{poll_read_buf, poll_write_buf};

use super::{
    framing::{Framing, Piece},
    head::{self, Head},
};
use crate::connect::Stream;

/// Bytes that are read at first, and once it turns out that there are many.
const SOME: usize = 4 << 10;
const MANY: usize = 64 << 10;
/// Bytes of an answer's head.
const MOST_HEAD: usize = 64 << 10;
/// Bodies up to this size are sent along with the head.
const SMALL: usize = 16 << 10;

/// What is to be sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent<'r> {
    pub(super) method: &'r Method,
    pub(super) path: &'r str,
    pub(super) host: &'r HeaderValue,
    pub(super) headers: &'r HeaderMap,
    pub(super) body: &'r Bytes,
}

/// A connection, and what was read of it but not yet taken.
#[derive(Debug)]
pub(super) struct Line {
    stream: Stream,
    read: BytesMut,
    out: Vec<u8>,
    /// How much is read at once.
    step: usize,
    /// The thread whose runtime waits for it. Used elsewhere, it would have one
    /// thread wake the other for each answer.
    pub(super) home: ThreadId,
}

impl Line {
    pub(super) fn new(stream: Stream) -> Line {
        let (read, out) = (BytesMut::new(), Vec::new());
        Line { stream, read, out, step: SOME, home: thread::current().id() }
    }

    /// Whether a connection that was kept can still be used: it was not closed,
    /// and nothing came that nobody asked for.
    pub(super) fn is_usable(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        self.read.is_empty() && self.poll_read(&mut context).is_pending()
    }

    /// Sends a request and waits for its answer to begin.
    pub(super) async fn send(&mut self, sent: Sent<'_>) -> Result<Head, String> {
        self.out.clear();
        let Sent { method, path, host, headers, body } = sent;
        head::write(&mut self.out, method, path, host, headers, body.len());
        let mut rest = body.clone();
        if rest.len() <= SMALL {
            self.out.extend_from_slice(&rest);
            rest.clear();
        }
        let mut sending = Sending { written: 0, body: rest, searched: 0, failed: None };
        poll_fn(|context| self.poll_answer(context, &mut sending)).await
    }

    fn poll_answer(
        &mut self,
        context: &mut Context<'_>,
        sending: &mut Sending,
    ) -> Poll<Result<Head, String>> {
        if let Poll::Ready(Err(error)) = self.poll_send(context, sending) {
            // It may have answered before it closed the connection.
            sending.failed = Some(error.to_string());
            sending.stop(&self.out);
        }
        loop {
            let found = head::take(&mut self.read, &mut sending.searched);
            if let Some(mut head) = found.map_err(str::to_owned)? {
                // What was not sent whole leaves nobody knowing what comes next.
                head.is_kept &= sending.is_over(&self.out) && sending.failed.is_none();
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
            return Poll::Ready(Err(sending.failed.take().unwrap_or(why)));
        }
    }

    fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        sending: &mut Sending,
    ) -> Poll<io::Result<()>> {
        while !sending.is_over(&self.out) {
            let head = self.out.get(sending.written..).unwrap_or_default();
            let written = ready!(poll_write_buf(
                Pin::new(&mut self.stream),
                context,
                &mut head.chain(&*sending.body)
            ))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let of_head = written.min(head.len());
            sending.written += of_head;
            sending.body.advance(written - of_head);
        }
        Pin::new(&mut self.stream).poll_flush(context)
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

    /// The next piece of an answer's body; `None` at its end.
    pub(super) fn poll_data(
        &mut self,
        context: &mut Context<'_>,
        framing: &mut Framing,
    ) -> Poll<Option<Result<Bytes, String>>> {
        loop {
            match framing.take(&mut self.read) {
                Ok(Piece::Data(data)) => return Poll::Ready(Some(Ok(data))),
                Ok(Piece::End) => return Poll::Ready(None),
                Ok(Piece::Lacking) => {}
                Err(why) => return Poll::Ready(Some(Err(why.to_owned()))),
            }
            if framing.left().is_some_and(|left| left > SOME as u64) {
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

    /// Makes it ready to be kept, with little memory.
    pub(super) fn rest(&mut self) {
        self.step = SOME;
        if self.read.capacity() > SOME {
            self.read = BytesMut::new();
        }
        if self.out.capacity() > SOME {
            self.out = Vec::new();
        }
    }
}

/// How far sending a request has come.
struct Sending {
    /// Bytes of the head, and of a small body with it.
    written: usize,
    /// What is left of a large body.
    body: Bytes,
    /// How much of what was read is known not to end the answer's head.
    searched: usize,
    failed: Option<String>,
}

impl Sending {
    fn is_over(&self, out: &[u8]) -> bool {
        self.written >= out.len() && self.body.is_empty()
    }

    /// Sends no more.
    fn stop(&mut self, out: &[u8]) {
        self.written = out.len();
        self.body.clear();
    }
}
