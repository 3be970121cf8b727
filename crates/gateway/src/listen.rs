//! Accepting connections, with TLS or without, HTTP/1.1 or 2, and graceful shutdown.

mod connection;
mod probe;
mod threads;
mod tls;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use hyper_util::server::graceful::GracefulShutdown;
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Handle,
    task::JoinSet,
    time::timeout,
};

use self::connection::{Serving, note_closed};
pub(crate) use self::threads::Load;
pub use self::{
    threads::{Commits, Threads},
    tls::{Tls, TlsError},
};
use crate::{connections::Place, gateway::Gateway};

/// How long calls in progress may take to finish at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a connection is kept to tell the client that there is no place for it.
const TURN_AWAY_TIMEOUT: Duration = Duration::from_secs(1);

/// An accepted connection, with its reserved place.
struct Arrival {
    stream: TcpStream,
    address: SocketAddr,
    place: Place,
    /// Whether it is a health probe, which is answered on this thread.
    is_probe: bool,
}

impl Gateway {
    /// Accepts connections and distributes them to these threads until `end` completes;
    /// then lets calls in progress finish. Health probes are served on the current
    /// thread.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Option<Tls>,
        threads: &Threads,
        end: impl Future<Output = ()>,
    ) {
        let graceful = GracefulShutdown::new();
        let mut arrivals = JoinSet::new();
        let mut sweep = tokio::time::interval(sluice_listener::SWEEP);
        tokio::pin!(end);
        loop {
            tokio::select! {
                accepted = self.accept(&listener) => match accepted {
                    Ok((stream, address)) => {
                        self.admit(stream, address, tls.is_some(), &mut arrivals);
                    },
                    Err(error) => {
                        // Usually all descriptors are in use; connections that close free
                        // some.
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
                Some(arrived) = arrivals.join_next() => {
                    if let Ok(Some(arrival)) = arrived {
                        self.take(arrival, tls.clone(), threads, &graceful);
                    }
                },
                _ = sweep.tick() => {
                    let now = self.inner.settings.clock.now().as_millis();
                    self.inner.record_failures(self.inner.failures.sweep(now), None);
                    let gateway = self.clone();
                    tokio::spawn(async move { gateway.store_uses().await });
                },
                () = &mut end => break,
            }
        }
        drop(listener);
        self.inner.config.close();
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, graceful.shutdown()).await.is_err() {
            tracing::warn!("some calls did not finish in time and were cut");
        }
        self.inner.record_failures(self.inner.failures.finish(), None);
        self.store_uses().await;
    }

    async fn accept(&self, listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
        self.inner.connections.until_closed().await;
        listener.accept().await
    }

    /// Waits for the first bytes of a new connection, if there is a place for it.
    fn admit(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        is_tls: bool,
        arrivals: &mut JoinSet<Option<Arrival>>,
    ) {
        let Some(place) = self.inner.connections.admit(address.ip()) else {
            // There is no place even to read the request.
            tokio::spawn(turn_away(stream));
            return;
        };
        let _ = stream.set_nodelay(true);
        let patience = self.inner.settings.times.first_byte;
        arrivals.spawn(async move {
            let is_probe = if is_tls {
                false
            } else {
                tokio::select! {
                    began = timeout(patience, probe::begins_with_probe(&stream)) => began.ok()?,
                    reason = place.activity.until_evicted() => {
                        note_closed(address, reason);
                        return None;
                    }
                }
            };
            Some(Arrival { stream, address, place, is_probe })
        });
    }

    fn take(
        &self,
        arrival: Arrival,
        tls: Option<Tls>,
        threads: &Threads,
        graceful: &GracefulShutdown,
    ) {
        let Arrival { stream, address, place, is_probe } = arrival;
        let gateway = Arc::clone(&self.inner);
        let watcher = graceful.watcher();
        // The stream is registered again with the runtime that serves it.
        let Ok(stream) = stream.into_std() else { return };
        let (runtime, seat) = if is_probe {
            (Handle::current(), None)
        } else {
            let (runtime, seat) = threads.seat();
            (runtime, Some(seat))
        };
        let (activity, times) = (Arc::clone(&place.activity), gateway.settings.times);
        let serving = runtime.spawn(async move {
            let Ok(stream) = TcpStream::from_std(stream) else { return };
            Serving { gateway, stream, address, place, seat, watcher }.run(tls).await;
        });
        runtime.spawn(connection::watch(serving, activity, times, address));
    }
}

/// Answers that there is no place, without reading the request.
async fn turn_away(stream: TcpStream) {
    const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    // The text fits into the buffer of a new socket.
    if timeout(TURN_AWAY_TIMEOUT, stream.writable()).await.is_ok() {
        let _ = stream.try_write(FULL);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use sluice_store::{Clock, Key, Store};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };

    use super::{Commits, Threads};
    use crate::{Builtins, Gateway, Settings, gateway::Inner};

    const fn is_shared<T: Send + Sync>() {}
    const _: () = is_shared::<Inner>();

    fn settings() -> Settings {
        Settings {
            callers: sluice_listener::AllowedCallers::default(),
            launch: sluice_stdio::Launch::default(),
            is_loopback: true,
            bounds: sluice_wire::json::Bounds::default(),
            in_flight: 1 << 30,
            answer: 1 << 20,
            reach: sluice_http::address::Reach::default(),
            shares: crate::ShareLimits::NONE,
            hops: crate::Hops::new(sluice_policy::Timestamp::from_millis(0), None),
            descriptors: 100_000,
            times: crate::ClientTimes::default(),
            admin_url: String::new(),
            recorded: Vec::new(),
            key: Key::from_bytes([7; 32]),
            clock: Clock::System,
        }
    }

    /// The thread is blocked as by a commit when the disk stalls.
    #[tokio::test]
    async fn health_probes_are_answered_while_the_call_threads_are_blocked() {
        let store = Store::memory(Clock::System);
        let gateway = Gateway::new(settings(), store, Builtins::new()).unwrap();
        let threads = Threads::start(Commits::WithCalls).unwrap();
        let (runtime, _seat) = threads.seat();
        let (let_go, held_up) = mpsc::channel::<()>();
        runtime.spawn(async move { held_up.recv() });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = gateway.serve(listener, None, &threads, std::future::pending());
        let probing = async {
            for path in ["/healthz", "/readyz"] {
                let mut client = TcpStream::connect(address).await.unwrap();
                let ask = format!("GET {path} HTTP/1.1\r\nhost: any\r\nconnection: close\r\n\r\n");
                client.write_all(ask.as_bytes()).await.unwrap();
                let mut answer = String::new();
                client.read_to_string(&mut answer).await.unwrap();
                assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            }
        };
        tokio::select! {
            () = serving => {}
            () = probing => {}
        }
        drop(let_go);
    }
}
