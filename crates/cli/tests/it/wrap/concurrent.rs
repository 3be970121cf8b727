//! A gateway and a wrap on one data directory share the places of `concurrent`, and those of
//! a process that is killed are free again.

use std::{
    process::Child,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use sluice_testkit::{End, Recorded, Reply, Upstream, mcp_server};

use super::client::Client;
use crate::{
    sluice::{Folder, Ran},
    stdio::TOKEN,
    up::Up,
};

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{
    "slow":{"concurrent":{"max":3,"scope":"server","on_deny":"Three at a time."}}}}"#;
const CALL: [&str; 5] = ["call", "s", "slow", "--token", TOKEN];

/// A server whose calls end when it is told to.
async fn start_upstream(ends: &Arc<AtomicBool>) -> Upstream {
    let ends = Arc::clone(ends);
    Upstream::start(move |request: &Recorded| match request.rpc_method().as_deref() {
        Some("tools/call") if !ends.load(Ordering::Relaxed) => Reply::events("").ending(End::Never),
        _ => mcp_server(r#"[{"name":"slow","inputSchema":{"type":"object"}}]"#)(request),
    })
    .await
    .unwrap()
}

fn folder(upstream: &Upstream) -> Folder {
    let folder = Folder::with("policy.json", POLICY);
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

fn wait_for_calls(upstream: &Upstream, count: usize) {
    for _ in 0..2_000 {
        if upstream.bodies_of("tools/call").len() == count {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} calls are at the server", upstream.bodies_of("tools/call").len());
}

/// Starts a call that stays at the server.
fn hang(up: &Up) -> Child {
    up.command(&CALL).spawn().unwrap()
}

fn is_refused(ran: &Ran) -> bool {
    let refused = ran.err.contains("Three at a time.");
    assert!(refused || ran.code == 0, "{ran:?}");
    refused
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_share_places_and_a_killed_one_leaves_its_own() {
    let ends = Arc::new(AtomicBool::new(false));
    let upstream = start_upstream(&ends).await;
    tokio::task::block_in_place(|| {
        let folder = folder(&upstream);
        let up = folder.up(&[]);
        let url = upstream.url();
        let mut wrap = Client::start(&folder, &["--name", "s", "--url", &url]);
        wrap.hello();
        for _ in 0..2 {
            wrap.send("tools/call", &json!({"name": "slow", "arguments": {}}));
        }
        wait_for_calls(&upstream, 2);
        let mut clients = vec![hang(&up)];
        wait_for_calls(&upstream, 3);
        // In either process, all three places are taken.
        assert!(is_refused(&up.run(&CALL)));
        let refused = wrap.call("slow");
        assert!(refused.to_string().contains("Three at a time."), "{refused}");
        // Those of the killed one are free; that of the other is not.
        wrap.process.kill().unwrap();
        wrap.process.wait().unwrap();
        clients.extend([hang(&up), hang(&up)]);
        wait_for_calls(&upstream, 5);
        assert!(is_refused(&up.run(&CALL)));
        // Nor is one left when all processes have been killed.
        up.kill();
        for mut client in clients {
            client.wait().unwrap();
        }
        ends.store(true, Ordering::Relaxed);
        let up = folder.up(&[]);
        for _ in 0..5 {
            assert!(!is_refused(&up.run(&CALL)));
        }
        up.run(&["log", "verify"]).exits(0);
    });
}
