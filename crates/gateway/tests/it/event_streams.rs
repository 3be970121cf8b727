//! Event streams: whatever form a server writes them in, a client gets one form,
//! and each event at once.

use sluice_testkit::{End, Recorded, Reply, mcp_server};

use crate::{
    harness::{Harness, TOKEN},
    talk::{OPEN, hear},
};

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;
const NEWS: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#;

/// A server whose calls are answered with this stream.
fn calls(stream: impl Into<Vec<u8>>) -> impl Fn(&Recorded) -> Reply + Send + Sync + 'static {
    let stream = stream.into();
    move |request| match request.rpc_method().as_deref() {
        Some("tools/call") => Reply::events(stream.clone()),
        _ => mcp_server("[]")(request),
    }
}

/// A server whose session stream begins with this and then stays open.
fn session_stream(stream: String) -> impl Fn(&Recorded) -> Reply + Send + Sync + 'static {
    move |request| match request.method.as_str() {
        "GET" => Reply::events(stream.clone()).ending(End::Never),
        _ => mcp_server("[]")(request),
    }
}

async fn called(stream: impl Into<Vec<u8>>) -> String {
    let harness = Harness::start(OPEN, calls(stream)).await;
    let answer = harness.post(CALL).await;
    assert!(answer.status == 200 && answer.is_whole, "{} {}", answer.status, answer.text());
    answer.text()
}

#[tokio::test]
async fn line_ends_of_every_kind_become_lf() {
    for end in ["\n", "\r\n", "\r"] {
        let stream = format!(
            "\u{feff}: hello{end}{end}id: 7{end}event: message{end}retry: 25{end}data: {NEWS}{end}{end}data: {ANSWER}{end}{end}"
        );
        let expected =
            format!("event: message\nid: 7\nretry: 25\ndata: {NEWS}\n\ndata: {ANSWER}\n\n");
        assert_eq!(called(stream).await, expected, "{end:?}");
    }
}

/// The last line end of an event may come in two parts: the client does not wait
/// for the second.
#[tokio::test]
async fn an_event_is_passed_on_whole_and_at_once() {
    for end in ["\n", "\r\n", "\r"] {
        let stream = format!("data: {NEWS}{end}{end}");
        let harness = Harness::start(OPEN, session_stream(stream)).await;
        let session = harness.session(TOKEN).await;
        let mut client = harness.begun("GET", &[("mcp-session-id", &session)], b"").await;
        client.head().await.unwrap();
        let heard = hear(&mut client, "notifications/message").await;
        assert_eq!(heard, format!("data: {NEWS}\n\n"), "{end:?}");
    }
}

/// Comments keep a stream alive, and say nothing else.
#[tokio::test]
async fn a_comment_is_passed_on_without_its_text() {
    let harness = Harness::start(OPEN, session_stream(": secret\r\n".to_owned())).await;
    let session = harness.session(TOKEN).await;
    let mut client = harness.begun("GET", &[("mcp-session-id", &session)], b"").await;
    client.head().await.unwrap();
    assert_eq!(hear(&mut client, ":").await, ":\n\n");
}

#[tokio::test]
async fn a_message_of_several_lines_keeps_them() {
    let stream = "data: {\"jsonrpc\":\"2.0\",\r\ndata: \"id\":1,\rdata:\"result\":{}}\r\n\r\n";
    let expected = "data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\ndata: \"result\":{}}\n\n";
    assert_eq!(called(stream).await, expected);
}

/// Some clients end lines at other characters too, or begin anew at a byte order
/// mark: nothing of a stream that is not a message reaches them, and in a message
/// such characters are written as escapes.
#[tokio::test]
async fn nothing_can_be_shown_to_a_client_that_splits_lines_otherwise() {
    let hidden = r#"data: {"jsonrpc":"2.0","id":9,"method":"sampling/createMessage"}"#;
    for split in ["\u{2028}", "\u{2029}", "\u{85}", "\u{b}", "\u{c}", "\u{1c}", "\0", "\u{feff}"] {
        let stream = format!(
            ": c{split}{hidden}{split}{split}\n\nid: 1{split}{hidden}\nother{split}{hidden}: x\n{split}{hidden}\nretry: 1{split}{hidden}\ndata: {ANSWER}\n\n"
        );
        assert_eq!(called(stream).await, format!("data: {ANSWER}\n\n"), "{split:?}");
    }
    for (split, escaped) in
        [("\u{2028}", "\\u2028"), ("\u{2029}", "\\u2029"), ("\u{85}", "\\u0085")]
    {
        let answer = |text: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"a{text}":"é{text}…{text}"}}}}"#)
        };
        let expected = format!("data: {}\n\n", answer(escaped));
        assert_eq!(called(format!("data: {}\n\n", answer(split))).await, expected, "{split:?}");
    }
}

#[tokio::test]
async fn events_that_are_no_messages_are_skipped() {
    for other in ["{}", "ping", "1", "\"x\"", r#"{"type":"heartbeat"}"#] {
        let stream = format!("data: {other}\n\nid: 3\ndata: {other}\n\ndata: {ANSWER}\n\n");
        assert_eq!(called(stream).await, format!("data: {ANSWER}\n\n"), "{other}");
        let stream = format!("data: {other}\n\ndata: {{\"broken\n\ndata: {NEWS}\n\n");
        let harness = Harness::start(OPEN, session_stream(stream)).await;
        let session = harness.session(TOKEN).await;
        let mut client = harness.begun("GET", &[("mcp-session-id", &session)], b"").await;
        client.head().await.unwrap();
        let heard = hear(&mut client, "notifications/message").await;
        assert_eq!(heard, format!("data: {NEWS}\n\n"), "{other}");
    }
}

/// What may have been the answer is not waited for again.
#[tokio::test]
async fn a_broken_answer_ends_the_stream() {
    for broken in [
        r#"{"jsonrpc":"2.0","id":1,"result":{"#,
        r#"{"jsonrpc":"2.0","id":1,"id":1,"result":{}}"#,
        r#"{"id":1,"result":{}}"#,
        r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#,
        r#"{"jsonrpc":"2.0","id":1,"error":7,"result":{}}"#,
    ] {
        let harness = Harness::start(OPEN, calls(format!("data: {broken}\n\n"))).await;
        assert_eq!(harness.post(CALL).await.status, 502, "{broken}");
    }
}
