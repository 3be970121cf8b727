//! Calls end to end: allowed, denied, hidden, limited, held, and what is
//! recorded of each.

use sluice_testkit::mcp_server;

use crate::harness::{Harness, at, json};

const TOOLS: &str = r#"[{"name":"read","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},
  {"name":"write","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}}},
  {"name":"drop","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}}]"#;

async fn start(policy: &str) -> Harness {
    Harness::start(policy, mcp_server(TOOLS)).await
}

#[tokio::test]
async fn an_allowed_call_reaches_the_server_as_it_was_sent() {
    let harness = start(r#"{"version":"1","default":"deny","tools":{"read":{}}}"#).await;
    let body = r#"{ "jsonrpc":"2.0", "id":"x\u0041", "method":"tools/call", "extra": 1.0,
      "params":{"name":"read","arguments":{"n":12345678901234567890123}, "_meta":{"progressToken":1}} }"#;
    let answer = harness.post(body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(at(&json(&answer), "id"), r#""xA""#);
    assert_eq!(at(&json(&answer), "result/content/0/text"), r#""done""#);
    assert_eq!(harness.upstream.bodies_of("tools/call"), [body]);
    let records = harness.records().await;
    let summary: Vec<_> = records
        .iter()
        .map(|record| [at(record, "kind"), at(record, "tool"), at(record, "outcome")].join(" "))
        .collect();
    assert_eq!(summary, [r#""decision" "read" "allow""#, r#""outcome" "read" "allow""#]);
    assert_eq!(at(&records[0], "request"), at(&records[1], "request"));
    assert_eq!(at(&records[0], "arg_keys"), r#"["n"]"#);
}

#[tokio::test]
async fn a_denied_call_stays_here_and_says_why() {
    let harness = start(r#"{"version":"1","default":"deny","tools":{"read":{}}}"#).await;
    let answer = harness.call("write", "{}").await;
    assert_eq!(answer.status, 200);
    let answer = json(&answer);
    assert_eq!(at(&answer, "result/isError"), "true");
    assert_eq!(
        at(&answer, "result/content/0/text"),
        r#""[POLICY DENIED] tool `write` is not available""#
    );
    assert_eq!(at(&answer, "result/_meta/sluicegate~decision/rule"), r#""(not available)""#);
    assert!(harness.upstream.bodies_of("tools/call").is_empty());
    let records = harness.records().await;
    assert_eq!(at(&records[0], "rule"), r#""(default deny)""#);
    assert_eq!(records.len(), 1);
}

/// A server that calls its tools harmless is not believed.
#[tokio::test]
async fn a_category_follows_from_the_whole_definition() {
    let tools = r#"[
      {"name":"look_up","description":"Finds an account","inputSchema":{"type":"object"}},
      {"name":"send_funds","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},
      {"name":"notes","inputSchema":{"type":"object","properties":{"action":{"enum":["list","wipe"]}}}}]"#;
    let policy = r#"{"version":"1","default":"allow",
      "tools":{"@financial":{"action":"deny"},"@destructive":{"action":"deny"}}}"#;
    let harness = Harness::start(policy, mcp_server(tools)).await;
    for (tool, rule) in [
        ("look_up", ""),
        ("send_funds", r#""/tools/@financial/deny_if""#),
        ("notes", r#""/tools/@destructive/deny_if""#),
    ] {
        let answer = json(&harness.call(tool, "{}").await);
        assert_eq!(at(&answer, "result/_meta/sluicegate~decision/rule"), rule, "{tool}");
    }
}

#[tokio::test]
async fn a_limit_lets_just_so_many_through() {
    let policy = r#"{"version":"1","default":"deny","tools":{"read":{"rate_limit":"3/minute"}}}"#;
    let harness = start(policy).await;
    for _ in 0..3 {
        assert_eq!(at(&json(&harness.call("read", "{}").await), "result/isError"), "");
    }
    let answer = json(&harness.call("read", "{}").await);
    assert_eq!(at(&answer, "result/isError"), "true");
    assert_eq!(
        at(&answer, "result/_meta/sluicegate~decision/rule"),
        r#""/tools/read/limits/read_rate""#
    );
    assert_eq!(at(&answer, "result/_meta/sluicegate~decision/retryAfterMs"), "60000");
    assert_eq!(harness.upstream.bodies_of("tools/call").len(), 3);
    harness.advance(60);
    assert_eq!(at(&json(&harness.call("read", "{}").await), "result/isError"), "");
}

#[tokio::test]
async fn a_list_leaves_out_hidden_tools() {
    let policy = r#"{"version":"1","default":"allow","hide":["@destructive"],"tools":{"write":{"action":"deny"}}}"#;
    let harness = start(policy).await;
    let answer = harness.post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await;
    let answer = json(&answer);
    assert_eq!(at(&answer, "result/tools/0/name"), r#""read""#);
    assert_eq!(at(&answer, "result/tools/1/name"), r#""write""#);
    assert_eq!(at(&answer, "result/tools/2"), "");
    for tool in ["drop", "no-such-tool"] {
        let answer = json(&harness.call(tool, "{}").await);
        let expected = format!(r#""[POLICY DENIED] tool `{tool}` is not available""#);
        assert_eq!(at(&answer, "result/content/0/text"), expected);
    }
    assert!(harness.upstream.bodies_of("tools/call").is_empty());
}

#[tokio::test]
async fn a_revoked_grant_is_worth_nothing_on_the_very_next_request() {
    let harness = start(r#"{"version":"1","default":"allow"}"#).await;
    assert_eq!(harness.call("read", "{}").await.status, 200);
    let (token, _) = harness.configuration.grants[0].clone();
    harness.gateway.set_grant(&token, None);
    let answer = harness.call("read", "{}").await;
    assert_eq!(answer.status, 401);
    assert_eq!(at(&json(&answer), "error/code"), "-31001");
    assert_eq!(harness.upstream.bodies_of("tools/call").len(), 1);
}
