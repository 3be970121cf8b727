//! HTTP framing: the gateway's own, whatever a client tries with it.

use sluice_testkit::{RawClient, mcp_server};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    harness::{Harness, TOKEN, at, json, request},
    talk::{OPEN, until},
};

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#;

async fn start() -> Harness {
    Harness::start(OPEN, mcp_server("[]")).await
}

fn head(harness: &Harness, lines: &str) -> String {
    format!(
        "POST /mcp/notes HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\n{lines}\r\n",
        harness.address
    )
}

/// Sends bytes and gives the statuses of all answers until the connection ends
/// or is quiet after so many.
async fn statuses(harness: &Harness, bytes: &[u8], most: usize) -> Vec<u16> {
    let mut client = RawClient::connect(harness.address).await.unwrap();
    client.send(bytes).await.unwrap();
    let mut found = Vec::new();
    while found.len() < most {
        match client.answer().await.unwrap() {
            Some(answer) => found.push(answer.status),
            None => break,
        }
    }
    found
}

#[tokio::test]
async fn heads_that_can_be_read_in_two_ways_are_refused() {
    let harness = start().await;
    let length = CALL.len();
    let wrong = [
        format!("content-length: {length}\r\ncontent-length: {}\r\n", length + 1),
        format!("content-length: {length}, {}\r\n", length + 1),
        format!("content-length: +{length}\r\n"),
        format!("content-length: 0x{length:x}\r\n"),
        format!("content-length: {length}\r\nbad header: x\r\n"),
        format!("content-length: {length}\r\nx\0y: z\r\n"),
        format!("content-length: {length}\r\nx: y\0z\r\n"),
        format!("content-length : {length}\r\n"),
        format!("content-length: {length}\r\nx: a\r\n folded\r\n"),
        format!("content-length: {length}\r\n : empty\r\n"),
        "transfer-encoding: chunked, identity\r\n".into(),
        "transfer-encoding: gzip\r\n".into(),
    ];
    for lines in wrong {
        let bytes = format!("{}{CALL}", head(&harness, &lines));
        let found = statuses(&harness, bytes.as_bytes(), 1).await;
        assert!(found.is_empty() || found == [400], "{lines:?}: {found:?}");
    }
    assert!(harness.upstream.requests().is_empty());
}

/// Whatever the first reader of both lengths made of them, what reaches the
/// upstream is one whole message that was judged, and nothing hides behind it.
#[tokio::test]
async fn nothing_is_smuggled_by_two_lengths() {
    let policy = r#"{"version":"1","default":"deny","tools":{"read":{}}}"#;
    let harness = Harness::start(policy, mcp_server("[]")).await;
    let hidden = format!(
        "{}{}",
        head(&harness, "content-length: 71\r\n").replace("Bearer", "Nobody"),
        CALL.replace("read", "drop")
    );
    let chunked = format!("{:x}\r\n{CALL}\r\n0\r\n\r\n", CALL.len());
    for lines in [
        format!(
            "content-length: {}\r\ntransfer-encoding: chunked\r\n",
            chunked.len() + hidden.len()
        ),
        format!(
            "transfer-encoding: chunked\r\ncontent-length: {}\r\n",
            chunked.len() + hidden.len()
        ),
        "content-length: 3\r\ntransfer-encoding: chunked\r\n".into(),
    ] {
        let bytes = format!("{}{chunked}{hidden}", head(&harness, &lines));
        let found = statuses(&harness, bytes.as_bytes(), 2).await;
        assert!(found.first().is_none_or(|status| [200, 400].contains(status)), "{found:?}");
        assert!(found.get(1).is_none_or(|status| [400, 401].contains(status)), "{found:?}");
    }
    assert!(harness.calls().iter().all(|body| body == CALL));
}

#[tokio::test]
async fn chunks_extensions_and_trailers_carry_nothing_but_the_body() {
    let harness = start().await;
    let (one, two) = CALL.split_at(20);
    let body = format!(
        "{:x};a=b;c=\"d\"\r\n{one}\r\n{:x}\r\n{two}\r\n0\r\nauthorization: Bearer other\r\nx-forwarded-for: 1.2.3.4\r\n\r\n",
        one.len(),
        two.len()
    );
    let lines = "transfer-encoding: chunked\r\ntrailer: x\r\n";
    let answer = harness.raw(format!("{}{body}", head(&harness, lines)).as_bytes()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(harness.calls(), [CALL]);
    let recorded = harness.upstream.requests();
    let call = recorded.iter().find(|request| request.text() == CALL).unwrap();
    assert_eq!(call.header("content-length"), Some(CALL.len().to_string().as_str()));
    for name in ["transfer-encoding", "trailer", "authorization", "x-forwarded-for"] {
        assert_eq!(call.header(name), None, "{name}");
    }
}

#[tokio::test]
async fn bad_chunks_are_refused() {
    let harness = start().await;
    for body in
        ["zz\r\n", "-1\r\n{}\r\n0\r\n\r\n", "2\r\n{}x\r\n0\r\n\r\n", "fffffffffffffffff\r\n{}"]
    {
        let bytes = format!("{}{body}", head(&harness, "transfer-encoding: chunked\r\n"));
        let found = statuses(&harness, bytes.as_bytes(), 1).await;
        assert!(found.is_empty() || found == [400], "{body:?}: {found:?}");
    }
    assert!(harness.upstream.requests().is_empty());
}

#[tokio::test]
async fn a_body_that_does_not_arrive_whole_is_no_message() {
    let harness = start().await;
    // A whole message, of which more was announced.
    for lines in ["content-length: 1000\r\n", "transfer-encoding: chunked\r\n"] {
        let mut client = RawClient::connect(harness.address).await.unwrap();
        let body = if lines.starts_with('c') {
            CALL.into()
        } else {
            format!("{:x}\r\n{CALL}\r\n", CALL.len())
        };
        client.send(format!("{}{body}", head(&harness, lines)).as_bytes()).await.unwrap();
        drop(client);
    }
    // Something that certainly came after it.
    assert_eq!(harness.post(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await.status, 200);
    assert!(harness.calls().is_empty());
}

#[tokio::test]
async fn bodies_that_are_too_long_are_refused_by_length_and_by_chunks() {
    let harness = start().await;
    let bytes = head(&harness, &format!("content-length: {}\r\n", (4 << 20) + 1));
    let answer = harness.raw(bytes.as_bytes()).await;
    assert_eq!((answer.status, at(&json(&answer), "error/code").as_str()), (413, "-32600"));
    let piece = format!("{:x}\r\n{}\r\n", 1 << 20, " ".repeat(1 << 20));
    let mut client = RawClient::connect(harness.address).await.unwrap();
    client.send(head(&harness, "transfer-encoding: chunked\r\n").as_bytes()).await.unwrap();
    for _ in 0..4 {
        client.send(piece.as_bytes()).await.unwrap();
    }
    client.send(b"1\r\n \r\n").await.unwrap();
    assert_eq!(client.answer().await.unwrap().unwrap().status, 413);
    assert!(harness.upstream.requests().is_empty());
}

#[tokio::test]
async fn only_plain_json_is_taken() {
    let harness = start().await;
    let wrong: &[&[(&str, &str)]] = &[
        &[("content-type", "-")],
        &[("content-type", "text/plain")],
        &[("content-type", "application/jsonx")],
        &[("content-type", "application/x-www-form-urlencoded")],
        &[("content-type", "application/json; charset=utf-16")],
        &[("content-type", "application/json, text/plain")],
        &[("content-encoding", "gzip")],
        &[("content-encoding", "identity")],
        &[("content-encoding", "br")],
    ];
    for headers in wrong {
        let answer = harness.post_with(headers, CALL.as_bytes()).await;
        assert_eq!(answer.status, 415, "{headers:?}: {}", answer.text());
        assert_eq!(at(&json(&answer), "error/code"), "-32600");
        assert_eq!(at(&json(&answer), "id"), "null");
    }
    assert!(harness.upstream.requests().is_empty());
    for right in ["application/json; charset=\"UTF-8\"", "Application/JSON"] {
        let answer = harness.post_with(&[("content-type", right)], CALL.as_bytes()).await;
        assert_eq!(answer.status, 200, "{right}");
    }
}

#[tokio::test]
async fn headers_that_must_be_one_are_refused_when_there_are_two() {
    let harness = start().await;
    let token = format!("Bearer {TOKEN}");
    let twice = [
        ("authorization", token.as_str()),
        ("content-type", "application/json"),
        ("mcp-session-id", "a"),
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "read"),
        ("mcp-param-x", "1"),
        ("last-event-id", "1"),
        ("origin", "https://allowed.example"),
    ];
    for (name, value) in twice {
        for pair in [[(name, value), (name, value)], [(name, value), (name, "other")]] {
            let answer = harness.post_with(&pair, CALL.as_bytes()).await;
            assert_eq!(answer.status, 400, "{pair:?}: {}", answer.text());
        }
    }
    let address = harness.address.to_string();
    for other in [address.as_str(), "evil.example"] {
        let answer =
            harness.post_with(&[("host", &address), ("host", other)], CALL.as_bytes()).await;
        assert_eq!(answer.status, 400);
    }
    assert!(harness.upstream.requests().is_empty());
}

#[tokio::test]
async fn old_http_and_upgrades_change_nothing() {
    let harness = start().await;
    let bytes =
        String::from_utf8(request("POST", "/mcp/notes", harness.address, &[], CALL.as_bytes()))
            .unwrap();
    let old = bytes.replacen("HTTP/1.1", "HTTP/1.0", 1);
    assert_eq!(harness.raw(old.as_bytes()).await.status, 505);
    let strange = bytes.replacen("HTTP/1.1", "HTTP/9.9", 1);
    let found = statuses(&harness, strange.as_bytes(), 1).await;
    assert!(found.iter().all(|status| *status >= 400), "{found:?}");
    assert!(harness.upstream.requests().is_empty());
    let upgrade = [
        ("connection", "upgrade, http2-settings"),
        ("upgrade", "h2c"),
        ("http2-settings", "AAMAAABkAAQAAP__"),
    ];
    let answer = harness.post_with(&upgrade, CALL.as_bytes()).await;
    assert_eq!(answer.status, 200);
    assert_eq!(harness.calls(), [CALL]);
    for request in harness.upstream.requests() {
        for name in ["upgrade", "http2-settings", "connection"] {
            assert_eq!(request.header(name), None);
        }
    }
    let websocket = [
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-key", "x"),
        ("sec-websocket-version", "13"),
    ];
    let answer = harness.raw(&request("GET", "/mcp/notes", harness.address, &websocket, b"")).await;
    assert_eq!(answer.status, 405);
}

#[tokio::test]
async fn a_client_that_waits_to_be_asked_is_asked() {
    let harness = start().await;
    let mut client = RawClient::connect(harness.address).await.unwrap();
    let lines = format!("expect: 100-continue\r\ncontent-length: {}\r\n", CALL.len());
    client.send(head(&harness, &lines).as_bytes()).await.unwrap();
    assert_eq!(client.answer().await.unwrap().unwrap().status, 100);
    client.send(CALL.as_bytes()).await.unwrap();
    assert_eq!(client.answer().await.unwrap().unwrap().status, 200);
    assert_eq!(harness.calls(), [CALL]);
    // One who may not call is not asked.
    let mut client = RawClient::connect(harness.address).await.unwrap();
    client.send(head(&harness, &lines).replace(TOKEN, "sg_x").as_bytes()).await.unwrap();
    assert_eq!(client.answer().await.unwrap().unwrap().status, 401);
}

#[tokio::test]
async fn heads_are_bounded() {
    let harness = start().await;
    let long = format!("content-length: {}\r\nx-long: {}\r\n", CALL.len(), "x".repeat(128 << 10));
    let many = "x-many: y\r\n".repeat(5000);
    let many = format!("content-length: {}\r\n{many}", CALL.len());
    for lines in [long, many] {
        let mut client = RawClient::connect(harness.address).await.unwrap();
        // The connection may be closed before all is sent.
        let _ = client.send(format!("{}{CALL}", head(&harness, &lines)).as_bytes()).await;
        let answer = client.answer().await.unwrap_or_default();
        assert!(answer.is_none_or(|answer| answer.status == 431), "heads are bounded");
    }
    assert!(harness.upstream.requests().is_empty());
}

#[tokio::test]
async fn requests_in_a_row_are_answered_in_their_order() {
    let harness = start().await;
    let mut bytes = Vec::new();
    for body in [CALL.to_owned(), CALL.replace("\"id\":1", "\"id\":2"), "{".to_owned()] {
        bytes.extend(request("POST", "/mcp/notes", harness.address, &[], body.as_bytes()));
    }
    let mut client = RawClient::connect(harness.address).await.unwrap();
    client.send(&bytes).await.unwrap();
    for expected in ["1", "2", "null"] {
        assert_eq!(at(&json(&client.answer().await.unwrap().unwrap()), "id"), expected);
    }
    assert_eq!(harness.calls().len(), 2);
}

#[tokio::test]
async fn a_path_names_a_server_exactly() {
    let harness = start().await;
    for path in [
        "/mcp/notes/",
        "/mcp//notes",
        "//mcp/notes",
        "/mcp/%6eotes",
        "/MCP/notes",
        "/mcp/Notes",
        "/mcp/../mcp/notes",
        "/mcp/./notes",
        "/mcp/notes%00",
        "/mcp/notes;x",
        "/mcp/notes%2f",
        "/mcp\\notes",
        "/",
        "/mcp/",
        "/notes",
    ] {
        let answer =
            harness.raw(&request("POST", path, harness.address, &[], CALL.as_bytes())).await;
        assert!([400, 404].contains(&answer.status), "{path}: {} {}", answer.status, answer.text());
    }
    assert!(harness.upstream.requests().is_empty());
    let answer = harness
        .raw(&request("POST", "/mcp/notes?server=other", harness.address, &[], CALL.as_bytes()))
        .await;
    assert_eq!(answer.status, 200);
    until("the call arrives", || !harness.calls().is_empty()).await;
    assert!(harness.upstream.requests().iter().all(|request| request.path == "/mcp"));
}

#[tokio::test]
async fn other_methods_of_http_are_refused() {
    let harness = start().await;
    for method in ["PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "post"] {
        let bytes = request(method, "/mcp/notes", harness.address, &[], b"");
        let mut client = RawClient::connect(harness.address).await.unwrap();
        client.send(&bytes).await.unwrap();
        let head = client.head().await.unwrap().unwrap();
        assert!(head.starts_with("HTTP/1.1 405"), "{method}: {head}");
    }
    let connect =
        format!("CONNECT {} HTTP/1.1\r\nhost: {}\r\n\r\n", harness.address, harness.address);
    let found = statuses(&harness, connect.as_bytes(), 1).await;
    assert!(found.iter().all(|status| *status >= 400), "{found:?}");
    assert!(harness.upstream.requests().is_empty());
}

/// Time passes by itself here as soon as everybody waits.
#[tokio::test(start_paused = true)]
async fn a_body_that_never_comes_is_not_waited_for() {
    let harness = start().await;
    let mut stream = TcpStream::connect(harness.address).await.unwrap();
    let bytes = format!("{}{}", head(&harness, "content-length: 1000\r\n"), "{\"jsonrpc\"");
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 400");
    assert!(harness.upstream.requests().is_empty());
}
