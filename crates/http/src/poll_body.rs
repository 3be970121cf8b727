//! A body whose chunks come from a poll function.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame};

/// The one adapter from a source of bytes to a body without trailers and of unknown length.
pub struct PollBody<F>(F);

impl<F> fmt::Debug for PollBody<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PollBody(…)")
    }
}

impl<F, E> PollBody<F>
where
    F: FnMut(&mut Context<'_>) -> Poll<Option<Result<Bytes, E>>> + Unpin,
{
    /// The body ends when the function returns `None` or an error.
    pub fn new(poll: F) -> PollBody<F> {
        PollBody(poll)
    }
}

impl<F, E> Body for PollBody<F>
where
    F: FnMut(&mut Context<'_>) -> Poll<Option<Result<Bytes, E>>> + Unpin,
{
    type Data = Bytes;
    type Error = E;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, E>>> {
        (self.get_mut().0)(context).map_ok(Frame::data)
    }
}
