//! Opens a TCP connection to an allowed address, with TLS if the URL requires it.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, lookup_host},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::address::Reach;

/// The time limit of one connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The time limit of looking up the host of a server that is to be added.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(3);

/// A connection, with or without TLS.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Connects to a server, with TLS if its URL requires it.
pub(crate) async fn connect(reach: &Reach, url: &Uri) -> io::Result<Stream> {
    tokio::time::timeout(CONNECT_TIMEOUT, connect_stream(reach, url)).await.unwrap_or_else(|_| {
        Err(io::Error::new(io::ErrorKind::TimedOut, "no connection within 10 s"))
    })
}

/// Looks up a server's host, without connecting: fails if it has addresses, and none of them is
/// allowed. A host that cannot be looked up now may have an address later.
pub(crate) async fn check_address(reach: &Reach, url: &Uri) -> Result<(), String> {
    let (host, port) = (host(url), port(url));
    let looked_up = tokio::time::timeout(LOOKUP_TIMEOUT, lookup_host((host, port))).await;
    let Ok(Ok(addresses)) = looked_up else { return Ok(()) };
    let mut refused = None;
    for address in addresses {
        if reach.permits(address.ip()) {
            return Ok(());
        }
        refused = refused.or(Some(address.ip()));
    }
    refused.map_or(Ok(()), |ip| Err(describe_refused(host, ip)))
}

fn describe_refused(host: &str, ip: IpAddr) -> String {
    format!("`{host}` leads to {ip}, which `upstreams.allow_private` does not list")
}

fn host(url: &Uri) -> &str {
    url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
}

fn is_tls(url: &Uri) -> bool {
    url.scheme_str() == Some("https")
}

fn port(url: &Uri) -> u16 {
    url.port_u16().unwrap_or(if is_tls(url) { 443 } else { 80 })
}

async fn connect_stream(reach: &Reach, url: &Uri) -> io::Result<Stream> {
    let host = host(url);
    let stream = connect_tcp(reach, host, port(url)).await?;
    stream.set_nodelay(true)?;
    if !is_tls(url) {
        return Ok(Stream::Plain(stream));
    }
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let stream = TlsConnector::from(tls()?).connect(name, stream).await?;
    Ok(Stream::Tls(Box::new(stream)))
}

/// Connects to the first allowed address of the host that answers.
async fn connect_tcp(reach: &Reach, host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, format!("`{host}` has no address"));
    for address in lookup_host((host, port)).await? {
        match one(reach, host, address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn one(reach: &Reach, host: &str, address: SocketAddr) -> io::Result<TcpStream> {
    if !reach.permits(address.ip()) {
        let ip = address.ip();
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, describe_refused(host, ip)));
    }
    TcpStream::connect(address).await
}

/// The trusted certificates: the system's, loaded when first needed.
fn tls() -> io::Result<Arc<ClientConfig>> {
    static TLS: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    TLS.get_or_init(|| trusting_the_system().map(Arc::new)).clone().map_err(io::Error::other)
}

fn trusting_the_system() -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err("this machine has no trusted certificates\nhint: install `ca-certificates`, or name a file in SSL_CERT_FILE".into());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

impl Stream {
    /// Whether HTTP/2 was negotiated.
    pub(crate) fn speaks_h2(&self) -> bool {
        match self {
            Stream::Plain(_) => false,
            Stream::Tls(stream) => stream.get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
        }
    }
}
