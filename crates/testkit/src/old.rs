//! A test server of the oldest HTTP transport (HTTP+SSE): its event stream announces
//! the endpoint for messages and carries the answers.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    io,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use tokio::{net::TcpListener, sync::mpsc};

use crate::upstream::{End, Recorded, Reply, Upstream};

type StreamFrame = Result<Frame<Bytes>, io::Error>;
type Responder = dyn Fn(&Recorded) -> Reply + Send + Sync;

/// A running server; its stream is at the URL of its `upstream`.
#[derive(Clone)]
pub struct OldServer {
    /// All recorded requests.
    pub upstream: Upstream,
    streams: Arc<Mutex<BTreeMap<u32, mpsc::UnboundedSender<StreamFrame>>>>,
    responder: Arc<Responder>,
    /// Where messages go, before the number of the stream.
    endpoint: String,
}

impl std::fmt::Debug for OldServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OldServer({})", self.upstream.address)
    }
}

impl OldServer {
    /// Starts one. What `responder` replies to a message goes on the stream: a
    /// JSON body as one event, events as they are; a failure is the answer to
    /// the message itself.
    pub async fn start(
        responder: impl Fn(&Recorded) -> Reply + Send + Sync + 'static,
    ) -> io::Result<OldServer> {
        OldServer::at("/message?session=", responder).await
    }

    /// The same, telling clients another place for messages.
    pub async fn at(
        endpoint: &str,
        responder: impl Fn(&Recorded) -> Reply + Send + Sync + 'static,
    ) -> io::Result<OldServer> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let server = OldServer {
            upstream: Upstream::at(listener.local_addr()?),
            streams: Arc::default(),
            responder: Arc::new(responder),
            endpoint: endpoint.to_owned(),
        };
        let own = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Events are small, and are not to wait for each other.
                let _ = stream.set_nodelay(true);
                let own = own.clone();
                let service = service_fn(move |request| {
                    let own = own.clone();
                    async move { Ok::<_, Infallible>(own.answer(request).await) }
                });
                tokio::spawn(async move {
                    let builder = auto::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(server)
    }

    /// How many streams are open.
    pub fn open_streams(&self) -> usize {
        let Ok(mut streams) = self.streams.lock() else { return 0 };
        streams.retain(|_, stream| !stream.is_closed());
        streams.len()
    }

    /// Says something on all streams, as it is.
    pub fn say(&self, text: &str) {
        let Ok(streams) = self.streams.lock() else { return };
        for stream in streams.values() {
            let _ = stream.send(Ok(Frame::data(Bytes::copy_from_slice(text.as_bytes()))));
        }
    }

    /// Breaks all streams off.
    pub fn break_off(&self) {
        let Ok(mut streams) = self.streams.lock() else { return };
        while let Some((_, stream)) = streams.pop_first() {
            let _ = stream.send(Err(io::Error::other("broken")));
        }
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Response<UnsyncBoxBody<Bytes, io::Error>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map(http_body_util::Collected::to_bytes);
        let request = Recorded {
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            headers: parts.headers,
            body: body.unwrap_or_default(),
        };
        self.upstream.record(request.clone());
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/mcp") => self.stream(),
            ("POST", "/message") => {
                let number = parts.uri.query().and_then(|query| query.rsplit('=').next());
                let number = number.and_then(|number| number.parse().ok()).unwrap_or_default();
                status(self.message(number, &request))
            }
            _ => status(405),
        }
    }

    fn stream(&self) -> Response<UnsyncBoxBody<Bytes, io::Error>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut number = 1;
        if let Ok(mut streams) = self.streams.lock() {
            number = streams.keys().next_back().map_or(1, |last| last + 1);
            streams.insert(number, sender.clone());
        }
        let first = format!("event: endpoint\ndata: {}{number}\n\n", self.endpoint);
        let _ = sender.send(Ok(Frame::data(first.into())));
        drop(sender);
        let frames = futures_util::stream::unfold(receiver, |mut receiver| async move {
            receiver.recv().await.map(|frame| (frame, receiver))
        });
        let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
        let value = http::HeaderValue::from_static("text/event-stream");
        response.headers_mut().insert(http::header::CONTENT_TYPE, value);
        response
    }

    /// Takes a message in; the status it is answered with.
    fn message(&self, number: u32, request: &Recorded) -> u16 {
        let Ok(streams) = self.streams.lock() else { return 500 };
        let Some(stream) = streams.get(&number).filter(|stream| !stream.is_closed()) else {
            return 404;
        };
        let reply = (self.responder)(request);
        if reply.status >= 400 {
            return reply.status;
        }
        let is_events =
            reply.headers.iter().any(|(_, value)| value.starts_with("text/event-stream"));
        for (_, piece) in reply.pieces {
            let text = String::from_utf8_lossy(&piece).into_owned();
            let event = if is_events { text } else { format!("event: message\ndata: {text}\n\n") };
            let _ = stream.send(Ok(Frame::data(event.into())));
        }
        if reply.end == End::Broken {
            let _ = stream.send(Err(io::Error::other("broken")));
        }
        202
    }
}

fn status(code: u16) -> Response<UnsyncBoxBody<Bytes, io::Error>> {
    let body = Full::new(Bytes::from_static(b"Accepted")).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}
