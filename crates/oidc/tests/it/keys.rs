//! Keys that change, at the provider and without it.

use serde_json::json;
use sluice_oidc::{SignInError, TokenError};
use tokio::{task::JoinSet, time::Instant};

use crate::provider::{RealProvider, sign_in};

const UNKNOWN: SignInError = SignInError::Token(TokenError::UnknownKey);

#[tokio::test]
async fn new_keys_are_fetched_once_for_all_who_need_them() {
    let mut provider = RealProvider::start(json!({ "alice": {} })).await;
    let client = provider.client("es256");
    sign_in(&client, "alice").await.unwrap();
    provider.command("rotate").await;
    let mut tasks = JoinSet::new();
    for _ in 0..5 {
        let client = client.clone();
        tasks.spawn(async move { sign_in(&client, "alice").await });
    }
    let all = tasks.join_all().await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert_eq!(provider.count("/jwks").await, 2);
    assert_eq!(provider.count("/.well-known/openid-configuration").await, 1);
}

#[tokio::test]
async fn a_key_may_be_replaced_under_its_id() {
    let mut provider = RealProvider::start(json!({ "alice": {} })).await;
    let client = provider.client("eddsa");
    sign_in(&client, "alice").await.unwrap();
    provider.command("replace keys").await;
    assert_eq!(sign_in(&client, "alice").await.unwrap().subject, "alice");
    assert_eq!(provider.count("/jwks").await, 2);
}

/// A provider that signs with keys that it does not publish cannot make the gateway fetch its keys
/// again and again.
#[tokio::test]
async fn unknown_keys_cause_few_requests() {
    let mut provider = RealProvider::start(json!({ "alice": {} })).await;
    let client = provider.client("rs256");
    sign_in(&client, "alice").await.unwrap();
    provider.command("hide keys").await;
    let published = provider.count("/jwks").await;
    let start = Instant::now();
    for _ in 0..8 {
        assert_eq!(sign_in(&client, "alice").await, Err(UNKNOWN));
    }
    // Three in each minute, however many the machine takes for this.
    let most = 3 * (start.elapsed().as_secs() / 60 + 1);
    let fetched = provider.count("/jwks").await - published;
    assert!((3..=most).contains(&fetched), "{fetched} requests, at most {most}");
}
