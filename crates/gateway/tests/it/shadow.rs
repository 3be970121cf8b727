//! Shadow mode judges and records, and blocks nothing but what is hidden.

use sluice_testkit::{Recorded, Reply, mcp_server};

use crate::{
    harness::{Harness, TOKEN, at, json},
    talk::until,
};

const TOOLS: &str = r#"[{"name":"read"},{"name":"write"},{"name":"drop"},{"name":"pay"}]"#;
const POLICY: &str = r#"{"version":"1","default":"deny","mode":"shadow","hide":["drop"],
  "tools":{"read":{"rate_limit":"2/minute"},"pay":{"action":"approve"}}}"#;

fn server(request: &Recorded) -> Reply {
    match request.rpc_method().as_deref() {
        Some("resources/list") => Reply::result(request, r#"{"resources":[{"uri":"a:b"}]}"#),
        Some("prompts/list") => Reply::result(request, r#"{"prompts":[{"name":"p"}]}"#),
        Some("resources/read") => Reply::result(request, r#"{"contents":[]}"#),
        Some("vendor/eval") => Reply::result(request, "{}"),
        Some("tools/call") if request.text().contains("asks") => Reply::events(
            "data: {\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"roots/list\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n\n",
        ),
        _ => mcp_server(TOOLS)(request),
    }
}

#[tokio::test]
async fn a_call_that_would_be_denied_is_forwarded_and_recorded() {
    let harness = Harness::start(POLICY, server).await;
    for tool in ["read", "read", "read", "write", "pay"] {
        let answer = harness.call(tool, "{}").await;
        assert_eq!(at(&json(&answer), "result/isError"), "", "{tool}");
    }
    assert_eq!(harness.calls().len(), 5);
    let records = harness.records().await;
    let decisions: Vec<_> = records
        .iter()
        .filter(|record| at(record, "kind") == "\"decision\"")
        .map(|record| {
            format!("{} {} {}", at(record, "tool"), at(record, "outcome"), at(record, "rule"))
        })
        .collect();
    assert_eq!(
        decisions,
        [
            r#""read" "allow" "#,
            r#""read" "allow" "#,
            r#""read" "shadow_deny" "/tools/read/limits/read_rate""#,
            r#""write" "shadow_deny" "(default deny)""#,
            r#""pay" "shadow_deny" "/tools/pay/approval""#,
        ]
    );
    let answer = json(&harness.call("drop", "{}").await);
    assert_eq!(at(&answer, "result/_meta/sluicegate~decision/rule"), "\"(not available)\"");
    assert_eq!(harness.calls().len(), 5);
    // The next minute has its own two.
    harness.advance(60);
    harness.call("read", "{}").await;
    let records = harness.records().await;
    let last = records.iter().rfind(|record| at(record, "kind") == "\"decision\"").unwrap();
    assert_eq!(at(last, "outcome"), "\"allow\"");
}

#[tokio::test]
async fn lists_leave_out_only_what_is_hidden() {
    let harness = Harness::start(POLICY, server).await;
    let answer = json(&harness.post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await);
    assert_eq!(at(&answer, "result/tools"), r#"[{"name":"read"},{"name":"write"},{"name":"pay"}]"#);
    for (method, member, expected) in [
        ("resources/list", "resources", r#"[{"uri":"a:b"}]"#),
        ("prompts/list", "prompts", r#"[{"name":"p"}]"#),
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#);
        let answer = json(&harness.post(&body).await);
        assert_eq!(at(&answer, &format!("result/{member}")), expected);
    }
}

#[tokio::test]
async fn other_method_classes_stay_open_and_say_so_in_the_record() {
    let harness = Harness::start(POLICY, server).await;
    for (method, rule) in [("resources/read", "\"/resources\""), ("vendor/eval", "\"/methods\"")] {
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"uri":"a:b"}}}}"#);
        assert_eq!(at(&json(&harness.post(&body).await), "error"), "");
        let records = harness.records().await;
        let record = records.iter().rfind(|record| at(record, "kind") == "\"decision\"").unwrap();
        assert_eq!(
            (at(record, "outcome").as_str(), at(record, "rule").as_str()),
            ("\"shadow_deny\"", rule)
        );
    }
}

#[tokio::test]
async fn a_server_may_ask_what_it_would_be_denied() {
    let harness = Harness::start(POLICY, server).await;
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}}}}"#;
    harness.post(hello).await;
    until("it arrives", || harness.upstream.bodies_of("initialize").contains(&hello.to_owned()))
        .await;
    let session = harness.session(TOKEN).await;
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{"x":"asks"}}}"#;
    let answer = harness.post_with(&[("mcp-session-id", &session)], body.as_bytes()).await;
    assert!(answer.text().contains("roots/list"), "{}", answer.text());
    for _ in 0..2 {
        let records = harness.records().await;
        if records.iter().any(|record| at(record, "method") == "\"roots/list\"") {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert!(!harness.upstream.requests().iter().any(|request| request.text().contains("-32601")));
}

#[tokio::test]
async fn malformed_messages_are_refused_all_the_same() {
    let harness = Harness::start(POLICY, server).await;
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","Name":"drop"}}"#,
        "[]",
        "{",
    ] {
        let answer = harness.post(body).await;
        assert!(!at(&json(&answer), "error/code").is_empty());
    }
    assert!(harness.upstream.requests().is_empty());
}

/// The record says that it would be denied, and there is no outcome of what was not sent.
#[tokio::test]
async fn a_task_of_nobody_is_refused_also_in_shadow_mode_and_has_no_outcome() {
    let harness = Harness::start(POLICY, server).await;
    // Of this revision, because older ones have no tasks.
    let revision = [("mcp-protocol-version", "2025-11-25")];
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"made up"}}"#;
    let answer = json(&harness.post_with(&revision, body.as_bytes()).await);
    assert_eq!(at(&answer, "error/code"), "-32602");
    assert!(harness.upstream.bodies_of("tasks/get").is_empty());
    let records = harness.records().await;
    let summary: Vec<_> =
        records.iter().map(|record| (at(record, "kind"), at(record, "outcome"))).collect();
    assert_eq!(summary, [("\"decision\"".to_owned(), "\"deny\"".to_owned())]);
}
