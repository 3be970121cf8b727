//! Accepting connections, and graceful shutdown.

use std::{
    net::SocketAddr,
    sync::{Arc, LazyLock},
    time::Duration,
};

use axum::{Router, body::Body, extract::ConnectInfo};
use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tower::Service as _;

/// How long a client may take to send the headers of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);
/// How long pending requests may take to finish at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// Concurrent connections; further ones wait to be accepted, so that the admin
/// listener cannot use up the file descriptors that agents need.
const MAX_CONNECTIONS: usize = 256;

/// Answers requests until `end` is ready; then lets pending requests finish.
pub(super) async fn serve(
    router: &LazyLock<Router, impl FnOnce() -> Router>,
    listener: TcpListener,
    end: impl Future<Output = ()>,
) {
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    tokio::pin!(end);
    loop {
        tokio::select! {
            (stream, address, place) = accept(&listener, &room) => {
                serve_connection(router, stream, address, place, &graceful);
            }
            () = &mut end => break,
        }
    }
    drop(listener);
    if tokio::time::timeout(SHUTDOWN_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::warn!("some admin requests did not finish in time and were aborted");
    }
}

/// Accepts the next connection, once fewer than the maximum are open.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, Option<OwnedSemaphorePermit>) {
    // The semaphore is never closed.
    let place = Arc::clone(room).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, address)) => return (stream, address, place),
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
    place: Option<OwnedSemaphorePermit>,
    graceful: &GracefulShutdown,
) {
    let router = router.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(address));
        router.clone().call(request.map(Body::new))
    });
    // HTTP/1.1 only: the header timeout does not cover detecting the version.
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    let watched = graceful.watch(connection);
    tokio::spawn(async move {
        let _ = watched.await;
        drop(place);
    });
}
