//! Clients of the oldest HTTP transport: the same judgement, with answers on
//! their one stream.

use sluice_gateway::Configuration;
use sluice_store::TokenHash;
use sluice_testkit::{Answer, End, OldServer, RawClient, Recorded, Reply, Upstream, mcp_server};

use crate::{
    harness::{Harness, TOKEN, at, grant, policy, request, server},
    old_servers::in_front_of,
    talk::{OPEN, hear, modern_body, until},
};

const TOOLS: &str = r#"[{"name":"read"},{"name":"drop"}]"#;
const HIDING: &str = r#"{"version":"1","default":"allow","hide":["drop"]}"#;
const ASKING: &str = r#"{"version":"1","default":"allow","server_requests":["sampling"]}"#;
const BOB: &str = "sg_test_token_of_bob";
const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
const READY: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
const READ: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read"}}"#;
const DROP: &str = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"drop"}}"#;
const CHANGED: &str = "notifications/tools/list_changed";

type Headers<'h> = &'h [(&'h str, &'h str)];

/// A client with its stream open.
struct OldClient<'h> {
    harness: &'h Harness,
    stream: RawClient,
    endpoint: String,
}

impl<'h> OldClient<'h> {
    async fn connect(harness: &'h Harness) -> OldClient<'h> {
        let mut stream = RawClient::connect(harness.address).await.unwrap();
        let headers = [("accept", "text/event-stream")];
        let bytes = request("GET", "/mcp/notes/sse", harness.address, &headers, b"");
        stream.send(&bytes).await.unwrap();
        let head = stream.head().await.unwrap().unwrap();
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/event-stream"), "{head}");
        let first = hear(&mut stream, "\n\n").await;
        let endpoint = first.strip_prefix("event: endpoint\ndata: ").unwrap().trim().to_owned();
        assert!(endpoint.starts_with("/mcp/notes/messages?session="), "{endpoint}");
        OldClient { harness, stream, endpoint }
    }

    async fn post_with(&self, headers: &[(&str, &str)], body: &str) -> Answer {
        let bytes = request("POST", &self.endpoint, self.harness.address, headers, body.as_bytes());
        self.harness.raw(&bytes).await
    }

    async fn post(&self, body: &str) {
        let answer = self.post_with(&[], body).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
    }

    /// Posts a request, and hears its answer.
    async fn ask(&mut self, body: &str, id: u32) -> String {
        self.post(body).await;
        hear(&mut self.stream, &format!("\"id\":{id}")).await
    }

    async fn introduced(harness: &'h Harness) -> OldClient<'h> {
        let mut client = OldClient::connect(harness).await;
        client.ask(HELLO, 0).await;
        client.post(READY).await;
        client
    }

    /// Reads the stream to its end.
    async fn ended(&mut self) {
        while self.stream.chunk().await.unwrap().is_some_and(|chunk| !chunk.is_empty()) {}
    }
}

fn with_stream(request: &Recorded) -> Reply {
    match request.method.as_str() {
        "GET" => Reply::events(format!(
            "data: {{\"jsonrpc\":\"2.0\",\"method\":\"{CHANGED}\"}}\n\ndata: {{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"roots/list\"}}\n\ndata: {{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"ping\"}}\n\n"
        ))
        .ending(End::Never),
        _ => mcp_server(TOOLS)(request),
    }
}

async fn talks(harness: &Harness) {
    let mut client = OldClient::introduced(harness).await;
    let listed = client.ask(LIST, 1).await;
    assert!(listed.starts_with("event: message\ndata: "), "{listed}");
    assert!(listed.contains("read") && !listed.contains("drop"), "{listed}");
    assert!(client.ask(READ, 2).await.contains("done"));
    assert!(client.ask(DROP, 3).await.contains("[POLICY DENIED]"));
    let unknown = r#"{"jsonrpc":"2.0","id":4,"method":"nonsense/of/ours"}"#;
    assert!(client.ask(unknown, 4).await.contains("-32601"));
    assert!(harness.calls().iter().all(|call| !call.contains("drop")));
    let records = harness.records().await;
    let decisions: Vec<_> = records
        .iter()
        .filter(|record| at(record, "kind") == "\"decision\"")
        .map(|record| at(record, "outcome"))
        .collect();
    assert_eq!(decisions, ["\"allow\"", "\"hide\"", "\"deny\""]);
}

#[tokio::test]
async fn an_old_client_is_judged_as_any_other_whatever_the_server() {
    talks(&Harness::start(HIDING, mcp_server(TOOLS)).await).await;
    talks(&in_front_of(&OldServer::start(mcp_server(TOOLS)).await.unwrap(), HIDING).await).await;
    let stateless = Harness::start(HIDING, |request: &Recorded| {
        let mut reply = mcp_server(TOOLS)(request);
        reply.headers.retain(|(name, _)| *name != "mcp-session-id");
        reply
    });
    talks(&stateless.await).await;
}

#[tokio::test]
async fn the_server_is_spoken_to_in_a_session_that_ends_with_the_stream() {
    let harness = Harness::start(OPEN, mcp_server(TOOLS)).await;
    let mut client = OldClient::introduced(&harness).await;
    client.ask(READ, 2).await;
    let recorded = harness.upstream.requests();
    let call = recorded.iter().find(|request| request.text() == READ).unwrap();
    assert_eq!(call.header("mcp-session-id"), Some("upstream-session"));
    assert_eq!(call.header("mcp-protocol-version"), Some("2025-11-25"));
    assert_eq!(call.header("accept"), Some("application/json, text/event-stream"));
    assert_eq!(call.header("authorization"), None);
    drop(client);
    until("the session is ended", || {
        harness.upstream.requests().iter().any(|request| {
            request.method == "DELETE"
                && request.header("mcp-session-id") == Some("upstream-session")
        })
    })
    .await;
}

#[tokio::test]
async fn other_messages_of_the_server_come_on_the_stream_and_are_judged() {
    let harness = Harness::start(ASKING, with_stream).await;
    let mut client = OldClient::introduced(&harness).await;
    let heard = hear(&mut client.stream, "\"ping\"").await;
    assert!(heard.contains(CHANGED) && !heard.contains("roots/list"), "{heard}");
    let sealed = heard.lines().find(|line| line.contains("ping")).unwrap();
    let sealed = sealed.split("\"id\":\"").nth(1).unwrap().split('"').next().unwrap();
    client.post(&format!(r#"{{"jsonrpc":"2.0","id":"{sealed}","result":{{}}}}"#)).await;
    until("both requests of the server are answered", || {
        let bodies: Vec<_> = harness.upstream.requests().iter().map(Recorded::text).collect();
        bodies.contains(&r#"{"jsonrpc":"2.0","id":6,"result":{}}"#.to_owned())
            && bodies.iter().any(|body| body.contains("\"id\":5") && body.contains("error"))
    })
    .await;
}

#[tokio::test]
async fn progress_comes_before_its_answer() {
    let harness = Harness::start(OPEN, |request: &Recorded| {
        match request.rpc_method().as_deref() {
            Some("tools/call") => Reply::events(format!(
                "id: 1\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":1,\"progress\":1}}}}\n\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"content\":[]}}}}\n\n",
                request.rpc_id()
            )),
            _ => mcp_server(TOOLS)(request),
        }
    })
    .await;
    let mut client = OldClient::introduced(&harness).await;
    let heard = client.ask(READ, 2).await;
    assert!(heard.find("progressToken").unwrap() < heard.find("\"id\":2").unwrap(), "{heard}");
}

/// A server may wait for the client before it answers.
#[tokio::test]
async fn messages_before_an_answer_arrive_before_it() {
    let harness = Harness::start(OPEN, |request: &Recorded| {
        match request.rpc_method().as_deref() {
            Some("tools/call") => Reply::events(
                "data: {\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"sampling/createMessage\",\"params\":{}}\n\n",
            )
            .ending(End::Never),
            _ => mcp_server(TOOLS)(request),
        }
    })
    .await;
    let mut client = OldClient::introduced(&harness).await;
    client.post(READ).await;
    hear(&mut client.stream, "sampling/createMessage").await;
}

#[tokio::test]
async fn an_answer_that_fails_is_an_error_on_the_stream() {
    let harness =
        Harness::start(OPEN, |request: &Recorded| match request.rpc_method().as_deref() {
            Some("tools/call") if request.text().contains("half") => {
                let mut long = "x".repeat(200_000);
                long.insert_str(0, r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"text":""#);
                Reply::json(long)
            }
            Some("tools/call") if request.text().contains("silent") => {
                Reply::events(": nothing\n\n")
            }
            Some("tools/call") => Reply::new(
                400,
                "application/json",
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"who are you?"}}"#,
            ),
            _ => mcp_server(TOOLS)(request),
        })
        .await;
    let mut client = OldClient::introduced(&harness).await;
    for name in ["half", "silent"] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"{name}"}}}}"#
        );
        let heard = client.ask(&body, 7).await;
        assert!(heard.contains("-32603") && heard.contains("upstream"), "{name}: {heard}");
    }
    assert!(client.ask(READ, 2).await.contains("who are you?"));
}

#[tokio::test]
async fn an_invalid_request_is_answered_on_its_own_connection() {
    let harness = Harness::start(OPEN, mcp_server(TOOLS)).await;
    let client = OldClient::connect(&harness).await;
    let wrong: [(Headers<'_>, &str, u16); 6] = [
        (&[("authorization", "-")], LIST, 401),
        (&[("authorization", "Bearer sg_wrong")], LIST, 401),
        (&[("host", "evil.example")], LIST, 403),
        (&[("content-type", "text/plain")], LIST, 415),
        (&[], "{", 400),
        (&[], "[]", 400),
    ];
    for (headers, body, status) in wrong {
        let answer = client.post_with(headers, body).await;
        assert_eq!(answer.status, status, "{headers:?} {body}: {}", answer.text());
        assert!(answer.text().contains("\"error\""), "{}", answer.text());
    }
    let long = [("content-length", "99999999")];
    assert_eq!(client.post_with(&long, LIST).await.status, 413);
    for (method, path, allowed) in [
        ("POST", "/mcp/notes/sse", "GET"),
        ("DELETE", "/mcp/notes/sse", "GET"),
        ("GET", "/mcp/notes/messages?session=x", "POST"),
    ] {
        let answer = harness.raw(&request(method, path, harness.address, &[], b"")).await;
        assert_eq!(
            (answer.status, answer.header("allow")),
            (405, Some(allowed)),
            "{method} {path}"
        );
    }
    for path in ["/mcp/other/sse", "/mcp/notes/sse/", "/mcp//sse", "/mcp/notes/sse/messages"] {
        let answer = harness.raw(&request("GET", path, harness.address, &[], b"")).await;
        assert_eq!(answer.status, 404, "{path}");
    }
}

#[tokio::test]
async fn a_stream_belongs_to_its_grant() {
    let upstream = Upstream::start(mcp_server(TOOLS)).await.unwrap();
    let configuration = Configuration {
        servers: vec![server("notes", &upstream.url()), server("other", &upstream.url())],
        policies: ["notes", "other"].map(|server| policy(server, "rules", OPEN)).to_vec(),
        grants: vec![
            (TokenHash::of(TOKEN), grant("alice", &["notes", "other"], "rules")),
            (TokenHash::of(BOB), grant("bob", &["notes"], "rules")),
        ],
    };
    let harness = Harness::with(upstream, configuration).await;
    let mut client = OldClient::introduced(&harness).await;
    let bob = format!("Bearer {BOB}");
    assert_eq!(client.post_with(&[("authorization", &bob)], READ).await.status, 404);
    let endpoint = client.endpoint.clone();
    let wrong = [
        endpoint.replace("/notes/", "/other/"),
        endpoint.replace("session=", "session=A"),
        "/mcp/notes/messages?session=".to_owned(),
        "/mcp/notes/messages".to_owned(),
    ];
    for path in wrong {
        let bytes = request("POST", &path, harness.address, &[], READ.as_bytes());
        let answer = harness.raw(&bytes).await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
    }
    assert!(harness.calls().is_empty());
    // A session of the later transport cannot be brought along.
    let other = harness.session(TOKEN).await;
    client.post_with(&[("mcp-session-id", &other)], READ).await;
    hear(&mut client.stream, "done").await;
    let OldClient { stream, endpoint, .. } = client;
    drop(stream);
    let mut last = 0;
    for _ in 0..500 {
        let bytes = request("POST", &endpoint, harness.address, &[], READ.as_bytes());
        last = harness.raw(&bytes).await.status;
        if last == 404 {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(last, 404, "a stream that is gone takes nothing");
}

#[tokio::test]
async fn the_modern_era_is_not_spoken_on_this_transport() {
    let harness = Harness::start(OPEN, mcp_server(TOOLS)).await;
    let mut client = OldClient::introduced(&harness).await;
    let body = modern_body("tools/call", r#""name":"read""#, "{}");
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "read"),
    ];
    assert_eq!(client.post_with(&headers, &body).await.status, 202);
    assert!(hear(&mut client.stream, "\"id\":1").await.contains("-32020"));
    assert!(harness.calls().is_empty());
}

#[tokio::test]
async fn a_change_of_rules_is_told_and_the_end_of_a_grant_ends_the_stream() {
    let harness = Harness::start(OPEN, mcp_server(TOOLS)).await;
    let mut client = OldClient::introduced(&harness).await;
    let mut configuration = harness.configuration.clone();
    configuration.policies = vec![policy("notes", "rules", HIDING)];
    harness.gateway.apply(&configuration).unwrap();
    hear(&mut client.stream, CHANGED).await;
    assert!(client.ask(DROP, 3).await.contains("[POLICY DENIED]"));
    harness.gateway.set_grant(&TokenHash::of(TOKEN), None);
    client.ended().await;
}

#[tokio::test]
async fn there_are_no_more_streams_than_descriptors() {
    let upstream = Upstream::start(mcp_server(TOOLS)).await.unwrap();
    let configuration = Harness::configuration(&upstream, OPEN);
    // Room for a connection and its stream, and one connection more.
    let harness =
        Harness::tuned(upstream, configuration, |settings| settings.descriptors = 8).await;
    let client = OldClient::connect(&harness).await;
    let answer = harness.raw(&request("GET", "/mcp/notes/sse", harness.address, &[], b"")).await;
    assert_eq!(answer.status, 503);
    drop(client);
}

/// A client that does not wait for answers cannot have any number of requests
/// under way.
#[tokio::test]
async fn requests_under_way_are_bounded() {
    let harness =
        Harness::start(OPEN, |request: &Recorded| match request.rpc_method().as_deref() {
            Some("tools/call") => Reply::events("").ending(End::Never),
            _ => mcp_server(TOOLS)(request),
        })
        .await;
    let client = OldClient::introduced(&harness).await;
    let mut statuses = Vec::new();
    for _ in 0..65 {
        statuses.push(client.post_with(&[], READ).await.status);
    }
    assert_eq!(statuses.iter().filter(|status| **status == 202).count(), 64);
    assert_eq!(statuses.last(), Some(&503));
}

/// Clients that come and go leave nothing behind, neither here nor at the server.
#[tokio::test]
async fn nothing_is_left_of_clients_that_are_gone() {
    let old = OldServer::start(mcp_server(TOOLS)).await.unwrap();
    let harness = in_front_of(&old, OPEN).await;
    for _ in 0..100 {
        let mut client = OldClient::introduced(&harness).await;
        client.ask(READ, 2).await;
    }
    until("no stream is left", || old.open_streams() == 0).await;
    until("no connection is left", || {
        let metrics = harness.gateway.metrics();
        metrics.lines().any(|line| {
            line.starts_with("sluice_") && line.contains("open") && line.ends_with(" 0")
        })
    })
    .await;
}
