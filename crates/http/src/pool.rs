//! Connection pool of one server.
//!
//! An HTTP/1.1 connection is polled by the request that uses it: a task of its own
//! would cost every request two task switches. An HTTP/2 connection is shared, so it
//! has its own task.

mod buffered_stream;
mod framing;
mod head;

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, Weak},
    task::{Context, Poll, ready},
    thread,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, Version, header};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::{TrySendError, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::time::Instant;

use self::buffered_stream::BufferedStream;
pub use self::{
    framing::{Framing, Piece},
    head::Head,
};
use crate::{BodyError, SendError, address::Reach, connect};

/// The maximum number of idle connections.
const MOST_IDLE: usize = 256;
/// How long an idle connection is kept.
const IDLE_FOR: Duration = Duration::from_mins(1);

/// All connections to one server.
#[derive(Debug)]
pub(crate) struct Pool {
    url: Uri,
    host: HeaderValue,
    reach: Reach,
    kept: Mutex<PoolState>,
}

#[derive(Debug, Default)]
struct PoolState {
    /// The most recently used one is last.
    idle: Vec<Idle>,
    shared: Option<Sender>,
    /// Whether a task closes idle connections.
    is_swept: bool,
}

#[derive(Debug)]
struct Idle {
    line: Box<BufferedStream>,
    since: Instant,
}

type Sender = http2::SendRequest<Full<Bytes>>;

/// How a request is sent.
enum Way {
    Line(Box<BufferedStream>),
    Shared(Sender),
}

/// Why a request failed on one connection.
enum Failed {
    /// The request was certainly not sent.
    Unsent(String),
    Lost(String),
}

impl Pool {
    pub(crate) fn new(url: Uri, reach: Reach) -> Option<Arc<Pool>> {
        let host = HeaderValue::from_str(url.authority()?.as_str()).ok()?;
        Some(Arc::new(Pool { url, host, reach, kept: Mutex::default() }))
    }

    /// Fails if connections to the server would be refused.
    pub(crate) async fn check_address(&self) -> Result<(), String> {
        connect::check_address(&self.reach, &self.url).await
    }

    pub(crate) fn url(&self) -> &Uri {
        &self.url
    }

    /// Sends a request to the server's URL.
    pub(crate) async fn send(
        self: &Arc<Self>,
        request: &Request<Bytes>,
    ) -> Result<Response<Arriving>, SendError> {
        self.send_to(None, request).await
    }

    /// Sends a request on an idle or a new connection; to another URL of the same origin, if one is
    /// given.
    pub(crate) async fn send_to(
        self: &Arc<Self>,
        other: Option<&Uri>,
        request: &Request<Bytes>,
    ) -> Result<Response<Arriving>, SendError> {
        let url = other.unwrap_or(&self.url);
        // An idle connection may turn out to be closed; then another one is tried.
        loop {
            let kept = self.take_kept();
            let is_new = kept.is_none();
            let way = match kept {
                Some(way) => way,
                None => Box::pin(self.connect()).await.map_err(SendError::NotSent)?,
            };
            let sent = match way {
                Way::Line(line) => self.send_by(line, url, request).await,
                Way::Shared(sender) => Box::pin(send_shared(sender, url, request)).await,
            };
            match sent {
                Ok(answer) => return Ok(answer),
                Err(Failed::Unsent(_)) if !is_new => {}
                Err(Failed::Unsent(why)) => return Err(SendError::NotSent(why)),
                Err(Failed::Lost(why)) => return Err(SendError::Lost(why)),
            }
        }
    }

    fn take_kept(&self) -> Option<Way> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = kept.shared.take_if(|shared| shared.is_closed()) {
            drop(shared);
        }
        if let Some(shared) = &kept.shared {
            return Some(Way::Shared(shared.clone()));
        }
        let here = thread::current().id();
        let last = kept.idle.iter().rposition(|idle| idle.line.home == here)?;
        Some(Way::Line(kept.idle.remove(last).line))
    }

    async fn connect(&self) -> Result<Way, String> {
        let stream =
            connect::connect(&self.reach, &self.url).await.map_err(|error| error.to_string())?;
        if !stream.speaks_h2() {
            return Ok(Way::Line(Box::new(BufferedStream::new(stream))));
        }
        let made = http2::Builder::new(TokioExecutor::new()).handshake(TokioIo::new(stream)).await;
        let (sender, connection) = made.map_err(|error| innermost(&error))?;
        tokio::spawn(connection);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.shared = Some(sender.clone());
        Ok(Way::Shared(sender))
    }

    async fn send_by(
        self: &Arc<Self>,
        mut line: Box<BufferedStream>,
        url: &Uri,
        request: &Request<Bytes>,
    ) -> Result<Response<Arriving>, Failed> {
        if !line.is_usable() {
            return Err(Failed::Unsent("it was closed".into()));
        }
        let head = line.send(url, &self.host, request).await.map_err(Failed::Lost)?;
        let pool = head.is_kept.then(|| Arc::clone(self));
        let mut body = ByLine { framing: head.framing, line: Some(line), pool };
        if body.framing == Framing::Ended {
            body.release();
        }
        let mut answer = Response::new(Arriving::ByLine(body));
        (*answer.status_mut(), *answer.headers_mut()) = (head.status, head.headers);
        Ok(answer)
    }

    /// Returns a connection to the pool after its answer has ended.
    fn keep(self: &Arc<Self>, mut line: Box<BufferedStream>) {
        if !line.comes_to_rest() {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.idle.len() >= MOST_IDLE {
            kept.idle.remove(0);
        }
        kept.idle.push(Idle { line, since: Instant::now() });
        if !kept.is_swept {
            kept.is_swept = true;
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }

    /// Closes connections that were idle for too long; returns whether any are left.
    fn close_idle(&self) -> bool {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.idle.retain(|idle| idle.since.elapsed() < IDLE_FOR);
        kept.is_swept = !kept.idle.is_empty();
        kept.is_swept
    }
}

/// Sends a request on a shared connection.
async fn send_shared(
    mut sender: Sender,
    url: &Uri,
    request: &Request<Bytes>,
) -> Result<Response<Arriving>, Failed> {
    let mut request = request.clone().map(Full::new);
    request.uri_mut().clone_from(url);
    *request.version_mut() = Version::HTTP_2;
    request.headers_mut().remove(header::HOST);
    let answer = sender.try_send_request(request).await.map_err(send_failure)?;
    Ok(answer.map(Arriving::Shared))
}

/// Closes idle connections periodically, as long as there are any.
async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(IDLE_FOR / 4).await;
        match pool.upgrade() {
            Some(pool) if pool.close_idle() => {}
            _ => return,
        }
    }
}

fn send_failure(error: TrySendError<Request<Full<Bytes>>>) -> Failed {
    let mut error = error;
    let unsent = error.take_message();
    let why = innermost(&error.into_error());
    if unsent.is_some() { Failed::Unsent(why) } else { Failed::Lost(why) }
}

/// The root cause of an error.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// The body of an answer as it arrives, with its connection.
#[derive(Debug)]
pub enum Arriving {
    ByLine(ByLine),
    Shared(Incoming),
}

/// A body on an HTTP/1.1 connection, which is not shared.
#[derive(Debug)]
pub struct ByLine {
    framing: Framing,
    /// `None` once the body has ended.
    line: Option<Box<BufferedStream>>,
    /// The pool to return the connection to, if it can be reused.
    pool: Option<Arc<Pool>>,
}

impl ByLine {
    /// Releases the connection after the body has ended.
    fn release(&mut self) {
        if let (Some(line), Some(pool)) = (self.line.take(), self.pool.take()) {
            pool.keep(line);
        }
    }

    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        let Some(line) = &mut self.line else { return Poll::Ready(None) };
        let data = ready!(line.poll_data(context, &mut self.framing));
        if matches!(data, Some(Err(_))) {
            // After an error, the state of the connection is unknown.
            self.line = None;
        } else if self.framing == Framing::Ended {
            self.release();
        }
        Poll::Ready(data.map(|data| data.map_err(BodyError)))
    }
}

impl Arriving {
    pub(crate) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self {
            Arriving::ByLine(body) => {
                body.poll_data(context).map(|data| data.map(|data| data.map(Frame::data)))
            }
            Arriving::Shared(body) => Pin::new(body).poll_frame(context).map(|frame| {
                frame.map(|frame| frame.map_err(|error| BodyError(innermost(&error))))
            }),
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        match self {
            Arriving::ByLine(body) => body.line.is_none(),
            Arriving::Shared(body) => body.is_end_stream(),
        }
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        match self {
            Arriving::ByLine(body) => {
                body.framing.remaining().map_or_else(SizeHint::new, SizeHint::with_exact)
            }
            Arriving::Shared(body) => body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests;
