//! Keys that change, at the provider and without it.

use std::time::Duration;

use serde_json::json;
use sluice_oidc::{SignInError, TokenError};
use tokio::task::JoinSet;

use crate::provider::{RealProvider, go, sign_in};

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

/// A provider that signs with keys that it does not publish cannot make the gateway fetch its keys
/// again and again.
#[tokio::test]
async fn unknown_keys_cause_few_requests() {
    let mut provider = RealProvider::start(json!({ "alice": {} })).await;
    let client = provider.client("rs256");
    sign_in(&client, "alice").await.unwrap();
    provider.command("hide keys").await;
    let published = provider.count("/jwks").await;
    let mut returned = Vec::new();
    for _ in 0..8 {
        returned.push(go(&client, "alice").await);
    }
    // Without the passing of time, the limit does not depend on the load of the machine.
    tokio::time::pause();
    for one in returned {
        assert_eq!(without_timeouts(one.finish(&client)).await, Err(UNKNOWN));
    }
    tokio::time::resume();
    assert_eq!(provider.count("/jwks").await - published, 3);
    // A minute later it is tried again.
    let again = go(&client, "alice").await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_mins(1)).await;
    tokio::time::resume();
    assert_eq!(again.finish(&client).await, Err(UNKNOWN));
    assert_eq!(provider.count("/jwks").await - published, 4);
}

/// Keeps the runtime busy, because a paused clock that is idle jumps to the next time-out.
async fn without_timeouts<T>(work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = tokio::task::yield_now() => {}
        }
    }
}
