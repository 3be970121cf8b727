//! A fake Pharo image with `PharoSmalltalkInteropServer` 3.4: its routes, envelopes
//! and errors, over a handful of classes and expressions.
//!
//! It has the fixtures that the server's own tests look for, and runs no Smalltalk.

mod browse;
mod envelope;
mod evaluate;
mod screen;
mod settings;

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
};

use crate::Reply;
use evaluate::Value;
use settings::Settings;

/// A running fake image. It stops with its runtime, or on request.
#[derive(Debug, Clone)]
pub struct PharoImage {
    pub address: SocketAddr,
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    requests: Mutex<Vec<String>>,
    /// A fixed answer to every request.
    answer: Mutex<Option<Reply>>,
    settings: Mutex<Settings>,
    /// Where `SisGate wait` waits.
    gate: Semaphore,
    under_way: AtomicUsize,
    is_over: watch::Sender<bool>,
    screenshots: PathBuf,
}

impl PharoImage {
    /// Starts one on a free port, which writes screenshots into a folder.
    pub async fn start(screenshots: &Path) -> io::Result<PharoImage> {
        PharoImage::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), screenshots).await
    }

    /// Starts one at an address, as an image does that was restarted.
    pub async fn start_at(address: SocketAddr, screenshots: &Path) -> io::Result<PharoImage> {
        let listener = TcpListener::bind(address).await?;
        let inner = Arc::new(Inner {
            requests: Mutex::default(),
            answer: Mutex::default(),
            settings: Mutex::default(),
            gate: Semaphore::new(0),
            under_way: AtomicUsize::new(0),
            is_over: watch::Sender::new(false),
            screenshots: screenshots.to_owned(),
        });
        let image = PharoImage { address: listener.local_addr()?, inner };
        let own = image.clone();
        tokio::spawn(async move { own.listen(listener).await });
        Ok(image)
    }

    async fn listen(self, listener: TcpListener) {
        let mut is_over = self.inner.is_over.subscribe();
        loop {
            let stream = tokio::select! {
                Ok((stream, _)) = listener.accept() => stream,
                _ = is_over.changed() => return,
                else => return,
            };
            // Answers are small, and are not to wait for each other.
            let _ = stream.set_nodelay(true);
            let (own, mut is_over) = (self.clone(), self.inner.is_over.subscribe());
            let service = service_fn(move |request| {
                let own = own.clone();
                async move { Ok::<_, Infallible>(own.answer(request).await) }
            });
            tokio::spawn(async move {
                let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::select! {
                    _ = serving => {}
                    _ = is_over.changed() => {}
                }
            });
        }
    }

    /// Ends it: the port closes, and so does every connection.
    pub fn quit(&self) {
        self.inner.is_over.send_replace(true);
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// All that was asked: the method, the path with its query, and the body.
    pub fn requests(&self) -> Vec<String> {
        self.inner.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many requests wait for their answer.
    pub fn under_way(&self) -> usize {
        self.inner.under_way.load(Ordering::SeqCst)
    }

    /// Lets one `SisGate wait` go on.
    pub fn open_gate(&self) {
        self.inner.gate.add_permits(1);
    }

    /// Answers this whatever is asked, as something else would that listens on
    /// the port; `None` ends it.
    pub fn answer_with(&self, reply: Option<Reply>) {
        *self.inner.answer.lock().unwrap_or_else(PoisonError::into_inner) = reply;
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(http_body_util::Collected::to_bytes);
        let body = String::from_utf8_lossy(&body.unwrap_or_default()).into_owned();
        let asked = format!("{} {} {body}", head.method, head.uri);
        self.note(asked.trim_end());
        if let Some(reply) = self.fixed_answer() {
            let body = reply.pieces.into_iter().flat_map(|(_, piece)| piece).collect::<Vec<_>>();
            let media_type = reply.headers.first().map_or("text/plain", |(_, value)| value);
            return response(reply.status, media_type, body);
        }
        let _under_way = UnderWay::begin(&self.inner.under_way);
        match self.handle(&head.method, &head.uri, &body).await {
            Some(json) => response(200, "application/json;charset=utf-8", json),
            None => response(404, "text/plain", format!("Not Found {}\r\n", head.uri)),
        }
    }

    fn note(&self, asked: &str) {
        let mut requests = self.inner.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.push(asked.to_owned());
    }

    fn fixed_answer(&self) -> Option<Reply> {
        self.inner.answer.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The answer of a route; `None` if there is none.
    async fn handle(&self, method: &Method, uri: &Uri, body: &str) -> Option<String> {
        // A trailing slash leads to the same route, which then no longer is
        // exactly `/eval`.
        let route = uri.path().strip_suffix('/').unwrap_or(uri.path());
        let query = Query::read(uri.query().unwrap_or_default());
        let answered = match (method.as_str(), route) {
            ("POST", "/eval") => {
                let code = envelope::member(body, "code")?;
                self.evaluate(&code).await.map(|value| match value {
                    Value::Json(json) => envelope::success(&json),
                    Value::Unserialisable(class) => envelope::unserialisable(&class, uri.path()),
                })
            }
            ("POST", "/apply-settings") => self.settings().apply(body),
            ("GET", "/get-settings") => {
                Ok(envelope::success(&self.settings().json(&self.inner.screenshots)))
            }
            ("GET", "/read-screen") => screen::read(&query, &self.inner.screenshots),
            ("GET", _) => browse::answer(route, &query)?,
            _ => return None,
        };
        Some(answered.unwrap_or_else(|error| error.json()))
    }

    async fn evaluate(&self, code: &str) -> Result<Value, envelope::Raised> {
        if let Some(rest) = code.strip_prefix("SisGate wait. ") {
            if let Ok(permit) = self.inner.gate.acquire().await {
                permit.forget();
            }
            return evaluate::evaluate(rest);
        }
        if code == "self halt" {
            // A debugger opens in the image, and nobody answers.
            std::future::pending::<()>().await;
        }
        evaluate::evaluate(code)
    }

    fn settings(&self) -> std::sync::MutexGuard<'_, Settings> {
        self.inner.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that waits for its answer; dropped with it, also if its connection
/// is closed.
struct UnderWay<'i>(&'i AtomicUsize);

impl<'i> UnderWay<'i> {
    fn begin(count: &'i AtomicUsize) -> UnderWay<'i> {
        count.fetch_add(1, Ordering::SeqCst);
        UnderWay(count)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The parameters of a query.
#[derive(Debug)]
struct Query(Vec<(String, String)>);

impl Query {
    fn read(query: &str) -> Query {
        Query(url::form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn require(&self, name: &str) -> Result<&str, envelope::Raised> {
        self.get(name).ok_or_else(|| envelope::Raised::missing(name))
    }

    /// A flag that is left out is what `default` says.
    fn flag(&self, name: &str, default: bool) -> bool {
        self.get(name).map_or(default, |value| value.trim().eq_ignore_ascii_case("true"))
    }
}

fn response(status: u16, media_type: &str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Ok(value) = media_type.parse() {
        response.headers_mut().insert(CONTENT_TYPE, value);
    }
    response
}
