//! Sessions: sealed, and worth nothing to anybody else.

use sluice_gateway::Configuration;
use sluice_store::TokenHash;
use sluice_testkit::{Recorded, Reply, Upstream, mcp_server};

use crate::{
    harness::{Harness, TOKEN, at, grant, json, policy, request, server},
    talk::{OPEN, hear, last_id, until, with_event_ids},
};

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#;
const BOB: &str = "sg_test_token_of_bob";

/// A server with a GET stream; alice may use it under two names, bob under one.
async fn start() -> Harness {
    let upstream = Upstream::start(|request: &Recorded| {
        let session = request.header("mcp-session-id");
        match (request.method.as_str(), session) {
            ("GET", Some("upstream-session")) => {
                Reply::events("id: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"hello\"}}\n\n")
                    .ending(sluice_testkit::End::Never)
            }
            _ => with_event_ids(mcp_server("[]"))(request),
        }
    })
    .await
    .unwrap();
    let configuration = Configuration {
        servers: vec![server("notes", &upstream.url()), server("other", &upstream.url())],
        policies: ["notes", "other"].map(|server| policy(server, "rules", OPEN)).to_vec(),
        grants: vec![
            (TokenHash::of(TOKEN), grant("alice", &["notes", "other"], "rules")),
            (TokenHash::of(BOB), grant("bob", &["notes"], "rules")),
        ],
    };
    Harness::with(upstream, configuration).await
}

type Headers<'h> = &'h [(&'h str, &'h str)];

#[tokio::test]
async fn a_session_is_sealed_and_opened_only_for_its_grant_and_server() {
    let harness = start().await;
    let session = harness.session(TOKEN).await;
    assert!(!session.contains("upstream-session") && session.len() > 40);
    assert_eq!(
        harness.post_with(&[("mcp-session-id", &session)], CALL.as_bytes()).await.status,
        200
    );
    let recorded = harness.upstream.requests();
    let call = recorded.iter().find(|request| request.text() == CALL).unwrap();
    assert_eq!(call.header("mcp-session-id"), Some("upstream-session"));
    let (reached, bobs) = (recorded.len(), format!("Bearer {BOB}"));
    let mut tampered = session.clone().into_bytes();
    tampered[20] = if tampered[20] == b'A' { b'B' } else { b'A' };
    let tampered = String::from_utf8(tampered).unwrap();
    let (cut, _) = session.split_at(session.len() - 1);
    let wrong: [(&str, &str, Headers<'_>); 6] = [
        ("bob's token", "/mcp/notes", &[("authorization", &bobs), ("mcp-session-id", &session)]),
        ("another server", "/mcp/other", &[("mcp-session-id", &session)]),
        ("tampered", "/mcp/notes", &[("mcp-session-id", &tampered)]),
        ("cut", "/mcp/notes", &[("mcp-session-id", cut)]),
        ("the upstream's own", "/mcp/notes", &[("mcp-session-id", "upstream-session")]),
        ("empty", "/mcp/notes", &[("mcp-session-id", "")]),
    ];
    for (what, path, headers) in wrong {
        for (method, body) in [("POST", CALL), ("GET", ""), ("DELETE", "")] {
            let answer = harness
                .raw(&request(method, path, harness.address, headers, body.as_bytes()))
                .await;
            assert_eq!(answer.status, 404, "{what} {method}: {}", answer.text());
            assert_eq!(at(&json(&answer), "error/code"), "-32001", "{what}");
        }
    }
    // The list of tools may have been asked for meanwhile, beside the first call.
    let after = harness.upstream.requests();
    let others = after
        .iter()
        .skip(reached)
        .filter(|request| request.text() == CALL || request.method == "GET");
    assert_eq!(others.count(), 0);
}

#[tokio::test]
async fn two_sessions_of_one_upstream_session_are_two() {
    let harness = start().await;
    assert_ne!(harness.session(TOKEN).await, harness.session(TOKEN).await);
    assert_ne!(harness.session(TOKEN).await, harness.session(BOB).await);
}

/// A server may keep the events of all its sessions in one store, and replay any of them.
#[tokio::test]
async fn an_event_of_another_grant_server_or_session_is_not_asked_for() {
    let harness = start().await;
    let (alice, bob) = (harness.session(TOKEN).await, harness.session(BOB).await);
    let again = harness.session(TOKEN).await;
    let event = harness.event_id(TOKEN, &alice).await;
    assert_ne!(event, "1");
    harness.upstream.take();
    let other = format!("Bearer {BOB}");
    let bob_headers = [("authorization", other.as_str()), ("mcp-session-id", bob.as_str())];
    let mut long = event.clone();
    long.insert(7, 'x');
    for (headers, last) in [
        (&bob_headers[..], event.as_str()),
        (&[("mcp-session-id", again.as_str())], event.as_str()),
        (&[("mcp-session-id", alice.as_str())], "1"),
        (&[("mcp-session-id", alice.as_str())], ""),
        (&[("mcp-session-id", alice.as_str())], long.as_str()),
        (&[("mcp-session-id", alice.as_str())], alice.as_str()),
    ] {
        let headers = [headers, &[("last-event-id", last)]].concat();
        let bytes = request("GET", "/mcp/notes", harness.address, &headers, b"");
        let answer = harness.raw(&bytes).await;
        assert_eq!(answer.status, 400, "{last}");
        assert!(answer.text().contains("was not given out in this session"), "{}", answer.text());
    }
    assert!(harness.upstream.requests().is_empty());
    // Of the stream of the session, too, the ids are the gateway's own.
    let own = [("mcp-session-id", alice.as_str())];
    let mut client = harness.begun("GET", &own, b"").await;
    client.head().await.unwrap();
    let heard = last_id(&hear(&mut client, "hello").await);
    assert_eq!(heard, event);
}

#[tokio::test]
async fn events_are_asked_for_again_only_within_a_session() {
    let harness = start().await;
    let headers = [("last-event-id", "1")];
    let answer = harness.raw(&request("GET", "/mcp/notes", harness.address, &headers, b"")).await;
    assert_eq!(answer.status, 400);
    assert!(harness.upstream.requests().is_empty());
    let session = harness.session(TOKEN).await;
    let last = harness.event_id(TOKEN, &session).await;
    let headers = [("last-event-id", last.as_str()), ("mcp-session-id", session.as_str())];
    let mut client = harness.begun("GET", &headers, b"").await;
    assert!(client.head().await.unwrap().unwrap().starts_with("HTTP/1.1 200"));
    hear(&mut client, "hello").await;
    let recorded = harness.upstream.requests();
    let get = recorded.iter().find(|request| request.method == "GET").unwrap();
    assert_eq!(get.header("last-event-id"), Some("1"));
    assert_eq!(get.header("mcp-session-id"), Some("upstream-session"));
    // A message does not take it along.
    harness.post_with(&headers, CALL.as_bytes()).await;
    let recorded = harness.upstream.requests();
    let call = recorded.iter().find(|request| request.text() == CALL).unwrap();
    assert_eq!(call.header("last-event-id"), None);
}

#[tokio::test]
async fn a_session_ends_by_delete_and_when_the_upstream_says_so() {
    let harness = start().await;
    let session = harness.session(TOKEN).await;
    let headers = [("mcp-session-id", session.as_str())];
    let answer =
        harness.raw(&request("DELETE", "/mcp/notes", harness.address, &headers, b"")).await;
    assert_eq!(answer.status, 200);
    let ended = harness.upstream.requests();
    let ended = ended.iter().find(|request| request.method == "DELETE").unwrap();
    assert_eq!(ended.header("mcp-session-id"), Some("upstream-session"));
    let answer = harness.raw(&request("DELETE", "/mcp/notes", harness.address, &[], b"")).await;
    assert_eq!(answer.status, 400);
    let gone = Harness::start(OPEN, |request: &Recorded| match request.rpc_method().as_deref() {
        Some("initialize") => mcp_server("[]")(request),
        _ => Reply::new(404, "text/plain", "gone"),
    })
    .await;
    let session = gone.session(TOKEN).await;
    for (method, body) in [
        ("POST", CALL),
        ("POST", r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
        ("GET", ""),
        ("DELETE", ""),
    ] {
        let headers = [("mcp-session-id", session.as_str())];
        let answer =
            gone.raw(&request(method, "/mcp/notes", gone.address, &headers, body.as_bytes())).await;
        assert_eq!(answer.status, 404, "{method} {body}");
    }
}

#[tokio::test]
async fn cancellations_without_a_session_cancel_nothing_of_others() {
    let harness = start().await;
    for method in ["notifications/cancelled", "notifications/progress"] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"requestId":1,"progressToken":1}}}}"#
        );
        assert_eq!(harness.post(&body).await.status, 202);
        assert!(harness.upstream.bodies_of(method).is_empty());
        let session = harness.session(TOKEN).await;
        assert_eq!(
            harness.post_with(&[("mcp-session-id", &session)], body.as_bytes()).await.status,
            202
        );
        until("it arrives", || harness.upstream.bodies_of(method) == [body.clone()]).await;
    }
}
