//! Resources, prompts and completions reach the same server as tools do.

use sluice_testkit::{Recorded, Reply, mcp_server};

use crate::{
    harness::{Harness, at, json},
    talk::until,
};

const POLICY: &str = r#"{"version":"1","default":"deny","resources":{"allow":["file:///open/*"]},"prompts":{"allow":["open-*"]}}"#;

fn server(request: &Recorded) -> Reply {
    match request.rpc_method().as_deref() {
        Some("resources/read") => Reply::result(request, r#"{"contents":[]}"#),
        Some("resources/subscribe" | "resources/unsubscribe" | "logging/setLevel") => {
            Reply::result(request, "{}")
        }
        Some("prompts/get") => Reply::result(request, r#"{"messages":[]}"#),
        Some("completion/complete") => Reply::result(request, r#"{"completion":{"values":["x"]}}"#),
        _ => mcp_server("[]")(request),
    }
}

const CASES: [(&str, &str, &str, &str); 8] = [
    ("resources/read", r#""uri":"file:///open/a""#, r#""uri":"file:///secret""#, "/resources"),
    (
        "resources/read",
        r#""uri":"file:///open/a""#,
        r#""uri":"file:///open/../secret""#,
        "/resources",
    ),
    (
        "resources/read",
        r#""uri":"file:///open/a""#,
        r#""uri":"file:///open/%2e%2E/secret""#,
        "/resources",
    ),
    ("resources/subscribe", r#""uri":"file:///open/a""#, r#""uri":"file:///secret""#, "/resources"),
    (
        "resources/unsubscribe",
        r#""uri":"file:///open/a""#,
        r#""uri":"file:///secret""#,
        "/resources",
    ),
    ("prompts/get", r#""name":"open-a""#, r#""name":"secret""#, "/prompts"),
    (
        "completion/complete",
        r#""ref":{"type":"ref/prompt","name":"open-a"}"#,
        r#""ref":{"type":"ref/prompt","name":"secret"}"#,
        "/prompts",
    ),
    (
        "completion/complete",
        r#""ref":{"type":"ref/resource","uri":"file:///open/a"}"#,
        r#""ref":{"type":"ref/resource","uri":"file:///secret"}"#,
        "/resources",
    ),
];

#[tokio::test]
async fn each_is_judged_recorded_and_then_sent() {
    let harness = Harness::start(POLICY, server).await;
    for (method, open, secret, rule) in CASES {
        let body = |params: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}}}}}"#)
        };
        let before = harness.upstream.bodies_of(method).len();
        let answer = harness.post(&body(open)).await;
        assert_eq!(at(&json(&answer), "error"), "", "{method}");
        assert_eq!(harness.upstream.bodies_of(method).len(), before + 1);
        let answer = harness.post(&body(secret)).await;
        assert_eq!(answer.status, 200);
        let answer = json(&answer);
        assert_eq!(at(&answer, "error/code"), "-31010", "{method} {secret}");
        assert_eq!(at(&answer, "error/data/outcome"), r#""deny""#);
        assert_eq!(at(&answer, "error/data/rule"), format!("\"{rule}\""));
        assert!(at(&answer, "error/message").starts_with("\"[POLICY DENIED] "));
        assert_eq!(harness.upstream.bodies_of(method).len(), before + 1, "{method} {secret}");
        let records = harness.records().await;
        let denied: Vec<_> = records
            .iter()
            .filter(|record| at(record, "id") == at(&answer, "error/data/id"))
            .collect();
        assert_eq!(denied.len(), 1);
        assert_eq!(at(denied[0], "rule"), format!("\"{rule}\""));
        // What is allowed is recorded with its target as what is denied, and so is its outcome.
        let named = |params: &str| format!("\"{}\"", params.rsplit('"').nth(1).unwrap());
        assert_eq!(at(denied[0], "target"), named(secret), "{method}");
        let of_open = records.iter().filter(|record| at(record, "target") == named(open));
        let of_open = of_open.filter(|record| at(record, "method") == format!("\"{method}\""));
        let of_open: Vec<_> =
            of_open.map(|record| (at(record, "kind"), at(record, "outcome"))).collect();
        for kind in ["\"decision\"", "\"outcome\""] {
            assert!(of_open.contains(&(kind.into(), "\"allow\"".into())), "{method}: {of_open:?}");
        }
    }
    let records = harness.records().await;
    let count = |kind: &str, outcome: &str| {
        records
            .iter()
            .filter(|record| at(record, "kind") == kind && at(record, "outcome") == outcome)
            .count()
    };
    assert_eq!((count("\"decision\"", "\"allow\""), count("\"decision\"", "\"deny\"")), (8, 8));
    assert_eq!(count("\"outcome\"", "\"allow\""), 8);
}

#[tokio::test]
async fn in_the_modern_era_too() {
    let harness = Harness::start(POLICY, server).await;
    for (method, open, secret, _) in [CASES[0], CASES[5], CASES[6]] {
        for (params, expected) in [(open, ""), (secret, "-31010")] {
            let target = match method {
                "completion/complete" => None,
                _ => Some(params.split('"').nth(3).unwrap()),
            };
            let answer = harness.modern(method, target, params).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert_eq!(at(&json(&answer), "error/code"), expected, "{method} {params}");
        }
        assert_eq!(harness.upstream.bodies_of(method).len(), 1);
    }
}

#[tokio::test]
async fn references_that_can_be_read_in_two_ways_are_refused() {
    let harness = Harness::start(POLICY, server).await;
    for reference in [
        r#"{"type":"ref/prompt","name":"open-a","Name":"secret"}"#,
        r#"{"type":"ref/prompt","name":"open-a","Type":"ref/resource"}"#,
        r#"{"type":"ref/other","name":"open-a"}"#,
        r#"{"type":"ref/prompt","uri":"file:///open/a"}"#,
        r#"{"name":"open-a"}"#,
        r#"["ref/prompt","open-a"]"#,
        "null",
    ] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{{"ref":{reference}}}}}"#
        );
        assert_eq!(at(&json(&harness.post(&body).await), "error/code"), "-32602", "{reference}");
    }
    assert!(harness.upstream.requests().is_empty());
}

#[tokio::test]
async fn methods_that_are_always_allowed_leave_no_record() {
    let harness = Harness::start(r#"{"version":"1","default":"deny"}"#, server).await;
    harness.session(crate::harness::TOKEN).await;
    for method in ["ping", "logging/setLevel", "tools/list"] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{}}}}"#);
        assert_eq!(at(&json(&harness.post(&body).await), "error"), "", "{method}");
    }
    let body = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(harness.post(body).await.status, 202);
    until("all arrived", || harness.upstream.requests().len() >= 4).await;
    assert!(harness.records().await.is_empty());
}

/// The protocol has no error for a notification or an answer.
#[tokio::test]
async fn messages_that_are_not_forwarded_are_accepted_and_only_denials_are_recorded() {
    let harness = Harness::start(r#"{"version":"1","default":"deny"}"#, server).await;
    for ignored in [
        r#"{"jsonrpc":"2.0","id":"late","result":{}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
    ] {
        let answer = harness.post(ignored).await;
        assert_eq!(answer.status, 202, "{ignored}");
        assert!(answer.body.is_empty(), "{}", answer.text());
    }
    assert!(harness.records().await.is_empty());
    let unknown = r#"{"jsonrpc":"2.0","method":"notifications/unheard_of"}"#;
    assert_eq!(harness.post(unknown).await.status, 202);
    let records = harness.records().await;
    assert_eq!(records.len(), 1);
    assert_eq!(at(&records[0], "outcome"), "\"deny\"");
    assert_eq!(at(&records[0], "rule"), "\"/methods\"");
    assert!(harness.upstream.requests().is_empty());
}
