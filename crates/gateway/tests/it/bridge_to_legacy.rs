//! Modern clients with a server that speaks only the legacy era. Each test is a
//! row of `docs/reference/protocol.md`.

use sluice_store::{Bridge, TokenHash};
use sluice_testkit::{Answer, LegacyOnly, Recorded, Reply, Upstream};
use sluice_wire::json::{Bounds, Document};

use crate::{
    bridge::{before_legacy, reached},
    harness::{Harness, TOKEN, at, grant, json},
    talk::{OPEN, hear, mirrors, modern_body, until},
};

const BOB: &str = "sg_test_token_of_bob";
const ASKING: &str = r#"{"elicitation":{"url":{}}}"#;

/// Asks as a client that can do this.
async fn ask(harness: &Harness, method: &str, params: &str, capabilities: &str) -> Answer {
    let body = modern_body(method, params, capabilities);
    let document = read(&body);
    let places = ["params/name", "params/uri", "params/taskId"];
    let target = places.map(|place| at(&document, place).replace('"', ""));
    let target = target.iter().find(|target| !target.is_empty()).map(String::as_str);
    let target = target
        .filter(|_| ["tools/call", "prompts/get", "resources/read", "tasks/get"].contains(&method));
    harness.post_with(&mirrors(method, target), body.as_bytes()).await
}

fn read(text: &str) -> Document {
    Document::parse(text, &Bounds::default()).unwrap()
}

/// The messages of an event stream, or the one of a JSON answer.
fn messages(answer: &Answer) -> Vec<Document> {
    let text = answer.text();
    let events: Vec<_> =
        text.split("\n\n").filter_map(|block| block.strip_prefix("data: ")).map(read).collect();
    if events.is_empty() { vec![json(answer)] } else { events }
}

fn last(answer: &Answer) -> Document {
    messages(answer).pop().unwrap()
}

#[tokio::test]
async fn discovery_tells_the_era_of_the_server_unless_it_is_bridged() {
    let (harness, _) = before_legacy(OPEN).await;
    for _ in 0..2 {
        let answer = harness.modern("server/discover", None, "").await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert_eq!(at(&json(&answer), "error/code"), "-32601");
        // Other requests are bridged all the same.
        let answer = harness.modern("tools/list", None, "").await;
        assert_eq!(at(&json(&answer), "result/tools/0/name"), "\"echo\"", "{}", answer.text());
    }

    let server = LegacyOnly::default();
    let upstream = Upstream::start(move |request: &Recorded| server.reply(request)).await.unwrap();
    let mut configuration = Harness::configuration(&upstream, OPEN);
    configuration.servers[0].bridge = Bridge::Modern;
    let harness = Harness::with(upstream, configuration).await;
    for _ in 0..2 {
        let answer = json(&harness.modern("server/discover", None, "").await);
        assert_eq!(at(&answer, "result/supportedVersions"), r#"["2026-07-28"]"#);
        assert_eq!(at(&answer, "result/resultType"), "\"complete\"");
        assert_eq!(at(&answer, "result/instructions"), "\"be kind\"");
        assert_eq!(at(&answer, "result/capabilities/x-unknown"), "{}");
        let place = "result/_meta/io.modelcontextprotocol~serverInfo/name";
        assert_eq!(at(&answer, place), "\"legacy\"");
        assert_eq!(at(&answer, "result/cacheScope"), "\"private\"");
    }
}

#[tokio::test]
async fn requests_and_results_change_their_era() {
    let (harness, _) = before_legacy(OPEN).await;
    for (method, params, place, expected, is_kept) in [
        ("tools/list", r#""cursor":"c""#, "result/tools/0/name", "\"echo\"", true),
        (
            "tools/call",
            r#""name":"echo","arguments":{"n":1.50}"#,
            "result/x-unknown",
            "1.50",
            false,
        ),
        ("resources/list", "", "result/resources/0/uri", "\"a:b\"", true),
        ("resources/templates/list", "", "result/resourceTemplates/0/name", "\"x\"", true),
        ("resources/read", r#""uri":"a:b""#, "result/contents/0/text", "\"t\"", true),
        ("prompts/list", "", "result/prompts/0/name", "\"p\"", true),
        ("prompts/get", r#""name":"p""#, "result/messages", "[]", false),
        (
            "completion/complete",
            r#""ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"v"}"#,
            "result/completion/values/0",
            "\"v\"",
            false,
        ),
    ] {
        let answer = ask(&harness, method, params, r#"{"roots":{}}"#).await;
        assert_eq!(answer.status, 200, "{method}: {}", answer.text());
        let said = json(&answer);
        assert_eq!(at(&said, place), expected, "{method}: {}", answer.text());
        assert_eq!(
            (at(&said, "id"), at(&said, "result/resultType")),
            ("1".into(), "\"complete\"".into())
        );
        assert_eq!(at(&said, "result/ttlMs"), if is_kept { "0" } else { "" }, "{method}");
        assert_eq!(at(&said, "result/cacheScope"), if is_kept { "\"private\"" } else { "" });
        let sent = reached(&harness, method).pop().unwrap();
        assert!(sent.text().contains(params) && !sent.text().contains("_meta"), "{}", sent.text());
        assert_eq!(sent.header("mcp-protocol-version"), Some("2025-11-25"));
        assert_eq!(sent.header("mcp-method").or(sent.header("mcp-name")), None);
        assert!(sent.header("mcp-session-id").is_some());
    }
    let hellos = reached(&harness, "initialize");
    let declares = |sent: &&Recorded| sent.text().contains(r#""capabilities":{"roots":{}}"#);
    assert_eq!(hellos.iter().filter(declares).count(), 1, "one session for all of them");
}

#[tokio::test]
async fn each_caller_has_a_session_of_its_own() {
    let server = LegacyOnly::default();
    let answering = server.clone();
    let upstream =
        Upstream::start(move |request: &Recorded| answering.reply(request)).await.unwrap();
    let mut configuration = Harness::configuration(&upstream, OPEN);
    configuration.grants.push((TokenHash::of(BOB), grant("bob", &["notes"], "rules")));
    let harness = Harness::with(upstream, configuration).await;
    let bob = format!("Bearer {BOB}");
    for token in [format!("Bearer {TOKEN}"), bob.clone(), bob] {
        let mut headers = mirrors("resources/list", None);
        headers.push(("authorization", &token));
        let body = modern_body("resources/list", "", "{}");
        assert_eq!(harness.post_with(&headers, body.as_bytes()).await.status, 200);
    }
    let sessions = || -> Vec<_> {
        let sent = reached(&harness, "resources/list");
        sent.iter().filter_map(|sent| sent.header("mcp-session-id").map(str::to_owned)).collect()
    };
    let begun = sessions();
    assert_eq!(begun.len(), 3, "{begun:?}");
    assert_ne!(begun[0], begun[1]);
    assert_eq!(begun[1], begun[2]);
    let ids: Vec<_> = reached(&harness, "resources/list").iter().map(Recorded::rpc_id).collect();
    assert_ne!(ids[ids.len() - 1], ids[ids.len() - 2], "ids of one session differ");

    // A session that the server has forgotten is begun again.
    server.forget_sessions();
    let answer = harness.modern("resources/list", None, "").await;
    assert_eq!(at(&json(&answer), "result/resources/0/uri"), "\"a:b\"");
    assert!(!begun.contains(sessions().last().unwrap()));

    // A call is then sent twice, which its outcome says.
    server.forget_sessions();
    let answer = harness.modern_call("echo", "{}").await;
    assert_eq!((answer.status, harness.calls().len()), (200, 2), "{}", answer.text());
    let records = harness.records().await;
    let said: Vec<_> = records.iter().map(|record| at(record, "message")).collect();
    assert!(said.contains(&"\"the request was sent 2 times\"".to_owned()), "{said:?}");
}

#[tokio::test]
async fn progress_and_the_log_come_along() {
    let (harness, _) = before_legacy(OPEN).await;
    let params = r#""name":"talk","_meta":{"progressToken":"p","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}LEVEL}"#;
    let send = async |level: &str| {
        let params = params.replace("LEVEL", level);
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{{params}}}}}"#);
        harness.post_with(&mirrors("tools/call", Some("talk")), body.as_bytes()).await
    };
    let said = messages(&send("").await);
    assert_eq!(said.len(), 2, "{said:?}");
    assert_eq!(at(&said[0], "method"), "\"notifications/progress\"");
    assert_eq!(at(&said[1], "result/resultType"), "\"complete\"");
    assert!(reached(&harness, "logging/setLevel").is_empty());
    let said = messages(&send(r#","io.modelcontextprotocol/logLevel":"warning""#).await);
    let levels: Vec<_> = said.iter().map(|said| at(said, "params/level")).collect();
    assert_eq!(levels, ["", "\"error\"", ""], "{said:?}");
    assert!(reached(&harness, "logging/setLevel")[0].text().contains(r#""level":"warning""#));
    // The server's own ping is answered.
    until("the ping is answered", || {
        harness
            .upstream
            .requests()
            .iter()
            .any(|sent| sent.text() == r#"{"jsonrpc":"2.0","id":"ping","result":{}}"#)
    })
    .await;
}

#[tokio::test]
async fn requests_of_the_server_become_wishes() {
    let (harness, _) = before_legacy(OPEN).await;
    let wished = last(&ask(&harness, "tools/call", r#""name":"ask""#, ASKING).await);
    assert_eq!(at(&wished, "result/resultType"), "\"input_required\"");
    let requests = wished.root().get("result").unwrap().get("inputRequests").unwrap();
    let (key, wish) = requests.members().unwrap().next().unwrap();
    assert_eq!(wish.get("params").unwrap().get("message").unwrap().as_str(), Some("who?"));
    let state = at(&wished, "result/requestState");
    assert!(state.len() > 40 && !state.contains("suspended"), "sealed: {state}");
    let key = key.raw();
    // Without what was asked for, it is asked for again.
    let params = format!(r#""name":"ask","requestState":{state},"inputResponses":{{}}"#);
    let wished = last(&ask(&harness, "tools/call", &params, ASKING).await);
    assert_eq!(at(&wished, "result/resultType"), "\"input_required\"");
    let again = at(&wished, "result/requestState");
    let params = format!(
        r#""name":"ask","requestState":{again},"inputResponses":{{{key}:{{"action":"accept","n":1.50}}}}"#
    );
    let done = last(&ask(&harness, "tools/call", &params, ASKING).await);
    assert_eq!(at(&done, "result/told"), r#"{"action":"accept","n":1.50}"#);
    assert_eq!(at(&done, "result/resultType"), "\"complete\"");
    assert_eq!(reached(&harness, "tools/call").len(), 1, "the server sees one call");
    // What was used, or never given out, is worth nothing.
    for used in [state, again] {
        let params = format!(r#""name":"ask","requestState":{used},"inputResponses":{{}}"#);
        let answer = ask(&harness, "tools/call", &params, ASKING).await;
        assert_eq!((answer.status, at(&json(&answer), "error/code").as_str()), (400, "-32602"));
    }
}

/// Many servers ask on the stream of the session, not on that of the call.
#[tokio::test]
async fn requests_beside_a_call_become_wishes_of_that_call() {
    let (harness, _) = before_legacy(OPEN).await;
    // Servers that answer in JSON begin to answer only after they were told.
    for tool in ["aside", "aside-json"] {
        let params = format!(r#""name":"{tool}""#);
        let wished = last(&ask(&harness, "tools/call", &params, ASKING).await);
        assert_eq!(at(&wished, "result/resultType"), "\"input_required\"", "{wished:?}");
        let requests = wished.root().get("result").unwrap().get("inputRequests").unwrap();
        let (key, _) = requests.members().unwrap().next().unwrap();
        let (key, state) = (key.raw(), at(&wished, "result/requestState"));
        let answers = format!(r#"{{{key}:{{"action":"accept"}}}}"#);
        let params =
            format!(r#""name":"{tool}","requestState":{state},"inputResponses":{answers}"#);
        let done = last(&ask(&harness, "tools/call", &params, ASKING).await);
        assert_eq!(at(&done, "result/told"), r#"{"action":"accept"}"#);
    }
}

#[tokio::test]
async fn a_request_that_the_client_cannot_meet_is_refused_to_the_server() {
    let (harness, _) = before_legacy(OPEN).await;
    let done = last(&ask(&harness, "tools/call", r#""name":"ask""#, "{}").await);
    assert_eq!(at(&done, "result/told"), "null", "the server went on without");
    let recorded = harness.upstream.requests();
    let told = recorded.iter().find(|sent| sent.text().contains("-32601")).unwrap().text();
    assert!(told.contains("2026-07-28") && told.contains("2025-11-25"), "{told}");
}

#[tokio::test]
async fn a_request_that_the_policy_denies_never_reaches_the_client() {
    let policy = r#"{"version":"1","default":"allow","server_requests":["roots"]}"#;
    let (harness, _) = before_legacy(policy).await;
    let answer = ask(&harness, "tools/call", r#""name":"ask""#, ASKING).await;
    assert!(!answer.text().contains("who?"), "{}", answer.text());
    let hellos = reached(&harness, "initialize");
    // The gateway itself asks for the list as one who can be asked anything.
    let mut of_client = hellos.iter().filter(|sent| !sent.text().contains("sampling"));
    assert!(of_client.all(|sent| sent.text().contains(r#""capabilities":{}"#)), "{hellos:?}");
}

#[tokio::test]
async fn a_url_elicitation_error_becomes_an_input_request() {
    let (harness, _) = before_legacy(OPEN).await;
    let wished = last(&ask(&harness, "tools/call", r#""name":"browse""#, ASKING).await);
    assert_eq!(at(&wished, "result/resultType"), "\"input_required\"");
    assert_eq!(at(&wished, "result/inputRequests/url-0/params/url"), "\"https://example.com\"");
    let refused = last(&ask(&harness, "tools/call", r#""name":"browse""#, "{}").await);
    let said = at(&refused, "error/message");
    assert!(said.contains("2026-07-28") && said.contains("2025-11-25"), "{said}");
    assert_ne!(at(&refused, "error/code"), "-32042");
}

#[tokio::test]
async fn a_subscription_is_the_stream_of_a_session() {
    let (harness, server) = before_legacy(OPEN).await;
    let wish = r#""notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:b"]}"#;
    let body = modern_body("subscriptions/listen", wish, "{}").replace("\"id\":1", "\"id\":\"l\"");
    let headers = mirrors("subscriptions/listen", None);
    let mut client = harness.begun("POST", &headers, body.as_bytes()).await;
    client.head().await.unwrap();
    let first = hear(&mut client, "acknowledged").await;
    for agreed in [r#""toolsListChanged":true"#, r#""resourceSubscriptions":["a:b"]"#] {
        assert!(first.contains(agreed), "{first}");
    }
    assert!(reached(&harness, "resources/subscribe")[0].text().contains(r#""uri":"a:b""#));
    server.announce("notifications/prompts/list_changed", "");
    server.announce("notifications/resources/updated", r#""uri":"a:b","x":1.0"#);
    let news = hear(&mut client, "notifications/resources/updated").await;
    assert!(news.contains(r#""io.modelcontextprotocol/subscriptionId":"l""#), "{news}");
    assert!(news.contains(r#""x":1.0"#) && !news.contains("prompts"), "{news}");
    drop(client);
    until("nobody listens", || server.listeners() == 0).await;
    until("the session ends", || {
        harness.upstream.requests().iter().any(|sent| sent.method == "DELETE")
    })
    .await;
}

/// A server of 2025-11-25 may end a stream at will once it has given an event an id.
#[tokio::test]
async fn a_stream_that_the_server_ends_is_taken_up_again() {
    let server = LegacyOnly::default();
    let harness = Harness::start(OPEN, move |request| {
        let is_call = request.rpc_method().as_deref() == Some("tools/call");
        match request.header("last-event-id") {
            Some("call-1") => Reply::events(
                "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n\n",
            ),
            _ if is_call && request.header("mcp-session-id").is_some() => {
                Reply::events("id: call-1\nretry: 1\ndata:\n\n")
            }
            _ => server.reply(request),
        }
    })
    .await;
    let done = last(&ask(&harness, "tools/call", r#""name":"echo""#, "{}").await);
    assert_eq!(at(&done, "result/content"), "[]", "{done:?}");
}

#[tokio::test]
async fn errors_come_as_modern_servers_send_them() {
    let policy = r#"{"version":"1","default":"allow","methods":["vendor/*"]}"#;
    let (harness, _) = before_legacy(policy).await;
    let answer = ask(&harness, "resources/read", r#""uri":"a:none""#, "{}").await;
    assert_eq!((answer.status, at(&json(&answer), "error/code").as_str()), (400, "-32602"));
    let answer = ask(&harness, "vendor/eval", "", "{}").await;
    assert_eq!((answer.status, at(&json(&answer), "error/code").as_str()), (404, "-32601"));
    assert_eq!(at(&json(&answer), "id"), "1");
}

#[tokio::test]
async fn malformed_answers_are_refused() {
    let (harness, _) = before_legacy(OPEN).await;
    for wrong in ["null", "7", "[]", r#"{"a":1}"#] {
        let params = format!(r#""name":"echo","inputResponses":{wrong}"#);
        let answer = ask(&harness, "tools/call", &params, "{}").await;
        assert_eq!(at(&json(&answer), "error/code"), "-32602", "{wrong}: {}", answer.text());
    }
    let params = r#""name":"echo","inputResponses":{"a":{"action":"accept"}}"#;
    let answer = ask(&harness, "tools/call", params, "{}").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[tokio::test]
async fn a_request_without_capabilities_is_refused() {
    let server = LegacyOnly::default();
    let upstream = Upstream::start(move |request: &Recorded| server.reply(request)).await.unwrap();
    let mut configuration = Harness::configuration(&upstream, OPEN);
    configuration.servers[0].bridge = Bridge::Modern;
    let harness = Harness::with(upstream, configuration).await;
    for (method, params, target) in [
        ("server/discover", "", None),
        ("tools/list", "", None),
        ("tools/call", r#""name":"echo""#, Some("echo")),
        ("subscriptions/listen", r#""notifications":{}"#, None),
    ] {
        for wrong in ["", r#","io.modelcontextprotocol/clientCapabilities":7"#] {
            let body = modern_body(method, params, "{}")
                .replace(r#","io.modelcontextprotocol/clientCapabilities":{}"#, wrong);
            let answer = harness.post_with(&mirrors(method, target), body.as_bytes()).await;
            let said = json(&answer);
            assert_eq!((answer.status, at(&said, "error/code").as_str()), (400, "-32602"));
            assert_eq!(at(&said, "id"), "1");
            assert!(at(&said, "error/message").contains("clientCapabilities"), "{said:?}");
        }
    }
    let called = reached(&harness, "tools/call");
    assert!(called.iter().all(|sent| sent.header("mcp-session-id").is_none()), "{called:?}");
}

#[tokio::test]
async fn tasks_are_refused_naming_both_revisions() {
    let (harness, _) = before_legacy(OPEN).await;
    // A task that the grant has begun in the other era.
    let session = harness.session(TOKEN).await;
    let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")];
    let call =
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"task","task":{}}}"#;
    let task = at(&json(&harness.post_with(&headers, call.as_bytes()).await), "result/task/taskId");
    let answer = ask(&harness, "tasks/get", &format!(r#""taskId":{task}"#), "{}").await;
    assert_eq!((answer.status, at(&json(&answer), "error/code").as_str()), (404, "-32601"));
    let said = at(&json(&answer), "error/message");
    assert!(said.contains("2026-07-28") && said.contains("2025-11-25"), "{said}");
    // It was tried as it is, before the server was known not to be modern.
    let tried = reached(&harness, "tasks/get");
    assert!(tried.iter().all(|sent| sent.header("mcp-session-id").is_none()), "{tried:?}");
}

#[tokio::test]
async fn a_client_that_goes_away_has_cancelled() {
    let (harness, _) = before_legacy(OPEN).await;
    let body = modern_body("tools/call", r#""name":"slow""#, "{}");
    let headers = mirrors("tools/call", Some("slow"));
    let mut client = harness.begun("POST", &headers, body.as_bytes()).await;
    client.head().await.unwrap();
    hear(&mut client, "notifications/progress").await;
    drop(client);
    until("it is cancelled", || !reached(&harness, "notifications/cancelled").is_empty()).await;
    let (call, cancel) =
        (reached(&harness, "tools/call").pop(), reached(&harness, "notifications/cancelled").pop());
    let (call, cancel) = (call.unwrap(), cancel.unwrap());
    assert_eq!(at(&read(&cancel.text()), "params/requestId"), call.rpc_id());
    assert_eq!(cancel.header("mcp-session-id"), call.header("mcp-session-id"));
}
