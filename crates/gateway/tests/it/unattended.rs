//! Requests whose client is gone: only so many run on, and the server of others is told.

use std::time::Duration;

use sluice_gateway::Configuration;
use sluice_store::TokenHash;
use sluice_testkit::{End, RawClient, Recorded, Reply, Upstream, mcp_server};

use crate::{
    harness::{Harness, TOKEN, at, grant, policy, request, server},
    talk::{OPEN, until},
};

/// As `MOST_UNATTENDED_OF_GRANT` of the gateway's `budget`.
const MOST: usize = 64;

/// Requests besides calls that a server may be slow to answer.
const OTHERS: [&str; 4] = ["ping", "prompts/list", "resources/list", "resources/templates/list"];

/// A server that begins to answer calls and lists, and never goes on; also the introduction of a
/// client named `slow`.
fn silent(request: &Recorded) -> Reply {
    let is_silent = match request.rpc_method().as_deref() {
        Some("initialize") => request.text().contains(r#""name":"slow""#),
        Some(method) => method == "tools/call" || OTHERS.contains(&method),
        None => false,
    };
    if is_silent { Reply::events("").ending(End::Never) } else { mcp_server("[]")(request) }
}

async fn start(timeout: Duration) -> Harness {
    let upstream = Upstream::start(silent).await.unwrap();
    let mut notes = server("notes", &upstream.url());
    notes.timeout = timeout;
    let configuration = Configuration {
        servers: vec![notes],
        policies: vec![policy("notes", "rules", OPEN)],
        grants: vec![(TokenHash::of(TOKEN), grant("alice", &["notes"], "rules"))],
    };
    Harness::with(upstream, configuration).await
}

fn call(id: usize) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"read","arguments":{{}}}}}}"#
    )
}

#[tokio::test]
async fn only_so_many_requests_run_on_without_their_client() {
    let harness = start(Duration::from_mins(5)).await;
    let session = harness.session(TOKEN).await;
    let headers = [("mcp-session-id", session.as_str())];
    for id in 0..MOST + 20 {
        let mut client = RawClient::connect(harness.address).await.unwrap();
        let bytes = request("POST", "/mcp/notes", harness.address, &headers, call(id).as_bytes());
        client.send(&bytes).await.unwrap();
        until("the call is at the server", || harness.calls().len() > id).await;
    }
    let cancelled = || harness.upstream.bodies_of("notifications/cancelled");
    until("further ones are cancelled", || cancelled().len() >= 20).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(cancelled().len(), 20);
    assert!(cancelled().iter().all(|body| body.contains(r#""requestId":"#)));
    let records = harness.records().await;
    let outcomes = records.iter().filter(|record| at(record, "kind") == "\"outcome\"");
    let gone = outcomes.filter(|record| at(record, "message").contains("went away"));
    assert_eq!(gone.count(), 20);
}

#[tokio::test]
async fn a_server_is_told_of_a_call_that_took_too_long() {
    let harness = start(Duration::from_secs(2)).await;
    let session = harness.session(TOKEN).await;
    let answer = harness.post_with(&[("mcp-session-id", &session)], call(7).as_bytes()).await;
    assert_eq!(answer.status, 504, "{}", answer.text());
    until("it is told", || !harness.upstream.bodies_of("notifications/cancelled").is_empty()).await;
    let told = harness.upstream.bodies_of("notifications/cancelled");
    assert_eq!(told.len(), 1);
    assert!(told[0].contains(r#""requestId":7"#), "{told:?}");
}

fn other(id: usize) -> String {
    let method = OTHERS[id % OTHERS.len()];
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)
}

#[tokio::test]
async fn lists_and_pings_without_their_client_are_cancelled_as_calls_are() {
    let harness = start(Duration::from_mins(5)).await;
    let session = harness.session(TOKEN).await;
    let headers = [("mcp-session-id", session.as_str())];
    let arrived = |id: usize| {
        let method = OTHERS[id % OTHERS.len()];
        harness.upstream.bodies_of(method).iter().any(|body| *body == other(id))
    };
    for id in 0..MOST + OTHERS.len() {
        let client = harness.begun("POST", &headers, other(id).as_bytes()).await;
        until("the request is at the server", || arrived(id)).await;
        drop(client);
        let further = (id + 1).saturating_sub(MOST);
        let cancelled = || harness.upstream.bodies_of("notifications/cancelled");
        until("further ones are cancelled", || cancelled().len() >= further).await;
    }
    for id in MOST..MOST + OTHERS.len() {
        let cancelled = harness.upstream.bodies_of("notifications/cancelled");
        let named = format!(r#""requestId":{id},"#);
        assert!(cancelled.iter().any(|body| body.contains(&named)), "{id}: {cancelled:?}");
    }
}

#[tokio::test]
async fn a_server_is_told_of_a_list_that_took_too_long_but_never_of_an_introduction() {
    let harness = start(Duration::from_secs(2)).await;
    let session = harness.session(TOKEN).await;
    let headers = [("mcp-session-id", session.as_str())];
    let slow = r#"{"jsonrpc":"2.0","id":5,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"slow","version":"1"}}}"#;
    assert_eq!(harness.post_with(&headers, slow.as_bytes()).await.status, 504);
    assert_eq!(harness.post_with(&headers, other(7).as_bytes()).await.status, 504);
    let told = || harness.upstream.bodies_of("notifications/cancelled");
    until("it is told", || !told().is_empty()).await;
    assert_eq!(told().len(), 1, "{:?}", told());
    assert!(told()[0].contains(r#""requestId":7,"#), "{:?}", told());
}
