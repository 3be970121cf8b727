//! Sending one request to a server, whatever it is behind.

use std::{
    error::Error,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioTimer},
};

use crate::{
    address::Reach,
    builtin::{self, Builtin},
    connect::Connector,
};

/// Connections kept open to one server while nothing uses them.
const IDLE_CONNECTIONS: usize = 256;
/// Bytes read ahead on one connection.
const BUFFER: usize = 64 << 10;
const IDLE_FOR: Duration = Duration::from_mins(1);

/// A server that requests can be sent to.
#[derive(Clone)]
pub enum Upstream {
    Http(Box<HttpUpstream>),
    /// One of ours, in process.
    Builtin(Arc<dyn Builtin>),
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Upstream::Http(server) => server.fmt(f),
            Upstream::Builtin(server) => write!(f, "Builtin({})", server.identity().name),
        }
    }
}

/// A server reached by streamable HTTP.
#[derive(Debug, Clone)]
pub struct HttpUpstream {
    url: Uri,
    client: Client<Connector, Full<Bytes>>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Certainly nothing was sent.
    #[error("no connection: {0}")]
    NotSent(String),
    /// Something may have been.
    #[error("the connection was lost: {0}")]
    Lost(String),
}

/// Why a text is no URL of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no URL of a server: it must be `http://` or `https://`, a host and a path")]
pub struct UrlError(String);

/// What comes back, as it arrives.
#[derive(Debug)]
pub enum AnswerBody {
    Arriving(Incoming),
    Whole(Full<Bytes>),
    /// Made by a task of ours.
    Fed(tokio::sync::mpsc::Receiver<Bytes>),
}

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
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_FOR)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            // Enough for any answer's headers; more would be kept per connection.
            .http1_max_buf_size(BUFFER)
            .build(Connector { reach: Arc::new(reach) });
        Ok(HttpUpstream { url: parsed, client })
    }
}

impl Upstream {
    /// Sends one request; its URL is the server's own. Redirects are answers
    /// like any other and are not followed.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<AnswerBody>, SendError> {
        match self {
            Upstream::Http(server) => server.send(request).await,
            Upstream::Builtin(server) => {
                let answer = builtin::answer(&**server, request).await;
                Ok(answer.map(|body| AnswerBody::Whole(Full::new(body))))
            }
        }
    }
}

impl HttpUpstream {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<AnswerBody>, SendError> {
        let (mut parts, body) = request.into_parts();
        parts.uri = self.url.clone();
        parts.version = http::Version::HTTP_11;
        let request = Request::from_parts(parts, Full::new(body));
        let answer = self.client.request(request).await.map_err(|error| {
            let why = innermost(&error);
            if error.is_connect() { SendError::NotSent(why) } else { SendError::Lost(why) }
        })?;
        Ok(answer.map(AnswerBody::Arriving))
    }
}

/// The cause of causes: the one that says what happened.
fn innermost(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            AnswerBody::Arriving(body) => Pin::new(body).poll_frame(context),
            AnswerBody::Whole(body) => {
                Pin::new(body).poll_frame(context).map_err(|never| match never {})
            }
            AnswerBody::Fed(body) => {
                body.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AnswerBody::Arriving(body) => body.is_end_stream(),
            AnswerBody::Whole(body) => body.is_end_stream(),
            AnswerBody::Fed(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AnswerBody::Arriving(body) => body.size_hint(),
            AnswerBody::Whole(body) => body.size_hint(),
            AnswerBody::Fed(_) => SizeHint::default(),
        }
    }
}
