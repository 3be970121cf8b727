//! Accepting connections, with TLS or without, HTTP/1.1 or 2, and graceful shutdown.

mod probe;
mod threads;

use std::{fs, io, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Handle,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use self::threads::Seat;
pub use self::threads::{Commits, Threads};
use crate::{
    agent_listener::{self, Peer},
    connections::Slot,
    gateway::Gateway,
};

/// How long a client may take for the TLS handshake, or to send a request's headers.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_mins(1);
/// How long calls in progress may take to finish at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of a request's headers in bytes.
const MOST_HEADERS: usize = 64 << 10;

/// A certificate and its key, ready to be used.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls(…)")
    }
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("`{file}` cannot be read: {source}")]
    Read { file: String, source: io::Error },
    #[error("`{file}` has no usable PEM in it: {reason}")]
    Pem { file: String, reason: String },
    #[error("certificate and key do not go together: {0}")]
    Pair(String),
}

impl Tls {
    /// Reads a certificate chain and its key.
    pub fn load(cert: &Path, key: &Path) -> Result<Tls, TlsError> {
        let pem = |file: &Path, reason: String| TlsError::Pem {
            file: file.display().to_string(),
            reason,
        };
        let read = |file: &Path| {
            fs::read(file)
                .map_err(|source| TlsError::Read { file: file.display().to_string(), source })
        };
        let chain = CertificateDer::pem_slice_iter(&read(cert)?)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| pem(cert, error.to_string()))?;
        let secret = PrivateKeyDer::from_pem_slice(&read(key)?)
            .map_err(|error| pem(key, error.to_string()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret))
            .map_err(|error| TlsError::Pair(error.to_string()))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Tls(TlsAcceptor::from(Arc::new(config))))
    }
}

/// An accepted connection, with its reserved place.
struct Arrival {
    stream: TcpStream,
    address: SocketAddr,
    slot: Slot,
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
        let mut sweep = tokio::time::interval(Duration::from_mins(1));
        tokio::pin!(end);
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
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
                _ = sweep.tick() => self.inner.failures.sweep(&self.inner),
                () = &mut end => break,
            }
        }
        drop(listener);
        self.inner.config.close();
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, graceful.shutdown()).await.is_err() {
            tracing::warn!("some calls did not finish in time and were cut");
        }
        self.inner.failures.finish(&self.inner);
    }

    /// Waits for the first bytes of a new connection, if there is room for it.
    fn admit(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        is_tls: bool,
        arrivals: &mut JoinSet<Option<Arrival>>,
    ) {
        let Ok(slot) = self.inner.connections.acquire() else {
            // There is no room even to read the request.
            tokio::spawn(turn_away(stream));
            return;
        };
        let _ = stream.set_nodelay(true);
        arrivals.spawn(async move {
            let is_probe = !is_tls
                && tokio::time::timeout(HANDSHAKE_TIMEOUT, probe::begins_with_probe(&stream))
                    .await
                    .ok()?;
            Some(Arrival { stream, address, slot, is_probe })
        });
    }

    fn take(
        &self,
        arrival: Arrival,
        tls: Option<Tls>,
        threads: &Threads,
        graceful: &GracefulShutdown,
    ) {
        let Arrival { stream, address, slot, is_probe } = arrival;
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
        runtime.spawn(async move {
            let Ok(stream) = TcpStream::from_std(stream) else { return };
            let peer = Peer { address: address.ip(), is_tls: tls.is_some() };
            let service = {
                let gateway = Arc::clone(&gateway);
                service_fn(move |request: Request<Incoming>| {
                    let gateway = Arc::clone(&gateway);
                    // Boxed, so that an idle connection does not reserve memory for it.
                    Box::pin(agent_listener::answer(gateway, request, peer))
                })
            };
            match tls {
                None => {
                    let builder = builder();
                    let connection = builder.serve_connection(TokioIo::new(stream), service);
                    let connection = connection.into_owned();
                    drop(builder);
                    let _ = watcher.watch(connection).await;
                }
                // Boxed, so that unencrypted connections do not reserve memory for it.
                Some(Tls(acceptor)) => {
                    Box::pin(async move {
                        let accepted =
                            tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await;
                        let Ok(Ok(stream)) = accepted else { return };
                        let builder = builder();
                        let connection = builder.serve_connection(TokioIo::new(stream), service);
                        let connection = connection.into_owned();
                        drop(builder);
                        let _ = watcher.watch(connection).await;
                    })
                    .await;
                }
            }
            drop::<(Slot, Option<Seat>)>((slot, seat));
        });
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HANDSHAKE_TIMEOUT)
        .max_buf_size(MOST_HEADERS)
        // Answers are small: copying one costs less than a vectored write.
        .writev(false)
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(MOST_HEADERS).unwrap_or(u32::MAX))
        .max_concurrent_streams(256);
    builder
}

/// Answers that there is no room, without reading the request.
async fn turn_away(stream: TcpStream) {
    const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let mut written = 0;
    while let Some(rest) = FULL.get(written..).filter(|rest| !rest.is_empty()) {
        let _ = stream.writable().await;
        match stream.try_write(rest) {
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
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
            answer: 1 << 20,
            reach: sluice_http::address::Reach::default(),
            descriptors: 100_000,
            people: String::new(),
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
