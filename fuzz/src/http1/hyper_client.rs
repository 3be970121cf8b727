//! The same answer as hyper reads it, over a connection in memory.

use std::{
    io,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use hyper::{
    HeaderMap, Request, StatusCode, Version,
    body::Body as _,
    client::conn::http1,
    rt::{Read, ReadBufCursor, Write},
};

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) version: Version,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    pub(super) is_whole: bool,
}

/// The answer of a server that sends `data` and closes the connection; `None` without a head.
pub(super) fn read(data: &[u8]) -> Option<Answer> {
    let context = &mut Context::from_waker(Waker::noop());
    let handshake = pin!(http1::handshake(Server { unsent: data, is_asked: false }));
    let Poll::Ready(Ok((mut sender, connection))) = handshake.poll(context) else {
        panic!("nothing to wait for");
    };
    let mut connection = Connection { polled: pin!(connection), is_open: true };
    let mut sending = pin!(sender.send_request(Request::new(String::new())));
    let answer = loop {
        match sending.as_mut().poll(context) {
            Poll::Ready(answer) => break answer.ok()?,
            Poll::Pending => connection.go_on(context),
        }
    };
    let (head, mut body) = answer.into_parts();
    let (version, status, headers) = (head.version, head.status, head.headers);
    let mut answer = Answer { version, status, headers, body: Vec::new(), is_whole: false };
    loop {
        match Pin::new(&mut body).poll_frame(context) {
            Poll::Pending => connection.go_on(context),
            Poll::Ready(Some(Ok(frame))) => {
                answer.body.extend_from_slice(frame.data_ref().map_or(b"", |data| data));
            }
            Poll::Ready(end) => {
                answer.is_whole = end.is_none();
                return Some(answer);
            }
        }
    }
}

/// The side of the connection that has to be polled.
struct Connection<'c, F> {
    polled: Pin<&'c mut F>,
    is_open: bool,
}

impl<F: Future> Connection<'_, F> {
    fn go_on(&mut self, context: &mut Context<'_>) {
        assert!(self.is_open, "hyper waits for a connection that has ended");
        self.is_open = self.polled.as_mut().poll(context).is_pending();
    }
}

/// The other side: it answers once it is asked.
struct Server<'d> {
    unsent: &'d [u8],
    is_asked: bool,
}

impl Read for Server<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let server = self.get_mut();
        if !server.is_asked {
            return Poll::Pending;
        }
        let (sent, unsent) = server.unsent.split_at(server.unsent.len().min(buffer.remaining()));
        buffer.put_slice(sent);
        server.unsent = unsent;
        Poll::Ready(Ok(()))
    }
}

impl Write for Server<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().is_asked = true;
        Poll::Ready(Ok(data.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
