//! A server reached over HTTP, and the errors of sending to one.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, Uri};

use crate::{AnswerBody, address::Reach, legacy_sse, pool::Pool};

/// A server reached over HTTP. Its transport, streamable HTTP or the older HTTP+SSE, is detected
/// automatically.
#[derive(Debug, Clone)]
pub struct HttpUpstream {
    pool: Arc<Pool>,
    /// The state of the older transport.
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

/// Why a text is not a valid server URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no URL of a server: it must be `http://` or `https://`, a host and a path")]
pub struct UrlError(String);

impl HttpUpstream {
    /// A server at a URL. This does not connect yet.
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

    /// Sends one request to the server's URL, over the server's transport.
    pub fn send(
        &self,
        request: Box<Request<Bytes>>,
    ) -> impl Future<Output = Result<Response<AnswerBody>, SendError>> + Send {
        legacy_sse::send(self, request)
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
