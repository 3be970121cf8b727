//! Servers of the oldest HTTP transport: found out, spoken to as any other, and
//! harmless when they break.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use sluice_gateway::Configuration;
use sluice_store::TokenHash;
use sluice_testkit::{End, ModernOnly, OldServer, Recorded, Reply, Upstream, mcp_server};

use crate::{
    bridge::found_out,
    harness::{Harness, TOKEN, at, grant, json, policy, request, server},
    talk::{OPEN, hear, until},
};

const TOOLS: &str = r#"[{"name":"read"},{"name":"drop"}]"#;
const HIDING: &str = r#"{"version":"1","default":"allow","hide":["drop"]}"#;
const ASKING: &str = r#"{"version":"1","default":"allow","server_requests":["sampling"]}"#;

pub(crate) async fn in_front_of(old: &OldServer, rules: &str) -> Harness {
    Harness::with(old.upstream.clone(), Harness::configuration(&old.upstream, rules)).await
}

fn call(id: u32, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{{params}}}}}"#)
}

fn event(text: &str) -> String {
    format!("event: message\ndata: {text}\n\n")
}

#[tokio::test]
async fn a_session_lists_calls_and_ends() {
    let old = OldServer::start(mcp_server(TOOLS)).await.unwrap();
    let harness = in_front_of(&old, HIDING).await;
    let session = harness.session(TOKEN).await;
    let headers = [("mcp-session-id", session.as_str())];
    let ready = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(harness.post_with(&headers, ready).await.status, 202);
    let list = br#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
    let listed = harness.post_with(&headers, list).await;
    assert!(listed.text().contains("read") && !listed.text().contains("drop"), "{}", listed.text());
    let allowed = harness.post_with(&headers, call(3, r#""name":"read""#).as_bytes()).await;
    assert_eq!(at(&json(&allowed), "result/content/0/text"), "\"done\"");
    let denied = harness.post_with(&headers, call(4, r#""name":"drop""#).as_bytes()).await;
    assert!(denied.text().contains("POLICY DENIED"), "{}", denied.text());
    assert_eq!(harness.calls().len(), 1);
    let ended = harness.raw(&request("DELETE", "/mcp/notes", harness.address, &headers, b"")).await;
    assert_eq!(ended.status, 200);
    until("no stream is left", || old.open_streams() == 0).await;
}

#[tokio::test]
async fn its_session_and_credential_stay_behind_the_gateway() {
    let old = OldServer::start(mcp_server(TOOLS)).await.unwrap();
    let harness = in_front_of(&old, OPEN).await;
    let session = harness.session(TOKEN).await;
    assert!(!session.contains("sluice-sse"));
    harness
        .post_with(&[("mcp-session-id", &session)], call(1, r#""name":"read""#).as_bytes())
        .await;
    for request in harness.upstream.requests() {
        assert_eq!(request.header("authorization"), None);
        assert_eq!(request.header("mcp-session-id"), None, "{request:?}");
    }
}

#[tokio::test]
async fn a_call_without_a_session_has_one_for_itself() {
    let old = OldServer::start(mcp_server(TOOLS)).await.unwrap();
    let harness = in_front_of(&old, OPEN).await;
    for _ in 0..3 {
        let answer = harness.call("read", "{}").await;
        assert_eq!(at(&json(&answer), "result/content/0/text"), "\"done\"", "{}", answer.text());
    }
    // The first was posted to the stream's own URL before the server was known.
    let recorded = harness.upstream.requests();
    let calls = recorded.iter().filter(|request| {
        request.path == "/message" && request.rpc_method().as_deref() == Some("tools/call")
    });
    assert_eq!(calls.count(), 3);
    until("no stream is left", || old.open_streams() == 0).await;
}

#[tokio::test]
async fn the_transport_is_found_out_once() {
    let old = OldServer::start(mcp_server(TOOLS)).await.unwrap();
    let harness = in_front_of(&old, OPEN).await;
    for _ in 0..3 {
        harness.session(TOKEN).await;
    }
    let recorded = harness.upstream.requests();
    let tried =
        recorded.iter().filter(|request| request.method == "POST" && request.path == "/mcp");
    assert_eq!(tried.count(), 1);
    let answer = harness.modern("server/discover", None, "").await;
    assert_eq!(answer.status, 400, "{}", answer.text());
}

/// A server that took the old one's place at its address is found out again.
#[tokio::test]
async fn a_server_that_is_no_longer_old_is_noticed() {
    let is_old = Arc::new(AtomicBool::new(true));
    let said = Arc::clone(&is_old);
    let upstream = Upstream::start(move |request: &Recorded| {
        if !said.load(Ordering::Relaxed) {
            return mcp_server(TOOLS)(request);
        }
        match request.method.as_str() {
            "GET" => Reply::events(format!(
                "event: endpoint\ndata: /m\n\n{}",
                event(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2024-11-05","capabilities":{},"serverInfo":{"name":"o","version":"1"}}}"#)
            )),
            _ if request.path == "/m" => Reply::empty(202),
            _ => Reply::empty(404),
        }
    })
    .await
    .unwrap();
    let configuration = Harness::configuration(&upstream, OPEN);
    let harness = Harness::with(upstream, configuration).await;
    // Its answer is there before it was asked, so nobody waits for it yet.
    let answer = harness.post(r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#).await;
    assert_eq!(answer.status, 502, "{}", answer.text());
    is_old.store(false, Ordering::Relaxed);
    harness.session(TOKEN).await;
}

/// The other way round: a server of streamable HTTP whose place was taken by an old one.
#[tokio::test]
async fn a_server_that_became_old_is_noticed_after_a_failure() {
    let is_old = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&is_old);
    let upstream = Upstream::start(move |request: &Recorded| {
        match (now.load(Ordering::Relaxed), request.method.as_str()) {
            (false, _) => mcp_server(TOOLS)(request),
            (true, "GET") => Reply::events("event: endpoint\ndata: /m\n\n"),
            (true, _) => Reply::empty(405),
        }
    })
    .await
    .unwrap();
    let configuration = Harness::configuration(&upstream, OPEN);
    let harness = Harness::with(upstream, configuration).await;
    let streams = || {
        let recorded = harness.upstream.requests();
        recorded.iter().filter(|request| request.method == "GET").count()
    };
    harness.session(TOKEN).await;
    is_old.store(true, Ordering::Relaxed);
    let ping = r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#;
    assert_eq!(harness.post(ping).await.status, 405);
    assert_eq!(streams(), 0, "what was known is tried first");
    harness.post(ping).await;
    assert!(streams() > 0, "a stream is requested");
}

/// A server may change its era and its transport at once, as by an upgrade.
#[tokio::test]
async fn an_old_server_that_becomes_modern_is_found_out() {
    let is_old = Arc::new(AtomicBool::new(true));
    let (now, modern) = (Arc::clone(&is_old), ModernOnly::default());
    let upstream = Upstream::start(move |request: &Recorded| {
        match (now.load(Ordering::Relaxed), request.method.as_str()) {
            (false, _) => modern.reply(request),
            (true, "GET") => Reply::events("event: endpoint\ndata: /m\n\n"),
            (true, _) => Reply::empty(405),
        }
    })
    .await
    .unwrap();
    let configuration = Harness::configuration(&upstream, OPEN);
    let harness = Harness::with(upstream, configuration).await;
    // It opens a stream, which shows the transport, and takes no message.
    harness.session_of(TOKEN).await;
    is_old.store(false, Ordering::Relaxed);
    found_out(async || {
        let answer = harness.modern("prompts/list", None, "").await;
        answer.text().contains("\"prompts\"").then_some(())
    })
    .await;
}

#[tokio::test]
async fn news_and_requests_of_the_server_reach_the_client() {
    let old = OldServer::start(|request: &Recorded| match request.rpc_method().as_deref() {
        Some("tools/call") => {
            let id = request.rpc_id();
            let said = [
                r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}"#.to_owned(),
                r#"{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{}}"#.to_owned(),
                r#"{"jsonrpc":"2.0","id":8,"method":"elicitation/create","params":{}}"#.to_owned(),
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[]}}}}"#),
            ];
            Reply::events(said.map(|text| event(&text)).concat())
        }
        _ => mcp_server(TOOLS)(request),
    })
    .await
    .unwrap();
    let harness = in_front_of(&old, ASKING).await;
    let session = harness.session(TOKEN).await;
    let headers = [("mcp-session-id", session.as_str())];
    let body = call(1, r#""name":"read","_meta":{"progressToken":"p"}"#);
    let answer = harness.post_with(&headers, body.as_bytes()).await.text();
    assert!(answer.contains("notifications/progress"), "{answer}");
    assert!(answer.contains("sampling/createMessage") && !answer.contains("elicitation"));
    let sealed = answer.lines().find(|line| line.contains("sampling")).unwrap();
    let sealed = sealed.split("\"id\":\"").nth(1).unwrap().split('"').next().unwrap();
    let reply = format!(r#"{{"jsonrpc":"2.0","id":"{sealed}","result":{{}}}}"#);
    assert_eq!(harness.post_with(&headers, reply.as_bytes()).await.status, 202);
    until("the server has its answers", || {
        let bodies: Vec<_> = harness.upstream.requests().iter().map(Recorded::text).collect();
        bodies.contains(&r#"{"jsonrpc":"2.0","id":7,"result":{}}"#.to_owned())
            && bodies.iter().any(|body| body.contains("\"id\":8") && body.contains("-32601"))
    })
    .await;
}

#[tokio::test]
async fn messages_that_answer_no_request_come_by_get() {
    let old = OldServer::start(mcp_server(TOOLS)).await.unwrap();
    let harness = in_front_of(&old, OPEN).await;
    let session = harness.session(TOKEN).await;
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    old.say(&event(changed));
    let mut client = harness.begun("GET", &[("mcp-session-id", &session)], b"").await;
    assert!(client.head().await.unwrap().unwrap().starts_with("HTTP/1.1 200"));
    hear(&mut client, "tools/list_changed").await;
    old.say(&event(changed));
    hear(&mut client, "tools/list_changed").await;
    let answer = harness.raw(&request("GET", "/mcp/notes", harness.address, &[], b"")).await;
    assert_eq!(answer.status, 405);
}

#[tokio::test]
async fn a_stream_that_breaks_costs_those_who_wait_an_error_at_once() {
    let old = OldServer::start(|request: &Recorded| match request.rpc_method().as_deref() {
        Some("tools/call") if request.text().contains("garbage") => Reply::events("data: {\n\n"),
        Some("tools/call") if request.text().contains("break") => {
            Reply::events("").ending(End::Broken)
        }
        Some("tools/call") if request.text().contains("wait") => Reply::events(""),
        _ => mcp_server(TOOLS)(request),
    })
    .await
    .unwrap();
    let harness = in_front_of(&old, OPEN).await;
    for fault in ["garbage", "break"] {
        let session = harness.session(TOKEN).await;
        let headers = [("mcp-session-id", session.as_str())];
        let waits = call(1, r#""name":"wait""#);
        let mut waiting = harness.begun("POST", &headers, waits.as_bytes()).await;
        until("it waits", || harness.calls().contains(&waits)).await;
        let faulty = call(2, &format!(r#""name":"{fault}""#));
        let answer = harness.post_with(&headers, faulty.as_bytes()).await;
        assert_eq!(answer.status, 502, "{fault}: {}", answer.text());
        assert_eq!(at(&json(&answer), "error/data/side"), "\"upstream\"");
        assert_eq!(waiting.answer().await.unwrap().unwrap().status, 502, "{fault}");
    }
}

#[tokio::test]
async fn an_endpoint_elsewhere_is_not_called() {
    let trap = Upstream::start(mcp_server(TOOLS)).await.unwrap();
    let old = OldServer::at(&format!("{}?", trap.url()), mcp_server(TOOLS)).await.unwrap();
    let harness = in_front_of(&old, OPEN).await;
    let answer = harness.call("read", "{}").await;
    // What it said to the request itself: it is not a server of the newer transport.
    assert_eq!(answer.status, 405, "{}", answer.text());
    assert!(trap.requests().is_empty());
}

#[tokio::test]
async fn a_message_that_is_refused_fails_alone() {
    let old = OldServer::start(|request: &Recorded| match request.rpc_method().as_deref() {
        Some("tools/call") if request.text().contains("refuse") => Reply::empty(500),
        _ => mcp_server(TOOLS)(request),
    })
    .await
    .unwrap();
    let upstream = old.upstream.clone();
    let configuration = Configuration {
        servers: vec![server("notes", &upstream.url())],
        policies: vec![policy("notes", "rules", OPEN)],
        grants: vec![(TokenHash::of(TOKEN), grant("alice", &["notes"], "rules"))],
    };
    let harness = Harness::with(upstream, configuration).await;
    let session = harness.session(TOKEN).await;
    let headers = [("mcp-session-id", session.as_str())];
    let refused = harness.post_with(&headers, call(1, r#""name":"refuse""#).as_bytes()).await;
    assert_eq!(refused.status, 502);
    let answer = harness.post_with(&headers, call(1, r#""name":"read""#).as_bytes()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}
