//! One message sent to an old server, and the answer made of what it says.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full};
use sluice_wire::{
    edit::quoted,
    json::{Bounds, Document},
    mcp::Revision,
    rpc::{Id, Message},
};
use tokio::sync::mpsc;

use super::{
    session::Session,
    switchboard::{Refused, Said, progress_token},
};
use crate::{AnswerBody, BodyError, HttpUpstream, SendError};

/// How long a message whose stream broke is waited for: if it was refused, it was
/// certainly not taken.
const LAST_WORD: Duration = Duration::from_secs(1);

/// A message on its way, as far as it matters here.
pub(super) struct Outgoing {
    request: Request<Bytes>,
    /// None of what has no answer.
    id: Option<Id>,
    token: Option<String>,
    is_hello: bool,
}

impl Outgoing {
    /// Reads what is to be sent, or answers that it cannot be.
    pub(super) fn read(request: Request<Bytes>) -> Result<Outgoing, Response<AnswerBody>> {
        let bounds = Bounds {
            bytes: usize::MAX,
            string: usize::MAX,
            members: usize::MAX,
            nodes: usize::MAX,
            ..Bounds::default()
        };
        let document = Document::parse(request.body().to_vec(), &bounds)
            .map_err(|_| failure(StatusCode::BAD_REQUEST, None, -32700, "this is no JSON"))?;
        let message = Message::read(&document)
            .map_err(|error| failure(StatusCode::BAD_REQUEST, None, -32600, &error.to_string()))?;
        let (id, token, is_hello) = match message {
            Message::Request { id, method, params } => {
                (Some(id), progress_token(params), method == "initialize")
            }
            _ => (None, None, false),
        };
        Ok(Outgoing { request, id, token, is_hello })
    }

    pub(super) fn is_request(&self) -> bool {
        self.id.is_some()
    }

    pub(super) fn is_hello(&self) -> bool {
        self.is_hello
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        self.request.headers()
    }

    pub(super) fn into_request(self) -> Request<Bytes> {
        self.request
    }
}

/// One request that waits; dropped, it no longer does.
struct Caller {
    session: Arc<Session>,
    id: Id,
    order: u64,
    said: mpsc::Receiver<Said>,
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.session.switchboard.forget(&self.id, self.order);
    }
}

/// Sends a message, and gives its answer; whether that is a result.
pub(super) async fn carry_out(
    server: &HttpUpstream,
    session: Arc<Session>,
    message: Outgoing,
) -> Result<(Response<AnswerBody>, bool), SendError> {
    let Outgoing { request, id, token, .. } = message;
    let (parts, body) = request.into_parts();
    let Some(id) = id else {
        let posted = session.post(server, &parts.headers, body).await.map_err(lost)??;
        let is_taken = posted.status().is_success();
        return Ok((if is_taken { empty(StatusCode::ACCEPTED) } else { posted }, is_taken));
    };
    let (order, said) = match session.switchboard.wait(&id, token) {
        Ok(waiting) => waiting,
        Err(Refused::Over) => return Ok((empty(StatusCode::NOT_FOUND), false)),
        Err(Refused::Full) => return Ok((empty(StatusCode::SERVICE_UNAVAILABLE), false)),
        Err(Refused::Twice) => {
            let why = "another request with this id is under way";
            return Ok((failure(StatusCode::BAD_REQUEST, Some(&id), -32600, why), false));
        }
    };
    let mut posting = session.post(server, &parts.headers, body);
    let mut caller = Caller { session, id, order, said };
    let first = tokio::select! {
        biased;
        first = caller.said.recv() => first,
        posted = &mut posting => {
            let posted = posted.map_err(lost)??;
            if !posted.status().is_success() {
                return Ok((posted, false));
            }
            return caller.answer().await;
        }
    };
    if matches!(first, None | Some(Said::Broken(_)))
        && let Ok(Ok(Ok(posted))) = tokio::time::timeout(LAST_WORD, posting).await
        && !posted.status().is_success()
    {
        // The session was gone before the message came.
        return Ok((posted, false));
    }
    caller.begun_by(first)
}

impl Caller {
    /// The answer, once it has begun; whether it is a result.
    async fn answer(mut self) -> Result<(Response<AnswerBody>, bool), SendError> {
        let first = self.said.recv().await;
        self.begun_by(first)
    }

    fn begun_by(self, first: Option<Said>) -> Result<(Response<AnswerBody>, bool), SendError> {
        match first {
            Some(Said::Answer { text, is_failure }) => {
                Ok((json(StatusCode::OK, text), !is_failure))
            }
            Some(Said::Besides(text)) => {
                let first = Some(Said::Besides(text));
                Ok((events(Events { first, caller: Source::Caller(self) }), true))
            }
            Some(Said::Broken(why)) => Err(SendError::Lost(why)),
            None => Err(SendError::Lost("the session ended".into())),
        }
    }
}

fn lost(_: tokio::task::JoinError) -> SendError {
    SendError::Lost("the message could not be sent".into())
}

/// Introduces the gateway itself, in a session that lasts for one request.
pub(super) async fn introduce(
    server: &HttpUpstream,
    session: &Arc<Session>,
    headers: &HeaderMap,
) -> Result<(), SendError> {
    let hello = format!(
        r#"{{"jsonrpc":"2.0","id":"sluicegate-hello","method":"initialize","params":{{"protocolVersion":"{}","capabilities":{{}},"clientInfo":{{"name":"sluicegate","version":"{}"}}}}}}"#,
        Revision::V2025_11_25.name(),
        env!("CARGO_PKG_VERSION")
    );
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned();
    for text in [hello, ready] {
        let mut request = Request::new(Bytes::from(text));
        *request.headers_mut() = headers.clone();
        // What was to be sent has not been: this session was for it alone.
        let not_sent = || SendError::NotSent("the server does not begin a session".into());
        let message = Outgoing::read(request).map_err(|_| not_sent())?;
        let (_, is_taken) =
            carry_out(server, Arc::clone(session), message).await.map_err(|_| not_sent())?;
        if !is_taken {
            return Err(not_sent());
        }
    }
    Ok(())
}

/// What no request waits for.
pub(super) fn listen(session: &Arc<Session>) -> Response<AnswerBody> {
    match session.switchboard.listen() {
        Ok(said) => events(Events { first: None, caller: Source::Listener(said) }),
        Err(_) => empty(StatusCode::NOT_FOUND),
    }
}

/// An event stream made of messages.
struct Events {
    first: Option<Said>,
    caller: Source,
}

enum Source {
    /// Ends with the answer.
    Caller(Caller),
    /// Ends with the session.
    Listener(mpsc::Receiver<Said>),
    Over,
}

impl Events {
    fn poll_said(&mut self, context: &mut Context<'_>) -> Poll<Option<Said>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        match &mut self.caller {
            Source::Caller(caller) => caller
                .said
                .poll_recv(context)
                .map(|said| said.or_else(|| Some(Said::Broken("the session ended".into())))),
            Source::Listener(said) => said.poll_recv(context),
            Source::Over => Poll::Ready(None),
        }
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        this.poll_said(context).map(|said| {
            let said = said?;
            if matches!(said, Said::Answer { .. } | Said::Broken(_)) {
                this.caller = Source::Over;
            }
            Some(said.into_event().map(Frame::data).map_err(BodyError))
        })
    }
}

fn events(events: Events) -> Response<AnswerBody> {
    let mut answer = Response::new(AnswerBody::Made(events.boxed_unsync()));
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    answer
}

fn json(status: StatusCode, text: String) -> Response<AnswerBody> {
    let mut answer = Response::new(AnswerBody::Whole(Full::new(text.into())));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

fn failure(status: StatusCode, id: Option<&Id>, code: i32, why: &str) -> Response<AnswerBody> {
    let id = id.map_or_else(|| "null".into(), Id::to_json);
    let why = quoted(why);
    json(
        status,
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{why}}}}}"#),
    )
}

pub(super) fn empty(status: StatusCode) -> Response<AnswerBody> {
    let mut answer = Response::new(AnswerBody::Whole(Full::default()));
    *answer.status_mut() = status;
    answer
}

/// What an old server does not have: the modern era, and streams without a session.
pub(super) fn refused(method: &Method) -> Response<AnswerBody> {
    if method == Method::POST {
        let why = "this server speaks an older revision: initialize";
        return failure(StatusCode::BAD_REQUEST, None, -32601, why);
    }
    empty(StatusCode::METHOD_NOT_ALLOWED)
}
