//! Calls that need a human are held, and the same call joins the one that waits.

use std::sync::atomic::Ordering;

use sluice_testkit::mcp_server;

use crate::{
    harness::{Harness, NOON, at, json, policy},
    talk::{modern_server, until},
};

const TOOLS: &str = r#"[{"name":"pay","inputSchema":{"type":"object"}}]"#;
const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"pay":{"approval":{"message":"Ask first.","expires":"10m"},"rate_limit":"1/minute"}}}"#;

async fn held(harness: &Harness, arguments: &str) -> String {
    let answer = json(&harness.call("pay", arguments).await);
    assert_eq!(at(&answer, "result/isError"), "true");
    let decision = "result/_meta/sluicegate~decision";
    let id = at(&answer, &format!("{decision}/approval/id"));
    let bare = id.trim_matches('"');
    assert_eq!(at(&answer, &format!("{decision}/outcome")), "\"hold\"");
    assert_eq!(at(&answer, &format!("{decision}/rule")), "\"/tools/pay/approval\"");
    let url = format!("http://127.0.0.1:8788/approvals/{bare}");
    assert_eq!(at(&answer, &format!("{decision}/approval/url")), format!("\"{url}\""));
    let until = at(&answer, &format!("{decision}/approval/expiresAt"));
    let text = at(&answer, "result/content/0/text");
    let until = until.trim_matches('"');
    let expected = format!(
        "\"[APPROVAL REQUIRED] Ask first. The call was not sent. It waits for approval {bare} at {url} until {until}.\""
    );
    assert_eq!(text, expected);
    bare.to_owned()
}

#[tokio::test]
async fn the_same_call_joins_and_another_does_not() {
    let harness = Harness::start(POLICY, mcp_server(TOOLS)).await;
    let first = held(&harness, r#"{"a":1,"b":{"x":[1,2]}}"#).await;
    // The definition may be learnt meanwhile, which changes nothing.
    until("the list was asked for", || !harness.upstream.bodies_of("tools/list").is_empty()).await;
    for same in [
        r#"{"a":1,"b":{"x":[1,2]}}"#,
        r#"{"b":{"x":[1,2]},"a":1}"#,
        r#"{ "\u0061" : 1, "b":{"x":[1, 2]} }"#,
    ] {
        assert_eq!(held(&harness, same).await, first, "{same}");
    }
    for other in [
        r#"{"a":2,"b":{"x":[1,2]}}"#,
        r#"{"a":1,"b":{"x":[2,1]}}"#,
        r#"{"a":1}"#,
        "{}",
        r#"{"a":"1","b":{"x":[1,2]}}"#,
    ] {
        assert_ne!(held(&harness, other).await, first, "{other}");
    }
    assert!(harness.calls().is_empty());
    let waiting = harness.store.pending_approvals().await.unwrap();
    assert_eq!(waiting.len(), 6);
    let records = harness.records().await;
    assert_eq!(records.len(), 9);
    assert!(records.iter().all(|record| at(record, "outcome") == "\"hold\""));
    // Another policy is another question.
    let mut configuration = harness.configuration.clone();
    configuration.policies = vec![policy("notes", "rules", &POLICY.replace("10m", "11m"))];
    harness.gateway.apply(&configuration).unwrap();
    assert_ne!(held(&harness, r#"{"a":1,"b":{"x":[1,2]}}"#).await, first);
}

#[tokio::test]
async fn a_question_ends_when_its_time_is_over() {
    let harness = Harness::start(POLICY, mcp_server(TOOLS)).await;
    let first = held(&harness, "{}").await;
    harness.clock.store(NOON + 599_999, Ordering::Relaxed);
    assert_eq!(held(&harness, "{}").await, first);
    harness.clock.store(NOON + 600_000, Ordering::Relaxed);
    assert_ne!(held(&harness, "{}").await, first);
}

#[tokio::test]
async fn in_the_modern_era_a_retry_is_the_same_question() {
    let harness = Harness::start(POLICY, modern_server(TOOLS)).await;
    let decision = "result/_meta/sluicegate~decision/approval/id";
    let first = at(&json(&harness.modern_call("pay", "{}").await), decision);
    let params = r#""name":"pay","arguments":{},"inputResponses":{"a":{}}"#;
    let again = json(&harness.modern("tools/call", Some("pay"), params).await);
    assert_eq!(at(&again, decision), first);
    assert_eq!(at(&again, "result/resultType"), "\"complete\"");
    assert!(harness.calls().is_empty());
}
