//! A server whose definition changes while the gateway runs: what is known of the same
//! endpoint stays, and what is known of another one does not.

use std::time::Duration;

use sluice_store::{Secret, Transport};
use sluice_testkit::{ModernOnly, OldServer, Recorded, Reply, mcp_server};

use crate::{
    bridge::{before_legacy, reached},
    harness::{Harness, TOKEN, at, json},
    talk::OPEN,
};

/// Depends on definitions, so that the tools must be learnt.
const NO_WRITES: &str =
    r#"{"version":"1","default":"allow","tools":{"@destructive":{"action":"deny"}}}"#;

/// Calls as a modern client of a legacy server, for whom the bridge keeps a session.
async fn call(harness: &Harness) {
    let answer = harness.modern_call("echo", r#"{"n":1}"#).await;
    assert_eq!(at(&json(&answer), "result/resultType"), "\"complete\"", "{}", answer.text());
}

/// How often the server was introduced to somebody, and asked for its tools.
fn asked(harness: &Harness) -> [usize; 2] {
    ["initialize", "tools/list"].map(|method| reached(harness, method).len())
}

#[tokio::test]
async fn a_new_timeout_forgets_neither_the_learnt_tools_nor_the_session() {
    let (harness, _) = before_legacy(NO_WRITES).await;
    call(&harness).await;
    let before = asked(&harness);
    assert!(before.iter().all(|times| *times > 0), "{before:?}");
    let mut configuration = harness.configuration.clone();
    configuration.servers[0].timeout = Duration::from_secs(7);
    harness.gateway.apply(&configuration).unwrap();
    call(&harness).await;
    assert_eq!(asked(&harness), before);
    assert_eq!(reached(&harness, "tools/call").len(), 2);
}

/// Gives the server another credential.
fn change_header(harness: &Harness, value: &str) {
    let mut configuration = harness.configuration.clone();
    let Transport::Http { headers, .. } = &mut configuration.servers[0].transport else {
        panic!("the server is reached by HTTP")
    };
    headers.push(("x-key".into(), Secret::new(value.into())));
    harness.gateway.apply(&configuration).unwrap();
}

#[tokio::test]
async fn a_new_header_is_sent_at_once_and_the_tools_are_learnt_again() {
    let (harness, _) = before_legacy(NO_WRITES).await;
    call(&harness).await;
    let [_, lists] = asked(&harness);
    change_header(&harness, "new");
    call(&harness).await;
    assert_eq!(asked(&harness)[1], lists + 1);
    let calls = reached(&harness, "tools/call");
    let sent: Vec<_> = calls.iter().map(|call| call.header("x-key")).collect();
    assert_eq!(sent, [None, Some("new")]);
}

/// Lists prompts as a modern client. Unlike a call, this needs no list of tools, so only
/// the bridge can detect the era of the server.
async fn list_prompts(harness: &Harness) {
    let answer = harness.modern("prompts/list", None, "").await;
    assert_eq!(at(&json(&answer), "result/prompts/0/name"), "\"p\"", "{}", answer.text());
}

#[tokio::test]
async fn a_new_header_does_not_detect_the_era_again() {
    let (harness, _) = before_legacy(OPEN).await;
    list_prompts(&harness).await;
    for value in ["one", "two"] {
        change_header(&harness, value);
        list_prompts(&harness).await;
    }
    // Detection sends the request as it is, in the modern era; then it is translated.
    let requests = reached(&harness, "prompts/list");
    let (modern, translated): (Vec<_>, Vec<_>) =
        requests.iter().partition(|request| request.header("mcp-method").is_some());
    let key = |request: &&Recorded| request.header("x-key").map(str::to_owned);
    assert_eq!(modern.iter().map(key).collect::<Vec<_>>(), [None]);
    let keys: Vec<_> = translated.iter().map(key).collect();
    assert_eq!(keys, [None, Some("one".into()), Some("two".into())]);
    assert_eq!(reached(&harness, "server/discover").len(), 1);
}

/// A credential that was wrong says nothing about the eras of the server.
#[tokio::test]
async fn a_server_that_hid_behind_a_wrong_header_is_detected_with_the_right_one() {
    let server = ModernOnly::default();
    let harness = Harness::start(OPEN, move |request| match request.header("x-key") {
        Some("right") => server.reply(request),
        _ => Reply::empty(404),
    })
    .await;
    let refused = harness.modern("prompts/list", None, "").await;
    assert_eq!(refused.status, 404, "{}", refused.text());
    change_header(&harness, "right");
    list_prompts(&harness).await;
}

#[tokio::test]
async fn a_new_header_does_not_detect_the_transport_again() {
    let old = OldServer::start(mcp_server(r#"[{"name":"read"}]"#)).await.unwrap();
    let configuration = Harness::configuration(&old.upstream, OPEN);
    let harness = Harness::with(old.upstream.clone(), configuration).await;
    harness.session(TOKEN).await;
    change_header(&harness, "new");
    harness.session(TOKEN).await;
    // Only detection posts to the URL of the stream.
    let recorded = harness.upstream.requests();
    let posted: Vec<_> = recorded.iter().filter(|request| request.method == "POST").collect();
    assert_eq!(posted.iter().filter(|request| request.path == "/mcp").count(), 1);
    assert!(posted.iter().any(|request| request.header("x-key") == Some("new")));
}

#[tokio::test]
async fn another_endpoint_of_the_same_name_is_learnt_from_the_beginning() {
    let (harness, _) = before_legacy(NO_WRITES).await;
    call(&harness).await;
    let before = asked(&harness);
    let mut configuration = harness.configuration.clone();
    let Transport::Http { url, .. } = &mut configuration.servers[0].transport else {
        panic!("the server is reached by HTTP")
    };
    *url = Secret::new(format!("{}?other", url.expose()));
    harness.gateway.apply(&configuration).unwrap();
    call(&harness).await;
    let after = asked(&harness);
    assert!(after.iter().zip(before).all(|(after, before)| *after > before), "{after:?}");
}
