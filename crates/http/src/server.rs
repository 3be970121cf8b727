//! A server reached over HTTP, and the errors of sending to one.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, Uri};

use crate::{AnswerBody, ServerProtocol, address::Reach, legacy_sse, pool::Pool};

/// A server reached over HTTP. Its transport, streamable HTTP or the older HTTP+SSE, is detected
/// automatically.
#[derive(Debug, Clone)]
pub struct HttpUpstream {
    pool: Arc<Pool>,
    pub(crate) protocol: Arc<ServerProtocol>,
    /// The sessions of the older transport.
    pub(crate) legacy: Arc<legacy_sse::LegacySse>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Nothing was sent.
    #[error("no connection: {0}")]
    NotSent(String),
    /// Nothing was sent, because the server's command is not running. The text is for the caller.
    #[error("{0}")]
    NotStarted(String),
    /// The request may have been sent.
    #[error("the connection was lost: {0}")]
    Lost(String),
    /// The request was sent, and the answer breaks the protocol. The text is for the caller, and
    /// contains nothing that the server wrote.
    #[error("{0}")]
    BadAnswer(String),
}

/// A text is not a valid server URL. It is not quoted, because it may contain a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is not the URL of a server: it must be `http://` or `https://`, a host and a path")]
pub struct UrlError;

impl SendError {
    /// The same failure of a later attempt to send a request: an earlier one has reached the
    /// server, which may have acted on it.
    #[must_use]
    pub fn after_sending(self) -> SendError {
        match self {
            SendError::NotSent(why) | SendError::NotStarted(why) => SendError::Lost(why),
            other => other,
        }
    }
}

impl HttpUpstream {
    /// A server at a URL. This does not connect yet.
    pub fn new(url: &str, reach: Reach) -> Result<HttpUpstream, UrlError> {
        let parsed: Uri = url.parse().map_err(|_| UrlError)?;
        let is_plain =
            parsed.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        if !matches!(parsed.scheme_str(), Some("http" | "https")) || !is_plain {
            return Err(UrlError);
        }
        let pool = Pool::new(parsed, reach).ok_or(UrlError)?;
        Ok(HttpUpstream { pool, protocol: Arc::default(), legacy: Arc::default() })
    }

    /// The same server, which notes its transport in this value.
    #[must_use]
    pub fn with_protocol(self, protocol: &Arc<ServerProtocol>) -> HttpUpstream {
        HttpUpstream { protocol: Arc::clone(protocol), ..self }
    }

    /// Sends one request to the server's URL, over the server's transport.
    pub fn send(
        &self,
        request: Box<Request<Bytes>>,
    ) -> impl Future<Output = Result<Response<AnswerBody>, SendError>> + Send {
        legacy_sse::send(self, request)
    }

    /// Fails, with the reason and what to do, if every connection to the server would be refused
    /// because of its address.
    pub async fn check_address(&self) -> Result<(), String> {
        self.pool.check_address().await
    }

    /// The server's URL.
    pub(crate) fn url(&self) -> &Uri {
        self.pool.url()
    }

    /// Sends one request to the server's URL unchanged, whatever the server's transport is.
    pub(crate) async fn send_directly(
        &self,
        request: &Request<Bytes>,
    ) -> Result<Response<AnswerBody>, SendError> {
        let answer = self.pool.send(request).await?;
        Ok(answer.map(|body| AnswerBody::Arriving(Box::new(body))))
    }

    /// Sends one request to another URL of the same origin; only the path and query of `url` are
    /// used. The body is sent as it is, which need not be MCP.
    pub async fn send_to(
        &self,
        url: &Uri,
        request: &Request<Bytes>,
    ) -> Result<Response<AnswerBody>, SendError> {
        let answer = self.pool.send_to(Some(url), request).await?;
        Ok(answer.map(|body| AnswerBody::Arriving(Box::new(body))))
    }
}
