//! Providers over TLS.

use std::{fs, path::Path, sync::Arc, time::SystemTime};

use rcgen::CertifiedKey;
use rustls::ServerConfig;
use rustls_pki_types::PrivatePkcs8KeyDer;
use sluice_oidc::{ConfigError, Hints, Provider, ProviderConfig, ProviderError, SignIn};
use tokio_rustls::TlsAcceptor;

use crate::{
    hostile::{After, Hostile, json_answer},
    provider::REDIRECT_URI,
};

const DOCUMENT: &str = r#"{"issuer":"https://ADDRESS","authorization_endpoint":"https://ADDRESS/a",
    "token_endpoint":"https://ADDRESS/t","jwks_uri":"https://ADDRESS/k"}"#;

#[tokio::test]
async fn only_certificates_of_the_configured_file_are_trusted() {
    let (own, own_pem) = certificate();
    let (_, other_pem) = certificate();
    let server = Hostile::start_with(&json_answer(DOCUMENT), After::Close, Some(own)).await;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let begun = begin(&server, &folder.join("own.pem"), &own_pem).await.unwrap();
    assert!(begun.url.starts_with(&format!("https://{}/a?", server.address)), "{}", begun.url);
    let error = begin(&server, &folder.join("other.pem"), &other_pem).await.unwrap_err();
    assert!(error.detail().contains("certificate"), "{}", error.detail());
}

#[tokio::test]
async fn a_file_without_certificates_is_refused() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("empty.pem");
    fs::write(&file, "hello").unwrap();
    let mut config = ProviderConfig::new("https://id.example", "c", REDIRECT_URI);
    config.ca_file = Some(file);
    let error = Provider::new(config.clone()).unwrap_err();
    assert_eq!(error, ConfigError::CaFile("it has no certificate".into()));
    config.ca_file = Some("does/not/exist.pem".into());
    assert!(matches!(Provider::new(config).unwrap_err(), ConfigError::CaFile(_)));
}

fn certificate() -> (TlsAcceptor, String) {
    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key.into())
        .unwrap();
    (TlsAcceptor::from(Arc::new(config)), cert.pem())
}

async fn begin(server: &Hostile, file: &Path, pem: &str) -> Result<SignIn, ProviderError> {
    fs::write(file, pem).unwrap();
    let mut config = ProviderConfig::new(format!("https://{}", server.address), "c", REDIRECT_URI);
    config.ca_file = Some(file.into());
    let client = Provider::new(config).unwrap();
    client.begin(&Hints::default(), SystemTime::UNIX_EPOCH).await
}
