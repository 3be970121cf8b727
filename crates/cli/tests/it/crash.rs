//! A hundred times `kill -9` under load: no limit is exceeded, and no call has
//! reached the server without its record.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use sluice_testkit::{RawClient, Upstream, mcp_server};

use crate::sluice::Folder;

const ROUNDS: usize = 100;
const CALLERS: usize = 8;
/// Fewer than the rounds would make without a limit.
const LIMIT: usize = 1_500;
const TOKEN: &str = "sg_a_token_for_crash_tests";

fn folder(upstream: &Upstream) -> Folder {
    let folder = Folder::with(
        "policy.json",
        &format!(
            r#"{{"version":"1","default":"deny","tools":{{"t*":{{"limits":[{{"counter":"all","window":2678400,"max":{LIMIT}}}]}}}}}}"#
        ),
    );
    let url = upstream.url();
    folder.write(
        "sluice.toml",
        &format!(
            "[servers.s]\nurl = \"{url}\"\n[policies.p]\nserver = \"s\"\nfile = \"policy.json\"\n\
             [grants.g]\nservers = [\"s\"]\npolicy = \"p\"\ntoken = \"{TOKEN}\"\n"
        ),
    );
    folder
}

/// Calls tools of ever new names until the connection ends.
async fn call(address: std::net::SocketAddr, next: Arc<AtomicU64>, answered: Arc<AtomicU64>) {
    let Ok(mut client) = RawClient::connect(address).await else { return };
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{{"name":"t{number}","arguments":{{}}}}}}"#
        );
        let request = format!(
            "POST /mcp/s HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {TOKEN}\r\n\
             content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        if client.send(request.as_bytes()).await.is_err() {
            return;
        }
        let Ok(Some(_)) = client.answer().await else { return };
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_crashes_lose_no_record_and_exceed_no_limit() {
    let upstream = Upstream::start(mcp_server("[]")).await.unwrap();
    let folder = folder(&upstream);
    let next = Arc::new(AtomicU64::new(0));
    for round in 0..ROUNDS {
        let up = tokio::task::block_in_place(|| folder.up(&[]));
        let answered = Arc::new(AtomicU64::new(0));
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| tokio::spawn(call(up.listen, Arc::clone(&next), Arc::clone(&answered))))
            .collect();
        // Killed after another number of answers each time, in the middle of others.
        let enough = 1 + (round as u64 * 7) % 40;
        while answered.load(Ordering::Relaxed) < enough {
            tokio::task::yield_now().await;
        }
        tokio::task::block_in_place(|| up.kill());
        for caller in callers {
            caller.await.unwrap();
        }
    }
    let sent: BTreeSet<_> =
        upstream.bodies_of("tools/call").iter().map(|body| tool_of(body)).collect();
    assert!(!sent.is_empty() && sent.len() <= LIMIT, "{} calls reached the server", sent.len());
    let up = tokio::task::block_in_place(|| folder.up(&[]));
    up.run(&["log", "verify"]).exits(0);
    let exported = up.run(&["log", "export"]).exits(0);
    let allowed: BTreeSet<_> = exported
        .out
        .lines()
        .filter(|line| {
            line.contains(r#""kind":"decision""#) && line.contains(r#""outcome":"allow""#)
        })
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["tool"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    let unrecorded: Vec<_> = sent.difference(&allowed).collect();
    assert!(unrecorded.is_empty(), "sent without a record: {unrecorded:?}");
    assert!(allowed.len() <= LIMIT, "{} calls were allowed", allowed.len());
}

fn tool_of(body: &str) -> String {
    let message: serde_json::Value = serde_json::from_str(body).unwrap();
    message["params"]["name"].as_str().unwrap().to_owned()
}
