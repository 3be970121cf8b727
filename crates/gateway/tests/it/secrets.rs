//! A server that echoes its own credential: no log line, record, error or answer has it.

use std::time::Duration;

use bytes::Bytes;
use sluice_gateway::Configuration;
use sluice_store::{Secret, TokenHash, Transport};
use sluice_testkit::{Recorded, Reply, Upstream, mcp_server};

use crate::{
    harness::{Harness, TOKEN, at, grant, json, policy, server},
    talk::OPEN,
};

const KEY: &str = "k3y/of+the\"server";
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#;

/// A gateway that presents a key to the server, which answers calls by `responder`.
async fn start(
    mask_secrets: bool,
    responder: impl Fn(&Recorded) -> Reply + Send + Sync + 'static,
) -> Harness {
    let upstream =
        Upstream::start(move |request: &Recorded| match request.rpc_method().as_deref() {
            Some("tools/call") => responder(request),
            _ => mcp_server("[]")(request),
        });
    let upstream = upstream.await.unwrap();
    let mut notes = server("notes", &format!("{}?key=qu3ry%2Dsecret", upstream.url()));
    if let Transport::Http { headers, .. } = &mut notes.transport {
        headers.push(("authorization".into(), Secret::new(format!("Bearer {KEY}"))));
    }
    notes.mask_secrets = mask_secrets;
    let configuration = Configuration {
        servers: vec![notes],
        policies: vec![policy("notes", "rules", OPEN)],
        grants: vec![(TokenHash::of(TOKEN), grant("alice", &["notes"], "rules"))],
    };
    Harness::with(upstream, configuration).await
}

/// What the server echoes: the credential as it arrived, in several forms.
fn echo(request: &Recorded) -> String {
    let key = request.header("authorization").unwrap().strip_prefix("Bearer ").unwrap();
    let base64 = data_encoding::BASE64.encode(format!("user:{key}").as_bytes());
    let escaped = key.replace('"', "\\\"");
    let percent = "k3y%2Fof%2Bthe%22server";
    format!("{escaped} {} {percent} {base64} qu3ry-secret", escaped.replace('/', "\\/"))
}

fn shows_no_secret(text: &str) {
    for secret in ["k3y", "of+the", "OmszeS9", "M3kvb2", "qu3ry"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
}

async fn nothing_is_recorded_of_it(harness: &Harness) {
    harness.records().await;
    for text in harness.texts().await {
        shows_no_secret(&text);
    }
}

#[tokio::test]
async fn a_credential_that_is_echoed_reaches_no_agent() {
    let bodies: [fn(&Recorded) -> Reply; 5] = [
        |request| Reply::result(request, &format!(r#"{{"content":"{}"}}"#, echo(request))),
        |request| {
            let (id, echo) = (request.rpc_id(), echo(request));
            let error = format!(r#"{{"code":-32000,"message":"{echo}"}}"#);
            Reply::json(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))
        },
        |request| {
            let (id, echo) = (request.rpc_id(), echo(request));
            let error = format!(r#"{{"code":-32000,"message":"{echo}"}}"#);
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
            Reply::new(403, "application/json", body)
        },
        |request| {
            let (id, echo) = (request.rpc_id(), echo(request));
            Reply::events(format!(
                "data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"x\":\"{echo}\"}}}}\n\n"
            ))
        },
        |request| Reply::new(500, "text/plain", echo(request)),
    ];
    for (number, body) in bodies.into_iter().enumerate() {
        let harness = start(true, body).await;
        let answer = harness.post(CALL).await;
        shows_no_secret(&answer.text());
        let marks = answer.text().matches("[secret]").count();
        assert_eq!(marks, if number < 4 { 5 } else { 0 }, "{}", answer.text());
        nothing_is_recorded_of_it(&harness).await;
        let metrics = harness.gateway.metrics();
        let counted = format!("sluice_secrets_masked_total{{server=\"notes\"}} {marks}\n");
        assert!(metrics.contains(&counted), "{metrics}");
        // The key itself arrives as it is configured.
        let sent = harness.upstream.requests();
        let key = format!("Bearer {KEY}");
        assert!(sent.iter().all(|request| request.header("authorization") == Some(&*key)));
    }
}

#[tokio::test]
async fn a_credential_is_found_across_the_chunks_of_a_long_answer() {
    let harness = start(true, |request| {
        let filler = "abcdefghij k3y/of+ ".repeat(20_000);
        let text = format!("{filler}{}{filler}{}", echo(request), echo(request));
        let body =
            Reply::result(request, &format!(r#"{{"content":"{text}"}}"#)).pieces[0].1.clone();
        let mut reply = Reply::json("");
        reply.pieces = body
            .chunks(1009)
            .map(|piece| (Duration::ZERO, Bytes::copy_from_slice(piece)))
            .collect();
        reply
    })
    .await;
    let answer = harness.post(CALL).await;
    assert!(answer.is_whole);
    let text = answer.text();
    assert_eq!(at(&json(&answer), "id"), "1");
    assert_eq!(text.matches("[secret]").count(), 10);
    assert_eq!(text.matches("abcdefghij k3y/of+ ").count(), 40_000);
    assert_eq!(text.matches("server").count(), 0);
}

#[tokio::test]
async fn what_is_masked_by_default_passes_where_the_server_is_excepted() {
    let harness = start(false, |request| {
        Reply::result(request, &format!(r#"{{"content":"{}"}}"#, echo(request)))
    })
    .await;
    assert!(harness.post(CALL).await.text().contains("k3y/of+the"));
}

/// Also of a server whose answers are excepted.
#[tokio::test]
async fn a_credential_in_a_method_or_a_broken_event_is_not_recorded() {
    for mask_secrets in [true, false] {
        let harness = start(mask_secrets, |request| {
            let (id, echo) = (request.rpc_id(), echo(request));
            Reply::events(format!(
                "data: {{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"x/{echo}\"}}\n\n\
                 data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"{echo}\":1,\"{echo}\":1}}\n\n"
            ))
        })
        .await;
        let answer = harness.post(CALL).await;
        shows_no_secret(&answer.text());
        let texts = async || {
            harness.records().await;
            harness.texts().await
        };
        for _ in 0..500 {
            if texts().await.iter().any(|text| text.contains("/server_requests")) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let denied = texts().await.into_iter().find(|text| text.contains("/server_requests"));
        assert!(denied.unwrap().contains("x/[secret]"));
        nothing_is_recorded_of_it(&harness).await;
    }
}

#[tokio::test]
async fn a_credential_in_a_list_of_tools_is_not_shown_to_operators_either() {
    let upstream = Upstream::start(|request: &Recorded| {
        let tool = format!(
            r#"{{"tools":[{{"name":"read","description":"{}","inputSchema":{{}}}}]}}"#,
            echo(request)
        );
        match request.rpc_method().as_deref() {
            Some("tools/list") => Reply::result(request, &tool),
            _ => mcp_server("[]")(request),
        }
    });
    let upstream = upstream.await.unwrap();
    let mut notes = server("notes", &format!("{}?key=qu3ry%2Dsecret", upstream.url()));
    if let Transport::Http { headers, .. } = &mut notes.transport {
        headers.push(("authorization".into(), Secret::new(format!("Bearer {KEY}"))));
    }
    let configuration = Configuration {
        servers: vec![notes.clone()],
        policies: vec![policy("notes", "rules", OPEN)],
        grants: vec![(TokenHash::of(TOKEN), grant("alice", &["notes"], "rules"))],
    };
    let harness = Harness::with(upstream, configuration).await;
    let tools = harness.gateway.tools(&notes.name, true).await.unwrap();
    assert!(tools[0].definition.contains("[secret]"), "{tools:?}");
    shows_no_secret(&tools[0].definition);
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    shows_no_secret(&harness.post(list).await.text());
    shows_no_secret(&harness.gateway.metrics());
}
