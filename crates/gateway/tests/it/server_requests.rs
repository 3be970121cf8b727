//! What a server asks of its client: only what the policy leaves it.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use sluice_gateway::Configuration;
use sluice_store::TokenHash;
use sluice_testkit::{End, Recorded, Reply, Upstream, mcp_server};
use sluice_wire::json::Document;

use crate::{
    harness::{Harness, TOKEN, at, grant, json, policy, server},
    talk::{OPEN, mirrors, modern_body, modern_server, until},
};

const DENYING: &str = r#"{"version":"1","default":"deny","tools":{"read":{}}}"#;
const SAMPLING: &str =
    r#"{"version":"1","default":"deny","tools":{"read":{}},"server_requests":["sampling"]}"#;
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#;
const BOB: &str = "sg_test_token_of_bob";

/// Asks for everything before it answers a call.
fn asking(request: &Recorded) -> Reply {
    let Some("tools/call") = request.rpc_method().as_deref() else {
        return mcp_server("[]")(request);
    };
    let mut events = String::new();
    for (id, method) in [
        ("0", "sampling/createMessage"),
        ("\"e\"", "elicitation/create"),
        ("2", "roots/list"),
        ("3", "ping"),
        ("4", "Sampling/createMessage"),
        ("5", "vendor/eval"),
    ] {
        events.push_str("data: {\"jsonrpc\":\"2.0\",\"id\":");
        events.push_str(id);
        events.push_str(",\"method\":\"");
        events.push_str(method);
        events.push_str("\",\"params\":{}}\n\n");
    }
    events.push_str("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n\n");
    Reply::events(events)
}

/// The requests a client saw, as method and id.
fn seen(text: &str) -> Vec<(String, String)> {
    let events = text.split("\n\n").filter_map(|block| block.strip_prefix("data: "));
    let documents = events.map(|data| {
        sluice_wire::json::Document::parse(data, &sluice_wire::json::Bounds::default()).unwrap()
    });
    documents
        .filter(|document| !at(document, "method").is_empty())
        .map(|document| (at(&document, "method"), at(&document, "id")))
        .collect()
}

#[tokio::test]
async fn a_denied_server_request_is_refused_and_kept_from_the_client() {
    let harness = Harness::start(SAMPLING, asking).await;
    let answer = harness.post(CALL).await;
    assert!(answer.is_whole);
    let methods: Vec<_> = seen(&answer.text()).into_iter().map(|(method, _)| method).collect();
    assert_eq!(methods, ["\"sampling/createMessage\"", "\"ping\""]);
    let refusals = || {
        let mut ids: Vec<_> = harness
            .upstream
            .requests()
            .iter()
            .filter(|request| request.text().contains("-32601"))
            .map(Recorded::rpc_id)
            .collect();
        ids.sort();
        ids
    };
    until("the server is told", || refusals() == ["\"e\"", "2", "4", "5"]).await;
    let records = harness.records().await;
    let denied = records.iter().filter(|record| at(record, "rule") == "\"/server_requests\"");
    assert_eq!(denied.count(), 4);
}

/// The decisions on requests of the server: method, target and outcome.
async fn decisions(harness: &Harness) -> Vec<[String; 3]> {
    let records = harness.records().await;
    let of_server = records.iter().filter(|record| {
        at(record, "kind") == "\"decision\"" && at(record, "method") != "\"tools/call\""
    });
    let plain = |record: &Document, name: &str| at(record, name).replace('"', "");
    of_server
        .map(|record| ["method", "target", "outcome"].map(|name| plain(record, name)))
        .collect()
}

/// The client, when it hears of a request, looks into the database, as an auditor would.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_let_through_is_recorded_before_it_is_passed_on() {
    let harness = Harness::on_disk(SAMPLING, |request: &Recorded| match request.method.as_str() {
        "GET" => Reply::events("data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"sampling/createMessage\",\"params\":{}}\n\n").ending(End::Never),
        _ => asking(request),
    })
    .await;
    let session = harness.session(TOKEN).await;
    let mut client = harness.begun("GET", &[("mcp-session-id", &session)], b"").await;
    client.head().await.unwrap();
    crate::talk::hear(&mut client, "sampling/createMessage").await;
    let connection = rusqlite::Connection::open(harness.folder.join("sluice.db")).unwrap();
    let sql = "SELECT kind, method, outcome FROM audit ORDER BY seq DESC LIMIT 1";
    let newest = connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    let expected = ["decision", "sampling/createMessage", "allow"].map(str::to_owned);
    assert_eq!(newest.map(|(a, b, c)| [a, b, c]), Ok(expected));
    drop(client);

    let answer = harness.post_with(&[("mcp-session-id", &session)], CALL.as_bytes()).await;
    assert!(answer.text().contains("sampling/createMessage"), "{}", answer.text());
    let records = harness.records().await;
    let of_call = |method: &str| {
        let found = records.iter().rfind(|record| at(record, "method") == format!("\"{method}\""));
        at(found.unwrap(), "request")
    };
    assert_eq!(of_call("sampling/createMessage"), of_call("tools/call"));
    assert_ne!(of_call("tools/call"), "");
    // Pings of the server make no record.
    assert!(decisions(&harness).await.iter().all(|[method, ..]| method != "ping"));
    harness.verify().await;
}

/// A request that cannot be recorded does not reach the client.
#[tokio::test]
async fn a_request_that_cannot_be_recorded_is_not_passed_on() {
    let upstream_lock: Arc<OnceLock<PathBuf>> = Arc::default();
    let database = Arc::clone(&upstream_lock);
    let harness = Harness::on_disk(SAMPLING, move |request: &Recorded| {
        if let (Some("tools/call"), Some(path)) = (request.rpc_method().as_deref(), database.get())
        {
            let sql = "ALTER TABLE records RENAME TO gone";
            rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap();
        }
        asking(request)
    })
    .await;
    upstream_lock.set(harness.folder.join("sluice.db")).unwrap();
    let answer = harness.post(CALL).await;
    assert_ne!(answer.status, 200, "{}", answer.text());
    assert!(!answer.text().contains("sampling/createMessage"), "{}", answer.text());
}

#[tokio::test]
async fn where_a_person_is_sent_to_is_recorded_without_its_query() {
    const ELICITING: &str =
        r#"{"version":"1","default":"deny","tools":{"read":{}},"server_requests":["elicitation"]}"#;
    let url = r#"{"mode":"url","url":"https://pay.example.com/form?code=s3same","message":"Pay."}"#;
    for (rules, outcome) in [(ELICITING, "allow"), (SAMPLING, "deny")] {
        let harness = Harness::start(rules, move |request: &Recorded| {
            match request.rpc_method().as_deref() {
                Some("tools/call") => Reply::result(
                    request,
                    &format!(r#"{{"resultType":"input_required","inputRequests":{{"a":{{"method":"elicitation/create","params":{url}}}}},"requestState":"x"}}"#),
                ),
                _ => modern_server(r#"[{"name":"read"}]"#)(request),
            }
        })
        .await;
        let answer = harness.modern_call("read", "{}").await;
        assert_eq!(answer.text().contains("s3same"), outcome == "allow", "{}", answer.text());
        let expected = ["elicitation/create", "https://pay.example.com/form", outcome];
        assert_eq!(decisions(&harness).await, [expected.map(str::to_owned)]);
        let legacy = Harness::start(rules, move |request: &Recorded| {
            match request.rpc_method().as_deref() {
                Some("tools/call") => Reply::events(format!(
                    "data: {{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"elicitation/create\",\"params\":{url}}}\n\n\
                     data: {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"content\":[]}}}}\n\n"
                )),
                _ => mcp_server("[]")(request),
            }
        })
        .await;
        let answer = legacy.post(CALL).await;
        assert_eq!(answer.text().contains("s3same"), outcome == "allow", "{}", answer.text());
        if outcome == "deny" {
            // The server is told after the denial is recorded.
            let is_told = |request: &Recorded| request.text().contains("-32601");
            until("the server is told", || legacy.upstream.requests().iter().any(is_told)).await;
        }
        assert_eq!(decisions(&legacy).await, [expected.map(str::to_owned)]);
    }
}

#[tokio::test]
async fn a_result_that_requests_very_many_inputs_is_refused() {
    for (count, status) in [(64, 200), (65, 502)] {
        let inputs: Vec<_> =
            (0..count).map(|id| format!(r#""{id}":{{"method":"roots/list"}}"#)).collect();
        let inputs = inputs.join(",");
        let harness = Harness::start(OPEN, move |request: &Recorded| match request.rpc_method().as_deref() {
            Some("tools/call") => Reply::result(request, &format!(r#"{{"resultType":"input_required","inputRequests":{{{inputs}}},"requestState":"x"}}"#)),
            _ => modern_server(r#"[{"name":"read"}]"#)(request),
        })
        .await;
        let answer = harness.modern_call("read", "{}").await;
        assert_eq!(answer.status, status, "{}", answer.text());
        let recorded = if status == 200 { count } else { 0 };
        assert_eq!(decisions(&harness).await.len(), recorded);
    }
}

#[tokio::test]
async fn ids_are_sealed_and_answers_find_their_request() {
    let upstream = Upstream::start(asking).await.unwrap();
    let configuration = Configuration {
        servers: vec![server("notes", &upstream.url())],
        policies: vec![policy("notes", "rules", OPEN)],
        grants: vec![
            (TokenHash::of(TOKEN), grant("alice", &["notes"], "rules")),
            (TokenHash::of(BOB), grant("bob", &["notes"], "rules")),
        ],
    };
    let harness = Harness::with(upstream, configuration).await;
    let session = harness.session(TOKEN).await;
    let answer = harness.post_with(&[("mcp-session-id", &session)], CALL.as_bytes()).await;
    let asked = seen(&answer.text());
    assert_eq!(asked.len(), 4, "{}", answer.text());
    let bob = harness.session(BOB).await;
    let other = harness.session(TOKEN).await;
    let bobs = format!("Bearer {BOB}");
    for ((_, id), own) in asked.iter().zip(["0", "\"e\"", "2", "3"]) {
        assert!(id.starts_with('"') && id.len() > 30, "{id}");
        let reply = format!(r#"{{"jsonrpc":"2.0", "id":{id},"result":{{"n":1.0}} }}"#);
        for headers in [
            &[][..],
            &[("mcp-session-id", other.as_str())],
            &[("authorization", bobs.as_str())],
            &[("authorization", bobs.as_str()), ("mcp-session-id", bob.as_str())],
        ] {
            assert_eq!(
                harness.post_with(headers, reply.as_bytes()).await.status,
                202,
                "{headers:?}"
            );
        }
        let has_arrived =
            |text: &str| harness.upstream.requests().iter().any(|request| request.text() == text);
        let expected = format!(r#"{{"jsonrpc":"2.0", "id":{own},"result":{{"n":1.0}} }}"#);
        assert!(!has_arrived(&expected), "answers of others are ignored");
        let right = [("mcp-session-id", session.as_str())];
        assert_eq!(harness.post_with(&right, reply.as_bytes()).await.status, 202);
        until("it arrives", || has_arrived(&expected)).await;
    }
    let reached = harness.upstream.requests().len();
    for id in ["0", "1", "\"e\"", "\"0\"", "null", "\"AAAA\""] {
        for body in [
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":1,"message":"x"}}}}"#),
        ] {
            assert_eq!(
                harness.post_with(&[("mcp-session-id", &session)], body.as_bytes()).await.status,
                if id == "null" { 400 } else { 202 },
                "{body}"
            );
        }
    }
    assert_eq!(harness.upstream.requests().len(), reached);
}

#[tokio::test]
async fn on_a_get_stream_too() {
    let harness = Harness::start(DENYING, |request: &Recorded| match request.method.as_str() {
        "GET" => Reply::events("data: {\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"roots/list\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n").ending(End::Never),
        _ => mcp_server("[]")(request),
    })
    .await;
    let session = harness.session(TOKEN).await;
    let mut client = harness.begun("GET", &[("mcp-session-id", &session)], b"").await;
    client.head().await.unwrap();
    let heard = crate::talk::hear(&mut client, "notifications/message").await;
    assert!(!heard.contains("roots"), "{heard}");
    until("the server is told", || {
        harness
            .upstream
            .requests()
            .iter()
            .any(|request| request.text().contains("-32601") && request.rpc_id() == "0")
    })
    .await;
    let recorded = harness.upstream.requests();
    let told = recorded.iter().find(|request| request.text().contains("-32601")).unwrap();
    assert_eq!(told.header("mcp-session-id"), Some("upstream-session"));
}

#[tokio::test]
async fn capabilities_that_are_denied_are_not_declared() {
    for (policy, expected) in [
        (DENYING, r#"{"experimental":{"x":1.0}}"#),
        (SAMPLING, r#"{"sampling":{"tools":{}},"experimental":{"x":1.0}}"#),
    ] {
        let harness = Harness::start(policy, mcp_server("[]")).await;
        let capabilities = r#"{ "sampling":{"tools":{}}, "elicitation":{}, "roots":{"listChanged":true}, "Elicitation":{}, "roots\u0000":{}, "experimental":{"x":1.0} }"#;
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{capabilities}}}}}"#
        );
        harness.post(&body).await;
        let sent = harness.upstream.bodies_of("initialize");
        assert!(sent[0].contains(&format!(r#""capabilities":{expected}}}"#)), "{sent:?}");
        let harness = Harness::start(policy, modern_server(r#"[{"name":"read"}]"#)).await;
        let body = modern_body("tools/call", r#""name":"read""#, capabilities);
        let answer = harness.post_with(&mirrors("tools/call", Some("read")), body.as_bytes()).await;
        assert_eq!(answer.status, 200);
        assert!(
            harness.calls()[0].contains(&format!(r#"/clientCapabilities":{expected}}}"#)),
            "{:?}",
            harness.calls()
        );
    }
}

/// A server that wants something before it finishes a call.
fn wanting(request: &Recorded) -> Reply {
    let Some("tools/call") = request.rpc_method().as_deref() else {
        return modern_server(r#"[{"name":"read"},{"name":"write"}]"#)(request);
    };
    if request.text().contains("inputResponses") {
        return Reply::result(request, r#"{"resultType":"complete","content":[]}"#);
    }
    Reply::result(
        request,
        r#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{}}},"requestState":"st\"ate"}"#,
    )
}

#[tokio::test]
async fn input_that_is_denied_becomes_an_error() {
    let harness = Harness::start(SAMPLING, wanting).await;
    let answer = harness.modern_call("read", "{}").await;
    assert_eq!(answer.status, 200);
    assert_eq!(at(&json(&answer), "error/code"), "-31010");
    assert_eq!(at(&json(&answer), "error/data/rule"), "\"/server_requests\"");
    assert!(!answer.text().contains("elicitation/create\",\"params"));
}

#[tokio::test]
async fn input_that_is_denied_becomes_an_error_on_a_stream() {
    let harness = Harness::start(SAMPLING, |request: &Recorded| {
        let reply = wanting(request);
        let Some("tools/call") = request.rpc_method().as_deref() else { return reply };
        let body = String::from_utf8_lossy(&reply.pieces[0].1).into_owned();
        Reply::events(format!("data: {body}\n\n"))
    })
    .await;
    let answer = harness.modern_call("read", "{}").await;
    assert!(answer.text().contains("-31010") && answer.is_whole, "{}", answer.text());
    assert!(!answer.text().contains("inputRequests"));
}

#[tokio::test]
async fn state_comes_back_only_to_where_it_was_given_out() {
    let upstream = Upstream::start(wanting).await.unwrap();
    let configuration = Configuration {
        servers: vec![server("notes", &upstream.url()), server("other", &upstream.url())],
        policies: ["notes", "other"].map(|server| policy(server, "rules", OPEN)).to_vec(),
        grants: vec![
            (TokenHash::of(TOKEN), grant("alice", &["notes", "other"], "rules")),
            (TokenHash::of(BOB), grant("bob", &["notes"], "rules")),
        ],
    };
    let harness = Harness::with(upstream, configuration).await;
    let answer = json(&harness.modern_call("read", "{}").await);
    assert_eq!(at(&answer, "result/resultType"), "\"input_required\"");
    let state = at(&answer, "result/requestState");
    assert!(state.len() > 40 && !state.contains("st\\\"ate"));
    let retry = |tool: &str, state: &str| {
        modern_body(
            "tools/call",
            &format!(r#""name":"{tool}","requestState":{state},"inputResponses":{{"a":{{}}}}"#),
            "{}",
        )
    };
    let before = harness.calls().len();
    let bob = format!("Bearer {BOB}");
    let send = async |path: &str, tool: &str, state: &str, token: Option<&str>| {
        let mut headers = mirrors("tools/call", Some(tool));
        headers.extend(token.map(|token| ("authorization", token)));
        let body = retry(tool, state);
        harness
            .raw(&crate::harness::request("POST", path, harness.address, &headers, body.as_bytes()))
            .await
    };
    for (path, tool, state, token) in [
        ("/mcp/notes", "write", state.as_str(), None),
        ("/mcp/other", "read", &state, None),
        ("/mcp/notes", "read", &state, Some(bob.as_str())),
        ("/mcp/notes", "read", r#""st\"ate""#, None),
        ("/mcp/notes", "read", "\"\"", None),
        ("/mcp/notes", "read", "null", None),
        ("/mcp/notes", "read", r#"["x"]"#, None),
    ] {
        let answer = send(path, tool, state, token).await;
        assert_eq!(
            at(&json(&answer), "error/code"),
            "-32602",
            "{path} {tool} {state}: {}",
            answer.text()
        );
    }
    assert_eq!(harness.calls().len(), before);
    let answer = send("/mcp/notes", "read", &state, None).await;
    assert_eq!(at(&json(&answer), "result/resultType"), "\"complete\"");
    assert!(harness.calls().last().unwrap().contains(r#""requestState":"st\"ate""#));
}

/// However long the rest of it is.
#[tokio::test]
async fn long_answers_are_sealed_too() {
    let harness = Harness::start(OPEN, |request: &Recorded| {
        let Some("tools/call") = request.rpc_method().as_deref() else { return modern_server(r#"[{"name":"read"}]"#)(request) };
        let filler = "x".repeat(100 << 10);
        Reply::result(request, &format!(r#"{{"resultType":"input_required","requestState":"raw-state","inputRequests":{{"a":{{"method":"elicitation/create","params":{{"message":"{filler}"}}}}}}}}"#))
    })
    .await;
    let answer = harness.modern_call("read", "{}").await;
    assert!(!answer.text().contains("raw-state"));
    assert!(answer.is_whole);
    assert!(at(&json(&answer), "result/requestState").len() > 40);
}

/// One answer with thousands of them makes neither as many tasks nor as many connections.
#[tokio::test]
async fn a_flood_of_forbidden_requests_is_turned_away_in_order_and_then_cut() {
    let events: Vec<_> = (0..5000)
        .map(|id| {
            format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"roots/list\"}}\n\n")
        })
        .collect();
    let events = events.concat();
    let harness =
        Harness::start(DENYING, move |request: &Recorded| match request.rpc_method().as_deref() {
            Some("tools/call") => Reply::events(events.clone()),
            _ => mcp_server("[]")(request),
        })
        .await;
    let answer = harness.post(CALL).await;
    assert_eq!(answer.status, 502, "{}", answer.text());
    let why = "the server sent more than 64 requests in 60 s that the policy forbids";
    assert!(answer.text().contains(why), "{}", answer.text());
    let refusals = || -> Vec<String> {
        let all = harness.upstream.requests();
        let refusals = all.iter().filter(|request| request.text().contains("-32601"));
        refusals.map(Recorded::rpc_id).collect()
    };
    until("all that were heard are refused", || refusals().len() >= 64).await;
    let expected: Vec<_> = (0..64).map(|id| id.to_string()).collect();
    assert_eq!(refusals(), expected);
    let records = harness.records().await;
    let denied = records.iter().filter(|record| at(record, "rule") == "\"/server_requests\"");
    assert_eq!(denied.count(), 64);
    let outcome = records.iter().find(|record| at(record, "kind") == "\"outcome\"").unwrap();
    assert!(at(outcome, "message").contains(why), "{outcome:?}");
    assert_eq!(harness.post(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#).await.status, 200);
}
