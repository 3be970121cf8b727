//! One grant, or one server, at its bound: it alone is refused, with the bound's name, and gets
//! back what it gives up. Others notice nothing.

use std::sync::{Arc, Mutex};

use sluice_gateway::{Configuration, ShareLimits};
use sluice_store::{Instances, Server, Start, TokenHash, Transport};
use sluice_testkit::{Answer, End, OldServer, RawClient, Recorded, Reply, Upstream, mcp_server};
use tokio::sync::mpsc::UnboundedSender;

use crate::{
    harness::{Harness, TOKEN, at, grant, json, policy, request, server},
    stack::{BOB, stacked, tools},
    talk::{OPEN, mirrors, modern_body, modern_server, until},
};

const TOOLS: &str = r#"[{"name":"read"},{"name":"hang"}]"#;
const NONE: ShareLimits = ShareLimits::NONE;

/// A gateway whose servers both alice and bob may use.
async fn shared(servers: Vec<Server>, upstream: Upstream, shares: ShareLimits) -> Harness {
    let names: Vec<_> = servers.iter().map(|server| server.name.as_str().to_owned()).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let configuration = Configuration {
        policies: names.iter().map(|name| policy(name, "rules", OPEN)).collect(),
        grants: [(TOKEN, "alice"), (BOB, "bob")]
            .map(|(token, id)| (TokenHash::of(token), grant(id, &names, "rules")))
            .into(),
        servers,
    };
    Harness::tuned(upstream, configuration, |settings| settings.shares = shares).await
}

async fn fair(
    responder: impl Fn(&Recorded) -> Reply + Send + Sync + 'static,
    shares: ShareLimits,
) -> Harness {
    let upstream = Upstream::start(responder).await.unwrap();
    shared(vec![server("notes", &upstream.url())], upstream, shares).await
}

/// Calls of `hang` that are still to be answered.
type Hanging = Arc<Mutex<Vec<(String, UnboundedSender<String>)>>>;

/// A server that answers calls of `hang` when the test says so.
fn slow(hanging: &Hanging) -> impl Fn(&Recorded) -> Reply + Send + Sync + 'static {
    let hanging = Arc::clone(hanging);
    move |request| {
        if !request.text().contains(r#""name":"hang""#) {
            return mcp_server(TOOLS)(request);
        }
        let (reply, answer) = Reply::later();
        hanging.lock().unwrap().push((request.rpc_id(), answer));
        reply
    }
}

fn status_of(head: &str) -> u16 {
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

fn message(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{{params}}}}}"#)
}

impl Harness {
    async fn post_at(&self, token: &str, path: &str, body: &str) -> Answer {
        let token = bearer(token);
        let headers = [("authorization", token.as_str())];
        self.raw(&request("POST", path, self.address, &headers, body.as_bytes())).await
    }

    async fn read_at(&self, token: &str, path: &str) -> Answer {
        self.post_at(token, path, &message("tools/call", r#""name":"read""#)).await
    }

    /// Begins calls that hang.
    async fn hang(&self, token: &str, count: usize) -> Vec<RawClient> {
        let (token, body) = (bearer(token), message("tools/call", r#""name":"hang""#));
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(self.begun("POST", &[("authorization", &token)], body.as_bytes()).await);
        }
        clients
    }
}

/// Checks that an answer refuses, because of this bound.
fn refused(answer: &Answer, status: u16, bound: &str) {
    assert_eq!(answer.status, status, "{}", answer.text());
    let said = json(answer);
    let told = (at(&said, "error/code"), at(&said, "error/data/bound"));
    assert_eq!(told, ("-31029".into(), format!("\"{bound}\"")), "{}", answer.text());
    assert!(at(&said, "error/message").contains(bound), "{}", answer.text());
}

#[tokio::test]
async fn calls_in_progress_of_one_grant() {
    let hanging = Hanging::default();
    let harness = fair(slow(&hanging), ShareLimits { calls: 3, ..NONE }).await;
    let _clients = harness.hang(TOKEN, 3).await;
    until("three calls hang", || hanging.lock().unwrap().len() == 3).await;
    let refusal = harness.read_at(TOKEN, "/mcp/notes").await;
    refused(&refusal, 429, "limits.calls");
    assert_eq!(at(&json(&refusal), "id"), "7");
    assert_eq!(refusal.header("retry-after"), Some("1"));
    refused(&harness.read_at(TOKEN, "/mcp").await, 429, "limits.calls");
    let note = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}"#;
    assert_eq!(harness.post_at(TOKEN, "/mcp/notes", note).await.status, 202);
    for _ in 0..5 {
        assert_eq!(harness.read_at(BOB, "/mcp/notes").await.status, 200, "bob notices nothing");
    }
    let metrics = harness.gateway.metrics();
    assert!(metrics.contains(r#"sluice_bound_refusals_total{bound="limits.calls"} 2"#));
    let (id, answer) = hanging.lock().unwrap().pop().unwrap();
    answer.send(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[]}}}}"#)).unwrap();
    drop(answer);
    let mut status = 429;
    while status == 429 {
        status = harness.read_at(TOKEN, "/mcp/notes").await.status;
    }
    assert_eq!(status, 200);
}

/// A client that closes its connection has not cancelled its request in the legacy era.
#[tokio::test]
async fn calls_in_progress_whose_clients_are_gone() {
    let hanging = Hanging::default();
    let harness = fair(slow(&hanging), ShareLimits { calls: 3, ..NONE }).await;
    let clients = harness.hang(TOKEN, 3).await;
    until("three calls hang", || hanging.lock().unwrap().len() == 3).await;
    drop(clients);
    let is_noticed = || harness.gateway.metrics().contains("sluice_open_streams 0");
    until("the gateway notices", is_noticed).await;
    refused(&harness.read_at(TOKEN, "/mcp/notes").await, 429, "limits.calls");
    assert_eq!(harness.read_at(BOB, "/mcp/notes").await.status, 200);
}

#[tokio::test]
async fn calls_in_progress_at_one_server() {
    let hanging = Hanging::default();
    let upstream = Upstream::start(slow(&hanging)).await.unwrap();
    let other = Upstream::start(mcp_server(TOOLS)).await.unwrap();
    let servers = vec![server("notes", &upstream.url()), server("mail", &other.url())];
    let harness = shared(servers, upstream, ShareLimits { server_calls: 3, ..NONE }).await;
    let _clients = (harness.hang(TOKEN, 2).await, harness.hang(BOB, 1).await);
    until("three calls hang", || hanging.lock().unwrap().len() == 3).await;
    for token in [TOKEN, BOB] {
        refused(&harness.read_at(token, "/mcp/notes").await, 503, "limits.server_calls");
        assert_eq!(harness.read_at(token, "/mcp/mail").await.status, 200);
    }
}

/// What 384 streams of one grant did where 1,024 files may be open.
#[tokio::test]
async fn streams_of_one_grant_leave_connections_for_others() {
    let responder = |request: &Recorded| match request.method.as_str() {
        "GET" => Reply::events(": hello\n\n").ending(End::Never),
        _ => mcp_server(TOOLS)(request),
    };
    let upstream = Upstream::start(responder).await.unwrap();
    let configuration = Harness::configuration(&upstream, OPEN);
    let harness = Harness::tuned(upstream, configuration, |settings| {
        settings.shares = ShareLimits { streams: 20_000, ..NONE };
        // Places for 40 connections and streams.
        settings.descriptors = 107;
    })
    .await;
    let mut configuration = harness.configuration.clone();
    configuration.grants.push((TokenHash::of(BOB), grant("bob", &["notes"], "rules")));
    harness.gateway.apply(&configuration).unwrap();
    let open = async |token: &str| {
        let session = harness.session(token).await;
        let token = bearer(token);
        let headers = [("authorization", token.as_str()), ("mcp-session-id", &session)];
        let mut client = harness.begun("GET", &headers, b"").await;
        (client.head().await.unwrap().unwrap(), client)
    };
    let mut streams = Vec::new();
    for _ in 0..10 {
        let (head, client) = open(TOKEN).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        streams.push(client);
    }
    let (head, _) = open(TOKEN).await;
    assert!(head.starts_with("HTTP/1.1 429"), "{head}");
    for _ in 0..3 {
        let (head, client) = open(BOB).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        streams.push(client);
    }
    assert_eq!(harness.read_at(BOB, "/mcp/notes").await.status, 200);
    drop(streams.remove(0));
    let mut status = 429;
    while status == 429 {
        let (head, _) = open(TOKEN).await;
        status = status_of(&head);
    }
    assert_eq!(status, 200);
}

fn listening(request: &Recorded) -> Reply {
    match request.rpc_method().as_deref() {
        Some("subscriptions/listen") => Reply::events(
            "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{\"notifications\":{}}}\n\n",
        )
        .ending(End::Never),
        _ => modern_server(TOOLS)(request),
    }
}

/// Subscribes to these resources, and gives the status and the open stream.
async fn listen(harness: &Harness, token: &str, uris: &[String]) -> (u16, RawClient) {
    let uris: Vec<_> = uris.iter().map(|uri| format!("\"{uri}\"")).collect();
    let wish = format!(r#""notifications":{{"resourceSubscriptions":[{}]}}"#, uris.join(","));
    let body = modern_body("subscriptions/listen", &wish, "{}");
    let token = bearer(token);
    let mut headers = mirrors("subscriptions/listen", None);
    headers.push(("authorization", &token));
    let mut client = harness.begun("POST", &headers, body.as_bytes()).await;
    let head = client.head().await.unwrap().unwrap();
    (status_of(&head), client)
}

fn uris(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("note:{number}")).collect()
}

#[tokio::test]
async fn subscriptions_and_their_streams_of_one_grant() {
    let shares = ShareLimits { streams: 3, subscriptions: 10, calls: 1, ..NONE };
    let harness = fair(listening, shares).await;
    let (status, six) = listen(&harness, TOKEN, &uris(6)).await;
    assert_eq!(status, 200);
    assert_eq!(listen(&harness, TOKEN, &uris(5)).await.0, 429);
    let (status, _four) = listen(&harness, TOKEN, &uris(4)).await;
    assert_eq!(status, 200);
    let (status, _none) = listen(&harness, TOKEN, &[]).await;
    assert_eq!(status, 200);
    assert_eq!(listen(&harness, TOKEN, &[]).await.0, 429);
    // An open stream is no call in progress.
    assert_eq!(harness.modern_call("read", "{}").await.status, 200);
    assert_eq!(listen(&harness, BOB, &uris(10)).await.0, 200);
    drop(six);
    let mut status = 429;
    while status == 429 {
        status = listen(&harness, TOKEN, &uris(6)).await.0;
    }
    assert_eq!(status, 200);
    let long = format!("note:{}", "x".repeat(8 << 10));
    let wish = format!(r#""notifications":{{"resourceSubscriptions":["{long}"]}}"#);
    let answer = harness.modern("subscriptions/listen", None, &wish).await;
    assert_eq!(at(&json(&answer), "error/code"), "-32602", "{}", answer.text());
}

#[tokio::test]
async fn sessions_of_the_oldest_transport_of_one_grant() {
    let old = OldServer::start(mcp_server(TOOLS)).await.unwrap();
    let servers = vec![server("notes", &old.upstream.url())];
    let shares = ShareLimits { sessions: 3, ..NONE };
    let harness = shared(servers, old.upstream.clone(), shares).await;
    let sessions = [harness.session(TOKEN).await, harness.session(TOKEN).await];
    harness.session(TOKEN).await;
    refused(&harness.session_of(TOKEN).await, 429, "limits.sessions");
    harness.session(BOB).await;
    until("four streams are open", || old.open_streams() == 4).await;
    assert_eq!(harness.read_at(TOKEN, "/mcp/notes").await.status, 200, "a call needs no session");
    let headers = [("mcp-session-id", sessions[0].as_str())];
    let ended = harness.raw(&request("DELETE", "/mcp/notes", harness.address, &headers, b"")).await;
    assert_eq!(ended.status, 200);
    harness.session(TOKEN).await;
}

fn command(instances: Instances) -> Server {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../stdio/tests/it/server.sh");
    let transport = Transport::Command {
        command: vec!["/bin/sh".into(), script.into(), "legacy".into()],
        env: vec![],
        instances,
        start: Start::Use,
    };
    Server { transport, ..server("notes", "http://127.0.0.1:1/") }
}

#[tokio::test]
async fn processes_of_one_grant() {
    let upstream = Upstream::start(mcp_server(TOOLS)).await.unwrap();
    let shares = ShareLimits { children: 2, ..NONE };
    let harness = shared(vec![command(Instances::Session)], upstream, shares).await;
    let first = harness.session(TOKEN).await;
    harness.session(TOKEN).await;
    refused(&harness.session_of(TOKEN).await, 429, "limits.children");
    harness.session(BOB).await;
    let headers = [("mcp-session-id", first.as_str())];
    let ended = harness.raw(&request("DELETE", "/mcp/notes", harness.address, &headers, b"")).await;
    assert_eq!(ended.status, 200);
    harness.session(TOKEN).await;
}

/// A stream of change notifications has a process for itself, too.
#[tokio::test]
async fn listeners_at_a_server_with_a_process_for_each_session() {
    let upstream = Upstream::start(mcp_server(TOOLS)).await.unwrap();
    let shares = ShareLimits { children: 2, ..NONE };
    let harness = shared(vec![command(Instances::Session)], upstream, shares).await;
    let (status, first) = listen(&harness, TOKEN, &uris(1)).await;
    assert_eq!(status, 200);
    harness.session(TOKEN).await;
    assert_eq!(listen(&harness, TOKEN, &uris(2)).await.0, 429);
    refused(&harness.session_of(TOKEN).await, 429, "limits.children");
    let (status, _other) = listen(&harness, BOB, &uris(1)).await;
    assert_eq!(status, 200);
    drop(first);
    let mut status = 429;
    while status == 429 {
        status = harness.session_of(TOKEN).await.status;
    }
    assert_eq!(status, 200);
}

/// The gateway keeps each `initialize` at `/mcp`, as long as the session lasts.
#[tokio::test]
async fn bytes_of_sessions_with_all_servers() {
    let harness = fair(mcp_server(TOOLS), NONE).await;
    let hello = |title: &str| {
        let client = format!(r#"{{"name":"t","version":"1","title":"{title}"}}"#);
        message(
            "initialize",
            &format!(r#""protocolVersion":"2025-11-25","capabilities":{{}},"clientInfo":{client}"#),
        )
    };
    let begin = async |token: &str, title: &str| {
        let answer = harness.post_at(token, "/mcp", &hello(title)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.header("mcp-session-id").unwrap_or_else(|| panic!("{}", answer.text())).to_owned()
    };
    let is_known = async |token: &str, session: &str| {
        let token = bearer(token);
        let headers = [("authorization", token.as_str()), ("mcp-session-id", session)];
        let ping = message("ping", "");
        let bytes = request("POST", "/mcp", harness.address, &headers, ping.as_bytes());
        harness.raw(&bytes).await.status == 200
    };
    let bobs = begin(BOB, "bob").await;
    let large = "x".repeat(63 << 10);
    let first = begin(TOKEN, &large).await;
    assert!(is_known(TOKEN, &first).await);
    let mut last = String::new();
    // More than fit into the memory for all grants.
    for _ in 0..550 {
        last = begin(TOKEN, &large).await;
    }
    assert!(is_known(TOKEN, &last).await && !is_known(TOKEN, &first).await);
    // Bob, who has one, needs no room of his own for another.
    let another = begin(BOB, "bob").await;
    assert!(is_known(BOB, &bobs).await && is_known(BOB, &another).await);
}

#[tokio::test]
async fn sessions_and_subscriptions_at_a_shared_process() {
    let upstream = Upstream::start(mcp_server(TOOLS)).await.unwrap();
    let shares = ShareLimits { sessions: 2, subscriptions: 2, ..NONE };
    let harness = shared(vec![command(Instances::Shared)], upstream, shares).await;
    let first = harness.session(TOKEN).await;
    harness.session(TOKEN).await;
    refused(&harness.session_of(TOKEN).await, 429, "limits.sessions");
    let bob = harness.session(BOB).await;
    let subscribe = async |token: &str, session: &str, uri: &str| {
        let (token, params) = (bearer(token), format!(r#""uri":"{uri}""#));
        let headers = [("authorization", token.as_str()), ("mcp-session-id", session)];
        harness.post_with(&headers, message("resources/subscribe", &params).as_bytes()).await
    };
    for uri in ["note:1", "note:2"] {
        assert_eq!(subscribe(TOKEN, &first, uri).await.status, 200);
    }
    refused(&subscribe(TOKEN, &first, "note:3").await, 429, "limits.subscriptions");
    // Subscribing again replaces the subscription, and takes nothing more.
    for _ in 0..5 {
        assert_eq!(subscribe(TOKEN, &first, "note:1").await.status, 200);
    }
    refused(&subscribe(TOKEN, &first, "note:3").await, 429, "limits.subscriptions");
    let long = format!("note:{}", "x".repeat(8 << 10));
    let answer = subscribe(BOB, &bob, &long).await;
    assert_eq!(at(&json(&answer), "error/code"), "-32602", "{}", answer.text());
    assert_eq!(subscribe(BOB, &bob, "note:1").await.status, 200);
    let headers = [("mcp-session-id", first.as_str())];
    harness.raw(&request("DELETE", "/mcp/notes", harness.address, &headers, b"")).await;
    let second = harness.session(TOKEN).await;
    assert_eq!(subscribe(TOKEN, &second, "note:3").await.status, 200);
}

/// It made 4,000 list requests.
#[tokio::test]
async fn a_subscription_to_a_thousand_unknown_resources_asks_for_each_list_once() {
    let stack = stacked(vec![("notes", OPEN, tools(TOOLS)), ("mail", OPEN, tools(TOOLS))]).await;
    let wish: Vec<_> = uris(1000).iter().map(|uri| format!("\"{uri}\"")).collect();
    let wish = format!(r#""notifications":{{"resourceSubscriptions":[{}]}}"#, wish.join(","));
    let body = modern_body("subscriptions/listen", &wish, "{}");
    let headers = mirrors("subscriptions/listen", None);
    let bytes = request("POST", "/mcp", stack.harness.address, &headers, body.as_bytes());
    let mut client = RawClient::connect(stack.harness.address).await.unwrap();
    client.send(&bytes).await.unwrap();
    let head = client.head().await.unwrap().unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    for upstream in &stack.upstreams {
        for method in ["resources/list", "resources/templates/list"] {
            let asked = upstream.bodies_of(method).len();
            assert!(asked <= 2, "{asked} of {method}");
        }
    }
}

/// They are worked on by other threads than small ones.
#[tokio::test]
async fn large_documents_are_judged_and_filtered_as_small_ones_are() {
    let tools: Vec<_> = (0..3000)
        .map(|number| format!(r#"{{"name":"tool{number}","description":"{}"}}"#, "x".repeat(200)))
        .collect();
    let tools: &'static str = Box::leak(format!("[{}]", tools.join(",")).into_boxed_str());
    assert!(tools.len() > 512 << 10);
    let rules = r#"{"version":"1","default":"allow","hide":["tool7"],
      "tools":{"tool8":{"deny_if":[{"conditions":[{"path":"args.text","op":"regex","value":"y$"}]}]}}}"#;
    let harness = Harness::start(rules, mcp_server(tools)).await;
    let listed = harness.post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await.text();
    assert!(listed.contains(r#""tool6""#) && !listed.contains(r#""tool7""#));
    assert!(listed.len() > 512 << 10);
    let long = "x".repeat(512 << 10);
    for (tool, end, outcome) in
        [("tool8", "x", "allow"), ("tool8", "y", "deny"), ("tool7", "x", "hide")]
    {
        let answer = harness.call(tool, &format!(r#"{{"text":"{long}{end}"}}"#)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let recorded = harness.texts().await;
        let decision = recorded.iter().rfind(|text| text.contains(r#""kind":"decision""#)).unwrap();
        assert!(decision.contains(&format!(r#""outcome":"{outcome}""#)), "{outcome}: {decision}");
    }
    assert_eq!(harness.calls().len(), 1);
    let stack = stacked(vec![("notes", rules, Box::new(mcp_server(tools)))]).await;
    let shown = stack.shown().await;
    assert_eq!((shown.len(), &*shown[6]), (2999, "notes__tool6"));
}
