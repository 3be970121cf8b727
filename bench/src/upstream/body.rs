//! Bodies of answers: a few shared pieces, which are not copied, and streams that stay open.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// A body in at most three pieces.
#[derive(Debug)]
pub(super) struct Reply {
    pieces: [Bytes; 3],
    end: End,
}

/// How a body ends.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The length is known in advance.
    Known,
    /// The body is chunked and ends after the pieces.
    Chunked,
    /// The body stays open until the client disconnects.
    Never,
}

impl Reply {
    /// A body with a known length.
    pub(super) fn whole(pieces: [Bytes; 3]) -> Reply {
        Reply { pieces, end: End::Known }
    }

    /// Its pieces, in order.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        self.pieces.iter()
    }

    /// A chunked body, as servers send event streams.
    pub(super) fn in_chunks(pieces: [Bytes; 3]) -> Reply {
        Reply { pieces, end: End::Chunked }
    }

    /// A stream that starts with `first` and stays open.
    pub(super) fn open(first: Bytes) -> Reply {
        Reply { pieces: [first, Bytes::new(), Bytes::new()], end: End::Never }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.pieces.iter_mut().find(|piece| !piece.is_empty()).map(std::mem::take);
        match piece {
            Some(piece) => Poll::Ready(Some(Ok(Frame::data(piece)))),
            // The connection wakes the task when the client disconnects.
            None if self.end == End::Never => Poll::Pending,
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.end == End::Known && self.pieces.iter().all(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        match self.end {
            End::Known => {
                let length: usize = self.pieces.iter().map(Bytes::len).sum();
                SizeHint::with_exact(length as u64)
            }
            End::Chunked | End::Never => SizeHint::default(),
        }
    }
}
