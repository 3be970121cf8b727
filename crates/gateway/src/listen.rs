//! Accepting connections, with TLS or without, HTTP/1.1 or 2, and graceful shutdown.

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
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use self::threads::Seat;
pub use self::threads::Threads;
use crate::{
    agent_listener::{self, Peer},
    connections::Slot,
    gateway::Gateway,
};

/// How long a client may take over a handshake, or over the headers of a request.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_mins(1);
/// How long calls that are under way may take to finish at the end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a request's headers.
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

impl Gateway {
    /// Takes connections, to live on these threads, until `end` comes; then lets
    /// calls that are under way finish.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Option<Tls>,
        threads: &Threads,
        end: impl Future<Output = ()>,
    ) {
        let graceful = GracefulShutdown::new();
        let mut sweep = tokio::time::interval(Duration::from_mins(1));
        tokio::pin!(end);
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, address)) => {
                        self.accept(stream, address, tls.clone(), threads, &graceful);
                    },
                    Err(error) => {
                        // Mostly: no descriptors left. Those who leave free some.
                        tracing::warn!(%error, "a connection could not be taken");
                        tokio::time::sleep(Duration::from_millis(50)).await;
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

    fn accept(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        tls: Option<Tls>,
        threads: &Threads,
        graceful: &GracefulShutdown,
    ) {
        let gateway = Arc::clone(&self.inner);
        let Ok(slot) = gateway.connections.acquire() else {
            // There is no room even to read the request.
            tokio::spawn(turn_away(stream));
            return;
        };
        let _ = stream.set_nodelay(true);
        let watcher = graceful.watcher();
        // It is waited for by the runtime it lives on.
        let Ok(stream) = stream.into_std() else { return };
        let (runtime, seat) = threads.seat();
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
                // Boxed, so that connections in the clear need not have room for it.
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
            drop::<(Slot, Seat)>((slot, seat));
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

/// Says that there is no room, without waiting to be asked.
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
    use crate::gateway::Inner;

    const fn is_shared<T: Send + Sync>() {}
    const _: () = is_shared::<Inner>();
}
