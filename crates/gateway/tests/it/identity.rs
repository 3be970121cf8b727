//! Who may call: names, pages, tokens, and the order in which they are looked at.

use sluice_policy::Timestamp;
use sluice_store::TokenHash;
use sluice_testkit::{Upstream, mcp_server};

use crate::{
    harness::{Harness, NOON, TOKEN, at, grant, json, policy, request, server},
    talk::OPEN,
};

const CALL: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"read"}}"#;

/// Alice may use `notes`; Revoked and expired grants; `other` is nobody's; `open`
/// lets anybody in.
async fn start(is_loopback: bool) -> Harness {
    let upstream = Upstream::start(mcp_server("[]")).await.unwrap();
    let mut anonymous = server("open", &upstream.url());
    anonymous.anonymous_policy = Some(crate::harness::name("rules"));
    let mut revoked = grant("revoked", &["notes", "open"], "rules");
    revoked.revoked_at = Some(Timestamp::from_millis(1));
    let mut expired = grant("expired", &["notes", "open"], "rules");
    expired.expires_at = Some(Timestamp::from_millis(NOON));
    let configuration = sluice_gateway::Configuration {
        servers: vec![
            server("notes", &upstream.url()),
            server("other", &upstream.url()),
            anonymous,
        ],
        policies: ["notes", "other", "open"].map(|server| policy(server, "rules", OPEN)).to_vec(),
        grants: vec![
            (TokenHash::of(TOKEN), grant("alice", &["notes"], "rules")),
            (TokenHash::of("sg_revoked"), revoked),
            (TokenHash::of("sg_expired"), expired),
        ],
    };
    Harness::tuned(upstream, configuration, |settings| settings.is_loopback = is_loopback).await
}

async fn check(harness: &Harness, path: &str, headers: &[(&str, &str)], status: u16, code: &str) {
    let answer =
        harness.raw(&request("POST", path, harness.address, headers, CALL.as_bytes())).await;
    let shown = format!("{path} {headers:?}: {}", answer.text());
    assert_eq!(answer.status, status, "{shown}");
    assert_eq!(at(&json(&answer), "error/code"), code, "{shown}");
    if status != 200 {
        assert_eq!(at(&json(&answer), "id"), "null", "{shown}");
    }
    let challenge = answer.header("www-authenticate").unwrap_or_default();
    let expected = if status == 401 {
        format!(
            "Bearer resource_metadata=\"http://{}/.well-known/oauth-protected-resource{path}\"",
            harness.address
        )
    } else {
        String::new()
    };
    assert_eq!(challenge, expected, "{shown}");
}

#[tokio::test]
async fn only_names_that_are_ours_are_served() {
    let harness = start(true).await;
    let port = harness.address.port();
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:80", &format!("localhost:{port}")]
    {
        check(&harness, "/mcp/notes", &[("host", host)], 200, "").await;
    }
    let reached = harness.upstream.requests().len();
    for host in [
        "evil.example",
        "localhost.evil.example",
        "localhost.",
        "127.0.0.1.nip.io",
        "user@localhost",
        "localhost:x",
        "localhost:99999",
        "::1",
        "[::1",
        "",
        "0.0.0.0",
        "127.1",
        "2130706433",
        "localhost/x",
    ] {
        check(&harness, "/mcp/notes", &[("host", host)], 403, "-31003").await;
    }
    let origin = format!("http://{}", harness.address);
    check(&harness, "/mcp/notes", &[("origin", &origin)], 200, "").await;
    check(&harness, "/mcp/notes", &[("origin", "https://allowed.example")], 200, "").await;
    for origin in [
        "null",
        "https://evil.example",
        "https://allowed.example.evil",
        "http://allowed.example",
        "https://allowed.example:1",
        "https://allowed.example/",
        "",
        "http://localhost",
        "file://",
        "https://ALLOWED.example ,x",
    ] {
        check(&harness, "/mcp/notes", &[("origin", origin)], 403, "-31003").await;
    }
    assert!(harness.upstream.requests().len() <= reached + 8);
    assert_eq!(harness.calls().len(), 7);
}

#[tokio::test]
async fn the_request_line_cannot_name_another_host() {
    let harness = start(true).await;
    let address = harness.address;
    for (line, host, status) in [
        ("http://evil.example/mcp/notes".to_owned(), address.to_string(), 403),
        (format!("http://{address}/mcp/notes"), "evil.example".into(), 403),
        ("http://evil.example/mcp/notes".to_owned(), "evil.example".into(), 403),
        (format!("http://{address}/mcp/notes"), address.to_string(), 200),
    ] {
        let answer = harness
            .raw(&request("POST", &line, address, &[("host", &host)], CALL.as_bytes()))
            .await;
        assert_eq!(answer.status, status, "{line} {host}");
    }
    assert_eq!(harness.calls().len(), 1);
    let nameless = String::from_utf8(request(
        "POST",
        "/mcp/notes",
        address,
        &[("host", "-")],
        CALL.as_bytes(),
    ))
    .unwrap();
    assert_eq!(harness.raw(nameless.as_bytes()).await.status, 403);
}

#[tokio::test]
async fn tokens_are_looked_at_after_names_and_before_servers() {
    let harness = start(true).await;
    let tokens = [
        "-",
        "Bearer sg_unknown",
        "Bearer sg_revoked",
        "Bearer sg_expired",
        "Basic c2c6c2c=",
        "Bearer",
        "Bearer ",
        "sg_test_token_of_alice",
        "Token sg_test_token_of_alice",
        "Bearer sg_test_token_of_alice x",
        "Bearer SG_TEST_TOKEN_OF_ALICE",
        "Bearer\tsg_test_token_of_alice",
        "Bearer sg_test_token_of_alice,Bearer sg_x",
        "",
    ];
    for token in tokens {
        for path in ["/mcp/notes", "/mcp/other", "/mcp/nowhere"] {
            check(&harness, path, &[("authorization", token)], 401, "-31001").await;
            let headers = [("authorization", token), ("host", "evil.example")];
            check(&harness, path, &headers, 403, "-31003").await;
        }
    }
    check(&harness, "/mcp/nowhere", &[("content-type", "text/plain")], 404, "-31004").await;
    check(&harness, "/mcp/other", &[("content-type", "text/plain")], 403, "-31003").await;
    check(&harness, "/mcp/notes", &[("content-type", "text/plain")], 415, "-32600").await;
    let long = [("content-length", "999999999"), ("content-type", "text/plain")];
    check(&harness, "/mcp/notes", &long, 415, "-32600").await;
    check(&harness, "/mcp/notes", &[("content-length", "999999999")], 413, "-32600").await;
    assert!(harness.upstream.requests().is_empty());
    check(&harness, "/mcp/notes", &[("authorization", &format!("bearer   {TOKEN}"))], 200, "")
        .await;
}

#[tokio::test]
async fn callers_without_a_token_are_let_in_only_where_a_server_says_so() {
    let harness = start(true).await;
    check(&harness, "/mcp/open", &[("authorization", "-")], 200, "").await;
    assert_eq!(harness.calls().len(), 1);
    for token in
        ["Bearer sg_unknown", "Bearer sg_revoked", "Bearer sg_expired", "Basic x", "", "Bearer"]
    {
        check(&harness, "/mcp/open", &[("authorization", token)], 401, "-31001").await;
    }
    check(&harness, "/mcp/notes", &[("authorization", "-")], 401, "-31001").await;
    // Alice has a token, which is not for this server.
    check(&harness, "/mcp/open", &[], 403, "-31003").await;
    assert_eq!(harness.calls().len(), 1);
    let records = harness.records().await;
    assert_eq!(at(&records[0], "grant/id"), r#""anonymous:open""#);
    let exposed = start(false).await;
    check(&exposed, "/mcp/open", &[("authorization", "-")], 401, "-31001").await;
    assert!(exposed.upstream.requests().is_empty());
}

#[tokio::test]
async fn metadata_says_how_to_authenticate() {
    let harness = start(true).await;
    for of in ["", "/mcp", "/mcp/notes", "/mcp/nowhere"] {
        let path = format!("/.well-known/oauth-protected-resource{of}");
        let answer = harness
            .raw(&request("GET", &path, harness.address, &[("authorization", "-")], b""))
            .await;
        assert_eq!(answer.status, 200);
        let expected = format!(
            r#"{{"resource":"http://{}{of}","bearer_methods_supported":["header"]}}"#,
            harness.address
        );
        assert_eq!(answer.text(), expected);
        let answer = harness
            .raw(&request("GET", &path, harness.address, &[("host", "evil.example")], b""))
            .await;
        assert_eq!(answer.status, 403);
    }
    let strange =
        request("GET", "/.well-known/oauth-protected-resource-x", harness.address, &[], b"");
    assert_eq!(harness.raw(&strange).await.status, 404);
    for path in ["/healthz", "/readyz"] {
        let headers = [("host", "anything.example"), ("authorization", "-"), ("origin", "null")];
        assert_eq!(
            harness.raw(&request("GET", path, harness.address, &headers, b"")).await.status,
            200
        );
    }
}

/// A path may hold quotes, which would end the header's own.
#[tokio::test]
async fn a_challenge_is_one_well_formed_parameter() {
    let harness = start(true).await;
    let path = r#"/mcp/a",error="x"#;
    let bytes = request("POST", path, harness.address, &[("authorization", "-")], b"{}");
    let answer = harness.raw(&bytes).await;
    if answer.status == 401 {
        let challenge = answer.header("www-authenticate").unwrap();
        assert_eq!(challenge.matches('"').count(), 2, "{challenge}");
    } else {
        assert_eq!(answer.status, 400);
    }
}

#[tokio::test]
async fn failures_are_recorded_ten_times_a_minute_with_a_count() {
    let harness = start(true).await;
    for _ in 0..50 {
        check(&harness, "/mcp/notes", &[("authorization", "Bearer sg_unknown")], 401, "-31001")
            .await;
    }
    assert_eq!(harness.records().await.len(), 9);
    harness.advance(60);
    for _ in 0..50 {
        check(&harness, "/mcp/notes", &[("authorization", "Bearer sg_unknown")], 401, "-31001")
            .await;
    }
    let records = harness.records().await;
    assert_eq!(records.len(), 19);
    let counts: Vec<_> =
        records.iter().filter(|record| at(record, "message").contains("41 more")).collect();
    assert_eq!(counts.len(), 1);
    for record in &records {
        assert_eq!(at(record, "kind"), r#""auth""#);
        assert_eq!(at(record, "outcome"), r#""deny""#);
        assert!(at(record, "message").contains("127.0.0.1"));
    }
    assert!(harness.texts().await.iter().all(|text| !text.contains("sg_unknown")));
    assert!(harness.gateway.metrics().contains("100"));
}
