//! Finding out which eras a server speaks, and leaving alone what needs no bridge.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sluice_testkit::{LegacyOnly, ModernOnly, Recorded, Reply};

use crate::{
    harness::{Harness, TOKEN, at, json},
    talk::{OPEN, mirrors, modern_body},
};

/// A gateway in front of a server of the modern era alone.
pub(crate) async fn before_modern(policy: &str) -> (Harness, ModernOnly) {
    let server = ModernOnly::default();
    let answering = server.clone();
    (Harness::start(policy, move |request| answering.reply(request)).await, server)
}

/// A gateway in front of a server of the legacy era alone.
pub(crate) async fn before_legacy(policy: &str) -> (Harness, LegacyOnly) {
    let server = LegacyOnly::default();
    let answering = server.clone();
    (Harness::start(policy, move |request| answering.reply(request)).await, server)
}

/// What reached the server under this method.
pub(crate) fn reached(harness: &Harness, method: &str) -> Vec<Recorded> {
    let all = harness.upstream.requests().into_iter();
    all.filter(|request| request.rpc_method().as_deref() == Some(method)).collect()
}

#[tokio::test]
async fn same_era_traffic_is_untouched() {
    let (harness, _) = before_legacy(OPEN).await;
    let session = harness.session(TOKEN).await;
    let body = r#"{ "jsonrpc":"2.0", "id":1, "method":"tools/call", "params":{"name":"echo", "arguments":{"n": 1.50}} }"#;
    for _ in 0..2 {
        let answer = harness.post_with(&[("mcp-session-id", &session)], body.as_bytes()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert_eq!(harness.calls(), [body, body]);

    let (harness, _) = before_modern(OPEN).await;
    let body = modern_body("tools/call", r#""name":"echo", "arguments":{"n": 1.50}"#, "{}");
    for _ in 0..2 {
        let headers = mirrors("tools/call", Some("echo"));
        let answer = harness.post_with(&headers, body.as_bytes()).await;
        assert!(answer.text().contains(r#""resultType":"complete","content""#));
    }
    assert_eq!(harness.calls(), [body.as_str(), &body]);
    assert!(reached(&harness, "initialize").is_empty());
}

/// Tries until something comes of it.
pub(crate) async fn found_out<T>(mut tries: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..600 {
        if let Some(found) = tries().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("tried in vain");
}

/// A server may be replaced by one of the other era while the gateway runs.
#[tokio::test]
async fn a_server_that_changes_its_era_is_found_out() {
    let (modern, legacy) = (ModernOnly::default(), LegacyOnly::default());
    let is_modern = Arc::new(AtomicBool::new(true));
    let now = Arc::clone(&is_modern);
    let harness = Harness::start(OPEN, move |request| {
        if now.load(Ordering::Relaxed) { modern.reply(request) } else { legacy.reply(request) }
    })
    .await;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    for turn in [true, false, true, false] {
        is_modern.store(turn, Ordering::Relaxed);
        // What was known no longer holds, and the server is not asked all the time.
        let session = found_out(async || {
            let answer = harness.session_of(TOKEN).await;
            answer.header("mcp-session-id").map(str::to_owned)
        })
        .await;
        let answer = harness.post_with(&[("mcp-session-id", &session)], list.as_bytes()).await;
        assert_eq!(at(&json(&answer), "result/tools/0/name"), "\"echo\"", "{turn}");
        let answer = found_out(async || {
            let answer = harness.modern("tools/list", None, "").await;
            (answer.status == 200 && at(&json(&answer), "error").is_empty()).then_some(answer)
        })
        .await;
        assert_eq!(at(&json(&answer), "result/tools/0/name"), "\"echo\"", "{turn}");
        assert_eq!(at(&json(&answer), "result/resultType"), "\"complete\"", "{turn}");
    }
}

/// What one client is refused says nothing of the server to others.
#[tokio::test]
async fn a_bad_request_of_one_client_does_not_change_what_a_server_speaks() {
    let (modern, legacy) = (ModernOnly::default(), LegacyOnly::default());
    let harness =
        Harness::start(OPEN, move |request| match request.header("mcp-protocol-version") {
            Some("2026-07-28") => modern.reply(request),
            _ if request.text().contains("bad") => Reply::new(400, "text/plain", "bad"),
            _ => legacy.reply(request),
        })
        .await;
    let bad = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"bad":1}}"#;
    for _ in 0..2 {
        assert_eq!(harness.post(bad).await.status, 400);
        let session = harness.session(TOKEN).await;
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"prompts/list"}"#;
        let answer = harness.post_with(&[("mcp-session-id", &session)], call.as_bytes()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let sent = reached(&harness, "prompts/list").pop().unwrap();
        assert_eq!(sent.text(), call, "it passes as it is");
    }
}

/// Some servers keep a stream alive by events that carry nothing.
#[tokio::test]
async fn events_that_are_no_messages_are_skipped() {
    let events = |request: &Recorded, result: &str| {
        let id = request.rpc_id();
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        Reply::events(format!("data: {{}}\n\ndata: {{\"ping\":1}}\n\ndata: {answer}\n\n"))
    };
    let is_call = |request: &Recorded| request.rpc_method().as_deref() == Some("tools/call");
    let content = r#""content":[{"type":"text","text":"done"}]"#;

    let server = LegacyOnly::default();
    let harness = Harness::start(OPEN, move |request| {
        if is_call(request) && request.header("mcp-session-id").is_some() {
            return events(request, &format!("{{{content}}}"));
        }
        server.reply(request)
    })
    .await;
    let answer = harness.modern("tools/call", Some("echo"), r#""name":"echo""#).await;
    assert!(answer.status == 200 && answer.text().contains("done"), "{}", answer.text());

    let server = ModernOnly::default();
    let harness = Harness::start(OPEN, move |request| {
        if is_call(request) && request.header("mcp-method").is_some() {
            return events(request, &format!(r#"{{"resultType":"complete",{content}}}"#));
        }
        server.reply(request)
    })
    .await;
    let session = harness.session(TOKEN).await;
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}"#;
    let answer = harness.post_with(&[("mcp-session-id", &session)], body.as_bytes()).await;
    assert!(answer.status == 200 && answer.text().contains("done"), "{}", answer.text());
}

/// Every row of the reference has its test, and every test its row.
#[test]
fn the_reference_names_the_test_of_each_row() {
    let page = include_str!("../../../../docs/reference/protocol.md");
    let mut named: Vec<_> = page
        .split('`')
        .filter(|word| word.starts_with("bridge") && word.contains("::"))
        .map(str::to_owned)
        .collect();
    let files = [
        ("bridge", include_str!("bridge.rs")),
        ("bridge_questions", include_str!("bridge_questions.rs")),
        ("bridge_rounds", include_str!("bridge_rounds.rs")),
        ("bridge_to_legacy", include_str!("bridge_to_legacy.rs")),
        ("bridge_to_modern", include_str!("bridge_to_modern.rs")),
    ];
    let mut there = Vec::new();
    for (module, text) in files {
        for part in text.split("#[tokio::test]\nasync fn ").skip(1) {
            let name = part.split('(').next().unwrap();
            there.push(format!("{module}::{name}"));
        }
    }
    named.sort_unstable();
    there.sort_unstable();
    // The pattern that finds tests stands in this file too.
    there.retain(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ':'));
    assert_eq!(named, there);
}
