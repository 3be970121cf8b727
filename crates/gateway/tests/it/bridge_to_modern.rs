//! Legacy clients with a server that speaks only the modern era. Each test is a
//! row of `docs/reference/protocol.md`.

use sluice_testkit::{Answer, ModernOnly, Reply};
use sluice_wire::json::Document;

use crate::{
    bridge::{before_modern, reached},
    harness::{Harness, TOKEN, at, json, policy, request},
    talk::{OPEN, hear, until},
};

const PROGRESS: &str = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"p\",\"progress\":1}}\n\n";
const META: &str = "params/_meta/io.modelcontextprotocol~";

/// Begins a session as a client that can do this.
async fn initialize(harness: &Harness, capabilities: &str) -> (String, Document) {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"2025-06-18","capabilities":{capabilities},"clientInfo":{{"name":"old","version":"1"}}}}}}"#
    );
    let answer = harness.post(&body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    (answer.header("mcp-session-id").expect("a session").to_owned(), json(&answer))
}

async fn ask(harness: &Harness, session: &str, method: &str, params: &str) -> Answer {
    let body = format!(r#"{{"jsonrpc":"2.0","id":5,"method":"{method}","params":{{{params}}}}}"#);
    let headers = [("mcp-session-id", session), ("mcp-protocol-version", "2025-06-18")];
    harness.post_with(&headers, body.as_bytes()).await
}

/// The messages of an event stream.
fn events(answer: &Answer) -> Vec<String> {
    let text = answer.text();
    text.split("\n\n").filter_map(|block| block.strip_prefix("data: ")).map(str::to_owned).collect()
}

fn read(text: &str) -> Document {
    Document::parse(text, &sluice_wire::json::Bounds::default()).unwrap()
}

#[tokio::test]
async fn initialize_is_discovery() {
    let (harness, _) = before_modern(OPEN).await;
    let (session, answer) = initialize(&harness, r#"{"roots":{}}"#).await;
    assert_eq!(at(&answer, "result/protocolVersion"), "\"2025-06-18\"");
    assert_eq!(at(&answer, "result/serverInfo/name"), "\"modern\"");
    assert_eq!(at(&answer, "result/instructions"), "\"be kind\"");
    assert_eq!(at(&answer, "result/capabilities/resources/subscribe"), "true");
    assert_eq!(at(&answer, "result/capabilities/x-unknown"), "{}");
    assert_eq!(at(&answer, "result/resultType"), "");
    let discovered = reached(&harness, "server/discover");
    let said = read(&discovered.last().unwrap().text());
    assert_eq!(at(&said, &format!("{META}clientCapabilities")), r#"{"roots":{}}"#);
    assert_eq!(at(&said, &format!("{META}clientInfo/name")), "\"old\"");
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let headers = [("mcp-session-id", session.as_str())];
    assert_eq!(harness.post_with(&headers, ready.as_bytes()).await.status, 202);
    assert!(reached(&harness, "notifications/initialized").is_empty());
}

#[tokio::test]
async fn ping_is_answered_without_the_server() {
    let (harness, _) = before_modern(OPEN).await;
    let (session, _) = initialize(&harness, "{}").await;
    let answer = ask(&harness, &session, "ping", "").await;
    assert_eq!(at(&json(&answer), "result"), "{}");
    assert!(reached(&harness, "ping").is_empty());
}

#[tokio::test]
async fn requests_and_results_change_their_era() {
    let (harness, _) = before_modern(OPEN).await;
    let (session, _) = initialize(&harness, r#"{"roots":{}}"#).await;
    for (method, params, place, expected) in [
        ("tools/list", r#""cursor":"c""#, "result/tools/0/name", "\"echo\""),
        ("tools/call", r#""name":"echo","arguments":{"n":1.50}"#, "result/x-unknown", "1.50"),
        ("resources/list", "", "result/resources/0/uri", "\"a:b\""),
        ("resources/templates/list", "", "result/resourceTemplates/0/name", "\"x\""),
        ("resources/read", r#""uri":"a:b""#, "result/contents/0/text", "\"t\""),
        ("prompts/list", "", "result/prompts/0/name", "\"p\""),
        ("prompts/get", r#""name":"p""#, "result/messages", "[]"),
        (
            "completion/complete",
            r#""ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"v"}"#,
            "result/completion/values/0",
            "\"v\"",
        ),
    ] {
        let answer = ask(&harness, &session, method, params).await;
        assert_eq!(answer.status, 200, "{method}: {}", answer.text());
        assert_eq!(at(&json(&answer), place), expected, "{method}: {}", answer.text());
        assert_eq!(at(&json(&answer), "id"), "5");
        assert_eq!(at(&json(&answer), "result/resultType"), "", "{method}");
        let sent = reached(&harness, method).pop().unwrap();
        let said = read(&sent.text());
        assert_eq!(at(&said, &format!("{META}protocolVersion")), "\"2026-07-28\"", "{method}");
        assert_eq!(at(&said, &format!("{META}clientCapabilities")), r#"{"roots":{}}"#, "{method}");
        assert!(sent.text().contains(params), "{}", sent.text());
        assert_eq!(sent.header("mcp-method"), Some(method));
    }
    let named = |method: &str| reached(&harness, method).pop().unwrap();
    assert_eq!(named("tools/call").header("mcp-name"), Some("echo"));
    assert_eq!(named("resources/read").header("mcp-name"), Some("a:b"));
}

#[tokio::test]
async fn headers_repeat_what_the_schema_of_a_tool_says() {
    let (harness, _) = before_modern(OPEN).await;
    let (session, _) = initialize(&harness, "{}").await;
    let params = r#""name":"echo","arguments":{"region":"eu"}"#;
    let answer = ask(&harness, &session, "tools/call", params).await;
    assert_eq!(at(&json(&answer), "error"), "", "{}", answer.text());
    let sent = reached(&harness, "tools/call").pop().unwrap();
    assert_eq!(sent.header("mcp-param-region"), Some("eu"));
}

#[tokio::test]
async fn progress_and_the_log_come_along() {
    let (harness, _) = before_modern(OPEN).await;
    let (session, _) = initialize(&harness, "{}").await;
    let params = r#""name":"talk","_meta":{"progressToken":"p"}"#;
    let answer = ask(&harness, &session, "tools/call", params).await;
    let said = events(&answer);
    assert_eq!(said.len(), 2, "{}", answer.text());
    assert!(said[0].contains("notifications/progress") && said[1].contains("content"));
    let sent = reached(&harness, "tools/call").pop().unwrap();
    assert_eq!(at(&read(&sent.text()), "params/_meta/progressToken"), "\"p\"");

    let answer = ask(&harness, &session, "logging/setLevel", r#""level":"warning""#).await;
    assert_eq!(at(&json(&answer), "result"), "{}");
    let answer = ask(&harness, &session, "tools/call", params).await;
    assert!(events(&answer)[1].contains(r#""level":"warning""#), "{}", answer.text());
    // What one session sets is not another's.
    let (other, _) = initialize(&harness, "{}").await;
    assert_eq!(events(&ask(&harness, &other, "tools/call", params).await).len(), 2);
}

#[tokio::test]
async fn wishes_become_requests_of_the_server() {
    let (harness, _) = before_modern(OPEN).await;
    let (session, _) = initialize(&harness, r#"{"elicitation":{}}"#).await;
    let headers = [("mcp-session-id", session.as_str())];
    let call = r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"ask"}}"#;
    let mut client = harness.begun("POST", &headers, call.as_bytes()).await;
    client.head().await.unwrap();
    let asked = hear(&mut client, "elicitation/create").await;
    let asked = read(asked.trim().strip_prefix("data: ").unwrap());
    assert_eq!(at(&asked, "params/message"), "\"who?\"");
    let id = at(&asked, "id");
    assert!(id.len() > 30, "the id is sealed: {id}");
    let reply = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"action":"accept"}}}}"#);
    assert_eq!(harness.post(&reply).await.status, 202, "not of this session: ignored");
    assert_eq!(harness.post_with(&headers, reply.as_bytes()).await.status, 202);
    let answer = hear(&mut client, "\"told\"").await;
    assert!(answer.contains(r#""id":5"#) && answer.contains(r#""told":"accept""#), "{answer}");
    let calls = reached(&harness, "tools/call");
    assert_ne!(calls[0].rpc_id(), calls[1].rpc_id(), "a retry has an id of its own");
}

#[tokio::test]
async fn a_wish_that_the_policy_denies_never_reaches_the_client() {
    let policy = r#"{"version":"1","default":"allow","server_requests":["roots"]}"#;
    let (harness, _) = before_modern(policy).await;
    // The capability is taken away before the server hears of it.
    let (session, _) = initialize(&harness, r#"{"elicitation":{}}"#).await;
    let answer = ask(&harness, &session, "tools/call", r#""name":"ask""#).await;
    assert!(!answer.text().contains("who?"), "{}", answer.text());
    assert_eq!(at(&json(&answer), "error/code"), "-32603");
    let sent = read(&reached(&harness, "tools/call").pop().unwrap().text());
    assert_eq!(at(&sent, &format!("{META}clientCapabilities")), "{}");
}

#[tokio::test]
async fn a_wish_that_is_denied_meanwhile_never_reaches_the_client() {
    let (mut harness, _) = before_modern(OPEN).await;
    let (session, _) = initialize(&harness, r#"{"elicitation":{}}"#).await;
    let rules = r#"{"version":"1","default":"allow","server_requests":["roots"]}"#;
    harness.configuration.policies = vec![policy("notes", "rules", rules)];
    harness.gateway.apply(&harness.configuration).unwrap();
    let answer = ask(&harness, &session, "tools/call", r#""name":"ask""#).await;
    assert!(!answer.text().contains("who?"), "{}", answer.text());
    let end = events(&answer).pop().unwrap();
    assert!(end.contains("refused `elicitation/create`") && end.contains("-32603"), "{end}");
    let records = harness.records().await;
    assert!(records.iter().any(|record| at(record, "rule") == "\"/server_requests\""));
}

#[tokio::test]
async fn a_wish_that_the_client_cannot_meet_is_an_error() {
    let (harness, _) = before_modern(OPEN).await;
    let (session, _) = initialize(&harness, r#"{"sampling":{}}"#).await;
    let answer = json(&ask(&harness, &session, "tools/call", r#""name":"ask""#).await);
    let said = at(&answer, "error/message");
    assert!(said.contains("2025-06-18") && said.contains("2026-07-28"), "{said}");
    assert!(said.contains("elicitation/create"), "{said}");
}

#[tokio::test]
async fn a_wish_that_the_client_refuses_is_an_error() {
    let (harness, _) = before_modern(OPEN).await;
    let (session, _) = initialize(&harness, r#"{"elicitation":{}}"#).await;
    let headers = [("mcp-session-id", session.as_str())];
    let call = r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"ask"}}"#;
    let mut client = harness.begun("POST", &headers, call.as_bytes()).await;
    client.head().await.unwrap();
    let asked = hear(&mut client, "elicitation/create").await;
    let id = at(&read(asked.trim().strip_prefix("data: ").unwrap()), "id");
    let reply = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-1,"message":"no"}}}}"#);
    assert_eq!(harness.post_with(&headers, reply.as_bytes()).await.status, 202);
    let answer = hear(&mut client, "-32603").await;
    assert!(answer.contains("refused `elicitation/create`"), "{answer}");
    assert_eq!(reached(&harness, "tools/call").len(), 1);
}

#[tokio::test]
async fn a_request_on_the_stream_of_a_modern_server_is_its_error() {
    for (before, status) in [("", 502), (PROGRESS, 200)] {
        for (method, named) in [
            ("elicitation/create", "`elicitation/create`"),
            ("sampling/createMessage", "`sampling/createMessage`"),
            ("vendor/secret", "a request"),
        ] {
            let server = ModernOnly::default();
            let said = format!(
                "{before}data: {{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"{method}\",\"params\":{{}}}}\n\n"
            );
            let harness = Harness::start(OPEN, move |request| {
                let is_call = request.rpc_method().as_deref() == Some("tools/call");
                if is_call { Reply::events(said.clone()) } else { server.reply(request) }
            })
            .await;
            let (session, _) = initialize(&harness, r#"{"elicitation":{},"sampling":{}}"#).await;
            let answer = ask(&harness, &session, "tools/call", r#""name":"echo""#).await;
            let last = events(&answer).pop().unwrap_or_else(|| answer.text());
            assert_eq!(answer.status, status, "{last}");
            let last = read(&last);
            assert_eq!((at(&last, "id"), at(&last, "error/code")), ("5".into(), "-32603".into()));
            assert_eq!(at(&last, "error/data/side"), "\"upstream\"");
            let message = at(&last, "error/message");
            assert!(message.contains(named) && message.contains("2026-07-28"), "{message}");
            assert!(!message.contains("lost") && !message.contains("secret"), "{message}");
        }
    }
}

#[tokio::test]
async fn cancelling_drops_the_request() {
    let (harness, server) = before_modern(OPEN).await;
    let (session, _) = initialize(&harness, "{}").await;
    let headers = [("mcp-session-id", session.as_str())];
    let call = r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"slow"}}"#;
    let mut client = harness.begun("POST", &headers, call.as_bytes()).await;
    client.head().await.unwrap();
    hear(&mut client, "notifications/progress").await;
    assert_eq!(server.slow_calls(), 1);
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#;
    let (other, _) = initialize(&harness, "{}").await;
    harness.post_with(&[("mcp-session-id", &other)], cancel.as_bytes()).await;
    assert_eq!(server.slow_calls(), 1, "another session's request has the same id");
    assert_eq!(harness.post_with(&headers, cancel.as_bytes()).await.status, 202);
    until("the request is dropped", || server.slow_calls() == 0).await;
}

#[tokio::test]
async fn the_stream_of_a_session_is_a_subscription() {
    let (harness, server) = before_modern(OPEN).await;
    let (session, _) = initialize(&harness, "{}").await;
    let headers = [("mcp-session-id", session.as_str())];
    let mut client = harness.begun("GET", &headers, b"").await;
    client.head().await.unwrap();
    until("somebody listens", || server.listeners() == 1).await;
    server.announce("notifications/prompts/list_changed", r#""x":1.0"#);
    let news = hear(&mut client, "list_changed").await;
    assert!(news.contains(r#""params":{"x":1.0}"#) && !news.contains("subscriptionId"), "{news}");

    let answer = ask(&harness, &session, "resources/subscribe", r#""uri":"a:b""#).await;
    assert_eq!(at(&json(&answer), "result"), "{}");
    let wish = reached(&harness, "subscriptions/listen").pop().unwrap().text();
    assert!(wish.contains(r#""resourceSubscriptions":["a:b"]"#), "{wish}");
    server.announce("notifications/resources/updated", r#""uri":"a:b""#);
    hear(&mut client, r#""uri":"a:b""#).await;
    let answer = ask(&harness, &session, "resources/unsubscribe", r#""uri":"a:b""#).await;
    assert_eq!(at(&json(&answer), "result"), "{}");
    let wish = reached(&harness, "subscriptions/listen").pop().unwrap().text();
    assert!(wish.contains(r#""resourceSubscriptions":[]"#), "{wish}");
    drop(client);
    until("nobody listens", || server.listeners() == 0).await;
}

#[tokio::test]
async fn errors_come_as_legacy_servers_send_them() {
    let policy = r#"{"version":"1","default":"allow","methods":["vendor/*"]}"#;
    let (harness, _) = before_modern(policy).await;
    let (session, _) = initialize(&harness, "{}").await;
    for (method, params, code) in
        [("resources/read", r#""uri":"a:none""#, "-32002"), ("vendor/eval", "", "-32601")]
    {
        let answer = ask(&harness, &session, method, params).await;
        assert_eq!(answer.status, 200, "{method}: {}", answer.text());
        assert_eq!(at(&json(&answer), "error/code"), code, "{method}");
        assert_eq!(at(&json(&answer), "id"), "5");
    }
}

#[tokio::test]
async fn tasks_are_refused_naming_both_revisions() {
    let (harness, _) = before_modern(OPEN).await;
    let (session, _) = initialize(&harness, "{}").await;
    let answer = json(&ask(&harness, &session, "tools/call", r#""name":"task""#).await);
    let said = at(&answer, "error/message");
    assert!(said.contains("2025-06-18") && said.contains("2026-07-28"), "{said}");
    let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")];
    let list = r#"{"jsonrpc":"2.0","id":5,"method":"tasks/list"}"#;
    let answer = json(&harness.post_with(&headers, list.as_bytes()).await);
    assert_eq!(at(&answer, "error/code"), "-32601");
    let said = at(&answer, "error/message");
    assert!(said.contains("2025-11-25") && said.contains("2026-07-28"), "{said}");
    assert!(reached(&harness, "tasks/list").is_empty());
}

#[tokio::test]
async fn a_session_that_has_ended_is_not_found() {
    let (harness, _) = before_modern(OPEN).await;
    let (session, _) = initialize(&harness, "{}").await;
    let headers = [("mcp-session-id", session.as_str())];
    let end = request("DELETE", "/mcp/notes", harness.address, &headers, b"");
    assert_eq!(harness.raw(&end).await.status, 200);
    assert_eq!(ask(&harness, &session, "tools/list", "").await.status, 404);
    assert_eq!(harness.raw(&end).await.status, 404);
}

#[tokio::test]
async fn a_call_needs_no_session() {
    let (harness, _) = before_modern(OPEN).await;
    let answer = harness.call("echo", r#"{"region":"eu"}"#).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(at(&json(&answer), "result/content/0/text"), "\"done\"");
    harness.session(TOKEN).await;
}
