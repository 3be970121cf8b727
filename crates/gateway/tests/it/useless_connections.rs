//! Connections that send nothing, or only a part of a request, or are never used again: they
//! are closed, and take no place from others.

use std::time::Duration;

use sluice_gateway::ClientTimes;
use sluice_testkit::{End, RawClient, Reply, Upstream, mcp_server};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    harness::{Harness, TOKEN, request},
    talk::{OPEN, until},
};

/// The preface of HTTP/2 with empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const CALL: &[u8] =
    br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{}}}"#;

/// Short enough for a test.
const SHORT: ClientTimes = ClientTimes {
    first_byte: Duration::from_millis(400),
    header: Duration::from_millis(400),
    body: Duration::from_millis(400),
    idle: Duration::from_millis(400),
    unread: Duration::from_millis(400),
};

async fn start(times: ClientTimes, descriptors: usize) -> Harness {
    let upstream = Upstream::start(mcp_server("[]")).await.unwrap();
    let configuration = Harness::configuration(&upstream, OPEN);
    let tune = |settings: &mut sluice_gateway::Settings| {
        settings.times = times;
        settings.descriptors = descriptors;
    };
    Harness::tuned(upstream, configuration, tune).await
}

/// What useless clients send, and then nothing more.
fn beginnings(harness: &Harness) -> Vec<(&'static str, Vec<u8>)> {
    let whole = request("POST", "/mcp/notes", harness.address, &[], CALL);
    vec![
        ("nothing", Vec::new()),
        ("a byte", b"G".to_vec()),
        ("half a preface", PREFACE[..18].to_vec()),
        ("a preface without a request", PREFACE.to_vec()),
        ("half a header", whole[..40].to_vec()),
        ("half a body", whole[..whole.len() - 5].to_vec()),
        ("an unfinished header of HTTP/2", [PREFACE, b"\0\0\x01\x01\0\0\0\0\x01\x82"].concat()),
    ]
}

async fn connect_and_send(harness: &Harness, bytes: &[u8]) -> TcpStream {
    let mut client = TcpStream::connect(harness.address).await.unwrap();
    // A connection that was turned away may be gone already.
    let _ = client.write_all(bytes).await;
    client
}

/// Reads until the connection ends.
async fn until_closed(client: &mut TcpStream) -> bool {
    let mut buffer = Vec::new();
    let read = client.read_to_end(&mut buffer);
    tokio::time::timeout(Duration::from_secs(20), read).await.is_ok()
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed() {
    let harness = start(SHORT, 100_000).await;
    for (what, bytes) in beginnings(&harness) {
        let mut client = connect_and_send(&harness, &bytes).await;
        assert!(until_closed(&mut client).await, "{what}");
    }
    until("all places are free", || has_open(&harness, 0)).await;
    assert!(harness.upstream.requests().is_empty());
}

#[tokio::test]
async fn a_connection_that_is_not_used_any_more_is_closed() {
    let harness = start(SHORT, 100_000).await;
    let mut client = connect_and_send(&harness, &request_of(&harness, CALL)).await;
    assert!(until_closed(&mut client).await);
    let (mut sender, connection) = hyper::client::conn::http2::handshake(
        hyper_util::rt::TokioExecutor::new(),
        hyper_util::rt::TokioIo::new(TcpStream::connect(harness.address).await.unwrap()),
    )
    .await
    .unwrap();
    let connection = tokio::spawn(connection);
    let url = format!("http://{}/healthz", harness.address);
    let ask = http::Request::get(url).body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap();
    assert_eq!(sender.send_request(ask).await.unwrap().status(), 200);
    // Its sender is still here, so the client does not close it.
    assert!(tokio::time::timeout(Duration::from_secs(20), connection).await.is_ok());
    drop(sender);
}

#[tokio::test]
async fn a_call_that_takes_long_is_no_idle_connection() {
    let (reply, say) = Reply::later();
    let upstream = Upstream::start(move |_| reply.clone()).await.unwrap();
    let configuration = Harness::configuration(&upstream, OPEN);
    let harness = Harness::tuned(upstream, configuration, |settings| settings.times = SHORT).await;
    let mut client = RawClient::connect(harness.address).await.unwrap();
    client.send(&request_of(&harness, CALL)).await.unwrap();
    tokio::time::sleep(4 * SHORT.idle).await;
    say.send(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#.into()).unwrap();
    assert_eq!(client.answer().await.unwrap().unwrap().status, 200);
}

/// Nothing times out here: useless connections must make room at once.
#[tokio::test]
async fn useless_connections_take_no_place_from_others() {
    let harness = start(ClientTimes::default(), 64).await;
    let beginnings = beginnings(&harness);
    let mut held = Vec::new();
    for number in 0..300 {
        let (what, bytes) = &beginnings[number % beginnings.len()];
        // A request that has begun is bounded by the time for its body.
        if *what != "half a body" {
            held.push(connect_and_send(&harness, bytes).await);
        }
    }
    for path in ["/healthz", "/readyz"] {
        let ask = request("GET", path, harness.address, &[], b"");
        assert_eq!(harness.raw(&ask).await.status, 200, "{path}");
    }
    for _ in 0..20 {
        assert_eq!(harness.raw(&request_of(&harness, CALL)).await.status, 200);
    }
    drop(held);
}

#[tokio::test]
async fn health_is_answered_when_no_place_is_left() {
    let upstream = Upstream::start(|_| Reply::events("").ending(End::Never)).await.unwrap();
    let configuration = Harness::configuration(&upstream, OPEN);
    let harness =
        Harness::tuned(upstream, configuration, |settings| settings.descriptors = 32).await;
    let mut busy = Vec::new();
    for _ in 0..9 {
        busy.push(connect_and_send(&harness, &request_of(&harness, CALL)).await);
    }
    until("the calls are in progress", || harness.upstream.requests().len() >= 9).await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(connect_and_send(&harness, b"").await);
    }
    let refused = harness.raw(&request_of(&harness, CALL)).await;
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(refused.text().contains("no place for a further connection"), "{}", refused.text());
    for path in ["/healthz", "/readyz"] {
        let ask = request("GET", path, harness.address, &[], b"");
        assert_eq!(harness.raw(&ask).await.status, 200, "{path}");
    }
    drop((busy, silent));
}

fn request_of(harness: &Harness, body: &[u8]) -> Vec<u8> {
    let token = format!("Bearer {TOKEN}");
    request("POST", "/mcp/notes", harness.address, &[("authorization", &token)], body)
}

fn has_open(harness: &Harness, count: usize) -> bool {
    harness.gateway.metrics().contains(&format!("sluice_open_streams {count}\n"))
}

/// As `MOST_RESETS` of the gateway's `connections::activity`.
const MOST_RESETS: usize = 500;

#[tokio::test]
async fn a_connection_that_resets_its_requests_is_closed() {
    let upstream = Upstream::start(|_| Reply::events("").ending(End::Never)).await.unwrap();
    let configuration = Harness::configuration(&upstream, OPEN);
    let times = ClientTimes { header: Duration::from_secs(32), ..ClientTimes::default() };
    let harness = Harness::tuned(upstream, configuration, |settings| settings.times = times).await;
    let (mut sender, connection) = hyper::client::conn::http2::handshake(
        hyper_util::rt::TokioExecutor::new(),
        hyper_util::rt::TokioIo::new(TcpStream::connect(harness.address).await.unwrap()),
    )
    .await
    .unwrap();
    let connection = tokio::spawn(connection);
    let url = format!("http://{}/mcp/notes", harness.address);
    for _ in 0..3 * MOST_RESETS {
        let ask = http::Request::post(&url)
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("content-type", "application/json")
            .body(http_body_util::Full::new(bytes::Bytes::from_static(CALL)))
            .unwrap();
        if sender.ready().await.is_err() {
            break;
        }
        let answer = sender.send_request(ask);
        // Long enough for most to arrive before they are reset.
        let _ = tokio::time::timeout(Duration::from_millis(3), answer).await;
    }
    assert!(tokio::time::timeout(Duration::from_secs(20), connection).await.is_ok());
}
