//! A connection that writes small answers in one piece.
//!
//! An answer's head and its body are apart in memory. The system call that takes
//! several pieces costs more than it costs to put small ones together first.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use hyper::rt::{Read, ReadBufCursor, Write};
use smallvec::SmallVec;

/// Bytes that are put together.
const SMALL: usize = 2_048;

/// See the module.
pub(super) struct InOne<S>(pub(super) S);

impl<S: Read + Unpin> Read for InOne<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: Write + Unpin> Write for InOne<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let stream = Pin::new(&mut self.0);
        if pieces.iter().map(|piece| piece.len()).sum::<usize>() > SMALL {
            return stream.poll_write_vectored(context, pieces);
        }
        let mut whole = SmallVec::<[u8; SMALL]>::new();
        for piece in pieces {
            whole.extend_from_slice(piece);
        }
        stream.poll_write(context, &whole)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::IoSlice,
        pin::Pin,
        task::{Context, Poll, Waker},
    };

    use hyper::rt::Write as _;
    use hyper_util::rt::TokioIo;
    use tokio::io::AsyncReadExt as _;

    use super::{InOne, SMALL};

    #[tokio::test]
    async fn pieces_arrive_in_their_order_small_or_not() {
        for lengths in [[0, 0, 0], [1, 0, 2], [1_000, 1_000, 48], [1_000, 1_000, 49]] {
            let pieces: Vec<Vec<u8>> =
                lengths.iter().zip(1..).map(|(length, byte)| vec![byte; *length]).collect();
            let slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
            let (near, mut far) = tokio::io::duplex(2 * SMALL);
            let mut stream = InOne(TokioIo::new(near));
            let mut context = Context::from_waker(Waker::noop());
            let written = Pin::new(&mut stream).poll_write_vectored(&mut context, &slices);
            let Poll::Ready(Ok(written)) = written else { panic!("{written:?}") };
            drop(stream);
            let mut arrived = Vec::new();
            far.read_to_end(&mut arrived).await.unwrap();
            assert_eq!((written, &arrived), (arrived.len(), &pieces.concat()), "{lengths:?}");
        }
    }
}
