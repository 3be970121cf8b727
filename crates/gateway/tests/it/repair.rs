//! Upstream sessions that are lost: begun again where nothing is lost by it,
//! else said to be gone as the protocol says it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use sluice_testkit::{End, OldServer, Recorded, Reply, Upstream, mcp_server};

use crate::{
    bridge::reached,
    harness::{Harness, TOKEN, at, json, request},
    old_servers::in_front_of,
    talk::{OPEN, hear, until, with_event_ids},
};

const TOOLS: &str = r#"[{"name":"read"}]"#;
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#;
const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
const LIMITED: &str = r#"{"version":"1","default":"allow","all_tools":{"limits":[{"counter":"c","window":"day","max":2}]}}"#;

/// A server whose sessions are named after how often it was restarted, and which
/// knows only those of now.
fn restarting(
    restarts: &Arc<AtomicUsize>,
    gone: fn(&Recorded) -> Reply,
) -> impl Fn(&Recorded) -> Reply + Send + Sync + 'static {
    let restarts = Arc::clone(restarts);
    move |request: &Recorded| {
        let now = format!("session-{}", restarts.load(Ordering::Relaxed));
        let session = request.header("mcp-session-id");
        match (request.method.as_str(), request.rpc_method().as_deref(), session) {
            (_, Some("initialize"), None) => {
                let mut reply = mcp_server(TOOLS)(request);
                reply.headers.retain(|(name, _)| *name != "mcp-session-id");
                reply.with_header("mcp-session-id", &now)
            }
            (_, _, Some(session)) if session != now => gone(request),
            ("GET", ..) => {
                let news = r#"{"jsonrpc":"2.0","method":"notifications/message","params":"#;
                let event = format!("id: 1\ndata: {news}{{\"data\":\"{now}\"}}}}\n\n");
                Reply::events(event).ending(End::Never)
            }
            (_, Some("resources/subscribe" | "logging/setLevel"), _) => {
                Reply::result(request, "{}")
            }
            _ => with_event_ids(mcp_server(TOOLS))(request),
        }
    }
}

fn plainly(_: &Recorded) -> Reply {
    Reply::new(404, "text/plain", "gone")
}

/// As the official SDKs say it.
fn as_sdks_do(_: &Recorded) -> Reply {
    let body =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#;
    Reply::new(404, "application/json", body)
}

/// As servers do that keep sessions like the examples of the official SDK.
fn as_examples_do(request: &Recorded) -> Reply {
    let id = request.rpc_id();
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32000,"message":"Bad Request: No valid session ID provided"}}}}"#
    );
    Reply::new(400, "application/json", body)
}

async fn start(rules: &str, gone: fn(&Recorded) -> Reply) -> (Harness, Arc<AtomicUsize>) {
    let restarts = Arc::new(AtomicUsize::new(1));
    let harness = Harness::start(rules, restarting(&restarts, gone)).await;
    (harness, restarts)
}

/// The sessions that requests with this body came in.
fn sessions(harness: &Harness, body: &str) -> Vec<String> {
    let recorded = harness.upstream.requests();
    let found = recorded.iter().filter(|request| request.text() == body);
    found.map(|request| request.header("mcp-session-id").unwrap_or("-").to_owned()).collect()
}

#[tokio::test]
async fn a_restart_of_the_server_is_not_noticed() {
    for gone in [plainly as fn(&Recorded) -> Reply, as_sdks_do, as_examples_do] {
        let (harness, restarts) = start(LIMITED, gone).await;
        let session = harness.session(TOKEN).await;
        let headers =
            [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")];
        assert_eq!(harness.post_with(&headers, CALL.as_bytes()).await.status, 200);
        restarts.fetch_add(1, Ordering::Relaxed);
        let answer = harness.post_with(&headers, CALL.as_bytes()).await;
        assert_eq!(at(&json(&answer), "result/content/0/text"), "\"done\"", "{}", answer.text());
        assert_eq!(sessions(&harness, CALL), ["session-1", "session-1", "session-2"]);
        let hellos = harness.upstream.bodies_of("initialize");
        let own = hellos.iter().filter(|hello| hello.contains(r#""name":"t""#)).count();
        assert_eq!(own, 2, "the client's own introduction: {hellos:?}");
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert!(sessions(&harness, ready).contains(&"session-2".to_owned()));
        // It was one call, and is charged and recorded as one.
        let third = harness.post_with(&headers, CALL.as_bytes()).await;
        assert!(third.text().contains("[POLICY DENIED]"), "{}", third.text());
        let records = harness.records().await;
        let outcomes: Vec<_> = records.iter().map(|record| at(record, "outcome")).collect();
        assert_eq!(outcomes.iter().filter(|outcome| *outcome == "\"allow\"").count(), 4);
        let ends = records.iter().filter(|record| at(record, "kind") == "\"outcome\"");
        let said: Vec<_> = ends.map(|record| at(record, "message")).collect();
        assert_eq!(said, ["", "\"the request was sent 2 times\""]);
    }
}

#[tokio::test]
async fn many_requests_find_one_new_session() {
    let (harness, restarts) = start(OPEN, plainly).await;
    let session = harness.session(TOKEN).await;
    restarts.fetch_add(1, Ordering::Relaxed);
    let headers = [("mcp-session-id", session.as_str())];
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(harness.begun("POST", &headers, CALL.as_bytes()).await);
    }
    for client in &mut clients {
        assert_eq!(client.answer().await.unwrap().unwrap().status, 200);
    }
    let hellos = harness.upstream.bodies_of("initialize");
    assert_eq!(hellos.iter().filter(|hello| hello.contains(r#""name":"t""#)).count(), 2);
}

#[tokio::test]
async fn notifications_and_streams_find_the_new_session_too() {
    for gone in [plainly as fn(&Recorded) -> Reply, as_sdks_do, as_examples_do] {
        finds_the_new_session(gone).await;
    }
}

async fn finds_the_new_session(gone: fn(&Recorded) -> Reply) {
    let (harness, restarts) = start(OPEN, gone).await;
    let session = harness.session(TOKEN).await;
    let headers = [("mcp-session-id", session.as_str())];
    restarts.fetch_add(1, Ordering::Relaxed);
    assert_eq!(harness.post_with(&headers, NOTE.as_bytes()).await.status, 202);
    restarts.fetch_add(1, Ordering::Relaxed);
    let mut client = harness.begun("GET", &headers, b"").await;
    assert!(client.head().await.unwrap().unwrap().starts_with("HTTP/1.1 200"));
    hear(&mut client, "session-3").await;
    // What was said in the old session cannot be repeated.
    let last = harness.event_id(TOKEN, &session).await;
    restarts.fetch_add(1, Ordering::Relaxed);
    let replay = [("mcp-session-id", session.as_str()), ("last-event-id", last.as_str())];
    let answer = harness.raw(&request("GET", "/mcp/notes", harness.address, &replay, b"")).await;
    assert_eq!(answer.status, 404);
}

#[tokio::test]
async fn a_session_with_something_in_it_is_said_to_be_gone() {
    let bodies: [&str; 3] = [
        r#"{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"a:b"}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"info"}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read","task":{}}}"#,
    ];
    for (body, gone) in
        bodies.into_iter().zip([plainly as fn(&Recorded) -> Reply, as_sdks_do, as_examples_do])
    {
        let (harness, restarts) = start(OPEN, gone).await;
        let session = harness.session(TOKEN).await;
        let headers = [("mcp-session-id", session.as_str())];
        assert_eq!(harness.post_with(&headers, body.as_bytes()).await.status, 200, "{body}");
        restarts.fetch_add(1, Ordering::Relaxed);
        let answer = harness.post_with(&headers, CALL.as_bytes()).await;
        assert_eq!(answer.status, 404, "{}", answer.text());
        assert_eq!(at(&json(&answer), "error/code"), "-32001");
    }
}

#[tokio::test]
async fn a_server_that_speaks_otherwise_now_is_not_hidden() {
    let (harness, restarts) = start(OPEN, plainly).await;
    let session = harness.session(TOKEN).await;
    restarts.fetch_add(1, Ordering::Relaxed);
    // The server agrees to 2025-11-25, which is not what this client speaks.
    let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-06-18")];
    assert_eq!(harness.post_with(&headers, CALL.as_bytes()).await.status, 404);
    assert_eq!(sessions(&harness, CALL), ["session-1"]);
}

/// Where a refusal is the answer to the request, the session is not lost.
#[tokio::test]
async fn a_refusal_that_answers_the_request_is_its_answer() {
    for status in [404, 400] {
        refused_with(status).await;
    }
}

async fn refused_with(status: u16) {
    let harness = Harness::start(OPEN, move |request: &Recorded| {
        match request.rpc_method().as_deref() {
            Some("tools/call") => {
                let body = format!(
                    r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32602,"message":"no such tool"}}}}"#,
                    request.rpc_id()
                );
                Reply::new(status, "application/json", body)
            }
            _ => mcp_server(TOOLS)(request),
        }
    })
    .await;
    let session = harness.session(TOKEN).await;
    let answer = harness.post_with(&[("mcp-session-id", &session)], CALL.as_bytes()).await;
    assert_eq!((answer.status, at(&json(&answer), "error/code").as_str()), (status, "-32602"));
    assert_eq!(harness.calls().len(), 1);
}

#[tokio::test]
async fn a_session_that_was_ended_stays_so() {
    let (harness, restarts) = start(OPEN, plainly).await;
    let session = harness.session(TOKEN).await;
    let headers = [("mcp-session-id", session.as_str())];
    let ended = harness.raw(&request("DELETE", "/mcp/notes", harness.address, &headers, b"")).await;
    assert_eq!(ended.status, 200);
    restarts.fetch_add(1, Ordering::Relaxed);
    assert_eq!(harness.post_with(&headers, CALL.as_bytes()).await.status, 404);
}

/// A gateway that was itself restarted does not know how the session began.
#[tokio::test]
async fn a_restarted_gateway_reports_a_lost_session_as_gone() {
    let (harness, restarts) = start(OPEN, plainly).await;
    let session = harness.session(TOKEN).await;
    let other = Harness::with(harness.upstream.clone(), harness.configuration.clone()).await;
    let headers = [("mcp-session-id", session.as_str())];
    assert_eq!(other.post_with(&headers, CALL.as_bytes()).await.status, 200);
    restarts.fetch_add(1, Ordering::Relaxed);
    assert_eq!(other.post_with(&headers, CALL.as_bytes()).await.status, 404);
    assert_eq!(harness.post_with(&headers, CALL.as_bytes()).await.status, 200);
}

#[tokio::test]
async fn a_broken_stream_of_an_old_server_is_repaired_for_the_next_request() {
    let old = OldServer::start(mcp_server(TOOLS)).await.unwrap();
    let harness = in_front_of(&old, OPEN).await;
    let session = harness.session(TOKEN).await;
    let headers = [("mcp-session-id", session.as_str())];
    for _ in 0..3 {
        let answer = harness.post_with(&headers, CALL.as_bytes()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        old.break_off();
        until("the stream is gone", || old.open_streams() == 0).await;
    }
}

/// A server counts its requests anew in each session, so that an answer could be
/// taken for another request's.
#[tokio::test]
async fn requests_of_a_lost_session_are_not_answered_in_the_new_one() {
    let restarts = Arc::new(AtomicUsize::new(1));
    let server = restarting(&restarts, plainly);
    let harness = Harness::start(OPEN, move |request: &Recorded| match request.method.as_str() {
        "GET" => {
            Reply::events("data: {\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"roots/list\"}\n\n")
                .ending(End::Never)
        }
        _ => server(request),
    })
    .await;
    let session = harness.session(TOKEN).await;
    let headers = [("mcp-session-id", session.as_str())];
    let mut client = harness.begun("GET", &headers, b"").await;
    client.head().await.unwrap();
    let heard = hear(&mut client, "roots/list").await;
    let sealed = heard.split("\"id\":\"").nth(1).unwrap().split('"').next().unwrap();
    let reply = format!(r#"{{"jsonrpc":"2.0","id":"{sealed}","result":{{"roots":[]}}}}"#);
    restarts.fetch_add(1, Ordering::Relaxed);
    assert_eq!(harness.post_with(&headers, CALL.as_bytes()).await.status, 200);
    assert_eq!(harness.post_with(&headers, reply.as_bytes()).await.status, 202);
    let recorded = harness.upstream.requests();
    assert!(recorded.iter().all(|request| !request.text().contains(r#""roots":[]"#)));
}

/// The server would not know the request of the old session.
#[tokio::test]
async fn a_call_that_was_sent_again_is_cancelled_in_the_new_session() {
    let restarts = Arc::new(AtomicUsize::new(1));
    let answering = restarting(&restarts, plainly);
    let silent = move |request: &Recorded| match answering(request) {
        reply if reply.status == 404 || request.rpc_method().as_deref() != Some("tools/call") => {
            reply
        }
        _ => Reply::events("").ending(End::Never),
    };
    let upstream = Upstream::start(silent).await.unwrap();
    let mut configuration = Harness::configuration(&upstream, OPEN);
    configuration.servers[0].timeout = Duration::from_secs(3);
    let harness = Harness::with(upstream, configuration).await;
    let session = harness.session(TOKEN).await;
    restarts.fetch_add(1, Ordering::Relaxed);
    let headers = [("mcp-session-id", session.as_str())];
    assert_eq!(harness.post_with(&headers, CALL.as_bytes()).await.status, 504);
    let told = || reached(&harness, "notifications/cancelled");
    until("it is told", || !told().is_empty()).await;
    let sessions: Vec<_> =
        told().iter().map(|told| told.header("mcp-session-id").map(str::to_owned)).collect();
    assert_eq!(sessions, [Some("session-2".to_owned())]);
    let records = harness.records().await;
    let message = "\"the server did not answer in time; the request was sent 2 times\"";
    assert!(records.iter().any(|record| at(record, "message") == message));
}
