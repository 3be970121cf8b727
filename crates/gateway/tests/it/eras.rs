//! Both eras of the protocol, and what belongs to only one of them.

use sluice_testkit::{Recorded, Reply, mcp_server};

use crate::{
    harness::{Harness, at, json, request},
    talk::{OPEN, REVISION, mirrors, modern_body, modern_server},
};

#[tokio::test]
async fn a_revision_that_is_not_spoken_is_refused() {
    let harness = Harness::start(OPEN, mcp_server("[]")).await;
    let body = modern_body("tools/call", r#""name":"read""#, "{}").replace(REVISION, "2027-01-01");
    let headers = [
        ("mcp-protocol-version", "2027-01-01"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "read"),
    ];
    let answer = harness.post_with(&headers, body.as_bytes()).await;
    assert_eq!(answer.status, 400);
    assert_eq!(at(&json(&answer), "error/code"), "-32022");
    assert_eq!(at(&json(&answer), "error/data/supported"), r#"["2026-07-28"]"#);
    let plain = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#;
    for version in ["2027-01-01", "", "2025-11-25x", "draft", REVISION] {
        let answer =
            harness.post_with(&[("mcp-protocol-version", version)], plain.as_bytes()).await;
        assert!(at(&json(&answer), "error/code").starts_with("-326"), "{version}");
    }
    // A legacy revision in `_meta` is none that is said there.
    let old = modern_body("tools/call", r#""name":"read""#, "{}").replace(REVISION, "2025-11-25");
    let answer = harness.post_with(&[("mcp-protocol-version", "2025-11-25")], old.as_bytes()).await;
    assert_eq!(at(&json(&answer), "error/code"), "-32022");
    assert!(harness.upstream.requests().is_empty());
}

#[tokio::test]
async fn methods_of_the_other_era_are_unknown() {
    let harness = Harness::start(OPEN, mcp_server("[]")).await;
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "tasks/list",
        "tasks/result",
        "eval",
        "Tools/call",
    ] {
        let answer = harness.modern(method, None, r#""uri":"a:b","taskId":"x""#).await;
        assert_eq!(answer.status, 404, "{method}: {}", answer.text());
        assert_eq!(at(&json(&answer), "error/code"), "-32601", "{method}");
    }
    for method in [
        "server/discover",
        "subscriptions/listen",
        "tasks/update",
        "tasks/get",
        "eval",
        "tools/call ",
        "TOOLS/CALL",
    ] {
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"name":"x"}}}}"#);
        let answer = harness.post(&body).await;
        assert_eq!(answer.status, 200, "{method}");
        assert_eq!(at(&json(&answer), "error/code"), "-32601", "{method}");
    }
    // Notifications that are not known are ignored, and go no further.
    let answer = harness.post(r#"{"jsonrpc":"2.0","method":"notifications/eval"}"#).await;
    assert_eq!((answer.status, answer.text().as_str()), (202, ""));
    assert!(harness.upstream.requests().is_empty());
}

/// `methods` permits what nobody here knows, and nothing that belongs to the classes
/// that are watched.
#[tokio::test]
async fn methods_that_are_known_otherwise_do_not_pass_as_unknown_ones() {
    let policy = r#"{"version":"1","default":"deny","methods":["*"]}"#;
    let harness = Harness::start(policy, mcp_server("[]")).await;
    for method in [
        "Tools/call",
        "TOOLS/CALL",
        "tools/call ",
        "tools/call\\u0000",
        " tools/call",
        "tool\u{17f}/call",
        "Resources/Read",
        "tasks/get",
        "tasks/result",
        "tasks/cancel",
        "tasks/update",
        "subscriptions/listen",
    ] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"name":"x","uri":"a:b","taskId":"t"}}}}"#
        );
        let answer = harness.post(&body).await;
        assert_eq!(at(&json(&answer), "error/code"), "-32601", "{method}: {}", answer.text());
        let silent = body.replace(r#""id":1,"#, "");
        assert_eq!(harness.post(&silent).await.status, 400, "{silent}");
    }
    for method in ["resources/subscribe", "tasks/list", "tasks/result", "Tools/call"] {
        let answer = harness.modern(method, None, r#""uri":"a:b","taskId":"t","name":"x""#).await;
        assert_eq!(
            (answer.status, at(&json(&answer), "error/code").as_str()),
            (404, "-32601"),
            "{method}"
        );
    }
    assert!(harness.upstream.requests().is_empty());
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"vendor/eval","params":{"name":"x"}}"#;
    harness.post(body).await;
    harness.modern("vendor/eval", None, r#""name":"x""#).await;
    assert_eq!(harness.upstream.bodies_of("vendor/eval").len(), 2);
    let records = harness.records().await;
    let allowed = records.iter().filter(|record| at(record, "outcome") == "\"allow\"");
    assert_eq!(allowed.filter(|record| at(record, "method") != "\"vendor/eval\"").count(), 0);
}

#[tokio::test]
async fn modern_servers_have_no_get_and_no_delete() {
    let harness = Harness::start(OPEN, modern_server("[]")).await;
    for method in ["GET", "DELETE"] {
        let headers = [("mcp-protocol-version", REVISION)];
        let answer =
            harness.raw(&request(method, "/mcp/notes", harness.address, &headers, b"")).await;
        assert_eq!(answer.status, 405);
    }
    assert!(harness.upstream.requests().is_empty());
}

/// A client that speaks both eras must be able to tell a server that speaks one.
#[tokio::test]
async fn discovery_of_a_legacy_server_says_so_in_a_way_clients_go_on_from() {
    let refusals: [fn(&Recorded) -> Reply; 6] = [
        |request| mcp_server("[]")(request),
        |request| {
            Reply::json(format!(
                r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32601,"message":"x"}}}}"#,
                request.rpc_id()
            ))
        },
        |_| {
            Reply::new(
                400,
                "application/json",
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"x"}}"#,
            )
        },
        |_| Reply::new(404, "text/plain", "no"),
        |_| Reply::new(400, "text/plain", "Bad Request: no valid session"),
        |_| {
            Reply::new(
                406,
                "application/json",
                r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"x"}}"#,
            )
        },
    ];
    for refusal in refusals {
        let harness = Harness::start(OPEN, refusal).await;
        let answer = harness.modern("server/discover", None, "").await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        let code = at(&json(&answer), "error/code");
        assert!(
            !code.is_empty() && !["-32020", "-32021", "-32022"].contains(&code.as_str()),
            "{code}"
        );
    }
    let harness = Harness::start(OPEN, modern_server("[]")).await;
    let answer = harness.modern("server/discover", None, "").await;
    assert_eq!(answer.status, 200);
    assert_eq!(at(&json(&answer), "result/capabilities/tools/listChanged"), "true");
    let harness = Harness::start(OPEN, |_: &Recorded| Reply::empty(500)).await;
    assert_eq!(harness.modern("server/discover", None, "").await.status, 502);
}

/// What a modern server finds wrong with a request for discovery is its to say.
#[tokio::test]
async fn discovery_with_bad_parameters_is_answered_by_the_server() {
    let harness = Harness::start(OPEN, |request: &Recorded| {
        let id = request.rpc_id();
        let error = r#"{"code":-32602,"message":"capabilities are missing"}"#;
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
        Reply::new(400, "application/json", body)
    })
    .await;
    let answer = harness.modern("server/discover", None, "").await;
    assert_eq!((answer.status, at(&json(&answer), "error/code").as_str()), (400, "-32602"));
    assert!(answer.text().contains("capabilities are missing"), "{}", answer.text());
}

#[tokio::test]
async fn a_modern_request_takes_no_session_along() {
    let harness = Harness::start(OPEN, modern_server("[]")).await;
    let body = modern_body("tools/call", r#""name":"read""#, "{}");
    let mut headers = mirrors("tools/call", Some("read"));
    headers.push(("mcp-session-id", "made up"));
    assert_eq!(harness.post_with(&headers, body.as_bytes()).await.status, 200);
    assert!(
        harness
            .upstream
            .requests()
            .iter()
            .all(|request| request.header("mcp-session-id").is_none())
    );
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let headers = [("mcp-protocol-version", REVISION)];
    let reached = harness.upstream.requests().len();
    let answer = harness.post_with(&headers, answer.as_bytes()).await;
    assert!(at(&json(&answer), "error/code").starts_with("-32"));
    assert_eq!(harness.upstream.requests().len(), reached);
}

#[tokio::test]
async fn a_modern_header_without_the_required_meta_is_a_bad_request() {
    let harness = Harness::start(r#"{"version":"1","default":"allow"}"#, mcp_server("[]")).await;
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")];
    let answer = harness.post_with(&headers, body.as_bytes()).await;
    assert_eq!((answer.status, at(&json(&answer), "error/code").as_str()), (400, "-32602"));
    assert!(harness.upstream.requests().is_empty());
}

#[tokio::test]
async fn an_unknown_notification_that_a_policy_permits_is_sent_and_recorded_as_answered() {
    let policy = r#"{"version":"1","default":"deny","methods":["*"]}"#;
    let harness = Harness::start(policy, mcp_server("[]")).await;
    let body = r#"{"jsonrpc":"2.0","method":"notifications/vendor"}"#;
    let answer = harness.post(body).await;
    assert_eq!((answer.status, answer.text().as_str()), (202, ""));
    assert_eq!(harness.upstream.bodies_of("notifications/vendor"), [body]);
    let records = harness.records().await;
    let summary: Vec<_> = records
        .iter()
        .map(|record| [at(record, "kind"), at(record, "outcome"), at(record, "message")].join(" "))
        .collect();
    assert_eq!(summary, [r#""decision" "allow" "#, r#""outcome" "allow" "#]);
}
