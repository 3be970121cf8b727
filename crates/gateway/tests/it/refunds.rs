//! Charges are given back only if certainly nothing was sent, also where a request is sent
//! twice.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use sluice_gateway::Configuration;
use sluice_store::TokenHash;
use sluice_testkit::{Upstream, mcp_server};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::{
    harness::{Harness, TOKEN, at, grant, policy, server},
    talk::until,
};

const ONCE: &str = r#"{"version":"1","default":"allow","tools":{"pay":{"limits":[{"counter":"once","window":"day","max":1}]}}}"#;

/// Reads one request, whole.
async fn read(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let mut piece = [0; 4096];
    loop {
        let length = stream.read(&mut piece).await.unwrap();
        text.push_str(&String::from_utf8_lossy(&piece[..length]));
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let stated = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if length == 0 || body.len() >= stated.map_or(0, |length| length.parse().unwrap()) {
            return text;
        }
    }
}

/// A server that acts on the first payment, says that it has lost the session, begins another,
/// and is gone.
async fn vanish(listener: TcpListener, payments: Arc<AtomicUsize>, lists: Arc<AtomicUsize>) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let request = read(&mut stream).await;
        let id = request.split("\"id\":").nth(1).and_then(|rest| rest.split([',', '}']).next());
        let id = id.unwrap_or("null").to_owned();
        let has_paid = payments.load(Ordering::SeqCst) > 0;
        let is_last = has_paid && request.contains("notifications/initialized");
        let result = |result: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        let (status, body) = match () {
            () if request.contains(r#""initialize""#) => (
                "200 OK",
                result(
                    r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"n","version":"1"}}"#,
                ),
            ),
            () if request.contains("tools/list") => {
                lists.fetch_add(1, Ordering::SeqCst);
                ("200 OK", result(r#"{"tools":[]}"#))
            }
            () if request.contains(r#""pay""#) => {
                payments.fetch_add(1, Ordering::SeqCst);
                ("404 Not Found", String::new())
            }
            () if request.contains("tools/call") => ("200 OK", result(r#"{"content":[]}"#)),
            () if request.contains("server/discover") => ("400 Bad Request", String::new()),
            () => ("202 Accepted", String::new()),
        };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nmcp-session-id: s\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
        );
        if is_last {
            drop(listener);
            let _ = stream.write_all(head.as_bytes()).await;
            return;
        }
        stream.write_all((head + &body).as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn a_payment_that_was_sent_once_stays_charged_when_it_cannot_be_sent_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (payments, lists) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let gone = tokio::spawn(vanish(listener, Arc::clone(&payments), Arc::clone(&lists)));
    let unused = Upstream::start(mcp_server("[]")).await.unwrap();
    let configuration = Configuration {
        servers: vec![server("notes", &url)],
        policies: vec![policy("notes", "rules", ONCE)],
        grants: vec![(TokenHash::of(TOKEN), grant("alice", &["notes"], "rules"))],
    };
    let harness = Harness::with(unused, configuration).await;
    // The gateway asks for the list once, beside the first call.
    harness.call("other", "{}").await;
    until("the list is known", || lists.load(Ordering::SeqCst) > 0).await;
    let session = harness.session(TOKEN).await;
    let pay = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay"}}"#;
    let headers = [("mcp-session-id", session.as_str())];
    let first = harness.post_with(&headers, pay).await;
    assert_eq!(first.status, 502, "{}", first.text());
    gone.await.unwrap();
    assert_eq!(payments.load(Ordering::SeqCst), 1);
    let records = harness.records().await;
    let said: Vec<_> = records.iter().map(|record| at(record, "message")).collect();
    assert!(said.contains(&"\"the server cannot be reached\"".to_owned()), "{said:?}");
    assert!(!said.iter().any(|said| said.contains("times")), "{said:?}");
    let second = harness.post_with(&headers, pay).await;
    assert!(second.text().contains("[POLICY DENIED]"), "{}", second.text());
}
