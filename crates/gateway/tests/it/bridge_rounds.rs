//! A modern server that asks for input has a legacy client's request repeated by the bridge.
//! Each request that leaves is judged, charged and recorded as a call of its own.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use sluice_testkit::{Answer, ModernOnly, Recorded, Reply};
use sluice_wire::json::Document;

use crate::{
    bridge::{before_modern, reached},
    harness::{Harness, at, json, policy},
    talk::{OPEN, hear, until},
};

const CALL: &str =
    r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"ask","arguments":{"n":1}}}"#;
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{}},"clientInfo":{"name":"old","version":"1"}}}"#;

/// A server that wants one more round this often, without asking anybody.
async fn insistent(rules: &str, rounds: usize) -> Harness {
    let (server, asked) = (ModernOnly::default(), AtomicUsize::new(0));
    Harness::start(rules, move |request| match request.rpc_method().as_deref() {
        Some("tools/call" | "prompts/get") if asked.fetch_add(1, Ordering::Relaxed) < rounds => {
            Reply::result(request, r#"{"resultType":"input_required","requestState":"s"}"#)
        }
        _ => server.reply(request),
    })
    .await
}

async fn session(harness: &Harness) -> String {
    harness.post(INITIALIZE).await.header("mcp-session-id").expect("a session").to_owned()
}

async fn call(harness: &Harness, body: &str) -> Answer {
    let session = session(harness).await;
    let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-06-18")];
    harness.post_with(&headers, body.as_bytes()).await
}

fn text(record: &Document, path: &str) -> String {
    at(record, path).trim_matches('"').to_owned()
}

/// The records of the client's requests, of one kind: outcome, and id of the request.
async fn records(harness: &Harness, kind: &str) -> Vec<(String, String)> {
    let records = harness.records().await;
    let of_kind = records.iter().filter(|record| text(record, "kind") == kind);
    // Questions of the server that the policy lets through have decisions too.
    let asks = |record: &&Document| text(record, "method") == "elicitation/create";
    of_kind
        .filter(|record| !asks(record))
        .map(|record| (text(record, "outcome"), text(record, "request")))
        .collect()
}

async fn outcomes(harness: &Harness, kind: &str) -> Vec<String> {
    records(harness, kind).await.into_iter().map(|(outcome, _)| outcome).collect()
}

#[tokio::test]
async fn every_round_has_a_decision_and_an_outcome() {
    for method in ["tools/call", "prompts/get"] {
        let harness = insistent(OPEN, 3).await;
        let body = CALL.replace("tools/call", method).replace("\"ask\"", "\"p\"");
        let answer = call(&harness, &body).await;
        assert_eq!(at(&json(&answer), "error"), "", "{}", answer.text());
        assert_eq!(reached(&harness, method).len(), 4);
        let decisions = records(&harness, "decision").await;
        assert!(decisions.iter().all(|(outcome, _)| outcome == "allow"), "{decisions:?}");
        let mut requests: Vec<_> = decisions.into_iter().map(|(_, request)| request).collect();
        let mut settled: Vec<_> = records(&harness, "outcome").await;
        assert!(settled.iter().all(|(outcome, _)| outcome == "allow"), "{settled:?}");
        requests.sort();
        requests.dedup();
        assert_eq!(requests.len(), 4);
        settled.sort();
        let settled: Vec<_> = settled.into_iter().map(|(_, request)| request).collect();
        assert_eq!(settled, requests);
    }
}

#[tokio::test]
async fn a_limit_of_n_lets_n_rounds_through() {
    let rules = r#"{"version":"1","default":"deny","tools":{"ask":{"rate_limit":"3/minute"}}}"#;
    let harness = insistent(rules, 100).await;
    let answer = json(&call(&harness, CALL).await);
    assert_eq!(at(&answer, "id"), "5");
    assert_eq!(at(&answer, "result/isError"), "true");
    let rule = at(&answer, "result/_meta/sluicegate~decision/rule");
    assert_eq!(rule, "\"/tools/ask/limits/ask_rate\"");
    assert_eq!(reached(&harness, "tools/call").len(), 3);
    assert_eq!(outcomes(&harness, "decision").await, ["allow", "allow", "allow", "deny"]);
    assert_eq!(outcomes(&harness, "outcome").await, ["allow"; 3]);
    // Nor does the next call have more.
    let answer = json(&call(&harness, CALL).await);
    assert_eq!(at(&answer, "result/isError"), "true");
    assert_eq!(reached(&harness, "tools/call").len(), 3);
}

#[tokio::test]
async fn a_server_that_never_has_enough_is_an_error_after_as_many_decisions_as_calls() {
    let harness = insistent(OPEN, usize::MAX).await;
    let answer = json(&call(&harness, CALL).await);
    assert_eq!(at(&answer, "error/code"), "-32603");
    let calls = reached(&harness, "tools/call").len();
    assert_eq!(calls, 16);
    assert_eq!(outcomes(&harness, "decision").await, vec!["allow"; calls]);
    assert_eq!(outcomes(&harness, "outcome").await, vec!["allow"; calls]);
}

/// A server that refuses the headers of the first call.
#[tokio::test]
async fn a_call_that_is_sent_again_with_other_headers_is_another_call() {
    let limited = r#"{"version":"1","default":"deny","tools":{"echo":{"rate_limit":"1/minute"}}}"#;
    for (rules, calls) in [(OPEN, 2), (limited, 1)] {
        let (server, first) = (ModernOnly::default(), AtomicUsize::new(0));
        let harness = Harness::start(rules, move |request: &Recorded| {
            let is_call = request.rpc_method().as_deref() == Some("tools/call");
            if is_call && first.fetch_add(1, Ordering::Relaxed) == 0 {
                let id = request.rpc_id();
                let refusal = format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32020,"message":"mismatch"}}}}"#
                );
                return Reply::new(400, "application/json", refusal);
            }
            server.reply(request)
        })
        .await;
        call(&harness, &CALL.replace("ask", "echo")).await;
        assert_eq!(reached(&harness, "tools/call").len(), calls);
        let decisions = outcomes(&harness, "decision").await;
        assert_eq!(decisions.iter().filter(|outcome| *outcome == "allow").count(), calls);
        assert_eq!(outcomes(&harness, "outcome").await, &["error", "allow"][..calls]);
    }
}

/// Begins a call whose client is asked, and gives what answers the question.
async fn ask(harness: &Arc<Harness>) -> (sluice_testkit::RawClient, String, String) {
    let session = session(harness).await;
    let headers = [("mcp-session-id", session.as_str())];
    let mut client = harness.begun("POST", &headers, CALL.as_bytes()).await;
    client.head().await.unwrap();
    let asked = hear(&mut client, "elicitation/create").await;
    let asked = asked.trim().strip_prefix("data: ").unwrap().to_owned();
    let asked = Document::parse(asked, &sluice_wire::json::Bounds::default()).unwrap();
    let reply = format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"action":"accept","content":{{}}}}}}"#,
        at(&asked, "id")
    );
    (client, session, reply)
}

async fn reply(harness: &Harness, session: &str, reply: &str) {
    let headers = [("mcp-session-id", session)];
    assert_eq!(harness.post_with(&headers, reply.as_bytes()).await.status, 202);
}

#[tokio::test]
async fn while_people_are_asked_no_call_is_in_progress() {
    let rules = r#"{"version":"1","default":"deny","server_requests":["elicitation"],"tools":{"*":{"concurrent":1}}}"#;
    let (harness, _) = before_modern(rules).await;
    let harness = Arc::new(harness);
    let (mut client, session, answer) = ask(&harness).await;
    let other = call(&harness, &CALL.replace("ask", "echo")).await;
    assert_eq!(at(&json(&other), "result/isError"), "", "{}", other.text());
    reply(&harness, &session, &answer).await;
    let last = hear(&mut client, "\"told\"").await;
    assert!(last.contains(r#""told":"accept""#), "{last}");
    // The last round has given its place back too.
    until("it is over", || reached(&harness, "tools/call").len() == 3).await;
    let other = call(&harness, &CALL.replace("ask", "echo")).await;
    assert_eq!(at(&json(&other), "result/isError"), "", "{}", other.text());
    assert_eq!(outcomes(&harness, "decision").await, ["allow"; 4]);
    assert_eq!(outcomes(&harness, "outcome").await, ["allow"; 4]);
}

#[tokio::test]
async fn what_is_denied_while_people_are_asked_is_not_sent() {
    let (harness, _) = before_modern(OPEN).await;
    let harness = Arc::new(harness);
    let (mut client, session, answer) = ask(&harness).await;
    let mut configuration = harness.configuration.clone();
    let denies = r#"{"version":"1","default":"allow","tools":{"ask":{"action":"deny","reason":"Not any more."}}}"#;
    configuration.policies = vec![policy("notes", "rules", denies)];
    harness.gateway.apply(&configuration).unwrap();
    reply(&harness, &session, &answer).await;
    let last = hear(&mut client, "Not any more.").await;
    assert!(last.contains("[POLICY DENIED]") && last.contains(r#""id":5"#), "{last}");
    assert_eq!(reached(&harness, "tools/call").len(), 1);
    assert_eq!(outcomes(&harness, "decision").await, ["allow", "deny"]);
    assert_eq!(outcomes(&harness, "outcome").await, ["allow"]);
}

#[tokio::test]
async fn a_client_that_goes_away_between_rounds_leaves_nothing_open() {
    let rules = r#"{"version":"1","default":"deny","server_requests":["elicitation"],"tools":{"*":{"concurrent":1}}}"#;
    let (harness, _) = before_modern(rules).await;
    let harness = Arc::new(harness);
    let (client, session, _) = ask(&harness).await;
    drop(client);
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#;
    let headers = [("mcp-session-id", session.as_str())];
    assert_eq!(harness.post_with(&headers, cancel.as_bytes()).await.status, 202);
    let other = call(&harness, &CALL.replace("ask", "echo")).await;
    assert_eq!(at(&json(&other), "result/isError"), "", "{}", other.text());
    assert_eq!(outcomes(&harness, "decision").await, ["allow"; 2]);
    assert_eq!(outcomes(&harness, "outcome").await, ["allow"; 2]);
}
