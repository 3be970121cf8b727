//! `concurrent`: never more calls at the server than the policy says, and every place is free
//! again when its call has ended, however it ends.

use std::{
    net::TcpListener as StdListener,
    sync::{Arc, Mutex},
    time::Duration,
};

use sluice_gateway::Configuration;
use sluice_store::TokenHash;
use sluice_testkit::{Answer, End, RawClient, Recorded, Reply, Upstream, mcp_server};
use tokio::sync::mpsc::UnboundedSender;

use crate::{
    harness::{Harness, TOKEN, at, grant, json, policy, request, server},
    talk::{mirrors, modern_body, modern_server, until},
};

const BOB: &str = "sg_test_token_of_bob";
const RULE: &str = "/tools/slow/concurrent";

/// The calls at the server: their ids, and how to answer them.
type Hanging = Arc<Mutex<Vec<(String, UnboundedSender<String>)>>>;

/// A server whose tool `slow` answers when it is told to; all others answer at once.
fn slow(hanging: &Hanging) -> impl Fn(&Recorded) -> Reply + Send + Sync + 'static {
    let hanging = Arc::clone(hanging);
    move |request| {
        let is_slow = request.text().contains(r#""name":"slow"#);
        match request.rpc_method().as_deref() {
            Some("tools/call") if is_slow => {
                let (reply, answer) = Reply::later();
                hanging.lock().unwrap().push((request.rpc_id(), answer));
                reply
            }
            _ => mcp_server("[]")(request),
        }
    }
}

/// Answers the calls at the server, from the first.
fn finish(hanging: &Hanging, count: usize) {
    for (id, answer) in hanging.lock().unwrap().drain(..count) {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[]}}}}"#);
        answer.send(text).unwrap();
    }
}

fn rules(concurrent: &str) -> String {
    format!(
        r#"{{"version":"1","default":"deny","tools":{{"slow":{{"concurrent":{concurrent}}},"other":{{}}}}}}"#
    )
}

fn denied_by(answer: &Answer) -> String {
    let rule = at(&json(answer), "result/_meta/sluicegate~decision/rule");
    rule.trim_matches('"').to_owned()
}

impl Harness {
    /// Calls `slow` in a task of its own, from a client of its own.
    fn calling(self: &Arc<Harness>) -> tokio::task::JoinHandle<Answer> {
        let harness = Arc::clone(self);
        tokio::spawn(async move { harness.call("slow", "{}").await })
    }
}

/// Waits until a call of `slow` has a place, and ends it.
async fn wait_for_place(harness: &Arc<Harness>, hanging: &Hanging) {
    for _ in 0..500 {
        let calling = harness.calling();
        until("it is refused or at the server", || {
            calling.is_finished() || !hanging.lock().unwrap().is_empty()
        })
        .await;
        let count = hanging.lock().unwrap().len();
        finish(hanging, count);
        if denied_by(&calling.await.unwrap()).is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the place is not free");
}

async fn no_more_than_three(harness: Harness, hanging: Hanging) {
    let harness = Arc::new(harness);
    let calls: Vec<_> = (0..10).map(|_| harness.calling()).collect();
    let refused = || calls.iter().filter(|call| call.is_finished()).count();
    until("seven are refused", || refused() == 7).await;
    until("three are at the server", || harness.calls().len() == 3).await;
    // Calls of other tools are not.
    assert_eq!(denied_by(&harness.call("other", "{}").await), "");
    finish(&hanging, 1);
    until("one is answered", || refused() == 8).await;
    // Its place is free.
    let next = harness.calling();
    until("the next one is at the server", || hanging.lock().unwrap().len() == 3).await;
    assert_eq!(denied_by(&harness.call("slow", "{}").await), RULE);
    finish(&hanging, 3);
    assert_eq!(denied_by(&next.await.unwrap()), "");
    let mut denied = Vec::new();
    for call in calls {
        let answer = call.await.unwrap();
        denied.extend((!denied_by(&answer).is_empty()).then_some(answer));
    }
    assert_eq!((denied.len(), harness.calls().len()), (7, 5));
    let said = "[POLICY DENIED] Too many calls at once: at most 3 calls at a time for this grant. Try again when one has ended.";
    for answer in denied {
        assert_eq!(at(&json(&answer), "result/content/0/text"), format!("\"{said}\""));
        assert_eq!(at(&json(&answer), "result/isError"), "true");
        assert_eq!(at(&json(&answer), "result/_meta/sluicegate~decision/retryAfterMs"), "");
        assert_eq!(denied_by(&answer), RULE);
    }
    let records = harness.records().await;
    let count = |kind: &str, outcome: &str| {
        let is = |record: &_, key: &str, value: &str| at(record, key) == format!("\"{value}\"");
        let of = |record: &&_| is(*record, "kind", kind) && is(*record, "outcome", outcome);
        records.iter().filter(of).count()
    };
    assert_eq!((count("decision", "deny"), count("decision", "allow")), (8, 5));
    assert_eq!(count("outcome", "allow"), 5);
    let rule = records.iter().find(|record| at(record, "outcome") == "\"deny\"").unwrap();
    assert_eq!(at(rule, "rule"), format!("\"{RULE}\""));
    harness.verify().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_ten_calls_at_once_three_are_at_the_server() {
    let hanging = Hanging::default();
    no_more_than_three(Harness::start(&rules("3"), slow(&hanging)).await, hanging).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_ten_calls_at_once_three_are_at_the_server_with_a_store_on_disk() {
    let hanging = Hanging::default();
    no_more_than_three(Harness::on_disk(&rules("3"), slow(&hanging)).await, hanging).await;
}

/// A client that calls again when it has its answer is never refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_is_free_when_its_call_is_answered() {
    let long = "x".repeat(300 << 10);
    let result = format!(r#"{{"content":[{{"type":"text","text":"{long}"}}]}}"#);
    let short = r#"{"content":[]}"#;
    let answer = |request: &Recorded, result: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, request.rpc_id())
    };
    let harness = Harness::on_disk(
        r#"{"version":"1","default":"deny","all_tools":{"concurrent":1},"tools":{"*":{}}}"#,
        move |request: &Recorded| {
            let name = |name: &str| request.text().contains(&format!(r#""name":"{name}""#));
            match request.rpc_method().as_deref() {
                Some("tools/call") if name("long") => Reply::result(request, &result),
                Some("tools/call") if name("events") => {
                    Reply::events(format!("data: {}\n\n", answer(request, short)))
                }
                Some("tools/call") if name("progress") => Reply::events(format!(
                    "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":1,\"progress\":1}}}}\n\ndata: {}\n\n",
                    answer(request, &result)
                )),
                _ => mcp_server("[]")(request),
            }
        },
    )
    .await;
    for number in 0..40 {
        for tool in ["read", "long", "events", "progress"] {
            let answer = harness.call(tool, "{}").await;
            assert!(answer.is_whole, "{tool}");
            assert!(!answer.text().contains("POLICY DENIED"), "{tool} {number}: {}", answer.text());
        }
    }
    // A call that the server has not seen takes none either.
    assert_eq!(harness.post("{}").await.status, 400);
    assert_eq!(denied_by(&harness.call("read", "{}").await), "");
}

/// However a call ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_call_gives_its_place_back() {
    let ends: [fn(&Recorded) -> Reply; 5] = [
        |_| Reply::json("{\"jsonrpc\":").ending(End::Broken),
        |_| Reply::empty(500),
        |_| Reply::json("nonsense"),
        |_| Reply::events("").ending(End::Never),
        |request| Reply::result(request, r#"{"content":[],"isError":true}"#),
    ];
    for (number, end) in ends.into_iter().enumerate() {
        let upstream =
            Upstream::start(move |request: &Recorded| match request.rpc_method().as_deref() {
                Some("tools/call") => end(request),
                _ => mcp_server("[]")(request),
            })
            .await
            .unwrap();
        let mut configuration = Harness::configuration(&upstream, &rules("1"));
        configuration.servers[0].timeout = Duration::from_millis(200);
        let harness = Harness::with(upstream, configuration).await;
        for _ in 0..3 {
            let text = harness.call("slow", "{}").await.text();
            assert!(!text.contains("POLICY DENIED"), "{number}: {text}");
        }
        assert_eq!(harness.calls().len(), 3);
    }
}

#[tokio::test]
async fn a_call_that_cannot_be_sent_gives_its_place_and_its_charge_back() {
    let port = StdListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let upstream = Upstream::start(mcp_server("[]")).await.unwrap();
    let text = r#"{"version":"1","default":"deny","tools":{"slow":{"concurrent":1,"rate_limit":"1/minute"}}}"#;
    let mut configuration = Configuration {
        servers: vec![server("notes", &format!("http://127.0.0.1:{port}/mcp"))],
        policies: vec![policy("notes", "rules", text)],
        grants: vec![(TokenHash::of(TOKEN), grant("alice", &["notes"], "rules"))],
    };
    let harness = Harness::with(upstream.clone(), configuration.clone()).await;
    for _ in 0..3 {
        assert_eq!(harness.call("slow", "{}").await.status, 502);
    }
    configuration.servers = vec![server("notes", &upstream.url())];
    harness.gateway.apply(&configuration).unwrap();
    assert_eq!(denied_by(&harness.call("slow", "{}").await), "");
    assert_eq!(denied_by(&harness.call("slow", "{}").await), "/tools/slow/limits/slow_rate");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_call_gives_its_place_back() {
    let hanging = Hanging::default();
    let harness = Arc::new(Harness::start(&rules("1"), slow(&hanging)).await);
    let session = harness.session(TOKEN).await;
    let headers = [("mcp-session-id", session.as_str())];
    let call =
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow","arguments":{}}}"#;
    let mut client = RawClient::connect(harness.address).await.unwrap();
    let bytes = request("POST", "/mcp/notes", harness.address, &headers, call.as_bytes());
    client.send(&bytes).await.unwrap();
    until("it is at the server", || hanging.lock().unwrap().len() == 1).await;
    assert_eq!(denied_by(&harness.call("slow", "{}").await), RULE);
    let note = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
    assert_eq!(harness.post_with(&headers, note.as_bytes()).await.status, 202);
    // The server ends what was cancelled.
    hanging.lock().unwrap().clear();
    wait_for_place(&harness, &hanging).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_modern_client_that_goes_away_gives_its_place_back() {
    let hanging = Hanging::default();
    let (slow, modern) = (slow(&hanging), modern_server("[]"));
    let both = move |request: &Recorded| match request.rpc_method().as_deref() {
        Some("tools/call") if request.text().contains("slow") => slow(request),
        _ => modern(request),
    };
    let harness = Arc::new(Harness::start(&rules("1"), both).await);
    let body = modern_body("tools/call", r#""name":"slow","arguments":{}"#, "{}");
    let headers = mirrors("tools/call", Some("slow"));
    let mut client = RawClient::connect(harness.address).await.unwrap();
    let bytes = request("POST", "/mcp/notes", harness.address, &headers, body.as_bytes());
    client.send(&bytes).await.unwrap();
    until("it is at the server", || hanging.lock().unwrap().len() == 1).await;
    let refused = harness.modern_call("slow", "{}").await;
    assert_eq!(denied_by(&refused), RULE);
    drop(client);
    let mut passed = false;
    while !passed {
        let (again, before) = (Arc::clone(&harness), hanging.lock().unwrap().len());
        let calling = tokio::spawn(async move { again.modern_call("slow", "{}").await });
        until("it is refused or at the server", || {
            passed = hanging.lock().unwrap().len() > before;
            passed || calling.is_finished()
        })
        .await;
        calling.abort();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_call_without_a_place_charges_nothing() {
    let hanging = Hanging::default();
    let text = r#"{"version":"1","default":"deny","tools":{
      "slow":{"concurrent":1,"limits":[{"counter":"c","window":"day","max":2}]}}}"#;
    let harness = Arc::new(Harness::start(text, slow(&hanging)).await);
    let first = harness.calling();
    until("it is at the server", || hanging.lock().unwrap().len() == 1).await;
    for _ in 0..5 {
        assert_eq!(denied_by(&harness.call("slow", "{}").await), RULE);
    }
    finish(&hanging, 1);
    first.await.unwrap();
    wait_for_place(&harness, &hanging).await;
    // A full counter is named first, and takes no place.
    assert_eq!(denied_by(&harness.call("slow", "{}").await), "/tools/slow/limits/c");
    harness.advance(86_400);
    wait_for_place(&harness, &hanging).await;
}

#[tokio::test]
async fn tools_of_a_pattern_share_the_places() {
    let hanging = Hanging::default();
    let text = r#"{"version":"1","default":"deny","tools":{"slow*":{"concurrent":{"max":1,"on_deny":"One at a time."}}}}"#;
    let harness = Arc::new(Harness::start(text, slow(&hanging)).await);
    let first = harness.calling();
    until("it is at the server", || hanging.lock().unwrap().len() == 1).await;
    let answer = harness.call("slow_too", "{}").await;
    assert_eq!(denied_by(&answer), "/tools/slow*/concurrent");
    assert_eq!(at(&json(&answer), "result/content/0/text"), "\"[POLICY DENIED] One at a time.\"");
    finish(&hanging, 1);
    first.await.unwrap();
}

#[tokio::test]
async fn in_shadow_mode_a_call_without_a_place_is_sent() {
    let hanging = Hanging::default();
    let text = rules("1").replace(r#""default""#, r#""mode":"shadow","default""#);
    let harness = Arc::new(Harness::start(&text, slow(&hanging)).await);
    let calls: Vec<_> = (0..3).map(|_| harness.calling()).collect();
    until("all are at the server", || hanging.lock().unwrap().len() == 3).await;
    finish(&hanging, 3);
    for call in calls {
        assert_eq!(denied_by(&call.await.unwrap()), "");
    }
    let records = harness.records().await;
    let shadowed = records.iter().filter(|record| at(record, "outcome") == "\"shadow_deny\"");
    assert!(shadowed.clone().all(|record| at(record, "rule") == format!("\"{RULE}\"")));
    let decisions = shadowed.filter(|record| at(record, "kind") == "\"decision\"");
    assert_eq!(decisions.count(), 2);
}

#[tokio::test]
async fn places_belong_to_whom_their_scope_says() {
    for (scope, alice_other, bob) in [
        ("grant", false, true),
        ("session", true, true),
        ("principal", false, false),
        ("server", false, false),
    ] {
        let hanging = Hanging::default();
        let upstream = Upstream::start(slow(&hanging)).await.unwrap();
        let with_principal = |id: &str| {
            let mut grant = grant(id, &["notes"], "rules");
            grant.principal = Some("team".into());
            grant
        };
        let text = rules(&format!(r#"{{"max":1,"scope":"{scope}"}}"#));
        let configuration = Configuration {
            servers: vec![server("notes", &upstream.url())],
            policies: vec![policy("notes", "rules", &text)],
            grants: vec![
                (TokenHash::of(TOKEN), with_principal("alice")),
                (TokenHash::of(BOB), with_principal("bob")),
            ],
        };
        let harness = Harness::with(upstream, configuration).await;
        let sessions = [
            harness.session(TOKEN).await,
            harness.session(TOKEN).await,
            harness.session(BOB).await,
        ];
        let mut clients = Vec::new();
        let body = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow","arguments":{}}}"#;
        let tokens = [TOKEN, TOKEN, BOB];
        let expected = [true, alice_other, bob];
        for ((token, session), passes) in tokens.into_iter().zip(&sessions).zip(expected) {
            let token = format!("Bearer {token}");
            let headers = [("authorization", token.as_str()), ("mcp-session-id", session)];
            let mut client = RawClient::connect(harness.address).await.unwrap();
            let before = hanging.lock().unwrap().len();
            let bytes = request("POST", "/mcp/notes", harness.address, &headers, body.as_bytes());
            client.send(&bytes).await.unwrap();
            if passes {
                until(scope, || hanging.lock().unwrap().len() > before).await;
            } else {
                let answer = client.answer().await.unwrap().unwrap();
                assert_eq!(denied_by(&answer), RULE, "{scope}");
            }
            clients.push(client);
        }
    }
}
