//! Sign-ins that succeed, and what they say about the person.

use std::time::Duration;

use serde_json::json;
use sluice_oidc::{Endpoint, Groups, GroupsUnavailable, ProviderError};

use crate::provider::{RealProvider, known, later, machine_time, sign_in};

#[tokio::test]
async fn a_person_is_identified_with_groups_by_every_algorithm() {
    let provider = RealProvider::start(json!({
        "alice": {
            "email": "alice@example.com", "email_verified": true, "name": "Alice Müller",
            "preferred_username": "alice", "groups": ["ops", "dev"],
        },
    }));
    let provider = provider.await;
    for client_id in ["rs256", "ps256", "es256", "eddsa", "public"] {
        let identity = sign_in(&provider.client(client_id), "alice").await.unwrap();
        assert_eq!(identity.issuer, provider.issuer);
        assert_eq!(identity.subject, "alice");
        assert_eq!(identity.email.as_deref(), Some("alice@example.com"));
        assert!(identity.email_verified);
        assert_eq!(identity.name.as_deref(), Some("Alice Müller"));
        assert_eq!(identity.preferred_username.as_deref(), Some("alice"));
        assert_eq!(identity.groups, known(&["dev", "ops"]));
        assert_eq!(identity.expires_at, later(identity.issued_at, 300));
        let age = machine_time().duration_since(identity.issued_at).unwrap_or_default();
        assert!(age < Duration::from_mins(5), "{age:?}");
    }
}

#[tokio::test]
async fn what_the_id_token_lacks_is_asked_of_userinfo() {
    let mut provider = RealProvider::start_with(json!({
        "claimsOnlyFromUserinfo": true,
        "accounts": {
            "alice": {
                "email": "alice@example.com", "email_verified": false, "name": "Alice",
                "groups": ["ops"],
            },
        },
    }))
    .await;
    let identity = sign_in(&provider.client("rs256"), "alice").await.unwrap();
    assert_eq!(identity.email.as_deref(), Some("alice@example.com"));
    assert!(!identity.email_verified);
    assert_eq!(identity.name.as_deref(), Some("Alice"));
    assert_eq!(identity.groups, known(&["ops"]));
    assert_eq!(provider.count("/me").await, 1);
    // Claims about another person are not mixed in.
    provider.command("mix up userinfo").await;
    let identity = sign_in(&provider.client("rs256"), "alice").await.unwrap();
    assert_eq!((identity.email, identity.name), (None, None));
    let why = "it is about another person than the ID token".to_owned();
    let error = ProviderError::BadAnswer { endpoint: Endpoint::Userinfo, why };
    assert_eq!(identity.groups, Groups::Unavailable(GroupsUnavailable::Provider(error)));
}

#[tokio::test]
async fn metadata_and_keys_are_fetched_once() {
    let mut provider = RealProvider::start(json!({ "alice": {}, "bob": {} })).await;
    let client = provider.client("es256");
    for account in ["alice", "bob", "alice"] {
        let identity = sign_in(&client.clone(), account).await.unwrap();
        assert_eq!(identity.subject, account);
    }
    assert_eq!(provider.count("/.well-known/openid-configuration").await, 1);
    assert_eq!(provider.count("/jwks").await, 1);
}

#[tokio::test]
async fn groups_that_nobody_wants_are_not_asked_for() {
    let provider = RealProvider::start(json!({ "alice": { "groups": ["ops"] } })).await;
    let mut config = provider.config("rs256");
    config.groups_claim = None;
    let client = sluice_oidc::Provider::new(config).unwrap();
    assert_eq!(sign_in(&client, "alice").await.unwrap().groups, Groups::NotAsked);
}
