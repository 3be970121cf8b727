//! The certificate that the agent listener presents.

use std::{fs, io, path::Path, sync::Arc};

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio_rustls::TlsAcceptor;

/// A certificate and its key, ready to be used.
#[derive(Clone)]
pub struct Tls(pub(super) TlsAcceptor);

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
