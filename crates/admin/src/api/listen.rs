//! Taking connections, and ending in good order.

use std::{net::SocketAddr, sync::Arc, time::Duration};

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

/// How long a client may take over the headers of a request.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long requests that are under way may take to finish at the end.
const LAST_REQUESTS: Duration = Duration::from_secs(10);
/// Connections at a time; more wait to be taken. People are few, and agents
/// must not run out of descriptors because of them.
const MOST_CONNECTIONS: usize = 256;

/// Answers requests until `end` comes; then lets those under way finish.
pub(super) async fn serve(router: Router, listener: TcpListener, end: impl Future<Output = ()>) {
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    tokio::pin!(end);
    loop {
        tokio::select! {
            (stream, address, place) = accept(&listener, &room) => {
                take(&router, stream, address, place, &graceful);
            }
            () = &mut end => break,
        }
    }
    drop(listener);
    if tokio::time::timeout(LAST_REQUESTS, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests of people did not finish in time and were cut");
    }
}

/// The next connection, once there is room for one.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, Option<OwnedSemaphorePermit>) {
    // The semaphore is never closed, so that there always is a place.
    let place = Arc::clone(room).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, address)) => return (stream, address, place),
            Err(error) => {
                // Mostly: no descriptors left. Those who leave free some.
                tracing::warn!(%error, "a connection could not be taken");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

fn take(
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
    // One version only: finding out which one a client speaks has no end of time.
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    let watched = graceful.watch(connection);
    tokio::spawn(async move {
        let _ = watched.await;
        drop(place);
    });
}
