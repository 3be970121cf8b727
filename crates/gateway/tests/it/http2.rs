//! HTTP/2 with prior knowledge: the same checks, by its own spelling of them.

use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sluice_testkit::mcp_server;
use tokio::net::TcpStream;

use crate::{
    harness::{Harness, TOKEN},
    talk::OPEN,
};

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#;

/// Posts a call by HTTP/2 and gives the status and the body.
async fn send(harness: &Harness, url: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
    let stream = TcpStream::connect(harness.address).await.unwrap();
    let io = TokioIo::new(stream);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::post(url).version(Version::HTTP_2);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test]
async fn the_name_in_the_request_line_is_the_host() {
    let harness = Harness::start(OPEN, mcp_server("[]")).await;
    let own = format!("http://{}/mcp/notes", harness.address);
    let token = format!("Bearer {TOKEN}");
    let usual = [("authorization", token.as_str()), ("content-type", "application/json")];
    let with = |more: &[(&'static str, &'static str)]| {
        let mut headers = usual.to_vec();
        headers.extend(more);
        headers
    };
    for (url, more, status) in [
        ("http://evil.example/mcp/notes", &[][..], 403),
        (&own, &[("host", "evil.example")], 403),
        ("http://evil.example/mcp/notes", &[("host", "localhost")], 403),
        (&own, &[("origin", "https://evil.example")], 403),
        (&own, &[("authorization", "Bearer other")], 400),
        (&own, &[("content-type", "application/json")], 400),
        (&own, &[("content-encoding", "gzip")], 415),
        (&own, &[("mcp-session-id", "a"), ("mcp-session-id", "b")], 400),
        ("http://localhost/mcp/notes/", &[], 404),
    ] {
        let (found, body) = send(&harness, url, &with(more), CALL).await;
        assert_eq!(found, status, "{url} {more:?}: {body}");
    }
    let (status, _) =
        send(&harness, &own, &with(&[("content-type", "text/plain")])[1..], CALL).await;
    assert_eq!(status, 401);
    assert!(harness.upstream.requests().is_empty());
    assert_eq!(send(&harness, &own, &usual, CALL).await.0, 200);
    assert_eq!(harness.calls(), [CALL]);
}

#[tokio::test]
async fn bodies_are_bounded_and_judged_as_ever() {
    let harness = Harness::start(OPEN, mcp_server("[]")).await;
    let own = format!("http://{}/mcp/notes", harness.address);
    let token = format!("Bearer {TOKEN}");
    let usual = [("authorization", token.as_str()), ("content-type", "application/json")];
    assert_eq!(send(&harness, &own, &usual, &" ".repeat((4 << 20) + 1)).await.0, 413);
    assert_eq!(send(&harness, &own, &usual, &format!("[{CALL}]")).await.0, 400);
    assert!(harness.upstream.requests().is_empty());
}
