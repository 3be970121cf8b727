//! Statuses of a server: which pass, and what a client is told instead of others.

use sluice_testkit::{Recorded, Reply, mcp_server};

use crate::{
    harness::{Harness, TOKEN, request},
    talk::OPEN,
    upstream_faults::{CALL, is_refused, start},
};

/// Statuses of a server, and the status that the client gets: errors of the request keep
/// their status, errors of the gateway's credential or of the server become 502.
const STATUSES: [(u16, u16); 19] = [
    (202, 502),
    (204, 502),
    (301, 502),
    (302, 502),
    (307, 502),
    (308, 502),
    (400, 400),
    (401, 502),
    (403, 502),
    (404, 404),
    (407, 502),
    (409, 409),
    (410, 410),
    (413, 413),
    (422, 422),
    (429, 429),
    (500, 502),
    (502, 502),
    (503, 502),
];

#[tokio::test]
async fn statuses_and_types_that_are_no_answer_are_refused() {
    let good = r#"{"jsonrpc":"2.0","id":1,"result":{"raw":1}}"#;
    for (status, becomes) in STATUSES {
        let harness = start(move |_| {
            Reply::new(status, "text/html", if status == 204 { "" } else { "<h1>raw" })
                .with_header("location", "http://127.0.0.1:1/raw")
                .with_header("www-authenticate", "Basic realm=raw")
        })
        .await;
        let answer = harness.post(CALL).await;
        is_refused(&answer, becomes, &status.to_string());
        assert_eq!(answer.header("location"), None);
        assert_eq!(answer.header("www-authenticate"), None);
    }
    for status in [301, 302, 401, 407, 500, 503] {
        let body = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"raw"}}"#;
        let harness = start(move |_| Reply::new(status, "application/json", body)).await;
        is_refused(&harness.post(CALL).await, 502, &status.to_string());
    }
    for kind in ["text/html", "text/plain", "application/jsonx", "application/octet-stream", ""] {
        let harness = start(move |_| Reply::new(200, kind, good)).await;
        is_refused(&harness.post(CALL).await, 502, kind);
    }
    for encoding in ["gzip", "br", "identity"] {
        let harness =
            start(move |_| Reply::json(good).with_header("content-encoding", encoding)).await;
        is_refused(&harness.post(CALL).await, 502, encoding);
    }
    let harness = start(move |_| Reply::new(200, "Application/JSON; charset=utf-8", good)).await;
    assert_eq!(harness.post(CALL).await.text(), good);
}

/// The stream of a session, its end, and notifications are refused in the same way.
#[tokio::test]
async fn requests_without_an_answer_are_refused_with_the_same_statuses() {
    let own = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"its own words"}}"#;
    for (status, becomes) in STATUSES.into_iter().filter(|(status, _)| *status >= 400) {
        for (media_type, body) in [("text/plain", "raw"), ("application/json", own)] {
            let harness = Harness::start(OPEN, move |request: &Recorded| {
                match (request.method.as_str(), request.rpc_method().as_deref()) {
                    ("GET" | "DELETE", _) | (_, Some("notifications/initialized")) => {
                        Reply::new(status, media_type, body)
                    }
                    _ => mcp_server("[]")(request),
                }
            })
            .await;
            let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
            let mut answers = vec![harness.post(note).await];
            for method in ["GET", "DELETE"] {
                let session = harness.session(TOKEN).await;
                let headers = [("mcp-session-id", session.as_str())];
                let bytes = request(method, "/mcp/notes", harness.address, &headers, b"");
                answers.push(harness.raw(&bytes).await);
            }
            let is_own =
                body == own && (400..500).contains(&status) && ![401, 407].contains(&status);
            for (answer, place) in answers.iter().zip(["a notification", "GET", "DELETE"]) {
                let what = format!("{place} {status} {media_type}");
                let is_session = status == 404 && place != "a notification";
                if is_own && !is_session {
                    assert_eq!((answer.status, answer.text().as_str()), (status, own), "{what}");
                } else {
                    assert_eq!(answer.status, becomes, "{what}: {}", answer.text());
                    assert!(!answer.text().contains("raw"), "{what}: {}", answer.text());
                }
            }
        }
    }
}

#[tokio::test]
async fn errors_of_the_protocol_pass_with_their_status() {
    for status in [400, 403, 404, 409, 422, 429] {
        let body = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"its own words","data":{"x":1.0}}}"#;
        let harness = start(move |_| Reply::new(status, "application/json", body)).await;
        let answer = harness.post(CALL).await;
        assert_eq!((answer.status, answer.text().as_str()), (status, body));
        for wrong in [
            r#"{"error":"raw"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"raw":1}}"#,
            r#"{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":"raw"}}"#,
            "raw",
        ] {
            let harness = start(move |_| Reply::new(status, "application/json", wrong)).await;
            let becomes = if status == 403 { 502 } else { status };
            is_refused(&harness.post(CALL).await, becomes, wrong);
        }
    }
}
