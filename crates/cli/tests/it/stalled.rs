//! Another program holds the database's write lock for five seconds: health, lists,
//! open streams and the admin API go on, calls wait or are refused, and afterwards
//! nothing is lost.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sluice_testkit::{Answer, LegacyOnly, ModernOnly, RawClient, Upstream};

use crate::{sluice::Folder, up::Up};

const HELD: Duration = Duration::from_secs(5);
const CALLERS: usize = 8;
const TOKEN: &str = "sg_a_token_for_a_stalled_database";
const NEWS: &str = "notifications/tools/list_changed";

fn folder(legacy: &Upstream, modern: &Upstream) -> Folder {
    let policy = r#"{"version":"1","default":"deny","tools":{"*":{"limits":[{"counter":"all","window":2678400,"max":1000000}]}}}"#;
    let folder = Folder::with("policy.json", policy);
    let server = |name: &str, url: &str| {
        format!(
            "[servers.{name}]\nurl = \"{url}\"\n[policies.{name}]\nserver = \"{name}\"\nfile = \"policy.json\"\n\
             [grants.{name}]\nservers = [\"{name}\"]\npolicy = \"{name}\"\ntoken = \"{TOKEN}_{name}\"\n"
        )
    };
    let config = server("legacy", &legacy.url()) + &server("modern", &modern.url());
    folder.write("sluice.toml", &config);
    folder
}

/// A request to one of the servers, with more headers and a body.
fn request(method: &str, address: SocketAddr, server: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{method} /mcp/{server} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {TOKEN}_{server}\r\n\
         content-type: application/json\r\naccept: application/json, text/event-stream\r\n{headers}\
         content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Sends a request on a connection of its own.
async fn ask(address: SocketAddr, request: &[u8]) -> Answer {
    let mut client = RawClient::connect(address).await.unwrap();
    client.send(request).await.unwrap();
    client.answer().await.unwrap().unwrap()
}

async fn get(address: SocketAddr, path: &str) -> Answer {
    ask(address, format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n").as_bytes()).await
}

/// Begins a session with the legacy server; the header that names it.
async fn initialize(address: SocketAddr) -> String {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let answer = ask(address, &request("POST", address, "legacy", "", body)).await;
    let session = answer.header("mcp-session-id").unwrap_or_else(|| panic!("{}", answer.text()));
    format!("mcp-protocol-version: 2025-11-25\r\nmcp-session-id: {session}\r\n")
}

/// Opens a stream, whose body is read chunk by chunk.
async fn open_stream(address: SocketAddr, request: &[u8]) -> RawClient {
    let mut client = RawClient::connect(address).await.unwrap();
    client.send(request).await.unwrap();
    let head = client.head().await.unwrap().unwrap();
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/event-stream"), "{head}");
    client
}

fn listen_request(address: SocketAddr) -> Vec<u8> {
    let headers = "mcp-protocol-version: 2026-07-28\r\nmcp-method: subscriptions/listen\r\n";
    let body = r#"{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    request("POST", address, "modern", headers, body)
}

/// Reads a stream until it has delivered a notification of changed tools.
async fn hear_news(client: &mut RawClient) {
    loop {
        let chunk = client.chunk().await.unwrap().expect("the stream stays open");
        assert!(!chunk.is_empty(), "the stream has ended");
        if String::from_utf8_lossy(&chunk).contains(NEWS) {
            return;
        }
    }
}

/// Calls tools of ever new names until told to stop; those that were answered well.
async fn call(
    address: SocketAddr,
    caller: usize,
    session: String,
    is_over: Arc<AtomicBool>,
) -> Vec<String> {
    let mut client = RawClient::connect(address).await.unwrap();
    let mut answered = Vec::new();
    let mut was_over = false;
    // One more after the lock is gone, which must succeed.
    for number in 0.. {
        let tool = format!("t{caller}x{number}");
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{{"name":"{tool}","arguments":{{}}}}}}"#
        );
        client.send(&request("POST", address, "legacy", &session, &body)).await.unwrap();
        let answer = client.answer().await.unwrap().unwrap();
        match answer.status {
            200 => answered.push(tool),
            503 => tokio::time::sleep(Duration::from_millis(100)).await,
            status => panic!("{status}: {}", answer.text()),
        }
        if was_over && answer.status == 200 {
            break;
        }
        was_over = is_over.load(Ordering::Relaxed);
    }
    answered
}

/// What needs no record: each must answer while the lock is held.
async fn use_all_but_calls(up: &Up, session: &str) {
    let address = up.listen;
    assert_eq!(get(address, "/healthz").await.status, 200);
    assert!(matches!(get(address, "/readyz").await.status, 200 | 503));
    let body = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}"#;
    let list = ask(address, &request("POST", address, "legacy", session, body)).await;
    assert!(list.status == 200 && list.text().contains("\"tools\""), "{}", list.text());
    assert_eq!(get(up.admin, "/healthz").await.status, 200);
    tokio::task::block_in_place(|| {
        up.run(&["server", "list"]).exits(0);
        up.run(&["grant", "list"]).exits(0);
        up.run(&["log"]).exits(0);
    });
}

/// The tools of exported records of one kind.
fn recorded(exported: &str, kind: &str) -> BTreeSet<String> {
    let records = exported.lines().map(|line| serde_json::from_str(line).unwrap());
    records
        .filter(|record: &serde_json::Value| record["kind"] == kind && record["outcome"] == "allow")
        .filter_map(|record| record["tool"].as_str().map(str::to_owned))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_locked_for_five_seconds_holds_up_nothing_but_calls() {
    let (legacy, modern) = (LegacyOnly::default(), ModernOnly::default());
    let (one, other) = (legacy.clone(), modern.clone());
    let legacy_upstream = Upstream::start(move |request| one.reply(request)).await.unwrap();
    let modern_upstream = Upstream::start(move |request| other.reply(request)).await.unwrap();
    let folder = folder(&legacy_upstream, &modern_upstream);
    let up = tokio::task::block_in_place(|| folder.up(&[]));
    let session = initialize(up.listen).await;
    let stream = request("GET", up.listen, "legacy", &session, "");
    let mut streams = [
        open_stream(up.listen, &stream).await,
        open_stream(up.listen, &listen_request(up.listen)).await,
    ];
    use_all_but_calls(&up, &session).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| tokio::spawn(call(up.listen, caller, session.clone(), Arc::clone(&is_over))))
        .collect();

    let lock = rusqlite::Connection::open(folder.path().join("data/sluice.db")).unwrap();
    lock.busy_timeout(Duration::from_secs(20)).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let held = tokio::spawn(tokio::time::sleep(HELD));
    let reached = || legacy_upstream.bodies_of("tools/call").len();
    // Calls that were let through before may still be on their way.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = reached();
    while !held.is_finished() {
        use_all_but_calls(&up, &session).await;
        legacy.announce(NEWS, "");
        modern.announce(NEWS, r#""x":1"#);
        for stream in &mut streams {
            hear_news(stream).await;
        }
    }
    assert_eq!(reached(), before, "calls were let through without a record");
    lock.execute_batch("COMMIT").unwrap();
    is_over.store(true, Ordering::Relaxed);

    let mut answered = BTreeSet::new();
    for caller in callers {
        answered.extend(caller.await.unwrap());
    }
    assert!(answered.len() >= CALLERS);
    assert_eq!(get(up.listen, "/readyz").await.status, 200);
    let exported = tokio::task::block_in_place(|| {
        assert_eq!(up.end(), 0);
        let offline = |arguments: &[&str]| folder.run(&[&["--data", "data"], arguments].concat());
        offline(&["log", "verify"]).exits(0);
        offline(&["log", "export"]).exits(0).out
    });
    for kind in ["decision", "outcome"] {
        let recorded = recorded(&exported, kind);
        let lost: Vec<_> = answered.difference(&recorded).collect();
        assert!(lost.is_empty(), "answered without a record of its {kind}: {lost:?}");
    }
}
