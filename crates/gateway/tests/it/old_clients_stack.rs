//! Clients of the HTTP+SSE transport that use all servers of their grant.

use sluice_store::TokenHash;
use sluice_testkit::{End, RawClient, Recorded, Reply, Upstream, mcp_server};

use crate::{
    harness::{Harness, TOKEN, grant, policy, request, server},
    stack::{BOB, HELLO, Stacked, call, stacked},
    talk::{OPEN, hear, until},
};

const TOOLS: &str = r#"[{"name":"read"},{"name":"drop"}]"#;
const HIDING: &str = r#"{"version":"1","default":"allow","hide":["drop"]}"#;
const READY: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#;
const CHANGED: &str = "notifications/tools/list_changed";

/// A server with a session stream that begins with an event without a message.
fn streaming(request: &Recorded) -> Reply {
    let news = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"news"}}"#;
    match request.method.as_str() {
        "GET" => Reply::events(format!("id: 1\ndata: \n\ndata: {news}\n\n")).ending(End::Never),
        _ => mcp_server(TOOLS)(request),
    }
}

async fn open(harness: &Harness) -> (RawClient, String) {
    let mut stream = RawClient::connect(harness.address).await.unwrap();
    let bytes = request("GET", "/mcp/sse", harness.address, &[], b"");
    stream.send(&bytes).await.unwrap();
    assert!(stream.head().await.unwrap().unwrap().starts_with("HTTP/1.1 200"));
    let first = hear(&mut stream, "\n\n").await;
    let endpoint = first.strip_prefix("event: endpoint\ndata: ").unwrap().trim().to_owned();
    assert!(endpoint.starts_with("/mcp/messages?session="), "{endpoint}");
    (stream, endpoint)
}

async fn post(harness: &Harness, endpoint: &str, headers: &[(&str, &str)], body: &str) -> u16 {
    harness.raw(&request("POST", endpoint, harness.address, headers, body.as_bytes())).await.status
}

/// A client that has introduced itself to two servers.
async fn introduced() -> (Stacked, RawClient, String) {
    let stack =
        stacked(vec![("notes", HIDING, Box::new(streaming)), ("mail", OPEN, Box::new(streaming))])
            .await;
    let (mut stream, endpoint) = open(&stack.harness).await;
    assert_eq!(post(&stack.harness, &endpoint, &[], HELLO).await, 202);
    hear(&mut stream, "\"id\":0").await;
    assert_eq!(post(&stack.harness, &endpoint, &[], READY).await, 202);
    (stack, stream, endpoint)
}

#[tokio::test]
async fn all_servers_are_reached_by_one_stream() {
    let (stack, mut stream, endpoint) = introduced().await;
    let heard = hear(&mut stream, "news").await;
    assert!(heard.starts_with("event: message\ndata: {"), "no event without a message: {heard}");
    assert_eq!(post(&stack.harness, &endpoint, &[], LIST).await, 202);
    let listed = hear(&mut stream, "\"id\":7").await;
    assert!(listed.contains("notes__read") && listed.contains("mail__drop"), "{listed}");
    assert!(!listed.contains("notes__drop"), "{listed}");
    assert_eq!(post(&stack.harness, &endpoint, &[], &call("mail__read", "{}")).await, 202);
    assert!(hear(&mut stream, "\"id\":1").await.contains("done"));
    assert_eq!(post(&stack.harness, &endpoint, &[], &call("notes__drop", "{}")).await, 202);
    assert!(hear(&mut stream, "\"id\":1").await.contains("[POLICY DENIED]"));
    assert!(stack.upstreams[0].bodies_of("tools/call").is_empty());
    // The sessions at the servers end with the stream.
    drop(stream);
    for upstream in &stack.upstreams {
        until("its session is ended", || {
            upstream.requests().iter().any(|request| request.method == "DELETE")
        })
        .await;
    }
}

#[tokio::test]
async fn the_stream_belongs_to_its_grant_and_ends_with_it() {
    let (stack, mut stream, endpoint) = introduced().await;
    let bob = format!("Bearer {BOB}");
    let harness = &stack.harness;
    assert_eq!(post(harness, &endpoint, &[("authorization", &bob)], LIST).await, 404);
    let other = endpoint.replace("/mcp/messages", "/mcp/notes/messages");
    assert_eq!(post(harness, &other, &[], LIST).await, 404);
    let mut configuration = harness.configuration.clone();
    configuration.policies = vec![policy("notes", "rules", OPEN), policy("mail", "rules", OPEN)];
    harness.gateway.apply(&configuration).unwrap();
    hear(&mut stream, CHANGED).await;
    harness.gateway.set_grant(&TokenHash::of(TOKEN), None);
    while stream.chunk().await.unwrap().is_some_and(|chunk| !chunk.is_empty()) {}
}

/// Clients that come and go leave no streams behind, also where servers have none.
#[tokio::test]
async fn nothing_is_left_of_clients_that_are_gone() {
    let upstream = Upstream::start(mcp_server(TOOLS)).await.unwrap();
    let configuration = Harness::configuration(&upstream, OPEN);
    // Room for a few clients at a time.
    let harness =
        Harness::tuned(upstream, configuration, |settings| settings.descriptors = 32).await;
    for round in 0..30 {
        let (mut stream, endpoint) = reconnect(&harness, round).await;
        assert_eq!(post(&harness, &endpoint, &[], HELLO).await, 202);
        hear(&mut stream, "\"id\":0").await;
        assert_eq!(post(&harness, &endpoint, &[], READY).await, 202);
        until("the server's stream is asked for", || {
            let recorded = harness.upstream.requests();
            recorded.iter().filter(|request| request.method == "GET").count() > round
        })
        .await;
    }
}

/// Opens a stream as soon as there is room, for which those before must be gone.
async fn reconnect(harness: &Harness, round: usize) -> (RawClient, String) {
    for _ in 0..500 {
        let mut probe = RawClient::connect(harness.address).await.unwrap();
        probe.send(&request("GET", "/mcp/sse", harness.address, &[], b"")).await.unwrap();
        let head = probe.head().await.unwrap().unwrap_or_default();
        if head.starts_with("HTTP/1.1 200") {
            let first = hear(&mut probe, "\n\n").await;
            let endpoint = first.strip_prefix("event: endpoint\ndata: ").unwrap().trim().to_owned();
            return (probe, endpoint);
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("no stream can be opened in round {round}: those before are still there");
}

#[tokio::test]
async fn a_server_may_have_the_name_of_the_path() {
    let upstream = Upstream::start(mcp_server(TOOLS)).await.unwrap();
    let configuration = sluice_gateway::Configuration {
        servers: vec![server("sse", &upstream.url())],
        policies: vec![policy("sse", "rules", OPEN)],
        grants: vec![(TokenHash::of(TOKEN), grant("alice", &["sse"], "rules"))],
    };
    let harness = Harness::with(upstream, configuration).await;
    let bytes = request("POST", "/mcp/sse", harness.address, &[], LIST.as_bytes());
    assert!(harness.raw(&bytes).await.text().contains("\"read\""));
}

#[tokio::test]
async fn only_the_methods_of_this_transport_are_taken() {
    let stack = stacked(vec![("notes", OPEN, Box::new(streaming))]).await;
    for (method, path, allowed) in
        [("POST", "/mcp/sse", "GET"), ("GET", "/mcp/messages?session=x", "POST")]
    {
        let address = stack.harness.address;
        let answer = stack.harness.raw(&request(method, path, address, &[], b"")).await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some(allowed)), "{path}");
    }
    let anonymous = [("authorization", "-")];
    let bytes = request("GET", "/mcp/sse", stack.harness.address, &anonymous, b"");
    assert_eq!(stack.harness.raw(&bytes).await.status, 401);
}
