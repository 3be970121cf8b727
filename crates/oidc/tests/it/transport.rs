//! Providers that are down, slow, or answer what no provider should.

use std::time::SystemTime;

use sluice_oidc::{Endpoint, Hints, Provider, ProviderConfig, ProviderError};
use tokio::net::TcpListener;

use crate::{
    hostile::{After, Hostile, json_answer},
    provider::REDIRECT_URI,
};

async fn begin(address: &str) -> ProviderError {
    let config = ProviderConfig::new(format!("http://{address}"), "c", REDIRECT_URI);
    let client = Provider::new(config).unwrap();
    client.begin(&Hints::default(), SystemTime::UNIX_EPOCH).await.unwrap_err()
}

/// Checks the reason that an administrator finds in the log.
async fn check(answer: &str, after: After, expected: &str) {
    let server = Hostile::start(answer, after).await;
    let error = begin(&server.address).await;
    let expected = format!("bad answer from the discovery document: {expected}");
    assert_eq!(error.detail(), expected, "{answer:.60}");
    assert!(!error.to_string().contains(&server.address), "{error}");
}

#[tokio::test]
async fn a_provider_that_is_down_cannot_be_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let error = begin(&address).await;
    let is_expected =
        matches!(error, ProviderError::Unreachable { endpoint: Endpoint::Discovery, .. });
    assert!(is_expected, "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_silent_is_not_waited_for() {
    for beginning in ["", "HTTP/1.1 200 OK\r\n", &json_answer(r#"{"issuer":"#)] {
        let server = Hostile::start(beginning, After::Silence).await;
        let expected = ProviderError::TimedOut { endpoint: Endpoint::Discovery };
        assert_eq!(begin(&server.address).await, expected, "{beginning:?}");
    }
}

#[tokio::test]
async fn answers_that_are_not_json_are_refused() {
    check("hello\r\n\r\n", After::Close, "it is not HTTP").await;
    let html = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n{}";
    check(html, After::Close, "it is not `application/json` (status 200)").await;
    let none = "HTTP/1.1 503 Busy\r\nconnection: close\r\n\r\n";
    check(none, After::Close, "it is not `application/json` (status 503)").await;
    check(&json_answer("hello"), After::Close, "it is not JSON").await;
    check(&json_answer("[]"), After::Close, "it is not a JSON object").await;
    let short = json_answer("{").replace("connection: close", "content-length: 5");
    check(&short, After::Close, "it broke off").await;
    let failed = json_answer("{}").replace("200 OK", "500 Error");
    check(&failed, After::Close, "status 500").await;
}

#[tokio::test]
async fn answers_without_end_are_cut_off() {
    let expected = "it is longer than 524288 bytes";
    check(&json_answer("{\"issuer\":\""), After::Noise, expected).await;
    let long = json_answer("{").replace("connection: close", "content-length: 99999999999");
    check(&long, After::Noise, expected).await;
    let server = Hostile::start("HTTP/1.1 200 OK\r\nheader: ", After::Noise).await;
    let error = begin(&server.address).await;
    assert!(matches!(error, ProviderError::BadAnswer { .. }), "{error:?}");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let other = Hostile::start(&json_answer("{}"), After::Close).await;
    for target in [format!("http://{}/", other.address), "/elsewhere".to_owned()] {
        let redirect =
            format!("HTTP/1.1 302 Found\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n");
        check(&redirect, After::Close, "it redirects, which is not followed").await;
    }
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn many_sign_ins_at_once_ask_a_broken_provider_once() {
    let server = Hostile::start("hello\r\n\r\n", After::Close).await;
    let config = ProviderConfig::new(format!("http://{}", server.address), "c", REDIRECT_URI);
    let client = Provider::new(config).unwrap();
    // Without the passing of time, the failure stands however loaded the machine is.
    tokio::time::pause();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let client = client.clone();
        tasks.spawn(async move {
            client.begin(&Hints::default(), SystemTime::UNIX_EPOCH).await.unwrap_err()
        });
    }
    tasks.spawn(async {
        // Keeps the runtime busy, because a paused clock that is idle jumps to the next time-out.
        loop {
            tokio::task::yield_now().await;
        }
    });
    for _ in 0..20 {
        let error = tasks.join_next().await.unwrap().unwrap();
        assert!(matches!(error, ProviderError::BadAnswer { .. }), "{error:?}");
    }
    assert_eq!(server.connections(), 1);
}
