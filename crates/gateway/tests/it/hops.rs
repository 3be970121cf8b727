//! A server whose URL leads back to the gateway: the request is refused when it comes back, and
//! is not sent round.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use sluice_store::{Instances, Secret, Server, Start, TokenHash, Transport};
use sluice_testkit::{Recorded, mcp_server};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::{
    harness::{Harness, TOKEN, at, grant, json, policy, request, server},
    talk::OPEN,
};

const HOPS: &str = "sluicegate-hops";
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#;

/// Passes connections on to an address, and counts the requests on them.
async fn counting(target: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let counted = Arc::clone(&counted);
            tokio::spawn(async move {
                let upstream = TcpStream::connect(target).await.unwrap();
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_upstream, mut to_upstream) = upstream.into_split();
                tokio::spawn(async move {
                    let _ = tokio::io::copy(&mut from_upstream, &mut to_client).await;
                });
                let mut buffer = vec![0; 64 << 10];
                while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
                    let text = String::from_utf8_lossy(&buffer[..read]);
                    counted.fetch_add(text.matches("HTTP/1.1\r\n").count(), Ordering::Relaxed);
                    if to_upstream.write_all(&buffer[..read]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, count)
}

/// A gateway with server `round`, whose URL is this path at the gateway itself.
async fn around(path: &str) -> (Harness, Arc<AtomicUsize>) {
    let mut harness = Harness::start(OPEN, mcp_server("[]")).await;
    let (address, count) = counting(harness.address).await;
    let authorization = Secret::new(format!("Bearer {TOKEN}"));
    let transport = Transport::Http {
        url: Secret::new(format!("http://{address}{path}")),
        headers: vec![("authorization".into(), authorization)],
    };
    let configuration = &mut harness.configuration;
    configuration.servers = vec![Server { transport, ..server("round", "http://x/") }];
    configuration.policies = vec![policy("round", "rules", OPEN)];
    configuration.grants = vec![(TokenHash::of(TOKEN), grant("alice", &["round"], "rules"))];
    harness.gateway.apply(&harness.configuration).unwrap();
    (harness, count)
}

/// One call made 4,842.
#[tokio::test]
async fn a_call_that_comes_back_is_refused_at_once() {
    for target in ["/mcp/round", "/mcp", "/mcp/round/sse", "/mcp/sse"] {
        for path in ["/mcp/round", "/mcp"] {
            let (harness, count) = around(target).await;
            let called = CALL.replace("read", if path == "/mcp" { "round__read" } else { "read" });
            let bytes = request("POST", path, harness.address, &[], called.as_bytes());
            let answer = harness.raw(&bytes).await;
            assert_eq!(answer.status, 502, "{target} {path}: {}", answer.text());
            assert!(answer.text().contains("leads back"), "{target} {path}: {}", answer.text());
            assert!(count.load(Ordering::Relaxed) <= 10, "{target} {path}: {count:?} requests");
            let calls = harness.texts().await;
            let calls = calls.iter().filter(|text| text.contains(r#""kind":"decision""#)).count();
            assert_eq!(calls, 1, "{target} {path}");
        }
    }
}

#[tokio::test]
async fn a_request_names_the_gateways_that_it_came_through() {
    let harness = Harness::start(OPEN, mcp_server("[]")).await;
    let of_call = || {
        let is_call = |one: &Recorded| one.rpc_method().as_deref() == Some("tools/call");
        let requests = harness.upstream.take();
        requests.iter().find(|one| is_call(one))?.header(HOPS).map(str::to_owned)
    };
    harness.post(CALL).await;
    let own = of_call().unwrap();
    assert_eq!(own.len(), 26);
    let before = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    assert_eq!(harness.post_with(&[(HOPS, before)], CALL.as_bytes()).await.status, 200);
    assert_eq!(of_call(), Some(format!("{before},{own}")));
    for again in [own.clone(), format!("{own},{before}"), format!("{before}, {own}")] {
        let refused = harness.post_with(&[(HOPS, &again)], CALL.as_bytes()).await;
        assert_eq!(refused.status, 508, "{again}");
        assert_eq!(at(&json(&refused), "error/code"), "-31008");
    }
    assert_eq!(harness.post_with(&[(HOPS, "x")], CALL.as_bytes()).await.status, 400);
    assert_eq!(of_call(), None);
}

/// `sluice wrap` as a command adds the variable's gateways to its requests.
#[tokio::test]
async fn a_command_is_told_the_gateways_before_it() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../stdio/tests/it/server.sh");
    let transport = Transport::Command {
        command: vec!["/bin/sh".into(), script.into(), "legacy".into()],
        env: vec![("PATH".into(), Secret::new("/usr/local/bin:/usr/bin:/bin".to_owned()))],
        instances: Instances::Shared,
        start: Start::Use,
    };
    let mut harness = Harness::start(OPEN, mcp_server("[]")).await;
    harness.configuration.servers = vec![Server { transport, ..server("notes", "http://x/") }];
    harness.gateway.apply(&harness.configuration).unwrap();
    let told = harness.call("env", "{}").await.text();
    let (_, rest) = told.split_once("SLUICE_HOPS=").unwrap_or_else(|| panic!("{told}"));
    let hops = rest.split(' ').next().unwrap();
    assert_eq!(harness.post_with(&[(HOPS, hops)], CALL.as_bytes()).await.status, 508);
}
