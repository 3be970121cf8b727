//! One address for all servers in the legacy era: sessions, streams, and what
//! servers ask of their client.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use sluice_store::TokenHash;
use sluice_testkit::{End, RawClient, Recorded, Reply, mcp_server};

use crate::{
    harness::{TOKEN, at, json, policy, request, server},
    stack::{BOB, HELLO, Stacked, call, names, stacked, tools},
    talk::{OPEN, hear, last_id, until},
};

const TOOLS: &str = r#"[{"name":"read"},{"name":"drop"}]"#;
const HIDING: &str = r#"{"version":"1","default":"allow","hide":["drop"]}"#;
const CHANGED: &str = "notifications/tools/list_changed";
const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

/// A server with a session of its own, and a stream that says this and stays open.
fn streaming(
    name: &'static str,
    says: &'static str,
) -> Box<dyn Fn(&Recorded) -> Reply + Send + Sync> {
    Box::new(move |request| match (request.method.as_str(), request.rpc_method().as_deref()) {
        ("GET", _) => Reply::events(says).ending(End::Never),
        (_, Some("initialize")) => {
            let result = format!(
                r#"{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}},"logging":{{}},"{name}":{{}}}},"serverInfo":{{"name":"x","version":"1"}},"instructions":"Use {name} well."}}"#
            );
            Reply::result(request, &result).with_header("mcp-session-id", name)
        }
        (_, Some("logging/setLevel")) => Reply::result(request, "{}"),
        _ => mcp_server(TOOLS)(request),
    })
}

async fn listening(stack: &Stacked, headers: &[(&str, &str)]) -> RawClient {
    let mut client = RawClient::connect(stack.harness.address).await.unwrap();
    let bytes = request("GET", "/mcp", stack.harness.address, headers, b"");
    client.send(&bytes).await.unwrap();
    let head = client.head().await.unwrap().unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    client
}

#[tokio::test]
async fn servers_introduce_themselves_together() {
    let stack =
        stacked(vec![("notes", OPEN, streaming("n", "")), ("mail", OPEN, streaming("m", ""))])
            .await;
    let answer = stack.post(HELLO).await;
    let said = json(&answer);
    assert_eq!(at(&said, "result/protocolVersion"), r#""2025-06-18""#);
    assert_eq!(at(&said, "result/serverInfo/name"), r#""sluicegate""#);
    assert_eq!(
        at(&said, "result/capabilities"),
        r#"{"tools":{"listChanged":true},"logging":{},"n":{},"m":{}}"#
    );
    assert_eq!(
        at(&said, "result/instructions"),
        r##""# notes\n\nUse n well.\n\n# mail\n\nUse m well.""##
    );
    let own = answer.header("mcp-session-id").unwrap();
    assert!(own.len() > 30);
    for upstream in &stack.upstreams {
        assert_eq!(upstream.bodies_of("initialize"), [HELLO]);
        assert_eq!(upstream.bodies_of("notifications/initialized").len(), 1);
    }
    // A revision that is not known is a wish.
    let future = HELLO.replace("2025-06-18", "2030-01-01");
    assert_eq!(at(&json(&stack.post(&future).await), "result/protocolVersion"), r#""2025-11-25""#);
    let sent = stack.upstreams[0].bodies_of("initialize").pop().unwrap();
    assert!(sent.contains("2025-11-25"), "{sent}");
    let none = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#;
    assert_eq!(at(&json(&stack.post(none).await), "error/code"), "-32602");
}

#[tokio::test]
async fn sessions_are_bound_to_their_grant_and_end() {
    let stack =
        stacked(vec![("notes", OPEN, streaming("n", "")), ("mail", OPEN, streaming("m", ""))])
            .await;
    let session = stack.session().await;
    let own = [("mcp-session-id", session.as_str())];
    let bobs = format!("Bearer {BOB}");
    let foreign = [own[0], ("authorization", bobs.as_str())];
    assert_eq!(stack.post_with(&foreign, LIST).await.status, 404);
    assert_eq!(stack.harness.post_with(&own, LIST.as_bytes()).await.status, 404);
    let alone = stack.harness.session(TOKEN).await;
    assert_eq!(stack.post_with(&[("mcp-session-id", &alone)], LIST).await.status, 404);
    assert_eq!(stack.post_with(&own, LIST).await.status, 200);
    assert_eq!(stack.post_with(&own, &call("mail__read", "{}")).await.status, 200);
    let address = stack.harness.address;
    let end = |headers: &[(&str, &str)]| request("DELETE", "/mcp", address, headers, b"");
    assert_eq!(stack.harness.raw(&end(&foreign)).await.status, 404);
    assert_eq!(stack.harness.raw(&end(&[])).await.status, 400);
    assert_eq!(stack.harness.raw(&end(&own)).await.status, 200);
    assert_eq!(stack.post_with(&own, LIST).await.status, 404);
    assert_eq!(stack.harness.raw(&end(&own)).await.status, 404);
    for (upstream, own) in stack.upstreams.iter().zip(["n", "m"]) {
        let is_end =
            |one: &Recorded| one.method == "DELETE" && one.header("mcp-session-id") == Some(own);
        until("each server is told", || upstream.requests().iter().any(is_end)).await;
    }
}

#[tokio::test]
async fn a_server_that_was_down_is_met_when_it_is_first_used() {
    let stack =
        stacked(vec![("notes", OPEN, streaming("n", "")), ("mail", OPEN, streaming("m", ""))])
            .await;
    let up = stack.harness.configuration.clone();
    let mut down = up.clone();
    down.servers[1] = server("mail", "http://127.0.0.1:9/mcp");
    stack.harness.gateway.apply(&down).unwrap();
    let answer = stack.post(HELLO).await;
    let said = json(&answer);
    assert_eq!(at(&said, "result/_meta/sluicegate~missing"), r#"["mail"]"#);
    // It may have anything once it is there.
    assert_eq!(at(&said, "result/capabilities/prompts/listChanged"), "true");
    let session = answer.header("mcp-session-id").unwrap().to_owned();
    let own = [("mcp-session-id", session.as_str())];
    let level = r#"{"jsonrpc":"2.0","id":5,"method":"logging/setLevel","params":{"level":"info"}}"#;
    assert_eq!(at(&json(&stack.post_with(&own, level).await), "result"), "{}");
    stack.harness.gateway.apply(&up).unwrap();
    let called = stack.post_with(&own, &call("mail__read", "{}")).await;
    assert_eq!(at(&json(&called), "result/content/0/text"), r#""done""#);
    let methods: Vec<_> =
        stack.upstreams[1].requests().iter().filter_map(Recorded::rpc_method).collect();
    assert!(
        methods.starts_with(
            &["initialize", "notifications/initialized", "logging/setLevel", "tools/call"]
                .map(str::to_owned)
        ),
        "{methods:?}"
    );
    assert_eq!(stack.upstreams[0].bodies_of("logging/setLevel"), [level]);
}

#[tokio::test]
async fn ping_is_answered_here_and_cancellations_reach_every_session() {
    let stack =
        stacked(vec![("notes", OPEN, streaming("n", "")), ("mail", OPEN, streaming("m", ""))])
            .await;
    let session = stack.session().await;
    let own = [("mcp-session-id", session.as_str())];
    let ping = r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#;
    assert_eq!(at(&json(&stack.post_with(&own, ping).await), "result"), "{}");
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#;
    assert_eq!(stack.post_with(&own, cancel).await.status, 202);
    for upstream in &stack.upstreams {
        until("it arrives", || upstream.bodies_of("notifications/cancelled") == [cancel]).await;
        assert!(upstream.bodies_of("ping").is_empty());
    }
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(stack.post_with(&own, ready).await.status, 202);
    assert_eq!(stack.upstreams[0].bodies_of("notifications/initialized").len(), 1);
    let unknown = r#"{"jsonrpc":"2.0","method":"notifications/eval"}"#;
    assert_eq!(stack.post_with(&own, unknown).await.status, 202);
    assert!(stack.upstreams[0].bodies_of("notifications/eval").is_empty());
}

const NEWS: &str = "id: 7\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"from notes\"}}\n\n";
const OTHER: &str = "id: 7\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\nid: 8\ndata: {\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"elicitation/create\",\"params\":{}}\n\n";

#[tokio::test]
async fn all_servers_are_heard_on_one_stream_and_it_is_taken_up_again() {
    let stack =
        stacked(vec![("notes", OPEN, streaming("n", NEWS)), ("mail", OPEN, streaming("m", OTHER))])
            .await;
    let session = stack.session().await;
    let own = [("mcp-session-id", session.as_str())];
    let mut client = listening(&stack, &own).await;
    let mut heard = String::new();
    for text in ["from notes", CHANGED, "elicitation/create"] {
        if !heard.contains(text) {
            heard += &hear(&mut client, text).await;
        }
    }
    drop(client);
    let last = last_id(&heard);
    assert!(last.len() > 8, "{heard}");
    let _again = listening(&stack, &[own[0], ("last-event-id", &last)]).await;
    for (upstream, id) in stack.upstreams.iter().zip(["7", "8"]) {
        let is_it = |one: &Recorded| one.method == "GET" && one.header("last-event-id") == Some(id);
        until("each is asked for what is its own", || upstream.requests().iter().any(is_it)).await;
    }
    // An id that the gateway did not give out in this session is not passed to any server.
    // The last one is `answer`, `notes` and 7, encoded.
    let other = stack.session().await;
    for (session, last) in [
        (&session, "7"),
        (&session, session.as_str()),
        (&other, last.as_str()),
        (&session, "YW5zd2VyAG5vdGVzADc"),
    ] {
        let foreign = [("mcp-session-id", session.as_str()), ("last-event-id", last)];
        let bytes = request("GET", "/mcp", stack.harness.address, &foreign, b"");
        assert_eq!(stack.harness.raw(&bytes).await.status, 400, "{last}");
    }
    let bytes = request("GET", "/mcp", stack.harness.address, &[], b"");
    assert_eq!(stack.harness.raw(&bytes).await.status, 400);
}

#[tokio::test]
async fn another_policy_or_other_servers_are_told_and_revocation_ends_the_stream() {
    let stack =
        stacked(vec![("notes", OPEN, streaming("n", NEWS)), ("mail", OPEN, tools(TOOLS))]).await;
    let session = stack.session().await;
    let own = [("mcp-session-id", session.as_str())];
    stack.post_with(&own, LIST).await;
    for upstream in 0..2 {
        // A list was learnt, so that it is known who sees what.
        until("lists are known", || !stack.upstreams[upstream].bodies_of("tools/list").is_empty())
            .await;
    }
    let mut client = listening(&stack, &own).await;
    hear(&mut client, "from notes").await;
    for place in [0, 1] {
        let mut configuration = stack.harness.configuration.clone();
        let name = configuration.servers[place].name.as_str().to_owned();
        configuration.policies[place] = policy(&name, "rules", HIDING);
        stack.harness.gateway.apply(&configuration).unwrap();
        hear(&mut client, CHANGED).await;
    }
    let mut fewer = stack.harness.configuration.clone();
    fewer.grants[0].1.servers.remove(1);
    stack.harness.gateway.apply(&fewer).unwrap();
    hear(&mut client, CHANGED).await;
    while client.chunk().await.unwrap().is_some_and(|chunk| !chunk.is_empty()) {}
    let mut client = listening(&stack, &own).await;
    hear(&mut client, "from notes").await;
    stack.harness.gateway.set_grant(&TokenHash::of(TOKEN), None);
    while client.chunk().await.unwrap().is_some_and(|chunk| !chunk.is_empty()) {}
}

/// Asks its client something and reports progress before it answers a call.
fn asking(request: &Recorded) -> Reply {
    let Some("tools/call") = request.rpc_method().as_deref() else {
        return streaming("n", "")(request);
    };
    let id = request.rpc_id();
    Reply::events(format!(
        "id: e1\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":3,\"progress\":1}}}}\n\nid: e2\ndata: {{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"elicitation/create\",\"params\":{{}}}}\n\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[]}}}}\n\n"
    ))
}

#[tokio::test]
async fn progress_and_questions_of_a_server_come_through_and_answers_go_back() {
    let stack = stacked(vec![
        ("notes", OPEN, Box::new(asking)),
        ("mail", OPEN, Box::new(asking)),
        ("strict", r#"{"version":"1","default":"allow","server_requests":[]}"#, Box::new(asking)),
    ])
    .await;
    let session = stack.session().await;
    let own = [("mcp-session-id", session.as_str())];
    let answer = stack.post_with(&own, &call("mail__read", "{}")).await.text();
    assert!(answer.contains(r#""progressToken":3"#), "{answer}");
    let question = answer.split("\n\n").find(|one| one.contains("elicitation/create")).unwrap();
    let id = question.split(r#""id":""#).nth(1).unwrap().split('"').next().unwrap();
    let reply = format!(r#"{{"jsonrpc":"2.0","id":"{id}","result":{{"action":"accept"}}}}"#);
    let other = stack.session().await;
    assert_eq!(stack.post_with(&[("mcp-session-id", &other)], &reply).await.status, 202);
    assert_eq!(stack.post(&reply).await.status, 202);
    assert!(stack.upstreams.iter().all(|upstream| {
        upstream.requests().iter().all(|request| !request.text().contains("accept"))
    }));
    assert_eq!(stack.post_with(&own, &reply).await.status, 202);
    let expected = r#"{"jsonrpc":"2.0","id":0,"result":{"action":"accept"}}"#;
    until("the server is answered", || {
        stack.upstreams[1].requests().iter().any(|one| one.text() == expected)
    })
    .await;
    assert!(stack.upstreams[0].requests().iter().all(|one| !one.text().contains("accept")));
    // The rest of an answer can be asked for, of its server alone.
    let last = last_id(&answer);
    let headers = [own[0], ("last-event-id", last.as_str())];
    let _rest = listening(&stack, &headers).await;
    let is_it = |one: &Recorded| one.method == "GET" && one.header("last-event-id") == Some("e2");
    until("it is asked for", || stack.upstreams[1].requests().iter().any(is_it)).await;
    assert!(stack.upstreams[0].requests().iter().all(|one| one.method != "GET"));
    let answer = stack.post_with(&own, &call("strict__read", "{}")).await.text();
    assert!(!answer.contains("elicitation/create"), "{answer}");
}

/// A server that forgets its first session when it is told to.
fn forgetful(is_lost: &Arc<AtomicBool>) -> Box<dyn Fn(&Recorded) -> Reply + Send + Sync> {
    let is_lost = Arc::clone(is_lost);
    Box::new(move |request| {
        let is_lost = is_lost.load(Ordering::Relaxed);
        match request.rpc_method().as_deref() {
            Some("initialize") if is_lost => streaming("second", "")(request),
            Some("resources/subscribe") => Reply::result(request, "{}"),
            _ if is_lost && request.header("mcp-session-id") == Some("first") => Reply::empty(404),
            _ => streaming("first", "")(request),
        }
    })
}

#[tokio::test]
async fn a_session_that_a_server_has_lost_is_begun_again() {
    let is_lost = Arc::new(AtomicBool::new(false));
    let stack =
        stacked(vec![("notes", OPEN, forgetful(&is_lost)), ("mail", OPEN, streaming("m", ""))])
            .await;
    let session = stack.session().await;
    let own = [("mcp-session-id", session.as_str())];
    is_lost.store(true, Ordering::Relaxed);
    let answer = stack.post_with(&own, LIST).await;
    assert_eq!(
        names(&answer, "tools", "name"),
        ["notes__read", "notes__drop", "mail__read", "mail__drop"]
    );
    let called = stack.post_with(&own, &call("notes__read", "{}")).await;
    assert_eq!(at(&json(&called), "result/content/0/text"), r#""done""#);
    assert_eq!(stack.upstreams[1].bodies_of("initialize").len(), 1);
}

#[tokio::test]
async fn the_loss_of_a_session_with_state_is_reported_once() {
    let is_lost = Arc::new(AtomicBool::new(false));
    let stack =
        stacked(vec![("notes", OPEN, forgetful(&is_lost)), ("mail", OPEN, streaming("m", ""))])
            .await;
    let session = stack.session().await;
    let own = [("mcp-session-id", session.as_str())];
    let level = r#"{"jsonrpc":"2.0","id":5,"method":"logging/setLevel","params":{"level":"info"}}"#;
    stack.post_with(&own, level).await;
    is_lost.store(true, Ordering::Relaxed);
    // A level was set in it, so it cannot be begun again unnoticed.
    assert_eq!(stack.post_with(&own, &call("notes__read", "{}")).await.status, 404);
    assert_eq!(stack.post_with(&own, &call("mail__read", "{}")).await.status, 200);
    assert_eq!(stack.post_with(&own, &call("notes__read", "{}")).await.status, 200);
    assert_eq!(stack.upstreams[0].bodies_of("logging/setLevel"), [level, level]);
}

#[tokio::test]
async fn a_grant_with_too_many_sessions_loses_its_oldest_everywhere() {
    let stack = stacked(vec![("notes", OPEN, streaming("n", ""))]).await;
    let first = stack.session().await;
    let bobs = format!("Bearer {BOB}");
    let answer = stack.post_with(&[("authorization", &bobs)], HELLO).await;
    let other = answer.header("mcp-session-id").unwrap().to_owned();
    assert_eq!(stack.post_with(&[("mcp-session-id", &first)], LIST).await.status, 200);
    for _ in 0..1000 {
        stack.session().await;
    }
    assert_eq!(stack.post_with(&[("mcp-session-id", &first)], LIST).await.status, 404);
    let of_bob = [("mcp-session-id", other.as_str()), ("authorization", bobs.as_str())];
    assert_eq!(stack.post_with(&of_bob, LIST).await.status, 200);
    let ended =
        || stack.upstreams[0].requests().iter().filter(|one| one.method == "DELETE").count();
    until("the server is told", || ended() == 1).await;
}
