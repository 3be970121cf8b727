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

/// Signs `alice` in, with these claims and this change of the configuration.
async fn groups_of(claims: Value, change: impl FnOnce(&mut ProviderConfig)) -> Groups {
    groups_at(json!({ "accounts": { "alice": claims }, "groups": pages() }), change).await
}

async fn groups_at(settings: Value, change: impl FnOnce(&mut ProviderConfig)) -> Groups {
    let provider = RealProvider::start_with(settings).await;
    let mut config = provider.config("rs256");
    change(&mut config);
    sign_in(&Provider::new(config).unwrap(), "alice").await.unwrap().groups
}

fn pages() -> Value {
    json!([[{ "id": "b" }, { "id": "a" }], ["c"], []])
}

#[tokio::test]
async fn no_groups_and_unknown_groups_are_not_the_same() {
    assert_eq!(groups_of(json!({ "groups": [] }), |_| ()).await, known(&[]));
    assert_eq!(
        groups_of(json!({}), |_| ()).await,
        Groups::Unavailable(GroupsUnavailable::Missing("groups".into()))
    );
    let malformed = groups_of(json!({ "groups": [{ "name": "ops" }] }), |_| ()).await;
    assert!(matches!(malformed, Groups::Unavailable(GroupsUnavailable::Malformed(_))));
}

#[tokio::test]
async fn a_dotted_path_leads_to_nested_roles() {
    let claims = json!({ "realm_access": { "roles": ["ops"] } });
    let groups =
        groups_of(claims, |config| config.groups_claim = Some("realm_access.roles".into()));
    assert_eq!(groups.await, known(&["ops"]));
}

#[tokio::test]
async fn a_link_is_followed_page_by_page() {
    let groups = groups_of(overflow("ISSUER/groups"), |_| ()).await;
    assert_eq!(groups, known(&["a", "b", "c"]));
}

#[tokio::test]
async fn a_link_may_have_its_own_token_and_come_from_userinfo() {
    let mut claims = overflow("ISSUER/groups");
    claims["_claim_sources"]["src1"]["access_token"] = "a token for groups".into();
    let settings = |claims: &Value| {
        json!({
            "accounts": { "alice": claims }, "groups": pages(), "claimsOnlyFromUserinfo": true,
        })
    };
    assert_eq!(groups_at(settings(&claims), |_| ()).await, known(&["a", "b", "c"]));
    claims["_claim_sources"]["src1"]["access_token"] = "another token".into();
    let why = "it is not `application/json` (status 401)".to_owned();
    let refused = ProviderError::BadAnswer { endpoint: Endpoint::Groups, why };
    assert_eq!(
        groups_at(settings(&claims), |_| ()).await,
        Groups::Unavailable(GroupsUnavailable::Provider(refused))
    );
}

#[tokio::test]
async fn no_token_is_sent_to_a_host_that_is_not_allowed() {
    let server = Hostile::start(&json_answer(r#"{"value":["admins"]}"#), After::Close).await;
    let port = server.address.rsplit(':').next().unwrap();
    let link = format!("http://localhost:{port}/groups");
    let refused = Groups::Unavailable(GroupsUnavailable::HostNotAllowed("localhost".into()));
    assert_eq!(groups_of(overflow(&link), |_| ()).await, refused);
    assert_eq!(server.connections(), 0);
    let allow = |config: &mut ProviderConfig| {
        config.groups_endpoint_hosts = vec!["localhost".into()];
    };
    assert_eq!(groups_of(overflow(&link), allow).await, known(&["admins"]));
    assert_eq!(server.connections(), 1);
    let insecure = groups_of(overflow("http://graph.example/groups"), |_| ()).await;
    assert!(matches!(insecure, Groups::Unavailable(GroupsUnavailable::Malformed(_))));
}

#[tokio::test]
async fn a_page_leads_to_allowed_hosts_only_and_to_an_end() {
    let elsewhere = json_answer(r#"{"value":[],"@odata.nextLink":"https://graph.example/"}"#);
    let server = Hostile::start(&elsewhere, After::Close).await;
    let link = format!("http://{}/groups", server.address);
    let refused = GroupsUnavailable::HostNotAllowed("graph.example".into());
    assert_eq!(groups_of(overflow(&link), |_| ()).await, Groups::Unavailable(refused));
    assert_eq!(server.connections(), 1);
    let again = json_answer(r#"{"value":["a"],"@odata.nextLink":"http://ADDRESS/"}"#);
    let server = Hostile::start(&again, After::Close).await;
    let link = format!("http://{}/groups", server.address);
    let too_many = Groups::Unavailable(GroupsUnavailable::TooMany);
    assert_eq!(groups_of(overflow(&link), |_| ()).await, too_many);
    assert_eq!(server.connections(), 100);
}

#[tokio::test]
async fn a_configured_endpoint_takes_the_place_of_the_link() {
    let provider = RealProvider::start_with(json!({
        "accounts": { "alice": overflow("https://retired.example/groups"), "bob": { "groups": ["x"] } },
        "groups": pages(),
    }))
    .await;
    let mut config = provider.config("rs256");
    config.groups_endpoint = Some(format!("{}/groups", provider.issuer));
    let client = Provider::new(config).unwrap();
    assert_eq!(sign_in(&client, "alice").await.unwrap().groups, known(&["a", "b", "c"]));
    assert_eq!(sign_in(&client, "bob").await.unwrap().groups, known(&["x"]));
}
