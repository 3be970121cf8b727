//! Groups in claims, at userinfo and behind links.

use serde_json::{Value, json};
use sluice_oidc::{Endpoint, Groups, GroupsUnavailable, Provider, ProviderConfig, ProviderError};

use crate::{
    hostile::{After, Hostile, json_answer},
    provider::{RealProvider, known, sign_in},
};

/// Claims with a link instead of the groups, as Entra ID sends them.
fn overflow(endpoint: &str) -> Value {
    json!({
        "_claim_names": { "groups": "src1" },
        "_claim_sources": { "src1": { "endpoint": endpoint } },
    })
}

/// Starts a provider with these accounts.
async fn start(accounts: Value) -> RealProvider {
    RealProvider::start_with(json!({ "accounts": accounts, "groups": pages() })).await
}

fn pages() -> Value {
    json!([[{ "id": "b" }, { "id": "a" }], ["c"], []])
}

async fn groups_of(provider: &RealProvider, account: &str) -> Groups {
    groups_with(provider, account, |_| ()).await
}

/// The groups of an account, after this change of the configuration.
async fn groups_with(
    provider: &RealProvider,
    account: &str,
    change: impl FnOnce(&mut ProviderConfig),
) -> Groups {
    let mut config = provider.config("rs256");
    change(&mut config);
    sign_in(&Provider::new(config).unwrap(), account).await.unwrap().groups
}

#[tokio::test]
async fn no_groups_and_unknown_groups_are_not_the_same() {
    let provider = start(json!({
        "none": { "groups": [] },
        "unknown": {},
        "malformed": { "groups": [{ "name": "ops" }] },
        "nested": { "realm_access": { "roles": ["ops"] } },
    }))
    .await;
    assert_eq!(groups_of(&provider, "none").await, known(&[]));
    assert_eq!(
        groups_of(&provider, "unknown").await,
        Groups::Unavailable(GroupsUnavailable::Missing("groups".into()))
    );
    let malformed = groups_of(&provider, "malformed").await;
    assert!(matches!(malformed, Groups::Unavailable(GroupsUnavailable::Malformed(_))));
    let use_roles =
        |config: &mut ProviderConfig| config.groups_claim = Some("realm_access.roles".into());
    assert_eq!(groups_with(&provider, "nested", use_roles).await, known(&["ops"]));
}

#[tokio::test]
async fn a_link_is_followed_page_by_page_unless_an_endpoint_is_configured() {
    let provider = start(json!({
        "linked": overflow("ISSUER/groups"),
        "retired": overflow("https://retired.example/groups"),
        "direct": { "groups": ["x"] },
    }))
    .await;
    assert_eq!(groups_of(&provider, "linked").await, known(&["a", "b", "c"]));
    let endpoint = format!("{}/groups", provider.issuer);
    let configure = |config: &mut ProviderConfig| config.groups_endpoint = Some(endpoint.clone());
    assert_eq!(groups_with(&provider, "retired", configure).await, known(&["a", "b", "c"]));
    assert_eq!(groups_with(&provider, "direct", configure).await, known(&["x"]));
}

#[tokio::test]
async fn a_link_may_have_its_own_token_and_come_from_userinfo() {
    let link = |token: &str| {
        let mut claims = overflow("ISSUER/groups");
        claims["_claim_sources"]["src1"]["access_token"] = token.into();
        claims
    };
    let provider = RealProvider::start_with(json!({
        "claimsOnlyFromUserinfo": true,
        "accounts": { "good": link("a token for groups"), "bad": link("another token") },
        "groups": pages(),
    }))
    .await;
    assert_eq!(groups_of(&provider, "good").await, known(&["a", "b", "c"]));
    let why = "it is not `application/json` (status 401)".to_owned();
    let refused = ProviderError::BadAnswer { endpoint: Endpoint::Groups, why };
    assert_eq!(
        groups_of(&provider, "bad").await,
        Groups::Unavailable(GroupsUnavailable::Provider(refused))
    );
}

#[tokio::test]
async fn no_token_is_sent_to_a_host_that_is_not_allowed() {
    let server = Hostile::start(&json_answer(r#"{"value":["admins"]}"#), After::Close).await;
    let port = server.address.rsplit(':').next().unwrap();
    let provider = start(json!({
        "alice": overflow(&format!("http://localhost:{port}/groups")),
        "bob": overflow("http://graph.example/groups"),
    }))
    .await;
    let refused = Groups::Unavailable(GroupsUnavailable::HostNotAllowed("localhost".into()));
    assert_eq!(groups_of(&provider, "alice").await, refused);
    assert_eq!(server.connections(), 0);
    let allow = |config: &mut ProviderConfig| {
        config.groups_endpoint_hosts = vec!["localhost".into()];
    };
    assert_eq!(groups_with(&provider, "alice", allow).await, known(&["admins"]));
    assert_eq!(server.connections(), 1);
    let insecure = groups_of(&provider, "bob").await;
    assert!(matches!(insecure, Groups::Unavailable(GroupsUnavailable::Malformed(_))));
}

#[tokio::test]
async fn a_page_leads_to_allowed_hosts_only_and_to_an_end() {
    let page =
        |next: &str| json_answer(&format!(r#"{{"value":["a"],"@odata.nextLink":"{next}"}}"#));
    let leading_away = Hostile::start(&page("https://graph.example/"), After::Close).await;
    let endless = Hostile::start(&page("http://ADDRESS/"), After::Close).await;
    let provider = start(json!({
        "alice": overflow(&format!("http://{}/groups", leading_away.address)),
        "bob": overflow(&format!("http://{}/groups", endless.address)),
    }))
    .await;
    let refused = GroupsUnavailable::HostNotAllowed("graph.example".into());
    assert_eq!(groups_of(&provider, "alice").await, Groups::Unavailable(refused));
    assert_eq!(leading_away.connections(), 1);
    let too_many = Groups::Unavailable(GroupsUnavailable::TooMany);
    assert_eq!(groups_of(&provider, "bob").await, too_many);
    assert_eq!(endless.connections(), 100);
}
