//! A fake upstream that records every request byte for byte, and answers as a test
//! defines.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use sluice_wire::json::{Bounds, Document, Value};
use tokio::{net::TcpListener, sync::mpsc};

/// One request as it arrived.
#[derive(Debug, Clone)]
pub struct Recorded {
    pub method: String,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Recorded {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header's text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The method of the message, if the body is one.
    pub fn rpc_method(&self) -> Option<String> {
        let document = Document::parse(self.body.to_vec(), &Bounds::default()).ok()?;
        document.root().get("method").and_then(Value::as_str).map(str::to_owned)
    }

    /// The id of the message as JSON, `null` if there is none.
    pub fn rpc_id(&self) -> String {
        let document = Document::parse(self.body.to_vec(), &Bounds::default()).ok();
        let id = document.as_ref().and_then(|document| document.root().get("id"));
        id.map_or_else(|| "null".into(), |id| id.raw().to_owned())
    }
}

/// What to answer.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    /// Pieces of the body, and how long to wait before each.
    pub pieces: Vec<(Duration, Bytes)>,
    /// What follows the pieces, as somebody says it.
    pub live: Option<Live>,
    /// What happens after the last piece.
    pub end: End,
}

/// The rest of a body that is still to be said.
pub type Live = Arc<Mutex<Option<mpsc::UnboundedReceiver<String>>>>;

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// As it should.
    Well,
    /// It never does.
    Never,
    /// The connection breaks.
    Broken,
    /// It does not begin before it is there whole.
    Later,
}

impl Reply {
    /// A whole body of some type.
    pub fn new(status: u16, media_type: &str, body: impl Into<Bytes>) -> Reply {
        Reply {
            status,
            headers: vec![("content-type", media_type.to_owned())],
            pieces: vec![(Duration::ZERO, body.into())],
            live: None,
            end: End::Well,
        }
    }

    /// JSON.
    pub fn json(body: impl Into<Bytes>) -> Reply {
        Reply::new(200, "application/json", body)
    }

    /// A result for the request.
    pub fn result(request: &Recorded, result: &str) -> Reply {
        let id = request.rpc_id();
        Reply::json(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
    }

    /// An event stream.
    pub fn events(body: impl Into<Bytes>) -> Reply {
        Reply::new(200, "text/event-stream", body)
    }

    /// An event stream of messages that are sent through a channel, until its last
    /// sender is dropped.
    pub fn live_stream() -> (Reply, mpsc::UnboundedSender<String>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let live = Some(Arc::new(Mutex::new(Some(receiver))));
        let reply = Reply::events("");
        (Reply { live, pieces: Vec::new(), ..reply }, sender)
    }

    /// A JSON answer that is sent through a channel.
    pub fn later() -> (Reply, mpsc::UnboundedSender<String>) {
        let (reply, sender) = Reply::live_stream();
        (Reply { end: End::Later, live: reply.live, ..Reply::json("") }, sender)
    }

    /// No body.
    pub fn empty(status: u16) -> Reply {
        Reply { status, headers: Vec::new(), pieces: Vec::new(), live: None, end: End::Well }
    }

    /// The same with one more header.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: &str) -> Reply {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// The same with another end.
    #[must_use]
    pub fn ending(mut self, end: End) -> Reply {
        self.end = end;
        self
    }
}

type Responder = dyn Fn(&Recorded) -> Reply + Send + Sync;

/// A running upstream.
#[derive(Clone)]
pub struct Upstream {
    pub address: SocketAddr,
    recorded: Arc<Mutex<Vec<Recorded>>>,
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Upstream({})", self.address)
    }
}

impl Upstream {
    /// Starts one that answers by `responder`; it ends with the runtime.
    pub async fn start(
        responder: impl Fn(&Recorded) -> Reply + Send + Sync + 'static,
    ) -> io::Result<Upstream> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let recorded = Arc::new(Mutex::new(Vec::new()));
        let upstream = Upstream { address, recorded: Arc::clone(&recorded) };
        let responder: Arc<Responder> = Arc::new(responder);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (responder, recorded) = (Arc::clone(&responder), Arc::clone(&recorded));
                let service = service_fn(move |request| {
                    answer(request, Arc::clone(&responder), Arc::clone(&recorded))
                });
                tokio::spawn(async move {
                    let builder = auto::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(upstream)
    }

    /// One that is served elsewhere.
    pub(crate) fn at(address: SocketAddr) -> Upstream {
        Upstream { address, recorded: Arc::default() }
    }

    pub(crate) fn record(&self, request: Recorded) {
        if let Ok(mut recorded) = self.recorded.lock() {
            recorded.push(request);
        }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// All recorded requests.
    pub fn requests(&self) -> Vec<Recorded> {
        self.recorded.lock().map(|recorded| recorded.clone()).unwrap_or_default()
    }

    /// All recorded requests, which are then forgotten.
    pub fn take(&self) -> Vec<Recorded> {
        self.recorded.lock().map(|mut recorded| std::mem::take(&mut *recorded)).unwrap_or_default()
    }

    /// The bodies of the messages of one method that have reached it.
    pub fn bodies_of(&self, method: &str) -> Vec<String> {
        let all = self.requests().into_iter();
        all.filter(|request| request.rpc_method().as_deref() == Some(method))
            .map(|request| request.text())
            .collect()
    }
}

async fn answer(
    request: Request<Incoming>,
    responder: Arc<Responder>,
    recorded: Arc<Mutex<Vec<Recorded>>>,
) -> Result<Response<UnsyncBoxBody<Bytes, io::Error>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let request = Recorded {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        headers: parts.headers,
        body,
    };
    if let Ok(mut recorded) = recorded.lock() {
        recorded.push(request.clone());
    }
    let mut reply = responder(&request);
    if reply.end == End::Later {
        let live = reply.live.take().and_then(|live| live.lock().ok()?.take());
        let said = match live {
            Some(mut live) => live.recv().await.unwrap_or_default(),
            None => String::new(),
        };
        reply = Reply { pieces: vec![(Duration::ZERO, said.into())], end: End::Well, ..reply };
    }
    let mut response = Response::new(body_of(&reply));
    *response.status_mut() =
        StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in reply.headers {
        if let Ok(value) = value.parse() {
            response.headers_mut().append(name, value);
        }
    }
    Ok(response)
}

fn body_of(reply: &Reply) -> UnsyncBoxBody<Bytes, io::Error> {
    if let ([(Duration::ZERO, whole)], End::Well) = (&*reply.pieces, reply.end) {
        return Full::new(whole.clone()).map_err(|never| match never {}).boxed_unsync();
    }
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let (pieces, live, end) = (reply.pieces.clone(), reply.live.clone(), reply.end);
    tokio::spawn(async move {
        for (pause, piece) in pieces {
            tokio::time::sleep(pause).await;
            if sender.send(Ok(Frame::data(piece))).await.is_err() {
                return;
            }
        }
        let live = live.and_then(|live| live.lock().ok()?.take());
        if let Some(mut live) = live {
            loop {
                tokio::select! {
                    () = sender.closed() => return,
                    said = live.recv() => {
                        let Some(said) = said else { break };
                        let event = format!("data: {said}\n\n");
                        if sender.send(Ok(Frame::data(event.into()))).await.is_err() {
                            return;
                        }
                    }
                }
            }
        }
        match end {
            End::Well | End::Later => {}
            End::Never => sender.closed().await,
            End::Broken => drop(sender.send(Err(io::Error::other("broken"))).await),
        }
    });
    let frames = futures_util::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|frame| (frame, receiver))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// A small legacy MCP server: a session, the given tools, and an echo of
/// whatever is called.
pub fn mcp_server(tools: &'static str) -> impl Fn(&Recorded) -> Reply + Send + Sync + 'static {
    move |request| {
        match (request.method.as_str(), request.rpc_method().as_deref()) {
        ("DELETE", _) => Reply::empty(200),
        ("GET", _) => Reply::empty(405),
        (_, Some("initialize")) => Reply::result(
            request,
            r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"recording","version":"1"}}"#,
        )
        .with_header("mcp-session-id", "upstream-session"),
        (_, Some("tools/list")) => Reply::result(request, &format!(r#"{{"tools":{tools}}}"#)),
        (_, Some("tools/call")) => Reply::result(request, r#"{"content":[{"type":"text","text":"done"}]}"#),
        (_, Some(method)) if method.starts_with("notifications/") => Reply::empty(202),
        (_, Some("ping")) => Reply::result(request, "{}"),
        (_, Some("server/discover")) => Reply::new(
            400,
            "application/json",
            format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32000,"message":"not initialized"}}}}"#, request.rpc_id()),
        ),
        _ => {
            let id = request.rpc_id();
            Reply::json(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"unknown"}}}}"#))
        }
    }
    }
}
