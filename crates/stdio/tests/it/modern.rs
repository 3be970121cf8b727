//! Modern children, and detecting the era of a child.

use http::HeaderMap;
use sluice_stdio::Instances;
use sluice_upstream::client::{Client, Declares};
use sluice_wire::json::Bounds;

use crate::client::{MODERN, Server, Stream, call, until, whole};

const VERSION: [(&str, &str); 1] = [("mcp-protocol-version", MODERN)];

async fn revision(mode: &str) -> String {
    let server = Server::new(mode, Instances::Shared);
    let headers = HeaderMap::new();
    let mut client =
        Client::introduce(&server.upstream, &headers, Bounds::default(), Declares::Nothing)
            .await
            .unwrap();
    let tools = client.request("tools/list", "", None).await.unwrap();
    assert!(tools.text().contains("echo"), "{}", tools.text());
    let revision = client.revision().to_owned();
    client.goodbye().await;
    revision
}

#[tokio::test]
async fn the_era_is_the_childs_own() {
    assert_eq!(revision("modern").await, MODERN);
    assert_eq!(revision("slow").await, MODERN);
    assert_eq!(revision("legacy").await, "2025-06-18");
    assert_eq!(revision("fragile").await, "2025-06-18");
    assert_eq!(revision("deaf").await, "2025-06-18");
}

#[tokio::test]
async fn a_legacy_child_does_not_know_modern_requests() {
    let server = Server::new("legacy", Instances::Shared);
    let answer = server.send("POST", &VERSION, &call("1", "echo")).await.unwrap();
    let answer = whole(answer).await.unwrap();
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains(r#""id":1,"#) && answer.body.contains("-32000"), "{answer:?}");
}

#[tokio::test]
async fn modern_requests_keep_their_ids_and_tokens() {
    let server = Server::new("modern", Instances::Shared);
    let answer = server.send("POST", &VERSION, &call("\"x\"", "progress")).await.unwrap();
    let answer = whole(answer).await.unwrap();
    assert!(answer.body.contains(r#""progressToken":"mine-progress""#), "{answer:?}");
    assert!(answer.body.contains(r#""id":"x","#), "{answer:?}");
    let unknown = r#"{"jsonrpc":"2.0","id":1,"method":"vendor/none","params":{}}"#;
    let answer = server.send("POST", &VERSION, unknown).await.unwrap();
    assert_eq!(answer.status(), 404);
}

#[tokio::test]
async fn listening_and_going_away() {
    let server = Server::new("modern", Instances::Shared);
    let listen = r#"{"jsonrpc":"2.0","id":"listen:0","method":"subscriptions/listen","params":{"notifications":{}}}"#;
    let answer = server.send("POST", &VERSION, listen).await.unwrap();
    let mut stream = Stream::new(answer.into_body());
    let first = stream.next().await.unwrap();
    let tag = r#""io.modelcontextprotocol/subscriptionId":"listen:0""#;
    assert!(first.contains("acknowledged") && first.contains(tag), "{first}");
    server.send("POST", &VERSION, &call("1", "changed")).await.unwrap();
    let change = stream.next().await.unwrap();
    assert!(change.contains("list_changed") && change.contains(tag), "{change}");
    drop(stream);
    let cancelled =
        || server.recorded().iter().any(|line| line.contains("notifications/cancelled"));
    until("the child is told", cancelled).await;
}

#[tokio::test]
async fn a_legacy_child_in_use_is_asked_before_another_is_started() {
    let server = Server::new("legacy", Instances::Shared);
    let session = server.begin().await;
    for _ in 0..2 {
        let answer = server.send("POST", &VERSION, &call("1", "echo")).await.unwrap();
        assert_eq!(answer.status(), 400);
    }
    let used = server.call(&session, "2", "echo").await.unwrap();
    assert_eq!(used.status, 200);
    let count = |what: &str| server.recorded().iter().filter(|line| line.contains(what)).count();
    assert_eq!((count("initialize\""), count("server/discover")), (1, 1));
}
