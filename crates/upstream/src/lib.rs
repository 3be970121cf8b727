//! One interface to any MCP server: an enum over the crates for each transport.
//!
//! [`client`] is a small MCP client over it. The policy was applied before a request comes here;
//! this crate knows nothing about policies.

pub mod client;

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{Request, Response};
use sluice_builtin::Endpoint;
use sluice_http::{AnswerBody, HttpUpstream, SendError, ServerProtocol};
use sluice_stdio::{OnlyChild, StdioServer};
use sluice_wire::secrets::Secrets;

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
    /// One of the others, whose secrets are removed from what it writes.
    Masked(Arc<MaskedServer>),
}

/// See [`Upstream::mask`].
#[derive(Debug)]
pub struct MaskedServer {
    server: Upstream,
    secrets: Secrets,
    in_answers: bool,
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Upstream::Http(server) => server.fmt(f),
            Upstream::Builtin(server) => server.fmt(f),
            Upstream::Stdio(server) => server.fmt(f),
            Upstream::Only(_) => f.write_str("Only"),
            Upstream::Masked(masked) => masked.server.fmt(f),
        }
    }
}

impl Upstream {
    /// The same server, which notes in this value what its transport learns of its protocol.
    /// Only HTTP has several transports.
    #[must_use]
    pub fn with_protocol(self, protocol: &Arc<ServerProtocol>) -> Upstream {
        match self {
            Upstream::Http(server) => Upstream::Http(server.with_protocol(protocol)),
            Upstream::Builtin(_) | Upstream::Stdio(_) | Upstream::Only(_) => self,
            Upstream::Masked(masked) => {
                let server = masked.server.clone().with_protocol(protocol);
                server.mask(masked.secrets.clone(), masked.in_answers)
            }
        }
    }

    /// The same server, whose secrets are removed from its errors and, if wanted, from its
    /// answers. Everything that the server writes passes here, except the stderr of a
    /// command, which `stdio` treats alike.
    #[must_use]
    pub fn mask(self, secrets: Secrets, in_answers: bool) -> Upstream {
        let server = self.server().clone();
        if secrets.is_empty() {
            return server;
        }
        Upstream::Masked(Arc::new(MaskedServer { server, secrets, in_answers }))
    }

    /// The secrets that are removed from what it writes.
    pub fn secrets(&self) -> Secrets {
        match self {
            Upstream::Masked(masked) => masked.secrets.clone(),
            _ => Secrets::default(),
        }
    }

    /// An error without the secrets of the server.
    #[must_use]
    pub fn mask_error(&self, error: SendError) -> SendError {
        let Upstream::Masked(masked) = self else { return error };
        let text = |why: String| masked.secrets.mask(&why).into_owned();
        match error {
            SendError::NotSent(why) => SendError::NotSent(text(why)),
            SendError::NotStarted(why) => SendError::NotStarted(text(why)),
            SendError::Lost(why) => SendError::Lost(text(why)),
            SendError::BadAnswer(why) => SendError::BadAnswer(text(why)),
        }
    }

    /// The server itself, without the removal of secrets.
    pub fn server(&self) -> &Upstream {
        match self {
            Upstream::Masked(masked) => &masked.server,
            server => server,
        }
    }

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
        match self.server() {
            Upstream::Stdio(server) => server.last_words(),
            Upstream::Only(child) => child.last_words(false),
            _ => None,
        }
    }

    /// The same for the only command of `sluice wrap`, before it is initialized. With several
    /// processes, the error of the request carries the lines of the right one.
    pub fn words_at_start(&self) -> Option<String> {
        match self.server() {
            Upstream::Only(child) => child.last_words(true),
            _ => None,
        }
    }

    async fn send_boxed(
        &self,
        request: Box<Request<Bytes>>,
    ) -> Result<Response<AnswerBody>, SendError> {
        let answered = match self.server() {
            Upstream::Http(server) => server.send(request).await,
            // Boxed, to keep the future of HTTP calls small.
            Upstream::Builtin(server) => Ok(Box::pin(server.answer(*request)).await),
            Upstream::Stdio(server) => Box::pin(server.send(*request)).await,
            Upstream::Only(child) => {
                let (head, body) = request.into_parts();
                Box::pin(child.send(head, body)).await
            }
            // INVARIANT: `mask` never wraps twice.
            Upstream::Masked(_) => Err(SendError::NotSent("there is no server".into())),
        };
        let Upstream::Masked(masked) = self else { return answered };
        let answer = answered.map_err(|error| self.mask_error(error))?;
        Ok(match masked.secrets.answer().filter(|_| masked.in_answers) {
            Some(stream) => answer.map(|body| body.without_secrets(stream)),
            None => answer,
        })
    }
}
