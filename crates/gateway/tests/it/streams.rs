//! Streams that stay open: told of changes, ended by revocation, shared upstream.

use sluice_gateway::Configuration;
use sluice_store::TokenHash;
use sluice_testkit::{End, Recorded, Reply, Upstream, mcp_server};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::{
    harness::{Harness, TOKEN, at, grant, policy, request, server},
    talk::{OPEN, hear, mirrors, modern_body, modern_server, until},
};

const TOOLS: &str = r#"[{"name":"read"},{"name":"drop"}]"#;
const HIDING: &str = r#"{"version":"1","default":"allow","hide":["drop"]}"#;
const BOB: &str = "sg_test_token_of_bob";
const CHANGED: &str = "notifications/tools/list_changed";

fn subscription(notes: &str) -> impl Fn(&Recorded) -> Reply + Send + Sync + 'static {
    let notes = notes.to_owned();
    move |request: &Recorded| {
        match request.rpc_method().as_deref() {
        Some("subscriptions/listen") => Reply::events(format!(
            ": hello\n\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{{\"notifications\":{{}}}}}}\n\n{notes}"
        ))
        .ending(End::Never),
        Some("tools/call") if request.text().contains("\"task\"") => {
            Reply::result(request, r#"{"resultType":"task","task":{"taskId":"t-1"}}"#)
        }
        _ => modern_server(TOOLS)(request),
    }
    }
}

fn legacy(request: &Recorded) -> Reply {
    match request.method.as_str() {
        "GET" => Reply::events(": hello\n\n").ending(End::Never),
        _ => mcp_server(TOOLS)(request),
    }
}

async fn listening(harness: &Harness, token: &str, wish: &str) -> sluice_testkit::RawClient {
    let body = modern_body("subscriptions/listen", &format!(r#""notifications":{wish}"#), "{}")
        .replace("\"id\":1", "\"id\":\"listen:0\"");
    let token = format!("Bearer {token}");
    let mut headers = mirrors("subscriptions/listen", None);
    headers.push(("authorization", &token));
    let mut client = harness.begun("POST", &headers, body.as_bytes()).await;
    let head = client.head().await.unwrap().unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let first = hear(&mut client, "acknowledged").await;
    assert!(first.contains(r#""io.modelcontextprotocol/subscriptionId":"listen:0""#), "{first}");
    client
}

fn put(harness: &Harness, rules: &str) {
    let mut configuration = harness.configuration.clone();
    configuration.policies = vec![policy("notes", "rules", rules)];
    harness.gateway.apply(&configuration).unwrap();
}

async fn two(responder: impl Fn(&Recorded) -> Reply + Send + Sync + 'static) -> Harness {
    let upstream = Upstream::start(responder).await.unwrap();
    let configuration = Configuration {
        servers: vec![server("notes", &upstream.url())],
        policies: vec![
            policy("notes", "rules", OPEN),
            policy("notes", "few", r#"{"version":"1","default":"deny"}"#),
        ],
        grants: vec![
            (TokenHash::of(TOKEN), grant("alice", &["notes"], "rules")),
            (TokenHash::of(BOB), grant("bob", &["notes"], "few")),
        ],
    };
    Harness::with(upstream, configuration).await
}

#[tokio::test]
async fn a_policy_that_changes_the_visible_tools_is_told_on_both_kinds_of_stream() {
    let harness = Harness::start(OPEN, legacy).await;
    let session = harness.session(TOKEN).await;
    let mut client = harness.begun("GET", &[("mcp-session-id", &session)], b"").await;
    client.head().await.unwrap();
    hear(&mut client, ":\n\n").await;
    put(&harness, HIDING);
    hear(&mut client, CHANGED).await;
    let harness = Harness::start(OPEN, subscription("")).await;
    let mut client = listening(&harness, TOKEN, r#"{"toolsListChanged":true}"#).await;
    put(&harness, HIDING);
    let heard = hear(&mut client, CHANGED).await;
    assert!(
        heard.contains(r#""subscriptionId":"listen:0""#)
            || heard.contains(r#"/subscriptionId":"listen:0""#),
        "{heard}"
    );
}

#[tokio::test]
async fn a_revoked_grant_has_no_streams() {
    let harness = Harness::start(OPEN, legacy).await;
    let session = harness.session(TOKEN).await;
    let mut client = harness.begun("GET", &[("mcp-session-id", &session)], b"").await;
    client.head().await.unwrap();
    hear(&mut client, ":\n\n").await;
    harness.gateway.set_grant(&TokenHash::of(TOKEN), None);
    while client.chunk().await.unwrap().is_some_and(|chunk| !chunk.is_empty()) {}
    let harness = Harness::start(OPEN, subscription("")).await;
    let mut client = listening(&harness, TOKEN, "{}").await;
    let mut revoked = harness.configuration.grants[0].1.clone();
    revoked.revoked_at = Some(sluice_policy::Timestamp::from_millis(1));
    harness.gateway.set_grant(&TokenHash::of(TOKEN), Some(&revoked));
    while client.chunk().await.unwrap().is_some_and(|chunk| !chunk.is_empty()) {}
}

#[tokio::test]
async fn clients_with_the_same_subscription_share_one_stream() {
    let harness = two(subscription("")).await;
    let mut clients = Vec::new();
    for token in [TOKEN, BOB, TOKEN, BOB] {
        clients.push(listening(&harness, token, r#"{"toolsListChanged":true}"#).await);
    }
    assert_eq!(harness.upstream.bodies_of("subscriptions/listen").len(), 1);
    clients.push(listening(&harness, TOKEN, r#"{"promptsListChanged":true}"#).await);
    assert_eq!(harness.upstream.bodies_of("subscriptions/listen").len(), 2);
    for request in harness.upstream.requests() {
        assert!(!request.text().contains("listen:0"));
        assert_eq!(request.header("authorization"), None);
    }
}

/// One grant's news are not another's, although they come by one stream.
#[tokio::test]
async fn a_shared_stream_is_filtered_for_each() {
    let note = |method: &str, params: &str| {
        format!("data: {{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{params}}}\n\n")
    };
    let notes = [
        note("notifications/resources/updated", r#"{"uri":"file:///secret"}"#),
        note("notifications/tasks", r#"{"taskId":"t-1","status":"working"}"#),
        note("notifications/tasks/status", r#"{"taskId":"t-2","status":"working"}"#),
        note("notifications/progress", r#"{"progressToken":1,"progress":1}"#),
        note("notifications/message", r#"{"data":"of one request"}"#),
        note(CHANGED, "{}"),
    ];
    let harness = two(subscription(&notes.concat())).await;
    let begun = harness.modern("tools/call", Some("read"), r#""name":"read","task":{}"#).await;
    let sealed = at(&crate::harness::json(&begun), "result/task/taskId");
    assert!(!begun.text().contains("t-1"), "{}", begun.text());
    let mut alice = listening(&harness, TOKEN, r#"{"resourceSubscriptions":[]}"#).await;
    let heard = hear(&mut alice, CHANGED).await;
    assert!(heard.contains("file:///secret") && heard.contains(&sealed), "{heard}");
    for foreign in ["t-1", "t-2", "progressToken", "of one request"] {
        assert!(!heard.contains(foreign), "{foreign}: {heard}");
    }
    let harness = two(subscription(&notes.concat())).await;
    harness.modern("tools/call", Some("read"), r#""name":"read","task":{}"#).await;
    let mut bob = listening(&harness, BOB, r#"{"resourceSubscriptions":["file:///secret"]}"#).await;
    let heard = hear(&mut bob, CHANGED).await;
    for foreign in ["secret", "taskId", "progressToken"] {
        assert!(!heard.contains(foreign), "{foreign}: {heard}");
    }
}

#[tokio::test]
async fn a_subscription_is_reduced_to_permitted_resources_and_own_tasks() {
    let harness = two(subscription("")).await;
    let begun = harness.modern("tools/call", Some("read"), r#""name":"read","task":{}"#).await;
    let sealed = at(&crate::harness::json(&begun), "result/task/taskId");
    let wish = format!(
        r#"{{"resourceSubscriptions":["a:b",7],"ResourceSubscriptions":["a:c"],"taskIds":[{sealed},"t-9"],"promptsListChanged":"yes","filesChanged":true,"toolsListChanged":true}}"#
    );
    let _alice = listening(&harness, TOKEN, &wish).await;
    let sent = harness.upstream.bodies_of("subscriptions/listen");
    assert!(sent[0].contains(r#""notifications":{"resourceSubscriptions":["a:b"],"taskIds":["t-1"],"toolsListChanged":true}"#), "{sent:?}");
    let _bob = listening(&harness, BOB, &wish).await;
    let sent = harness.upstream.bodies_of("subscriptions/listen");
    assert!(
        sent[1].contains(
            r#""notifications":{"resourceSubscriptions":[],"taskIds":[],"toolsListChanged":true}"#
        ),
        "{sent:?}"
    );
}

#[tokio::test]
async fn a_server_that_does_not_acknowledge_is_given_up() {
    let upstream = Upstream::start(|request: &Recorded| match request.rpc_method().as_deref() {
        Some("subscriptions/listen") => Reply::events(": hello\n\n").ending(End::Never),
        _ => modern_server(TOOLS)(request),
    })
    .await
    .unwrap();
    let mut impatient = server("notes", &upstream.url());
    impatient.timeout = std::time::Duration::from_millis(200);
    let configuration = Configuration {
        servers: vec![impatient],
        policies: vec![policy("notes", "rules", OPEN)],
        grants: vec![(TokenHash::of(TOKEN), grant("alice", &["notes"], "rules"))],
    };
    let harness = Harness::with(upstream, configuration).await;
    let answer = harness.modern("subscriptions/listen", None, r#""notifications":{}"#).await;
    assert_eq!(answer.status, 504, "{}", answer.text());
}

/// A server that reads one call, begins to answer, and tells when it is left.
async fn abandoned(is_modern: bool) -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (reads, arrived) = tokio::sync::oneshot::channel();
    let (sender, receiver) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let mut senders = Some((reads, sender));
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = vec![0; 64 << 10];
            let mut read = String::new();
            while !read.contains("\r\n\r\n") || !read.trim_end().ends_with('}') {
                let Ok(count @ 1..) = stream.read(&mut bytes).await else { break };
                read.push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
            if !read.contains("tools/call") {
                let _ = stream
                    .write_all(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                    .await;
                continue;
            }
            let Some((reads, sender)) = senders.take() else { continue };
            let _ = reads.send(());
            tokio::spawn(async move {
                // It hears of nothing more until it has answered, or was left.
                let left = tokio::time::timeout(
                    std::time::Duration::from_millis(500),
                    stream.read(&mut bytes),
                )
                .await;
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 48\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}").await;
                let _ = sender.send(left.is_ok());
            });
        }
    });
    let upstream = Upstream::start(mcp_server("[]")).await.unwrap();
    let configuration = Configuration {
        servers: vec![server("notes", &url)],
        policies: vec![policy("notes", "rules", OPEN)],
        grants: vec![(TokenHash::of(TOKEN), grant("alice", &["notes"], "rules"))],
    };
    let harness = Harness::with(upstream, configuration).await;
    let client = if is_modern {
        let body = modern_body("tools/call", r#""name":"read""#, "{}");
        harness.begun("POST", &mirrors("tools/call", Some("read")), body.as_bytes()).await
    } else {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#;
        harness.begun("POST", &[], body.as_bytes()).await
    };
    arrived.await.unwrap();
    drop(client);
    let left = receiver.await.unwrap();
    let mut records = harness.records().await;
    while records.len() < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        records = harness.records().await;
    }
    let outcome = at(&records[1], "outcome");
    assert_eq!(outcome, if is_modern { "\"error\"" } else { "\"allow\"" });
    left
}

#[tokio::test]
async fn going_away_cancels_only_in_the_modern_era() {
    assert!(abandoned(true).await);
    assert!(!abandoned(false).await);
}

#[tokio::test]
async fn there_are_no_more_streams_than_descriptors() {
    let upstream = Upstream::start(legacy).await.unwrap();
    let configuration = Configuration {
        servers: vec![server("notes", &upstream.url())],
        policies: vec![policy("notes", "rules", OPEN)],
        grants: vec![(TokenHash::of(TOKEN), grant("alice", &["notes"], "rules"))],
    };
    // Room for a connection and its stream, and one connection more.
    let harness =
        Harness::tuned(upstream, configuration, |settings| settings.descriptors = 8).await;
    let session = harness.session(TOKEN).await;
    let headers = [("mcp-session-id", session.as_str())];
    let mut first = harness.begun("GET", &headers, b"").await;
    first.head().await.unwrap();
    hear(&mut first, ":\n\n").await;
    let mut second = None;
    until("the first connections are gone", || harness.gateway.metrics().contains("sluice_")).await;
    for _ in 0..200 {
        let mut client = harness.begun("GET", &headers, b"").await;
        let answer = client.answer().await.unwrap().unwrap_or_default();
        if answer.status == 503 {
            second = Some(answer);
            break;
        }
    }
    assert_eq!(second.map(|answer| answer.status), Some(503));
    drop(first);
    let mut last = 0;
    for _ in 0..200 {
        let bytes = request(
            "POST",
            "/mcp/notes",
            harness.address,
            &[],
            br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
        );
        last = harness.raw(&bytes).await.status;
        if last == 200 {
            break;
        }
    }
    assert_eq!(last, 200);
}
