//! Serves one connection until it ends, and watches whether it has become useless.

use std::{net::SocketAddr, sync::Arc};

use hyper::{Request, Response, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::Watcher},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::JoinHandle,
};

use super::{Tls, threads::Seat};
use crate::{
    agent_listener::{self, Peer},
    body::ClientBody,
    connections::{Activity, CloseReason, Place, Use, WatchedIo},
    gateway::Inner,
    settings::ClientTimes,
};

/// The maximum size of a request's headers in bytes.
const MOST_HEADERS: usize = 64 << 10;
/// Requests that one HTTP/2 connection may have in progress.
const MOST_STREAMS: u32 = 256;
/// Requests that a client may reset before they are looked at.
const MOST_PENDING_RESETS: usize = 20;
/// Requests that the gateway may have to reset because the client breaks the protocol.
const MOST_FAULTY_STREAMS: usize = 128;

/// A connection that is served on some thread.
pub(super) struct Serving {
    pub(super) gateway: Arc<Inner>,
    pub(super) stream: TcpStream,
    pub(super) address: SocketAddr,
    pub(super) place: Place,
    /// `None` for a health probe, which is answered on the thread that accepts.
    pub(super) seat: Option<Seat>,
    pub(super) watcher: Watcher,
}

impl Serving {
    pub(super) async fn run(self, tls: Option<Tls>) {
        let Serving { gateway, stream, address, place, seat, watcher } = self;
        let peer = Peer { address: address.ip(), is_tls: tls.is_some() };
        let activity = Arc::clone(&place.activity);
        let stream = WatchedIo::new(stream, Arc::clone(&activity));
        let times = gateway.settings.times;
        let served = Served { gateway, peer, usage: place.usage, activity };
        match tls {
            None => served.serve(stream, watcher).await,
            // Boxed, so that unencrypted connections do not reserve memory for it.
            Some(Tls(acceptor)) => {
                Box::pin(async {
                    let accepted = tokio::time::timeout(times.header, acceptor.accept(stream));
                    if let Ok(Ok(stream)) = accepted.await {
                        served.serve(stream, watcher).await;
                    }
                })
                .await;
            }
        }
        drop((place, seat));
    }
}

/// Ends the task that serves a connection when the activity says that the connection is useless.
///
/// This is for a task of its own: polled with the connection, its timer would cost each request
/// several polls.
pub(super) async fn watch(
    mut serving: JoinHandle<()>,
    activity: Arc<Activity>,
    times: ClientTimes,
    address: SocketAddr,
) {
    tokio::select! {
        _ = &mut serving => {}
        reason = activity.until_useless(&times) => {
            note_closed(address, reason);
            serving.abort();
        }
    }
}

pub(super) fn note_closed(address: SocketAddr, reason: CloseReason) {
    tracing::debug!(%address, %reason, "a connection was closed");
}

/// What answers the requests of one connection.
#[derive(Clone)]
struct Served {
    gateway: Arc<Inner>,
    peer: Peer,
    usage: Use,
    activity: Arc<Activity>,
}

impl Served {
    async fn serve(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        watcher: Watcher,
    ) {
        let builder = builder(self.usage, &self.gateway.settings.times);
        let service = service_fn(move |request: Request<Incoming>| {
            // Boxed, so that an idle connection does not reserve memory for it.
            Box::pin(self.clone().answer(request))
        });
        let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
        drop(builder);
        let _ = watcher.watch(connection).await;
    }

    async fn answer(
        self,
        request: Request<Incoming>,
    ) -> Result<Response<ClientBody>, std::convert::Infallible> {
        let mut in_progress = self.activity.begin();
        let answered = match self.usage {
            Use::Everything => agent_listener::answer(self.gateway, request, self.peer).await,
            Use::Probes => agent_listener::answer_probe(&self.gateway, &request),
        };
        in_progress.note_answer(answered.status().is_success());
        Ok(answered.map(|body| body.during(in_progress)))
    }
}

fn builder(usage: Use, times: &ClientTimes) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .keep_alive(usage == Use::Everything)
        .header_read_timeout(times.header)
        .max_buf_size(MOST_HEADERS)
        // Answers are small: copying one costs less than a vectored write.
        .writev(false)
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(MOST_HEADERS).unwrap_or(u32::MAX))
        .max_concurrent_streams(MOST_STREAMS)
        .max_pending_accept_reset_streams(MOST_PENDING_RESETS)
        .max_local_error_reset_streams(MOST_FAULTY_STREAMS);
    builder
}
