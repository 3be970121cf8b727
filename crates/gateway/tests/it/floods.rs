//! Servers that say again and again that their lists have changed: clients are told, and the
//! lists are fetched, as often as is useful.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sluice_testkit::{End, Recorded, Reply, mcp_server};

use crate::{
    harness::{Harness, TOKEN},
    talk::{OPEN, hear, until},
};

const CHANGED: &str = "notifications/tools/list_changed";
const PROMPTS: &str = "notifications/prompts/list_changed";
const DONE: &str = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"done"}}"#;
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#;

fn news(method: &str) -> String {
    format!("data: {{\"jsonrpc\":\"2.0\",\"method\":\"{method}\"}}\n\n")
}

fn count(heard: &str, method: &str) -> usize {
    heard.matches(method).count()
}

#[tokio::test]
async fn of_a_flood_of_changes_the_first_and_the_last_are_passed_on() {
    let flood = (news(CHANGED) + &news(PROMPTS)).repeat(2000);
    let stream = format!("{flood}data: {DONE}\n\n");
    let harness = Harness::start(OPEN, move |request: &Recorded| match request.method.as_str() {
        "GET" => Reply::events(stream.clone()).ending(End::Never),
        _ => mcp_server("[]")(request),
    })
    .await;
    let session = harness.session(TOKEN).await;
    let mut client = harness.begun("GET", &[("mcp-session-id", &session)], b"").await;
    client.head().await.unwrap();
    let heard = hear(&mut client, "done").await;
    // The machine may be busy for so long that an interval ends meanwhile.
    for method in [CHANGED, PROMPTS] {
        assert!((1..20).contains(&count(&heard, method)), "{method}: {}", count(&heard, method));
    }
    // The last one comes when the interval is over.
    for method in [CHANGED, PROMPTS] {
        let last =
            if heard.rfind(method) > heard.rfind("done") { heard.clone() } else { String::new() };
        assert!(!last.is_empty() || hear(&mut client, method).await.contains(method));
    }
}

/// On the stream of a call nothing is lost either: a client may read no further than its
/// answer.
#[tokio::test]
async fn the_last_change_comes_before_the_answer() {
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;
    let stream = format!("{}data: {answer}\n\n", news(CHANGED).repeat(3000));
    let harness =
        Harness::start(OPEN, move |request: &Recorded| match request.rpc_method().as_deref() {
            Some("tools/call") => Reply::events(stream.clone()),
            _ => mcp_server("[]")(request),
        })
        .await;
    let heard = harness.post(CALL).await;
    assert!(heard.is_whole && heard.text().ends_with(&format!("data: {answer}\n\n")));
    let changes = count(&heard.text(), CHANGED);
    assert!((2..20).contains(&changes), "{changes}");
}

/// Definitions are fetched a few times at once and then at a steady pace, and what the server
/// said last is learnt in the end.
#[tokio::test]
async fn definitions_are_not_fetched_for_each_change() {
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let harness = Harness::start(r#"{"version":"1","default":"deny","tools":{"@read":{}}}"#, {
        move |request: &Recorded| match request.rpc_method().as_deref() {
            Some("tools/call") => {
                let id = request.rpc_id();
                let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[]}}}}"#);
                Reply::events(format!("{}data: {answer}\n\n", news(CHANGED)))
            }
            _ if over.load(Ordering::Relaxed) => {
                mcp_server(r#"[{"name":"list_notes","description":"Lists notes."},{"name":"get_note","description":"Gets a note."}]"#)(request)
            }
            _ => mcp_server(r#"[{"name":"list_notes","description":"Lists notes."}]"#)(request),
        }
    })
    .await;
    let begun = tokio::time::Instant::now();
    for _ in 0..100 {
        let answer = harness.call("list_notes", "{}").await;
        assert!(answer.text().contains(r#""content":[]"#), "{}", answer.text());
    }
    let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap();
    let lists = harness.upstream.bodies_of("tools/list").len();
    assert!(lists <= 5 + seconds / 2, "{lists} lists in {seconds} s");
    is_over.store(true, Ordering::Relaxed);
    let before = lists;
    harness.call("list_notes", "{}").await;
    until("the last change is learnt", || harness.upstream.bodies_of("tools/list").len() > before)
        .await;
    for _ in 0..500 {
        if harness.call("get_note", "{}").await.text().contains(r#""content":[]"#) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the new tool was not learnt");
}
