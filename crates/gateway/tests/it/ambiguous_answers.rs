//! Answers that two readers could read in two ways are refused in every form in which a
//! server may send them; what is only unusual passes in every form.

use sluice_testkit::{Recorded, Reply, mcp_server};

use crate::{
    harness::Harness,
    talk::OPEN,
    upstream_faults::{CALL, is_refused, start},
};

fn answer(member: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[],"structuredContent":{member}}}}}"#)
}

fn event(member: &str) -> String {
    format!("data: {}\n\n", answer(member))
}

/// Long enough to be passed on before its end is known.
fn long(member: &str) -> String {
    let padding = "x".repeat(200 << 10);
    format!(r#"{{"padding":"{padding}","after":{member}}}"#)
}

#[tokio::test]
async fn a_name_that_stands_twice_is_refused_at_every_depth() {
    for member in [
        r#"{"raw":1,"raw":2}"#,
        r#"{"raw":1,"r\u0061w":2}"#,
        r#"{"a":[[{"b":{"raw":1},"c":1,"b":2}]]}"#,
        r#"{"\ud800":"raw"}"#,
    ] {
        let body = answer(member);
        let harness = start(move |_| Reply::json(body.clone())).await;
        is_refused(&harness.post(CALL).await, 502, member);
        let body = event(member);
        let harness = start(move |_| Reply::events(body.clone())).await;
        is_refused(&harness.post(CALL).await, 502, member);
        // What was passed on already is cut, so that nobody takes it for complete.
        let body = answer(&long(member));
        let harness = start(move |_| Reply::json(body.clone())).await;
        let answer = harness.post(CALL).await;
        assert!(answer.status == 502 || !answer.is_whole, "{member}");
    }
}

/// Servers that cut a text within a character write such halves; the policy never judges
/// an answer's text, so it passes as it is.
#[tokio::test]
async fn half_of_a_surrogate_pair_passes_in_every_form() {
    for member in [r#"["cut \ud83d"]"#, r#"{"a":"\ude00\ud83d","b":"\ud83dx"}"#] {
        for member in [member.to_owned(), long(member)] {
            let body = answer(&member);
            let expected = body.clone();
            let harness = start(move |_| Reply::json(body.clone())).await;
            assert_eq!(harness.post(CALL).await.text(), expected);
            let body = event(&member);
            let expected = body.clone();
            let harness = start(move |_| Reply::events(body.clone())).await;
            assert_eq!(harness.post(CALL).await.text(), expected);
        }
    }
}

/// A list is read whole, and filtered.
#[tokio::test]
async fn half_of_a_surrogate_pair_passes_in_a_list() {
    let tools = r#"[{"name":"read","description":"cut \ud83d","inputSchema":{"type":"object"}}]"#;
    let list = |request: &Recorded| mcp_server(tools)(request);
    let harness = Harness::start(OPEN, list).await;
    let listed = harness.post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await;
    assert!(listed.text().contains(r"cut \ud83d"), "{}", listed.text());
}
