//! Clients that do not read their answers or streams, and servers that never come to an end:
//! both are given up in bounded time, with an outcome that says so.

use std::time::Duration;

use sluice_gateway::{ClientTimes, Configuration};
use sluice_store::TokenHash;
use sluice_testkit::{RawClient, Recorded, Reply, Upstream, mcp_server};

use crate::{
    harness::{Harness, TOKEN, at, grant, policy, request, server},
    talk::{OPEN, hear, until},
};

/// More than the buffers of a connection take.
const LONG: usize = 14 << 20;
const CALL: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{}}}"#;

async fn start(
    timeout: Duration,
    responder: impl Fn(&Recorded) -> Reply + Send + Sync + 'static,
) -> Harness {
    let upstream = Upstream::start(responder).await.unwrap();
    let mut notes = server("notes", &upstream.url());
    notes.timeout = timeout;
    let configuration = Configuration {
        servers: vec![notes],
        policies: vec![policy("notes", "rules", OPEN)],
        grants: vec![(TokenHash::of(TOKEN), grant("alice", &["notes"], "rules"))],
    };
    let times = ClientTimes { unread: Duration::from_millis(400), ..ClientTimes::default() };
    Harness::tuned(upstream, configuration, |settings| settings.times = times).await
}

fn text(length: usize) -> String {
    format!(r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#, "x".repeat(length))
}

/// The message of the only outcome, once there is one.
async fn outcome(harness: &Harness) -> String {
    for _ in 0..200 {
        let records = harness.records().await;
        let outcome = records.iter().find(|record| at(record, "kind") == "\"outcome\"");
        if let Some(outcome) = outcome {
            return at(outcome, "message");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the call has no outcome");
}

async fn unread(harness: &Harness) -> RawClient {
    let mut client = RawClient::connect(harness.address).await.unwrap();
    let bytes = request("POST", "/mcp/notes", harness.address, &[], CALL.as_bytes());
    client.send(&bytes).await.unwrap();
    assert_eq!(outcome(harness).await, r#""the client did not read the answer""#);
    until("its connection is closed", || {
        harness.gateway.metrics().contains("sluice_open_streams 0\n")
    })
    .await;
    client
}

#[tokio::test]
async fn a_client_that_does_not_read_a_long_answer_is_given_up() {
    let harness = start(Duration::from_mins(5), |request| match request.rpc_method().as_deref() {
        Some("tools/call") => Reply::result(request, &text(LONG)),
        _ => mcp_server("[]")(request),
    })
    .await;
    unread(&harness).await;
}

#[tokio::test]
async fn a_client_that_does_not_read_events_is_given_up() {
    let harness = start(Duration::from_mins(5), |request| match request.rpc_method().as_deref() {
        Some("tools/call") => {
            let event = format!(
                "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{{\"level\":\"info\",\"data\":\"{}\"}}}}\n\n",
                "x".repeat(1 << 20)
            );
            Reply::events(event.repeat(LONG >> 20))
        }
        _ => mcp_server("[]")(request),
    })
    .await;
    unread(&harness).await;
}

/// The oldest transport has one stream for all answers.
#[tokio::test]
async fn a_client_that_does_not_read_its_stream_is_given_up() {
    let harness = start(Duration::from_mins(5), |request| match request.rpc_method().as_deref() {
        Some("tools/call") => Reply::result(request, &text(1 << 20)),
        _ => mcp_server("[]")(request),
    })
    .await;
    let mut stream = RawClient::connect(harness.address).await.unwrap();
    let open = request("GET", "/mcp/notes/sse", harness.address, &[], b"");
    stream.send(&open).await.unwrap();
    stream.head().await.unwrap();
    let first = hear(&mut stream, "\n\n").await;
    let endpoint = first.strip_prefix("event: endpoint\ndata: ").unwrap().trim().to_owned();
    for _ in 0..LONG >> 20 {
        let post = request("POST", &endpoint, harness.address, &[], CALL.as_bytes());
        // The last ones may come when the stream is closed already.
        assert!([202, 404].contains(&harness.raw(&post).await.status));
    }
    until("its stream is closed", || harness.gateway.metrics().contains("sluice_open_streams 0\n"))
        .await;
}

#[tokio::test]
async fn messages_do_not_extend_a_call_for_ever() {
    let (reply, say) = Reply::live_stream();
    let harness =
        start(Duration::from_millis(300), move |request| match request.rpc_method().as_deref() {
            Some("tools/call") => reply.clone(),
            _ => mcp_server("[]")(request),
        })
        .await;
    tokio::spawn(async move {
        let progress = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"on it"}}"#;
        while say.send(progress.to_owned()).is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let answer = harness.post(CALL).await;
    assert!(!answer.is_whole && answer.text().contains("on it"), "{}", answer.text());
    assert_eq!(outcome(&harness).await, r#""the server did not answer in time""#);
}
