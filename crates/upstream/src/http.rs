//! Sending one request to a server, whatever it is behind.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{Full, combinators::UnsyncBoxBody};

use crate::{
    address::Reach,
    builtin::Endpoint,
    legacy_sse,
    pool::{Arriving, Pool},
    stdio::{Events, OnlyChild, StdioServer},
};

/// A server that requests can be sent to.
#[derive(Clone)]
pub enum Upstream {
    Http(HttpUpstream),
    /// One of ours, in process.
    Builtin(Endpoint),
    /// A command that is started here.
    Stdio(Arc<StdioServer>),
    /// A command that was started for one client.
    Only(Arc<OnlyChild>),
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Upstream::Http(server) => server.fmt(f),
            Upstream::Builtin(server) => server.fmt(f),
            Upstream::Stdio(server) => server.fmt(f),
            Upstream::Only(_) => f.write_str("Only"),
        }
    }
}

/// A server reached by HTTP: streamable, or the older transport with one event
/// stream, which is told by asking.
#[derive(Debug, Clone)]
pub struct HttpUpstream {
    pool: Arc<Pool>,
    /// What is known of a server that speaks the older transport.
    pub(crate) legacy: Arc<legacy_sse::LegacySse>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Certainly nothing was sent.
    #[error("no connection: {0}")]
    NotSent(String),
    /// Nothing was sent, because the server's command does not run; this is for
    /// the caller to read.
    #[error("{0}")]
    NotStarted(String),
    /// Something may have been.
    #[error("the connection was lost: {0}")]
    Lost(String),
    /// It was sent, and what came back breaks the protocol; this is for the
    /// caller to read, and has nothing in it that the server wrote.
    #[error("{0}")]
    BadAnswer(String),
}

/// Why a text is no URL of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no URL of a server: it must be `http://` or `https://`, a host and a path")]
pub struct UrlError(String);

/// What comes back, as it arrives.
#[derive(Debug)]
pub enum AnswerBody {
    Arriving(Box<Arriving>),
    Whole(Full<Bytes>),
    /// Put together here from what a server says elsewhere.
    Made(UnsyncBoxBody<Bytes, BodyError>),
    /// From a command that runs here.
    Said(Box<Events>),
    /// Made by a task of ours. An empty piece ends it because its client has cancelled
    /// the request.
    Fed(tokio::sync::mpsc::Receiver<Bytes>),
    /// None, because its client has cancelled the request and expects none.
    Cancelled,
}

/// Why an answer is not whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the answer broke off: {0}")]
pub struct BodyError(pub String);

impl HttpUpstream {
    /// A server at a URL. No connection is made yet.
    pub fn new(url: &str, reach: Reach) -> Result<HttpUpstream, UrlError> {
        let failed = || UrlError(url.chars().take(200).collect());
        let parsed: Uri = url.parse().map_err(|_| failed())?;
        let is_plain =
            parsed.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        if !matches!(parsed.scheme_str(), Some("http" | "https")) || !is_plain {
            return Err(failed());
        }
        let pool = Pool::new(parsed, reach).ok_or_else(failed)?;
        Ok(HttpUpstream { pool, legacy: Arc::default() })
    }
}

impl Upstream {
    /// Sends one request; its URL is the server's own. Redirects are answers
    /// like any other and are not followed.
    pub fn send(
        &self,
        request: impl Into<Box<Request<Bytes>>>,
    ) -> impl Future<Output = Result<Response<AnswerBody>, SendError>> + Send {
        self.send_boxed(request.into())
    }

    /// The last stderr lines of a command, as one line. For operators only, because they
    /// may be about calls of any client.
    pub fn last_words(&self) -> Option<String> {
        match self {
            Upstream::Http(_) | Upstream::Builtin(_) => None,
            Upstream::Stdio(server) => server.last_words(),
            Upstream::Only(child) => child.last_words(false),
        }
    }

    /// The same for the only command of `sluice wrap`, before it is initialized. With
    /// several processes, the error of the request carries the lines of the right one.
    pub fn words_at_start(&self) -> Option<String> {
        match self {
            Upstream::Only(child) => child.last_words(true),
            Upstream::Http(_) | Upstream::Builtin(_) | Upstream::Stdio(_) => None,
        }
    }

    async fn send_boxed(
        &self,
        request: Box<Request<Bytes>>,
    ) -> Result<Response<AnswerBody>, SendError> {
        match self {
            Upstream::Http(server) => legacy_sse::send(server, request).await,
            // Boxed, so that calls by HTTP need not have room for them.
            Upstream::Builtin(server) => Ok(Box::pin(server.answer(*request)).await),
            Upstream::Stdio(server) => Box::pin(server.send(*request)).await,
            Upstream::Only(child) => {
                let (head, body) = request.into_parts();
                Box::pin(child.send(head, body)).await
            }
        }
    }
}

impl HttpUpstream {
    /// The server's URL.
    pub(crate) fn url(&self) -> &Uri {
        self.pool.url()
    }

    /// Sends one request to the server's URL as it is.
    pub(crate) async fn send(
        &self,
        request: &Request<Bytes>,
    ) -> Result<Response<AnswerBody>, SendError> {
        let answer = self.pool.send(request).await?;
        Ok(answer.map(|body| AnswerBody::Arriving(Box::new(body))))
    }

    /// Sends one request to another URL at the same place; of that URL only path
    /// and query count. What is sent is not MCP unless the caller makes it so.
    pub async fn send_to(
        &self,
        url: &Uri,
        request: &Request<Bytes>,
    ) -> Result<Response<AnswerBody>, SendError> {
        let answer = self.pool.send_to(Some(url), request).await?;
        Ok(answer.map(|body| AnswerBody::Arriving(Box::new(body))))
    }
}

impl AnswerBody {
    /// What a request is answered that its client has cancelled: an event stream without
    /// an answer, which is how HTTP says nothing.
    pub(crate) fn end_cancelled() -> Response<AnswerBody> {
        let mut answer = Response::new(AnswerBody::Cancelled);
        let media_type = HeaderValue::from_static("text/event-stream");
        answer.headers_mut().insert(header::CONTENT_TYPE, media_type);
        answer
    }

    /// Whether it has ended without an answer because its client has cancelled the request.
    pub fn was_cancelled(&self) -> bool {
        match self {
            AnswerBody::Cancelled => true,
            AnswerBody::Said(events) => events.was_cancelled(),
            _ => false,
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        match this {
            AnswerBody::Arriving(body) => body.poll_frame(context),
            AnswerBody::Made(body) => Pin::new(body).poll_frame(context),
            AnswerBody::Whole(body) => {
                Pin::new(body).poll_frame(context).map_err(|never| match never {})
            }
            AnswerBody::Said(events) => {
                events.poll_next(context).map(|next| next.map(|bytes| Ok(Frame::data(bytes))))
            }
            AnswerBody::Fed(body) => match body.poll_recv(context) {
                Poll::Ready(Some(bytes)) if bytes.is_empty() => {
                    *this = AnswerBody::Cancelled;
                    Poll::Ready(None)
                }
                next => next.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
            },
            AnswerBody::Cancelled => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AnswerBody::Arriving(body) => body.is_end_stream(),
            AnswerBody::Whole(body) => body.is_end_stream(),
            AnswerBody::Made(body) => body.is_end_stream(),
            AnswerBody::Said(_) | AnswerBody::Fed(_) => false,
            AnswerBody::Cancelled => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AnswerBody::Arriving(body) => body.size_hint(),
            AnswerBody::Whole(body) => body.size_hint(),
            AnswerBody::Made(body) => body.size_hint(),
            AnswerBody::Said(_) | AnswerBody::Fed(_) => SizeHint::default(),
            AnswerBody::Cancelled => SizeHint::with_exact(0),
        }
    }
}
