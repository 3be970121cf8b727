//! Which headers travel: few of the client's, and the server's own credential.

use sluice_gateway::Configuration;
use sluice_store::{Secret, TokenHash, Transport};
use sluice_testkit::{Recorded, Upstream, mcp_server};

use crate::{
    harness::{Harness, TOKEN, at, grant, json, policy, server},
    talk::{OPEN, mirrors, modern_body, modern_server},
};

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#;

/// Tools with arguments that headers repeat.
const TOOLS: &str = r#"[{"name":"read","inputSchema":{"type":"object","properties":{
  "region":{"type":"string","x-mcp-header":"Region"},
  "size":{"type":"number","x-mcp-header":"Size"}}}}]"#;

async fn with_credential() -> Harness {
    let upstream = Upstream::start(mcp_server("[]")).await.unwrap();
    let mut notes = server("notes", &upstream.url());
    let headers = [
        ("Authorization", "Bearer of-the-server"),
        ("X-Api-Key", "key"),
        ("Accept", "application/json"),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), Secret::new(value.to_owned())));
    notes.transport =
        Transport::Http { url: Secret::new(upstream.url()), headers: headers.to_vec() };
    let configuration = Configuration {
        servers: vec![notes],
        policies: vec![policy("notes", "rules", OPEN)],
        grants: vec![(TokenHash::of(TOKEN), grant("alice", &["notes"], "rules"))],
    };
    Harness::with(upstream, configuration).await
}

fn call_of(harness: &Harness) -> Recorded {
    let recorded = harness.upstream.requests();
    recorded
        .into_iter()
        .rev()
        .find(|request| request.rpc_method().as_deref() == Some("tools/call"))
        .unwrap()
}

#[tokio::test]
async fn the_clients_own_headers_stay_here() {
    let harness = with_credential().await;
    let sent = [
        ("cookie", "a=b"),
        ("forwarded", "for=1.2.3.4"),
        ("x-forwarded-for", "1.2.3.4"),
        ("x-forwarded-host", "evil.example"),
        ("x-forwarded-proto", "https"),
        ("x-real-ip", "1.2.3.4"),
        ("connection", "keep-alive, x-hop, mcp-session-id"),
        ("x-hop", "1"),
        ("keep-alive", "timeout=5"),
        ("proxy-authorization", "Basic x"),
        ("proxy-connection", "keep-alive"),
        ("te", "trailers"),
        ("trailer", "x"),
        ("upgrade", "h2c"),
        ("via", "1.1 x"),
        ("x-api-key", "of-the-client"),
        ("x-anything", "1"),
        ("user-agent", "agent"),
        ("accept-encoding", "gzip"),
        ("if-none-match", "x"),
        ("range", "bytes=0-1"),
        ("mcp-method", "tools/list"),
        ("mcp-name", "other"),
        ("mcp-param-region", "eu"),
        ("mcp-unknown", "1"),
        ("last-event-id", "5"),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ("tracestate", "a=b"),
        ("baggage", "c=d"),
        ("mcp-protocol-version", "2025-06-18"),
    ];
    assert_eq!(harness.post_with(&sent, CALL.as_bytes()).await.status, 200);
    let call = call_of(&harness);
    let mut travelled: Vec<_> = call
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .filter(|line| !line.starts_with("host: ") && !line.starts_with("sluicegate-hops: "))
        .collect();
    travelled.sort();
    let mut expected = [
        "accept: application/json",
        "authorization: Bearer of-the-server",
        "baggage: c=d",
        &format!("content-length: {}", CALL.len()),
        "content-type: application/json",
        "mcp-protocol-version: 2025-06-18",
        "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "tracestate: a=b",
        "x-api-key: key",
    ]
    .map(str::to_owned);
    expected.sort();
    assert_eq!(travelled, expected);
    assert_eq!(call.header("host"), Some(harness.upstream.address.to_string().as_str()));
    let all = format!("{:?}", harness.upstream.requests());
    assert!(!all.contains(TOKEN) && !all.contains("of-the-client"));
}

#[tokio::test]
async fn answers_bring_no_headers_of_the_server_back() {
    let harness = Harness::start(OPEN, |request: &Recorded| {
        mcp_server("[]")(request)
            .with_header("set-cookie", "a=b")
            .with_header("x-powered-by", "x")
            .with_header("www-authenticate", "Bearer")
            .with_header("location", "http://evil.example")
            .with_header("access-control-allow-origin", "*")
            .with_header("mcp-session-id", "raw")
    })
    .await;
    let answer = harness.post(CALL).await;
    let names: Vec<_> = answer.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["content-type", "content-length", "date"]);
}

/// Sends a modern call, and checks the status and code of what comes back.
async fn check(harness: &Harness, headers: &[(&str, &str)], arguments: &str, code: &str) {
    let params = format!(r#""name":"read","arguments":{arguments}"#);
    let body = modern_body("tools/call", &params, "{}");
    let before = harness.calls().len();
    let answer = harness.post_with(headers, body.as_bytes()).await;
    let shown = format!("{headers:?} {arguments}: {}", answer.text());
    assert_eq!(at(&json(&answer), "error/code"), code, "{shown}");
    assert_eq!(answer.status, if code.is_empty() { 200 } else { 400 }, "{shown}");
    assert_eq!(harness.calls().len(), before + usize::from(code.is_empty()), "{shown}");
}

#[tokio::test]
async fn mirrored_headers_are_checked_and_made_anew() {
    let harness = Harness::start(OPEN, modern_server(TOOLS)).await;
    let right = mirrors("tools/call", Some("read"));
    check(&harness, &right, "{}", "").await;
    for place in 0..3 {
        let mut some = right.clone();
        some.remove(place);
        check(&harness, &some, "{}", "-32020").await;
        for wrong in
            ["", "other", "READ", "tools/call ", "=?base64?cmVhZA?=", "=?base64?ZHJvcA==?="]
        {
            let mut some = right.clone();
            some[place].1 = wrong;
            // A blank at the end is not part of a header's value.
            let is_same = right[place].1 == wrong.trim_end();
            check(&harness, &some, "{}", if is_same { "" } else { "-32020" }).await;
        }
    }
    let encoded = [
        right[0],
        ("Mcp-Method", "=?base64?dG9vbHMvY2FsbA==?="),
        ("MCP-NAME", "=?base64?cmVhZA==?="),
    ];
    check(&harness, &encoded, "{}", "").await;
    let call = call_of(&harness);
    assert_eq!(call.header("mcp-method"), Some("tools/call"));
    assert_eq!(call.header("mcp-name"), Some("read"));
    assert_eq!(call.header("mcp-protocol-version"), Some("2026-07-28"));
}

#[tokio::test]
async fn headers_that_repeat_arguments_are_checked() {
    let harness = Harness::start(OPEN, modern_server(TOOLS)).await;
    let right = mirrors("tools/call", Some("read"));
    let with = |more: &[(&'static str, &'static str)]| {
        let mut headers = right.clone();
        headers.extend(more);
        headers
    };
    check(&harness, &with(&[("mcp-param-region", "eu")]), r#"{"region":"eu"}"#, "").await;
    check(&harness, &with(&[("mcp-param-region", "=?base64?ZXU=?=")]), r#"{"region":"eu"}"#, "")
        .await;
    check(&harness, &with(&[("mcp-param-size", "1.50")]), r#"{"size":1.50}"#, "").await;
    check(&harness, &with(&[("mcp-param-other", "x")]), "{}", "").await;
    assert_eq!(call_of(&harness).header("mcp-param-other"), Some("x"));
    check(&harness, &with(&[("mcp-param-region", "us")]), r#"{"region":"eu"}"#, "-32020").await;
    check(&harness, &with(&[("mcp-param-region", "eu")]), "{}", "-32020").await;
    check(&harness, &with(&[("mcp-param-region", "eu")]), r#"{"region":null}"#, "-32020").await;
    check(&harness, &right, r#"{"region":"eu"}"#, "-32020").await;
    check(&harness, &with(&[("mcp-param-size", "2")]), r#"{"size":1}"#, "-32020").await;
    check(&harness, &with(&[("mcp-param-region", "[]")]), r#"{"region":[]}"#, "-32020").await;
}

#[tokio::test]
async fn a_name_no_header_can_carry_travels_encoded() {
    let harness = Harness::start(OPEN, modern_server("[]")).await;
    for (name, header) in [
        ("ünï", "=?base64?w7xuw68=?="),
        (" pad", "=?base64?IHBhZA==?="),
        ("a\\nb", "=?base64?YQpi?="),
    ] {
        let params = format!(r#""name":"{name}""#);
        let answer = harness.modern("tools/call", Some(header), &params).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(call_of(&harness).header("mcp-name"), Some(header));
    }
}
