//! The budget for bytes of long messages: beyond it a request is refused with its name, and
//! short ones and other grants notice nothing.

use sluice_gateway::Configuration;
use sluice_store::TokenHash;
use sluice_testkit::{RawClient, Recorded, Reply, Upstream, mcp_server};

use crate::{
    harness::{Harness, TOKEN, grant, policy, request, server},
    talk::{OPEN, until},
};

const BOB: &str = "sg_test_token_of_bob";
const LONG: usize = 900 << 10;

/// Two messages of a megabyte, and one of each grant.
async fn start(responder: impl Fn(&Recorded) -> Reply + Send + Sync + 'static) -> Harness {
    let upstream = Upstream::start(responder).await.unwrap();
    let configuration = Configuration {
        servers: vec![server("notes", &upstream.url())],
        policies: vec![policy("notes", "rules", OPEN)],
        grants: vec![
            (TokenHash::of(TOKEN), grant("alice", &["notes"], "rules")),
            (TokenHash::of(BOB), grant("bob", &["notes"], "rules")),
        ],
    };
    let tune = |settings: &mut sluice_gateway::Settings| {
        settings.in_flight = 2 << 20;
        settings.answer = 1 << 20;
        settings.bounds.bytes = 1 << 20;
    };
    Harness::tuned(upstream, configuration, tune).await
}

fn call(tool: &str, length: usize) -> String {
    let text = "x".repeat(length);
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{{"text":"{text}"}}}}}}"#
    )
}

async fn refused(harness: &Harness) {
    let answer = harness.post(&call("read", LONG)).await;
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.text().contains("limits.in_flight"), "{}", answer.text());
    assert!(answer.text().contains(r#""side":"gateway""#), "{}", answer.text());
    assert_eq!(harness.post(&call("read", 10)).await.status, 200);
    let token = format!("Bearer {BOB}");
    let of_bob = [("authorization", token.as_str())];
    assert_eq!(harness.post_with(&of_bob, call("read", LONG).as_bytes()).await.status, 200);
}

async fn accepted_again(harness: &Harness) {
    for _ in 0..200 {
        if harness.post(&call("read", LONG)).await.status == 200 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("its bytes are still taken");
}

#[tokio::test]
async fn a_long_request_counts_until_it_is_answered() {
    let (reply, say) = Reply::later();
    let harness = start(move |request| {
        if request.text().contains("slow") { reply.clone() } else { mcp_server("[]")(request) }
    })
    .await;
    let mut client = RawClient::connect(harness.address).await.unwrap();
    let bytes = call("slow", LONG);
    let bytes = request("POST", "/mcp/notes", harness.address, &[], bytes.as_bytes());
    client.send(&bytes).await.unwrap();
    until("the call is at the server", || !harness.calls().is_empty()).await;
    refused(&harness).await;
    say.send(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#.into()).unwrap();
    assert_eq!(client.answer().await.unwrap().unwrap().status, 200);
    accepted_again(&harness).await;
}

#[tokio::test]
async fn a_body_that_is_not_finished_counts_too() {
    let harness = start(mcp_server("[]")).await;
    let mut client = RawClient::connect(harness.address).await.unwrap();
    let bytes = call("read", LONG);
    let bytes = request("POST", "/mcp/notes", harness.address, &[], bytes.as_bytes());
    client.send(&bytes[..bytes.len() - 10]).await.unwrap();
    // The gateway needs a moment to read it.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    refused(&harness).await;
    drop(client);
    accepted_again(&harness).await;
}

#[tokio::test]
async fn a_long_answer_counts_until_it_is_sent() {
    let text = "x".repeat(16 << 10);
    let tool = |number: usize| {
        format!(
            r#"{{"name":"read{number}","description":"{text}","inputSchema":{{"type":"object"}}}}"#
        )
    };
    let tools: Vec<_> = (0..=LONG / text.len()).map(tool).collect();
    let tools = format!(r#"{{"tools":[{}]}}"#, tools.join(","));
    let harness = start(move |request| match request.rpc_method().as_deref() {
        Some("tools/list") => Reply::result(request, &tools),
        _ => mcp_server("[]")(request),
    })
    .await;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    for _ in 0..5 {
        let answer = harness.post(list).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.body.len() > LONG);
    }
    accepted_again(&harness).await;
}
