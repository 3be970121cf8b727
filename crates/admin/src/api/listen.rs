//! Accepting connections, and graceful shutdown.

mod connections;
mod written_io;

pub(super) use self::connections::find_network;

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, LazyLock},
    time::Duration,
};

use axum::{Router, body::Body, extract::ConnectInfo};
use http_body_util::BodyExt as _;
use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
};
use tokio::net::{TcpListener, TcpStream};
use tower::Service as _;

use self::{
    connections::{Connections, Place},
    written_io::WrittenIo,
};

/// How long a client may take to send the headers of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);
/// How long pending requests may take to finish at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Answers requests until `end` is ready; then lets pending requests finish.
pub(super) async fn serve(
    router: &LazyLock<Router, impl FnOnce() -> Router>,
    listener: TcpListener,
    end: impl Future<Output = ()>,
) {
    let graceful = GracefulShutdown::new();
    let connections = Connections::default();
    tokio::pin!(end);
    loop {
        tokio::select! {
            (stream, address) = accept(&listener) => {
                // Without a place, it is closed.
                if let Some(place) = connections.admit(address.ip()) {
                    serve_connection(router, stream, address, place, &graceful);
                }
            }
            () = &mut end => break,
        }
    }
    drop(listener);
    if tokio::time::timeout(SHUTDOWN_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::warn!("some admin requests did not finish in time and were aborted");
    }
}

/// Accepts the next connection.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                // Usually the process is out of file descriptors; closing connections frees some.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

fn serve_connection(
    router: &Router,
    stream: TcpStream,
    address: SocketAddr,
    place: Place,
    graceful: &GracefulShutdown,
) {
    let (router, place) = (router.clone(), Arc::new(place));
    let used = Arc::clone(&place);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(address));
        let in_progress = used.begin();
        let answering = router.clone().call(request.map(Body::new));
        async move {
            let answer = answering.await?;
            // It is in progress until the last piece was sent.
            Ok::<_, Infallible>(answer.map(|body| {
                body.map_frame(move |frame| {
                    let _ = &in_progress;
                    frame
                })
            }))
        }
    });
    // HTTP/1.1 only: the header timeout does not cover detecting the version.
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let connection =
        builder.serve_connection(TokioIo::new(WrittenIo::new(stream)), service).into_owned();
    let watched = graceful.watch(connection);
    tokio::spawn(async move {
        tokio::select! {
            _ = watched => {}
            () = place.until_closed() => {}
        }
    });
}
