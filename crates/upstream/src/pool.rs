//! Connections to one server, kept for the next request.
//!
//! An HTTP/1.1 connection is driven by whoever uses it: a task of its own would
//! cost every request two switches between tasks. What the connection then hands
//! over wakes nobody, because it is looked for right after the connection was
//! driven: a task that wakes itself is queued again, for another thread to take.
//! An HTTP/2 connection is shared, so it has its task.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, Weak},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, Version, header, uri::PathAndQuery};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::{TrySendError, http1, http2},
};
use hyper_util::rt::TokioExecutor;
use tokio::time::Instant;

use crate::{
    address::Reach,
    connect::{self, Stream},
    http::{BodyError, SendError},
};

/// Connections kept open while nothing uses them.
const MOST_IDLE: usize = 256;
/// How long such a one is kept.
const IDLE_FOR: Duration = Duration::from_mins(1);
/// Bytes read ahead on one connection: enough for any answer's headers; more
/// would be kept per connection.
const BUFFER: usize = 64 << 10;

type Outgoing = Request<Full<Bytes>>;

/// All connections to one server.
#[derive(Debug)]
pub(crate) struct Pool {
    url: Uri,
    /// What of the URL an HTTP/1.1 request says.
    path: Uri,
    host: HeaderValue,
    reach: Reach,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The one used last is last.
    idle: Vec<Idle>,
    shared: Option<http2::SendRequest<Full<Bytes>>>,
    /// Whether somebody looks after connections that nothing uses.
    is_swept: bool,
}

#[derive(Debug)]
struct Idle {
    line: Box<Line>,
    since: Instant,
}

/// An HTTP/1.1 connection.
#[derive(Debug)]
struct Line {
    sender: http1::SendRequest<Full<Bytes>>,
    connection: http1::Connection<Stream, Full<Bytes>>,
}

/// How a request may be sent.
enum Way {
    Line(Box<Line>),
    Shared(http2::SendRequest<Full<Bytes>>),
}

/// Why a request was not answered on one connection.
enum Failed {
    /// It came back unsent.
    Unsent(Box<Outgoing>, String),
    Lost(String),
}

impl Pool {
    pub(crate) fn new(url: Uri, reach: Reach) -> Option<Arc<Pool>> {
        let host = HeaderValue::from_str(url.authority()?.as_str()).ok()?;
        let path = path_of(&url);
        Some(Arc::new(Pool { url, path, host, reach, kept: Mutex::default() }))
    }

    pub(crate) fn url(&self) -> &Uri {
        &self.url
    }

    /// Sends a request to the server's URL.
    pub(crate) async fn send(
        self: &Arc<Self>,
        request: Outgoing,
    ) -> Result<Response<Arriving>, SendError> {
        self.send_to(None, request).await
    }

    /// Sends a request on a connection that is there, or on a new one; to another
    /// URL of the same origin, if one is given.
    pub(crate) async fn send_to(
        self: &Arc<Self>,
        other: Option<&Uri>,
        request: Outgoing,
    ) -> Result<Response<Arriving>, SendError> {
        let mut request = request;
        // A connection that was kept may turn out to be closed: then what was to
        // be sent comes back, and another one is tried.
        loop {
            let kept = self.kept_way();
            let is_new = kept.is_none();
            let way = match kept {
                Some(way) => way,
                None => Box::pin(self.connect()).await.map_err(SendError::NotSent)?,
            };
            match self.send_by(way, other, request).await {
                Ok(answer) => return Ok(answer),
                Err(Failed::Unsent(unsent, _)) if !is_new => request = *unsent,
                Err(Failed::Unsent(_, why)) => return Err(SendError::NotSent(why)),
                Err(Failed::Lost(why)) => return Err(SendError::Lost(why)),
            }
        }
    }

    fn kept_way(&self) -> Option<Way> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = kept.shared.take_if(|shared| shared.is_closed()) {
            drop(shared);
        }
        if let Some(shared) = &kept.shared {
            return Some(Way::Shared(shared.clone()));
        }
        kept.idle.pop().map(|idle| Way::Line(idle.line))
    }

    async fn connect(&self) -> Result<Way, String> {
        let stream =
            connect::connect(&self.reach, &self.url).await.map_err(|error| error.to_string())?;
        if stream.speaks_h2() {
            let made = http2::Builder::new(TokioExecutor::new()).handshake(stream).await;
            let (sender, connection) = made.map_err(|error| innermost(&error))?;
            tokio::spawn(connection);
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.shared = Some(sender.clone());
            return Ok(Way::Shared(sender));
        }
        let made = http1::Builder::new().max_buf_size(BUFFER).handshake(stream).await;
        let (sender, connection) = made.map_err(|error| innermost(&error))?;
        Ok(Way::Line(Box::new(Line { sender, connection })))
    }

    async fn send_by(
        self: &Arc<Self>,
        way: Way,
        other: Option<&Uri>,
        mut request: Outgoing,
    ) -> Result<Response<Arriving>, Failed> {
        match way {
            Way::Line(mut line) => {
                *request.uri_mut() = other.map_or_else(|| self.path.clone(), path_of);
                *request.version_mut() = Version::HTTP_11;
                request.headers_mut().insert(header::HOST, self.host.clone());
                let answer = line.send(request).await?;
                Ok(answer.map(|body| Arriving::by_line(body, line, Arc::clone(self))))
            }
            Way::Shared(mut sender) => {
                request.uri_mut().clone_from(other.unwrap_or(&self.url));
                *request.version_mut() = Version::HTTP_2;
                request.headers_mut().remove(header::HOST);
                let answer = sender.try_send_request(request).await.map_err(failed)?;
                Ok(answer.map(|body| Arriving { body, line: None }))
            }
        }
    }

    /// Keeps a connection whose answer has ended.
    fn keep(self: &Arc<Self>, line: Box<Line>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.idle.len() < MOST_IDLE {
            kept.idle.push(Idle { line, since: Instant::now() });
        }
        if !kept.is_swept {
            kept.is_swept = true;
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }

    /// Closes what was idle for long; whether anything is left.
    fn close_idle(&self) -> bool {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.idle.retain(|idle| idle.since.elapsed() < IDLE_FOR);
        kept.is_swept = !kept.idle.is_empty();
        kept.is_swept
    }
}

/// A URL without its origin.
fn path_of(url: &Uri) -> Uri {
    Uri::from(url.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/")))
}

/// Looks after connections that nothing uses, as long as there are any.
async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(IDLE_FOR / 4).await;
        match pool.upgrade() {
            Some(pool) if pool.close_idle() => {}
            _ => return,
        }
    }
}

impl Line {
    /// Sends a request and waits for its answer to begin.
    async fn send(&mut self, request: Outgoing) -> Result<Response<Incoming>, Failed> {
        // Shows whether the connection was closed meanwhile, and makes it ready.
        let is_closed = self.drive(&mut unheard());
        if is_closed || !self.sender.is_ready() {
            return Err(Failed::Unsent(Box::new(request), "it was closed".into()));
        }
        // What has come is seen however much this task has done already: no other
        // poll would show it.
        let answer = tokio::task::unconstrained(self.sender.try_send_request(request));
        tokio::pin!(answer);
        let connection = &mut self.connection;
        let mut is_over = false;
        std::future::poll_fn(|context| {
            // Once it has ended, whoever waits for an answer has been told.
            is_over = is_over || Pin::new(&mut *connection).poll(context).is_ready();
            answer.as_mut().poll(&mut unheard())
        })
        .await
        .map_err(failed)
    }

    /// Lets the connection go on; whether it has ended.
    fn drive(&mut self, context: &mut Context<'_>) -> bool {
        Pin::new(&mut self.connection).poll(context).is_ready()
    }
}

/// For what is looked at whenever its connection was driven, and so need not say
/// that there is something to see.
fn unheard() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn failed(error: TrySendError<Outgoing>) -> Failed {
    let mut error = error;
    let unsent = error.take_message();
    let why = innermost(&error.into_error());
    match unsent {
        Some(request) => Failed::Unsent(Box::new(request), why),
        None => Failed::Lost(why),
    }
}

/// The cause of causes: the one that says what happened.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// An answer's body as it arrives, and the connection that brings it.
#[derive(Debug)]
pub struct Arriving {
    body: Incoming,
    line: Option<(Box<Line>, Arc<Pool>)>,
}

impl Arriving {
    fn by_line(body: Incoming, line: Box<Line>, pool: Arc<Pool>) -> Arriving {
        let mut arriving = Arriving { body, line: Some((line, pool)) };
        if arriving.body.is_end_stream() {
            arriving.release();
        }
        arriving
    }

    /// The body has ended, so the connection can be used again.
    fn release(&mut self) {
        if let Some((line, pool)) = self.line.take() {
            pool.keep(line);
        }
    }

    pub(crate) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let body = Pin::new(&mut self.body);
        let polled = match &mut self.line {
            None => body.poll_frame(context),
            Some((line, _)) => match body.poll_frame(&mut unheard()) {
                Poll::Ready(frame) => Poll::Ready(frame),
                Poll::Pending => {
                    let is_over = line.drive(context);
                    let polled = Pin::new(&mut self.body).poll_frame(&mut unheard());
                    if is_over && polled.is_pending() {
                        return Poll::Ready(Some(Err(BodyError(
                            "the connection has ended".into(),
                        ))));
                    }
                    polled
                }
            },
        };
        let frame = ready!(polled);
        if frame.is_none() || self.body.is_end_stream() {
            self.release();
        }
        Poll::Ready(frame.map(|frame| frame.map_err(|error| BodyError(innermost(&error)))))
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
