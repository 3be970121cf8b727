//! Asks the provider over HTTP: one connection for each request, because sign-ins are rare.
//!
//! Redirects are not followed. Answers are bounded in size and time.

use std::{io, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::JoinSet,
};
use tokio_rustls::TlsConnector;
use url::{Host, Url};
use zeroize::Zeroizing;

use crate::{ConfigError, Endpoint, ProviderConfig, ProviderError, claims::Claims};

/// The longest answer.
const MOST_BYTES: usize = 512 * 1024;

/// Connects to the provider.
pub(crate) struct HttpClient {
    /// Absent if the provider is reached without TLS.
    tls: Option<TlsConnector>,
    /// The time limit of one request, from the connection to the end of the answer.
    timeout: Duration,
}

/// A request to an endpoint.
pub(crate) struct Ask<'a> {
    pub(crate) endpoint: Endpoint,
    pub(crate) url: &'a Url,
    /// The value of `Authorization`.
    pub(crate) authorization: Option<Zeroizing<String>>,
    /// A body makes it a POST request.
    pub(crate) body: Option<AskBody>,
}

/// A body, and its media type.
pub(crate) struct AskBody {
    pub(crate) media_type: &'static str,
    pub(crate) text: Zeroizing<String>,
}

/// An answer that is a JSON object.
pub(crate) struct JsonAnswer {
    pub(crate) status: StatusCode,
    pub(crate) object: Claims,
}

impl HttpClient {
    /// Trusts the certificates of a file, or else the system's.
    pub(crate) fn new(config: &ProviderConfig) -> Result<HttpClient, ConfigError> {
        let needs_tls = config.issuer.starts_with("https:");
        let tls = needs_tls.then(|| tls_config(config.ca_file.as_deref())).transpose()?;
        let tls = tls.map(|config| TlsConnector::from(Arc::new(config)));
        Ok(HttpClient { tls, timeout: config.timeout })
    }

    /// The JSON object at an address. Any other status than 200 is an error.
    pub(crate) async fn get(&self, ask: Ask<'_>) -> Result<Claims, ProviderError> {
        let endpoint = ask.endpoint;
        let answer = self.send(ask).await?;
        if answer.status == StatusCode::OK {
            return Ok(answer.object);
        }
        Err(bad_answer(endpoint, format!("status {}", answer.status.as_u16())))
    }

    /// The answer with its status, which must be a JSON object.
    pub(crate) async fn send(&self, ask: Ask<'_>) -> Result<JsonAnswer, ProviderError> {
        let endpoint = ask.endpoint;
        // Boxed, because the state of a connection is large.
        let answer = tokio::time::timeout(self.timeout, Box::pin(self.exchange(ask))).await;
        let (status, body) = answer.map_err(|_| ProviderError::TimedOut { endpoint })??;
        match serde_json::from_slice(&body) {
            Ok(Value::Object(object)) => Ok(JsonAnswer { status, object }),
            Ok(_) => Err(bad_answer(endpoint, "it is not a JSON object")),
            Err(_) => Err(bad_answer(endpoint, "it is not JSON")),
        }
    }

    async fn exchange(
        &self,
        ask: Ask<'_>,
    ) -> Result<(StatusCode, Zeroizing<Vec<u8>>), ProviderError> {
        let Ask { endpoint, url, .. } = ask;
        let request = build_request(ask).map_err(|why| bad_answer(endpoint, why))?;
        let unreachable =
            |error: io::Error| ProviderError::Unreachable { endpoint, why: error.to_string() };
        let stream = connect(url).await.map_err(unreachable)?;
        if url.scheme() == "http" {
            return exchange_on(stream, endpoint, request).await;
        }
        let Some(tls) = &self.tls else {
            return Err(bad_answer(endpoint, "it needs TLS, and the issuer does not"));
        };
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host);
        let name = name.map_err(|_| bad_answer(endpoint, "its host has no valid name"))?;
        let stream = tls.connect(name, stream).await.map_err(unreachable)?;
        exchange_on(stream, endpoint, request).await
    }
}

impl std::fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpClient").finish_non_exhaustive()
    }
}

pub(crate) fn bad_answer(endpoint: Endpoint, why: impl Into<String>) -> ProviderError {
    ProviderError::BadAnswer { endpoint, why: why.into() }
}

fn tls_config(ca_file: Option<&Path>) -> Result<ClientConfig, ConfigError> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = ca_file {
        for certificate in read_certificates(file).map_err(ConfigError::CaFile)? {
            let added = roots.add(certificate);
            added.map_err(|error| ConfigError::CaFile(error.to_string()))?;
        }
    } else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(ConfigError::NoCertificates);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ConfigError::CaFile(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(file).map_err(|error| error.to_string())?;
    let all = read.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    if all.is_empty() { Err("it has no certificate".into()) } else { Ok(all) }
}

/// Builds the request, in the form that goes to the server itself.
fn build_request(ask: Ask<'_>) -> Result<Request<Full<Bytes>>, &'static str> {
    let url = ask.url;
    let host = url.host_str().unwrap_or_default();
    let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut request = Request::builder()
        .uri(format!("{}{query}", url.path()))
        .header(header::HOST, host)
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, "sluicegate");
    if let Some(value) = ask.authorization {
        let value = HeaderValue::from_str(&value);
        let mut value = value.map_err(|_| "its token has characters that no header may have")?;
        value.set_sensitive(true);
        request = request.header(header::AUTHORIZATION, value);
    }
    let mut bytes = Bytes::new();
    if let Some(body) = ask.body {
        request = request.method(Method::POST).header(header::CONTENT_TYPE, body.media_type);
        bytes = Bytes::copy_from_slice(body.text.as_bytes());
    }
    request.body(Full::new(bytes)).map_err(|_| "its URL is not valid")
}

async fn connect(url: &Url) -> io::Result<TcpStream> {
    let port = url.port_or_known_default().unwrap_or(443);
    match url.host() {
        Some(Host::Domain(name)) => TcpStream::connect((name, port)).await,
        Some(Host::Ipv4(address)) => TcpStream::connect((address, port)).await,
        Some(Host::Ipv6(address)) => TcpStream::connect((address, port)).await,
        None => Err(io::Error::other("its URL has no host")),
    }
}

async fn exchange_on<S>(
    stream: S,
    endpoint: Endpoint,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Zeroizing<Vec<u8>>), ProviderError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let lost = |error: hyper::Error| {
        if error.is_parse() {
            return bad_answer(endpoint, "it is not HTTP");
        }
        ProviderError::Unreachable { endpoint, why: error.to_string() }
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
    // Dropping the set ends the connection.
    let mut connections = JoinSet::new();
    connections.spawn(connection);
    let response = sender.send_request(request).await.map_err(lost)?;
    let status = response.status();
    if status.is_redirection() {
        return Err(bad_answer(endpoint, "it redirects, which is not followed"));
    }
    check_media_type(&response, endpoint)?;
    match Limited::new(response.into_body(), MOST_BYTES).collect().await {
        Ok(body) => Ok((status, Zeroizing::new(body.to_bytes().into()))),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(bad_answer(endpoint, format!("it is longer than {MOST_BYTES} bytes")))
        }
        Err(_) => Err(bad_answer(endpoint, "it broke off")),
    }
}

fn check_media_type(
    response: &http::Response<Incoming>,
    endpoint: Endpoint,
) -> Result<(), ProviderError> {
    let value = response.headers().get(header::CONTENT_TYPE);
    let value = value.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_keys = endpoint == Endpoint::Keys && media_type == "application/jwk-set+json";
    if media_type == "application/json" || is_keys {
        return Ok(());
    }
    let status = response.status().as_u16();
    Err(bad_answer(endpoint, format!("it is not `application/json` (status {status})")))
}
