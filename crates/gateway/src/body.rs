//! Bodies of responses to clients: whole, or streamed.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use sluice_http::Pieces;
use tokio::sync::mpsc;

/// The stream was cut on purpose: the client has only part of the answer, and can tell
/// from the broken connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer was cut")]
pub(crate) struct Cut;

/// The body of a response to a client.
pub(crate) enum ClientBody {
    Whole(Full<Bytes>),
    Stream(Pin<Box<dyn Body<Data = Bytes, Error = Cut> + Send>>),
}

impl std::fmt::Debug for ClientBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ClientBody::Whole(_) => "Whole(…)",
            ClientBody::Stream(_) => "Stream(…)",
        })
    }
}

impl ClientBody {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> ClientBody {
        ClientBody::Whole(Full::new(bytes.into()))
    }

    pub(crate) fn empty() -> ClientBody {
        ClientBody::whole(Bytes::new())
    }

    /// A stream of pieces that `poll` returns; after an error the connection is cut.
    pub(crate) fn stream(
        poll: impl FnMut(&mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> + Send + Unpin + 'static,
    ) -> ClientBody {
        ClientBody::Stream(Box::pin(Pieces::new(poll)))
    }

    /// A stream of the pieces that a task sends into the channel.
    pub(crate) fn channel(mut receiver: mpsc::Receiver<Result<Bytes, Cut>>) -> ClientBody {
        ClientBody::stream(move |context| receiver.poll_recv(context))
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        match self.get_mut() {
            ClientBody::Whole(body) => {
                Pin::new(body).poll_frame(context).map_err(|never| match never {})
            }
            ClientBody::Stream(body) => body.as_mut().poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ClientBody::Whole(body) => body.is_end_stream(),
            ClientBody::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ClientBody::Whole(body) => body.size_hint(),
            // Never exact: a stream may be cut before its end, so no length is announced.
            ClientBody::Stream(_) => SizeHint::default(),
        }
    }
}
