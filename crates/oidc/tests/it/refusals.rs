//! Sign-ins that must fail, at a provider that signs whatever it is told to.

use std::time::Duration;

use serde_json::json;
use sluice_oidc::{Hints, Provider, ProviderError, SignInError, TokenError};

use crate::{
    browser::Browser,
    provider::{RealProvider, go, go_at, later, machine_time, sign_in},
};

async fn start() -> RealProvider {
    RealProvider::start(json!({ "alice": { "groups": [] }, "mallory": { "groups": ["admins"] } }))
        .await
}

#[tokio::test]
async fn a_code_is_of_no_use_without_its_verifier() {
    let provider = start().await;
    let client = provider.client("rs256");
    let stolen = go(&client, "alice").await.with("verifier", &"x".repeat(43));
    let error = stolen.finish(&client).await.unwrap_err();
    assert!(matches!(error, SignInError::CodeRefused { .. }), "{error:?}");
}

#[tokio::test]
async fn a_code_is_accepted_once() {
    let provider = start().await;
    let client = provider.client("rs256");
    let returned = go(&client, "alice").await;
    let first = client.finish(returned.pending.clone(), &returned.query, returned.now).await;
    assert_eq!(first.unwrap().subject, "alice");
    let error = returned.finish(&client).await.unwrap_err();
    assert!(matches!(error, SignInError::CodeRefused { .. }), "{error:?}");
    assert!(error.to_string().contains("start again"), "{error}");
}

#[tokio::test]
async fn a_redirect_of_another_sign_in_is_refused_before_its_code_is_used() {
    let mut provider = start().await;
    let client = provider.client("rs256");
    let (own, other) = (go(&client, "alice").await, go(&client, "mallory").await);
    let error = client.finish(own.pending.clone(), &other.query, own.now).await.unwrap_err();
    assert_eq!(error, SignInError::WrongState);
    assert_eq!(provider.count("/token").await, 0);
    assert_eq!(own.finish(&client).await.unwrap().subject, "alice");
}

#[tokio::test]
async fn an_id_token_of_another_sign_in_is_refused() {
    let mut provider = start().await;
    let client = provider.client("es256");
    assert_eq!(sign_in(&client, "mallory").await.unwrap().subject, "mallory");
    // The token is real, for this client and still valid: only its nonce is another one.
    provider.command("repeat id token").await;
    assert_eq!(sign_in(&client, "alice").await, Err(TokenError::WrongNonce.into()));
    let returned = go(&client, "alice").await.with("nonce", "another nonce");
    assert_eq!(returned.finish(&client).await, Err(TokenError::WrongNonce.into()));
}

#[tokio::test]
async fn an_id_token_of_another_client_is_refused() {
    let mut provider = start().await;
    sign_in(&provider.client("ps256"), "mallory").await.unwrap();
    provider.command("repeat id token").await;
    let client = provider.client("rs256");
    assert_eq!(sign_in(&client, "alice").await, Err(TokenError::WrongAudience.into()));
    assert_eq!(sign_in(&client, "alice").await.unwrap().subject, "alice");
}

/// The provider's tokens are valid for 300 s, and a minute of difference is allowed.
#[tokio::test]
async fn clocks_may_differ_within_the_bound() {
    let provider = start().await;
    let client = provider.client("rs256");
    let mut config = provider.config("rs256");
    config.clock_skew = Duration::ZERO;
    let strict = Provider::new(config).unwrap();
    let now = machine_time();
    let behind = |seconds| now - Duration::from_secs(seconds);
    // However loaded the machine is, the provider's clock is at `now` or later.
    let check = async |client: &Provider, time, expected: Result<(), TokenError>| {
        let result = go_at(client, "alice", time).await.finish(client).await;
        assert_eq!(result.map(|_| ()), expected.map_err(SignInError::from), "{time:?}");
    };
    check(&client, behind(120), Err(TokenError::NotYetValid)).await;
    check(&strict, behind(5), Err(TokenError::NotYetValid)).await;
    check(&client, later(now, 300), Ok(())).await;
    // The token was issued in between, at the latest now.
    check_expired(&client, 360).await;
    check_expired(&strict, 300).await;
}

/// Finishes a sign-in as much later than the provider issues the token.
async fn check_expired(client: &Provider, seconds: u64) {
    let begun_at = later(machine_time(), seconds - 200);
    let begun = client.begin(&Hints::default(), begun_at).await.unwrap();
    let query = Browser::default().follow(&begun.url).await;
    // The token is issued while finishing, so a loaded machine needs room here.
    let finished_at = later(machine_time(), seconds + 120);
    let result = client.finish(begun.pending, &query, finished_at).await;
    assert_eq!(result, Err(TokenError::Expired.into()));
}

#[tokio::test]
async fn a_sign_in_that_took_too_long_is_refused() {
    let provider = start().await;
    let client = provider.client("rs256");
    let mut returned = go(&client, "alice").await;
    returned.now = later(returned.now, 601);
    assert_eq!(returned.finish(&client).await, Err(SignInError::Stale));
}

#[tokio::test]
async fn a_person_who_cancels_is_told_so() {
    let provider = start().await;
    let error = sign_in(&provider.client("rs256"), "nobody").await.unwrap_err();
    assert!(error.to_string().contains("it was cancelled"), "{error}");
    assert_eq!(error.detail(), "the provider refused: `access_denied`: the person cancelled");
}

#[tokio::test]
async fn a_wrong_client_secret_is_the_gateways_fault() {
    let provider = start().await;
    let mut config = provider.config("rs256");
    config.client_secret = Some("another secret of the client".to_owned().into());
    let error = sign_in(&Provider::new(config).unwrap(), "alice").await.unwrap_err();
    assert!(matches!(error, SignInError::ClientRefused { .. }), "{error:?}");
    assert!(error.to_string().contains("`client_secret`"), "{error}");
    assert!(!error.detail().contains("another secret"), "{}", error.detail());
}

/// A person signs in at one provider, and the redirect is delivered to the sign-in at another.
#[tokio::test]
async fn providers_are_not_mixed_up() {
    let (one, other) = (start().await, start().await);
    let (client, other_client) = (one.client("rs256"), other.client("rs256"));
    let own = go(&client, "alice").await;
    let foreign = go(&other_client, "mallory").await;
    let result = other_client.finish(own.pending.clone(), &own.query, own.now).await;
    assert_eq!(result, Err(SignInError::WrongIssuer));
    // An attacker makes the other provider send the state of the own sign-in.
    let parameter = |query: &str, name: &str| {
        let mut all = url::form_urlencoded::parse(query.as_bytes());
        all.find(|(key, _)| key == name).map(|(_, value)| value.into_owned()).unwrap()
    };
    let (code, issuer) = (parameter(&foreign.query, "code"), parameter(&foreign.query, "iss"));
    let state = parameter(&own.query, "state");
    for query in
        [format!("code={code}&state={state}&iss={issuer}"), format!("code={code}&state={state}")]
    {
        let result = client.finish(own.pending.clone(), &query, own.now).await;
        assert_eq!(result, Err(SignInError::WrongIssuer), "{query}");
    }
}

#[tokio::test]
async fn the_configured_issuer_must_be_the_providers_own() {
    let provider = start().await;
    let check = async |issuer: String| {
        let mut config = provider.config("rs256");
        config.issuer.clone_from(&issuer);
        let client = Provider::new(config).unwrap();
        let error = client.begin(&Hints::default(), machine_time()).await.unwrap_err();
        let expected =
            ProviderError::WrongIssuer { configured: issuer, found: provider.issuer.clone() };
        assert_eq!(error, expected);
    };
    check(provider.issuer.replace("127.0.0.1", "localhost")).await;
    check(format!("{}/", provider.issuer)).await;
}
