//! Bodies of responses to clients: whole, or streamed.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use sluice_http::PollBody;
use tokio::sync::mpsc::{self, error::TrySendError};

use crate::{budget::Portion, connections::InProgress, shares::Turn};

/// The stream was cut on purpose: the client has only part of the answer, and can tell
/// from the broken connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer was cut")]
pub(crate) struct Cut;

/// The body of a response to a client.
pub(crate) enum ClientBody {
    Whole(Full<Bytes>),
    Stream {
        body: Pin<Box<dyn Body<Data = Bytes, Error = Cut> + Send>>,
        /// The request that is in progress while this body is.
        _request: Option<InProgress>,
        /// Held until the answer of a call has ended.
        turns: Vec<Turn>,
        /// Whether it stays open, and so does not count as a call.
        is_standing: bool,
    },
}

impl std::fmt::Debug for ClientBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ClientBody::Whole(_) => "Whole(…)",
            ClientBody::Stream { .. } => "Stream(…)",
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

    /// Any streaming body.
    pub(crate) fn from_body(
        body: impl Body<Data = Bytes, Error = Cut> + Send + 'static,
    ) -> ClientBody {
        ClientBody::Stream {
            body: Box::pin(body),
            _request: None,
            turns: Vec::new(),
            is_standing: false,
        }
    }

    /// A stream of pieces that `poll` returns; after an error the connection is cut.
    pub(crate) fn stream(
        poll: impl FnMut(&mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> + Send + Unpin + 'static,
    ) -> ClientBody {
        ClientBody::from_body(PollBody::new(poll))
    }

    /// The same body, which holds what it takes of a budget until it is sent.
    pub(crate) fn occupy(self, portion: Portion) -> ClientBody {
        match self {
            ClientBody::Whole(body) => {
                let bytes = body.into_inner().unwrap_or_default();
                ClientBody::whole(portion.attach(bytes))
            }
            stream @ ClientBody::Stream { .. } => stream,
        }
    }

    /// The same body; its request is in progress until the body has ended.
    pub(crate) fn during(self, request: InProgress) -> ClientBody {
        match self {
            // The connection sends it on its own.
            ClientBody::Whole(body) => ClientBody::Whole(body),
            ClientBody::Stream { body, turns, is_standing, .. } => {
                ClientBody::Stream { body, _request: Some(request), turns, is_standing }
            }
        }
    }

    /// A stream of the pieces that a task sends into the channel, for as long as both like.
    pub(crate) fn standing(mut receiver: mpsc::Receiver<Result<Bytes, Cut>>) -> ClientBody {
        let mut body = ClientBody::stream(move |context| receiver.poll_recv(context));
        if let ClientBody::Stream { is_standing, .. } = &mut body {
            *is_standing = true;
        }
        body
    }

    /// A stream that a task of its own reads, so that it also ends if the client takes
    /// nothing for `unread`.
    pub(crate) fn pump(source: impl PieceSource, unread: Duration) -> ClientBody {
        let (sender, mut receiver) = mpsc::channel(1);
        let is_complete = Arc::new(AtomicBool::new(false));
        tokio::spawn(run_pump(source, sender, unread, Arc::clone(&is_complete)));
        ClientBody::stream(move |context| match ready!(receiver.poll_recv(context)) {
            None if !is_complete.load(Ordering::Acquire) => Poll::Ready(Some(Err(Cut))),
            next => Poll::Ready(next),
        })
    }

    /// Holds the turn of a call until its answer has ended.
    pub(crate) fn hold(mut self, turn: Turn) -> ClientBody {
        if let ClientBody::Stream { turns, is_standing: false, .. } = &mut self {
            turns.push(turn);
        }
        self
    }
}

/// The source of a stream that can be given up.
pub(crate) trait PieceSource: Send + 'static {
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>>;

    /// The client takes nothing more.
    fn give_up(&mut self);
}

async fn run_pump(
    mut source: impl PieceSource,
    sender: mpsc::Sender<Result<Bytes, Cut>>,
    unread: Duration,
    is_complete: Arc<AtomicBool>,
) {
    loop {
        let next = tokio::select! {
            biased;
            next = poll_fn(|context| source.poll_piece(context)) => next,
            () = sender.closed() => return,
        };
        let Some(piece) = next else {
            return is_complete.store(true, Ordering::Release);
        };
        match hand_over(&sender, piece, unread).await {
            Taken::Whole => {}
            Taken::Unread => return source.give_up(),
            Taken::Gone => return,
        }
    }
}

/// What became of a piece that was sent to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    Whole,
    /// The client did not take it in time.
    Unread,
    /// The client is gone, or was cut.
    Gone,
}

/// Sends a piece to a client, which must have taken those before within `unread`.
pub(crate) async fn hand_over(
    sender: &mpsc::Sender<Result<Bytes, Cut>>,
    piece: Result<Bytes, Cut>,
    unread: Duration,
) -> Taken {
    let is_cut = piece.is_err();
    let piece = match sender.try_send(piece) {
        Ok(()) if is_cut => return Taken::Gone,
        Ok(()) => return Taken::Whole,
        Err(TrySendError::Closed(_)) => return Taken::Gone,
        Err(TrySendError::Full(piece)) => piece,
    };
    match tokio::time::timeout(unread, sender.send(piece)).await {
        Ok(Ok(())) if !is_cut => Taken::Whole,
        Ok(_) => Taken::Gone,
        Err(_) => Taken::Unread,
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
            ClientBody::Stream { body, .. } => body.as_mut().poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ClientBody::Whole(body) => body.is_end_stream(),
            ClientBody::Stream { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ClientBody::Whole(body) => body.size_hint(),
            // Never exact: a stream may be cut before its end, so no length is announced.
            ClientBody::Stream { .. } => SizeHint::default(),
        }
    }
}
