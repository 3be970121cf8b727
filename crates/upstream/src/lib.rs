//! One interface to any MCP server: an enum over the crates for each transport.
//!
//! [`client`] is a small MCP client over it. The policy was applied before a request comes here;
//! this crate knows nothing about policies.

pub mod client;

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{Request, Response};
use sluice_builtin::Endpoint;
use sluice_http::{AnswerBody, HttpUpstream, SendError};
use sluice_stdio::{OnlyChild, StdioServer};

/// A server that requests can be sent to.
#[derive(Clone)]
pub enum Upstream {
    Http(HttpUpstream),
    /// A built-in server, in process.
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

impl Upstream {
    /// Sends one request to the server's own URL. Redirects are returned like any other answer, and
    /// not followed.
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

    /// The same for the only command of `sluice wrap`, before it is initialized. With several
    /// processes, the error of the request carries the lines of the right one.
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
            Upstream::Http(server) => server.send(request).await,
            // Boxed, to keep the future of HTTP calls small.
            Upstream::Builtin(server) => Ok(Box::pin(server.answer(*request)).await),
            Upstream::Stdio(server) => Box::pin(server.send(*request)).await,
            Upstream::Only(child) => {
                let (head, body) = request.into_parts();
                Box::pin(child.send(head, body)).await
            }
        }
    }
}
