//! Servers that are hostile, broken or slow: no hang, nothing raw, no harm to others.

use std::time::Duration;

use bytes::Bytes;
use sluice_gateway::Configuration;
use sluice_store::TokenHash;
use sluice_testkit::{Answer, End, Recorded, Reply, Upstream, mcp_server};
use tokio::{io::AsyncWriteExt as _, net::TcpListener};

use crate::{
    harness::{Harness, TOKEN, at, grant, json, policy, request, server},
    talk::{OPEN, REVISION, modern_server},
};

pub(crate) const CALL: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#;

/// A gateway whose patience with `notes` is short and whose answers are small,
/// beside a server that is well.
pub(crate) async fn start(
    responder: impl Fn(&Recorded) -> Reply + Send + Sync + 'static,
) -> Harness {
    let upstream =
        Upstream::start(move |request: &Recorded| match request.rpc_method().as_deref() {
            Some("tools/call" | "tools/list") => responder(request),
            _ => mcp_server("[]")(request),
        })
        .await
        .unwrap();
    let healthy = Upstream::start(mcp_server("[]")).await.unwrap();
    at_urls(upstream.clone(), &upstream.url(), &healthy.url()).await
}

async fn at_urls(upstream: Upstream, url: &str, healthy: &str) -> Harness {
    let mut notes = server("notes", url);
    notes.timeout = Duration::from_millis(400);
    let configuration = Configuration {
        servers: vec![notes, server("healthy", healthy)],
        policies: ["notes", "healthy"].map(|server| policy(server, "rules", OPEN)).to_vec(),
        grants: vec![(TokenHash::of(TOKEN), grant("alice", &["notes", "healthy"], "rules"))],
    };
    Harness::tuned(upstream, configuration, |settings| settings.answer = 1 << 20).await
}

/// The other server answers as ever.
async fn others_are_well(harness: &Harness) {
    let answer =
        harness.raw(&request("POST", "/mcp/healthy", harness.address, &[], CALL.as_bytes())).await;
    assert_eq!(at(&json(&answer), "result/content/0/text"), "\"done\"");
}

pub(crate) fn is_refused(answer: &Answer, status: u16, what: &str) {
    assert_eq!(answer.status, status, "{what}: {}", answer.text());
    assert!(answer.is_whole, "{what}");
    let document = json(answer);
    assert_eq!(at(&document, "error/code"), "-32603", "{what}");
    assert_eq!(at(&document, "error/data/side"), "\"upstream\"", "{what}");
    assert_eq!(at(&document, "id"), "1", "{what}");
    assert!(!answer.text().contains("raw"), "{what}: {}", answer.text());
}

#[tokio::test]
async fn small_bad_answers_become_502() {
    let json_bodies = [
        "",
        "{",
        "raw",
        "null",
        "[]",
        "1",
        "\"raw\"",
        "{}",
        "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
        r#"{"jsonrpc":"2.0","id":2,"result":{"raw":1}}"#,
        r#"{"jsonrpc":"2.0","id":"1","result":{"raw":1}}"#,
        r#"{"jsonrpc":"2.0","id":1.0,"result":{"raw":1}}"#,
        r#"{"jsonrpc":"2.0","id":null,"result":{"raw":1}}"#,
        r#"{"jsonrpc":"2.0","result":{"raw":1}}"#,
        r#"{"jsonrpc":"1.0","id":1,"result":{"raw":1}}"#,
        r#"{"id":1,"result":{"raw":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"raw":1},"error":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"raw":1},"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":1,"result":{"raw":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"raw":1},"Result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"isError":false,"isError":true,"raw":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"isError":false,"IsError":true,"raw":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"raw","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"raw"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"raw":1}}{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"[{"jsonrpc":"2.0","id":1,"result":{"raw":1}}]"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"raw":01}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"raw":1,}}"#,
    ];
    for body in json_bodies {
        let harness = start(move |_| Reply::json(body)).await;
        is_refused(&harness.post(CALL).await, 502, body);
    }
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"raw":{}{}}}}}"#,
        "[".repeat(100),
        "]".repeat(100)
    );
    let harness = start(move |_| Reply::json(deep.clone())).await;
    is_refused(&harness.post(CALL).await, 502, "deep");
    let harness = start(|_| {
        Reply::json(&b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"raw\":\"\xff\"}}"[..])
    })
    .await;
    is_refused(&harness.post(CALL).await, 502, "not UTF-8");
    others_are_well(&harness).await;
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    // Takes connections, reads nothing, says nothing.
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            kept.push(stream);
        }
    });
    let healthy = Upstream::start(mcp_server("[]")).await.unwrap();
    let harness = at_urls(healthy.clone(), &url, &healthy.url()).await;
    is_refused(&harness.post(CALL).await, 504, "silence");
    is_refused(
        &harness.modern("tools/call", Some("read"), r#""name":"read""#).await,
        504,
        "modern silence",
    );
    others_are_well(&harness).await;
}

fn never() -> Reply {
    Reply::json("{").ending(End::Never)
}

#[tokio::test]
async fn a_server_that_begins_and_does_not_end_is_given_up() {
    let dripping = || {
        let drip = (Duration::from_millis(50), Bytes::from_static(b" "));
        Reply { pieces: vec![drip; 200], ..Reply::json("") }
    };
    let drops = || {
        let drip = (Duration::from_millis(50), Bytes::from_static(b":\n\n"));
        Reply { pieces: vec![drip; 200], ..Reply::events("") }
    };
    let harness = start(|_| never()).await;
    is_refused(&harness.post(CALL).await, 504, "half an answer");
    is_refused(
        &harness.post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await,
        504,
        "half a list",
    );
    let harness = start(move |_| dripping()).await;
    is_refused(&harness.post(CALL).await, 504, "drips");
    let harness = start(|_| Reply::events("").ending(End::Never)).await;
    is_refused(&harness.post(CALL).await, 504, "no event");
    let harness = start(|_| Reply::events("data: {\"jsonrpc\"").ending(End::Never)).await;
    is_refused(&harness.post(CALL).await, 504, "half an event");
    // Events that are not messages do not keep a request open.
    let harness = start(|_| {
        let noise = (Duration::from_millis(50), Bytes::from_static(b"data: {}\n\n"));
        Reply { pieces: vec![noise; 200], ..Reply::events("") }
    })
    .await;
    is_refused(&harness.post(CALL).await, 504, "events that are not messages");
    // Comments keep a stream open, but not for ever.
    let harness = start(move |_| drops()).await;
    let answer = harness.post(CALL).await;
    assert!(!answer.is_whole && !answer.text().contains("data"), "{}", answer.text());
    others_are_well(&harness).await;
}

#[tokio::test]
async fn endless_streams_are_cut() {
    // As fast as it is read: comments, and one event without end.
    for line in [":\n\n", "data: x\n"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n").await;
                    let lines = line.repeat(1000);
                    while stream.write_all(lines.as_bytes()).await.is_ok() {}
                });
            }
        });
        let healthy = Upstream::start(mcp_server("[]")).await.unwrap();
        let harness = at_urls(healthy.clone(), &url, &healthy.url()).await;
        let answer = harness.post(CALL).await;
        assert!(!answer.is_whole || answer.status >= 500, "{} {line:?}", answer.status);
        others_are_well(&harness).await;
    }
}

#[tokio::test]
async fn answers_that_are_too_long_are_refused_or_cut() {
    let long = |length: usize| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":"{}"}}]}}}}"#,
            "x".repeat(length)
        )
    };
    let fits = long(900 << 10);
    let expected = fits.clone();
    let harness = start(move |_| Reply::json(fits.clone())).await;
    let answer = harness.post(CALL).await;
    assert!(answer.is_whole && answer.text() == expected);
    let too_long = long(2 << 20);
    let harness = start(move |_| Reply::json(too_long.clone())).await;
    let answer = harness.post(CALL).await;
    assert!(!answer.is_whole && answer.status == 200);
    let list = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[],"x":"{}"}}}}"#,
        "x".repeat(2 << 20)
    );
    let harness = start(move |_| Reply::json(list.clone())).await;
    is_refused(
        &harness.post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await,
        502,
        "long list",
    );
    let event = format!("data: {}\n\n", long(2 << 20));
    let harness = start(move |_| Reply::events(event.clone())).await;
    is_refused(&harness.post(CALL).await, 502, "long event");
}

/// Once bytes have left, a fault shows only in the connection.
#[tokio::test]
async fn faults_that_are_found_late_cut_the_connection() {
    let begin = |length: usize| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":"{}"}}]"#,
            "x".repeat(length)
        )
    };
    for end in [
        "",
        "}",
        "}}x",
        "}}{}",
        r#"},"result":{}}"#,
        r#"},"id":1}"#,
        r#","isError":true,"isError":false}}"#,
        "\u{1}}}",
        r#","requestState":"raw-state"}}"#,
        r#","task":{"taskId":"raw-task"}}}"#,
    ] {
        let pieces = vec![
            (Duration::ZERO, Bytes::from(begin(200 << 10))),
            (Duration::from_millis(20), Bytes::from(end)),
        ];
        let harness = start(move |_| Reply { pieces: pieces.clone(), ..Reply::json("") }).await;
        let answer = harness.post(CALL).await;
        assert!(answer.status == 200 && !answer.is_whole, "{end}: {}", answer.status);
        assert!(!answer.text().contains("raw"));
        let records = harness.records().await;
        assert_eq!(at(records.last().unwrap(), "outcome"), "\"error\"", "{end}");
    }
    let pieces = vec![(Duration::ZERO, Bytes::from(begin(200 << 10)))];
    let harness =
        start(move |_| Reply { pieces: pieces.clone(), end: End::Broken, ..Reply::json("") }).await;
    let answer = harness.post(CALL).await;
    assert!(answer.status == 200 && !answer.is_whole);
    others_are_well(&harness).await;
}

#[tokio::test]
async fn connections_that_break_become_502() {
    for reply in [
        Reply::json("{\"jsonrpc\":").ending(End::Broken),
        Reply::events("data: {").ending(End::Broken),
        Reply::events("data: {\"jsonrpc\":\"2.0\"\n").ending(End::Well),
        Reply::events("").ending(End::Well),
        Reply::events(": x").ending(End::Well),
    ] {
        let harness = start(move |_| reply.clone()).await;
        is_refused(&harness.post(CALL).await, 502, "broken");
    }
    // One that closes as soon as it is spoken to.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let healthy = Upstream::start(mcp_server("[]")).await.unwrap();
    let harness = at_urls(healthy.clone(), &url, &healthy.url()).await;
    is_refused(&harness.post(CALL).await, 502, "closed");
    others_are_well(&harness).await;
}

/// Events that only a reader sees who knows all three line ends.
#[tokio::test]
async fn every_event_is_seen_whatever_ends_its_lines() {
    let good = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;
    let hidden = r#"{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{"raw":1}}"#;
    let other = r#"{"jsonrpc":"2.0","id":9,"result":{"raw":1}}"#;
    let policy = r#"{"version":"1","default":"deny","tools":{"read":{}}}"#;
    for stream in [
        format!("data: {hidden}\r\rdata: {good}\r\r"),
        format!(": c\rdata: {hidden}\r\n\rdata: {good}\n\n"),
        format!(": c\r\rdata: {hidden}\r\r: c\n\ndata: {good}\n\n"),
        format!("data: {hidden}\n\r\ndata: {good}\r\n\r\n"),
        format!("event: message\rdata: {hidden}\r\rid: 1\r\ndata: {good}\r\n\r\n"),
        format!("\u{feff}data: {hidden}\n\ndata: {good}\n\n"),
    ] {
        let harness = Harness::start(policy, move |request: &Recorded| {
            match request.rpc_method().as_deref() {
                Some("tools/call") => Reply::events(stream.clone()),
                _ => mcp_server("[]")(request),
            }
        })
        .await;
        let answer = harness.post(CALL).await;
        assert!(
            answer.text().contains("content") && !answer.text().contains("raw"),
            "{}",
            answer.text()
        );
    }
    for stream in [
        format!("data: {other}\r\rdata: {good}\n\n"),
        format!(": x\rdata: {other}\r\rdata: {good}\n\n"),
        format!("data: {other}\n\n"),
        format!("data: [{good}]\n\n"),
        "data: raw\n\n".to_owned(),
        format!("data: {good}{good}\n\n"),
        "data: {\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{\"raw\":1}}\n\n".to_owned(),
        "data: {\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1,\"message\":\"raw\"}}\n\n"
            .to_owned(),
        "event: raw\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"raw\":1}}\n\n".to_owned(),
    ] {
        let shown = stream.clone();
        let harness = start(move |_| Reply::events(stream.clone())).await;
        let answer = harness.post(CALL).await;
        let is_cut = answer.status == 200 && !answer.is_whole;
        assert!(is_cut || answer.status == 502, "{shown:?}: {} {}", answer.status, answer.text());
        assert!(!answer.text().contains("raw"), "{shown:?}: {}", answer.text());
    }
    let harness = start(|_| Reply::events(&b"data: {\"raw\":\"\xff\"}\n\n"[..])).await;
    is_refused(&harness.post(CALL).await, 502, "not UTF-8");
}

#[tokio::test]
async fn of_two_answers_one_is_passed_on() {
    let good = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;
    let second = r#"{"jsonrpc":"2.0","id":1,"result":{"content":["second"]}}"#;
    let harness =
        start(move |_| Reply::events(format!("data: {good}\n\ndata: {second}\n\n"))).await;
    let answer = harness.post(CALL).await;
    assert!(!answer.text().contains("second"), "{}", answer.text());
    // A second one that comes later finds nobody.
    let pieces = [good, second]
        .map(|text| (Duration::from_millis(30), Bytes::from(format!("data: {text}\n\n"))));
    let harness = start(move |_| Reply { pieces: pieces.to_vec(), ..Reply::events("") }).await;
    let answer = harness.post(CALL).await;
    assert!(
        answer.is_whole && answer.text().contains("content") && !answer.text().contains("second")
    );
}

/// In the modern era a server asks nothing on a stream.
#[tokio::test]
async fn requests_on_a_modern_stream_are_faults() {
    let asks = r#"{"jsonrpc":"2.0","id":7,"method":"roots/list","params":{"raw":1}}"#;
    let harness = Harness::start(OPEN, move |request| match request.rpc_method().as_deref() {
        Some("tools/call") => Reply::events(format!("data: {asks}\n\n")),
        _ => modern_server(r#"[{"name":"read"}]"#)(request),
    })
    .await;
    let answer = harness.modern("tools/call", Some("read"), r#""name":"read""#).await;
    assert_eq!(answer.status, 502, "{REVISION}");
    assert!(!answer.text().contains("raw"));
}

/// What a server writes is never repeated in an error, nor raw on a terminal.
#[tokio::test]
async fn words_of_a_server_are_not_repeated() {
    for body in [
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"raw\\u001b[31m\":1,\"raw\\u001b[31m\":2,\"tools\":[]}}".to_owned(),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"Method\\u0000\":\"raw\",\"result\":{\"tools\":[]}}".to_owned(),
    ] {
        let harness = start(move |_| Reply::json(body.clone())).await;
        let answer = harness.post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await;
        is_refused(&answer, 502, "words");
        assert!(!answer.text().contains("[31m") && !answer.text().contains("Method"));
    }
}
