//! A thousand sessions, opened and closed over a command and over HTTP: nothing
//! of them is left in the gateway.

use std::{fs, path::Path, sync::Arc};

use http_body_util::BodyExt as _;
use sluice_http::{AnswerBody, HttpUpstream, address::Reach};
use sluice_testkit::Upstream as Recording;
use sluice_upstream::Upstream;

use crate::{
    sluice::Folder,
    stdio::{SERVER, TOKEN},
    up::{INSPECTED, Up},
};

/// Sessions at each of the two servers, before anything is counted and then.
const WARM_UP: usize = 50;
const SESSIONS: usize = 500;
/// Sessions that are open at a time.
const TOGETHER: usize = 8;
/// Growth of resident memory that is not a leak: 1 KiB a session of what is
/// remembered to repair it, and what the allocator keeps for later.
const GROWTH: u64 = 8 << 10;

/// What a process holds.
#[derive(Debug, PartialEq, Eq)]
struct Holdings {
    descriptors: usize,
    children: usize,
    threads: usize,
    /// Connections and streams of clients.
    streams: u64,
}

fn holdings(up: &Up, pid: u32) -> Holdings {
    let process = Path::new("/proc").join(pid.to_string());
    let count = |name: &str| fs::read_dir(process.join(name)).unwrap().count();
    let tasks = fs::read_dir(process.join("task")).unwrap().flatten();
    let children = tasks.map(|task| {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.split_whitespace().count()
    });
    Holdings {
        descriptors: count("fd"),
        children: children.sum(),
        threads: count("task"),
        streams: metric(up, "sluice_open_streams"),
    }
}

fn metric(up: &Up, name: &str) -> u64 {
    let text = up.metrics();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

/// Resident memory in KiB.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

async fn send(
    gateway: &Upstream,
    method: &str,
    session: &str,
    body: &'static str,
) -> http::Response<AnswerBody> {
    let accept =
        if method == "GET" { "text/event-stream" } else { "application/json, text/event-stream" };
    let mut request = http::Request::builder()
        .method(method)
        .header("host", "localhost")
        .header("authorization", format!("Bearer {TOKEN}"))
        .header("content-type", "application/json")
        .header("accept", accept);
    if !session.is_empty() {
        request = request.header("mcp-session-id", session);
    }
    gateway.send(request.body(body.into()).unwrap()).await.unwrap()
}

/// One session, from its beginning to its end.
async fn visit(gateway: &Upstream) {
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let begun = send(gateway, "POST", "", hello).await;
    let session = begun.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    begun.into_body().collect().await.unwrap();
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(send(gateway, "POST", &session, ready).await.status(), 202);
    let stream = send(gateway, "GET", &session, "").await;
    assert_eq!(stream.status(), 200);
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo"}}"#;
    let answer = send(gateway, "POST", &session, call).await.into_body().collect().await.unwrap();
    let answer = String::from_utf8(answer.to_bytes().to_vec()).unwrap();
    assert!(answer.contains("\"content\""), "{answer}");
    assert_eq!(send(gateway, "DELETE", &session, "").await.status(), 200);
    drop(stream);
}

/// So many sessions at each server. The connections are closed afterwards.
async fn visits(up: &Up, count: usize) {
    let mut visitors = Vec::new();
    for server in ["command", "http"] {
        let reach = Reach { allowed: Vec::new(), loopback: true };
        let url = format!("http://{}/mcp/{server}", up.listen);
        let gateway = Arc::new(Upstream::Http(HttpUpstream::new(&url, reach).unwrap()));
        for _ in 0..TOGETHER / 2 {
            let gateway = Arc::clone(&gateway);
            visitors.push(tokio::spawn(async move {
                for _ in 0..count / (TOGETHER / 2) {
                    visit(&gateway).await;
                }
            }));
        }
    }
    for visitor in visitors {
        visitor.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_sessions_leave_nothing_behind() {
    let tools = r#"[{"name":"echo","inputSchema":{"type":"object"}}]"#;
    let answer = sluice_testkit::mcp_server(tools);
    let server = Recording::start(move |request| match request.method.as_str() {
        "GET" => sluice_testkit::Reply::events(":\n\n").ending(sluice_testkit::End::Never),
        _ => answer(request),
    });
    let url = server.await.unwrap().url();
    let folder = Folder::with("policy.json", r#"{"version":"1","default":"allow"}"#);
    folder.write(
        "sluice.toml",
        &format!(
            "[servers.command]\ncommand = [\"{SERVER}\"]\ninstances = \"session\"\n\
             [servers.http]\nurl = \"{url}\"\n\
             [policies.p]\nservers = [\"command\", \"http\"]\nfile = \"policy.json\"\n\
             [grants.g]\nservers = [\"command\", \"http\"]\npolicy = \"p\"\ntoken = \"{TOKEN}\"\n"
        ),
    );
    let up = tokio::task::block_in_place(|| folder.up_with(&[INSPECTED], &[]));
    let pid = up.pid();
    visits(&up, WARM_UP).await;
    let quiet = |what: &str| {
        up.wait_until(what, || {
            let held = holdings(&up, pid);
            held.children == 0 && held.streams == 0
        });
        holdings(&up, pid)
    };
    let (before, resident_before) =
        tokio::task::block_in_place(|| (quiet("all is quiet"), resident(pid)));
    visits(&up, SESSIONS).await;
    tokio::task::block_in_place(|| {
        quiet("all is quiet again");
        up.wait_until("nothing more is open than before", || {
            let held = holdings(&up, pid);
            held.descriptors <= before.descriptors && held.threads <= before.threads
        });
        let grown = resident(pid).saturating_sub(resident_before);
        assert!(grown < GROWTH, "{grown} KiB more than {resident_before} KiB");
        up.run(&["log", "verify"]).exits(0);
    });
}
