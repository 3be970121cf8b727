//! What a legacy server asks while calls of modern clients run: each question is
//! put to a client or refused, and no call waits for one that was lost.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use sluice_testkit::{Answer, End, LegacyOnly, Recorded, Reply};
use sluice_wire::json::{Bounds, Document};

use crate::{
    bridge::before_legacy,
    harness::{Harness, at, json},
    talk::{OPEN, mirrors, modern_body, until},
};

const ASKING: &str = r#"{"elicitation":{}}"#;
const WISH: &str = r#"{"jsonrpc":"2.0","id":"ID","method":"elicitation/create","params":{"message":"who?","requestedSchema":{"type":"object","properties":{}}}}"#;
/// Longer than the gateway waits for a server, so that a lost question is seen as one.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

fn read(text: &str) -> Document {
    Document::parse(text, &Bounds::default()).unwrap()
}

/// The last message of an answer, be it JSON or an event stream.
fn last(answer: &Answer) -> Document {
    let text = answer.text();
    let events = text.split("\n\n").filter_map(|block| block.strip_prefix("data: "));
    events.last().map_or_else(|| json(answer), read)
}

async fn call(harness: &Harness, tool: &str, members: &str) -> Document {
    let params = format!(r#""name":"{tool}"{members}"#);
    let body = modern_body("tools/call", &params, ASKING);
    let headers = mirrors("tools/call", Some(tool));
    let sent = harness.post_with(&headers, body.as_bytes());
    last(&tokio::time::timeout(ANSWER_TIMEOUT, sent).await.expect("an answer in time"))
}

/// The members of a request that accepts all that a result wants; `None` if the
/// result wants nothing.
fn accepting(wished: &Document) -> Option<String> {
    if at(wished, "result/resultType") != "\"input_required\"" {
        return None;
    }
    let requests = wished.root().get("result")?.get("inputRequests")?;
    let answers: Vec<_> = requests
        .members()?
        .map(|(key, _)| format!(r#"{}:{{"action":"accept"}}"#, key.raw()))
        .collect();
    let (answers, state) = (answers.join(","), at(wished, "result/requestState"));
    Some(format!(r#","requestState":{state},"inputResponses":{{{answers}}}"#))
}

/// Calls a tool, and accepts whatever the server wants until the call is done.
async fn carried_out(harness: &Harness, tool: &str) -> Document {
    let mut said = call(harness, tool, "").await;
    while let Some(members) = accepting(&said) {
        said = call(harness, tool, &members).await;
    }
    said
}

/// The answer that reached the server under this id.
fn answer_to(harness: &Harness, id: &str) -> Option<Recorded> {
    let all = harness.upstream.requests().into_iter();
    all.filter(|sent| sent.rpc_method().is_none()).find(|sent| sent.rpc_id() == id)
}

#[tokio::test]
async fn a_question_goes_to_a_call_whose_client_can_be_asked_now() {
    let (harness, _) = before_legacy(OPEN).await;
    // The client of this one takes its time.
    let first = call(&harness, "aside", "").await;
    let members = accepting(&first).expect("a wish");
    for tool in ["aside", "aside-json"] {
        let done = carried_out(&harness, tool).await;
        assert_eq!(at(&done, "result/told"), r#"{"action":"accept"}"#, "{done:?}");
    }
    let done = call(&harness, "aside", &members).await;
    assert_eq!(at(&done, "result/told"), r#"{"action":"accept"}"#, "{done:?}");
}

#[tokio::test]
async fn every_question_of_many_calls_at_once_is_asked_or_refused() {
    let (harness, _) = before_legacy(OPEN).await;
    let harness = Arc::new(harness);
    let calls = (0..120).map(|number| {
        let harness = Arc::clone(&harness);
        let tool = ["aside", "ask", "aside-json"][number % 3];
        tokio::spawn(async move { carried_out(&harness, tool).await })
    });
    let mut told = BTreeMap::new();
    for call in calls.collect::<Vec<_>>() {
        let done = call.await.unwrap();
        *told.entry(at(&done, "result/told")).or_insert(0) += 1;
    }
    // More calls of one grant than may wait at once: some questions are refused.
    let accepted = told.remove(r#"{"action":"accept"}"#).unwrap_or_default();
    let refused = told.remove("null").unwrap_or_default();
    assert_eq!(accepted + refused, 120, "others: {told:?}");
    assert!(accepted >= 64, "{accepted} accepted, {refused} refused");
}

/// A legacy server whose tool `two` asks twice beside the call, and answers the
/// call with the first answer it gets.
fn asking_twice() -> impl Fn(&Recorded) -> Reply + Send + Sync + 'static {
    let server = LegacyOnly::default();
    let waiting = Arc::new(Mutex::new(None));
    move |request| {
        let is_two = request.text().contains(r#""name":"two""#);
        if is_two && request.header("mcp-session-id").is_some() {
            let (reply, stream) = Reply::live_stream();
            *waiting.lock().unwrap() = Some((request.rpc_id(), stream));
            for id in ["first", "second"] {
                server.say(&WISH.replace("ID", id));
            }
            reply
        } else if request.rpc_method().is_none() && request.rpc_id() == "\"first\"" {
            if let Some((id, stream)) = waiting.lock().unwrap().take() {
                let _ = stream.send(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
            }
            Reply::empty(202)
        } else {
            server.reply(request)
        }
    }
}

#[tokio::test]
async fn a_question_that_a_call_leaves_behind_is_refused() {
    // Which of the two is there first when the call ends is left to chance.
    for _ in 0..20 {
        let harness = Harness::start(OPEN, asking_twice()).await;
        let done = carried_out(&harness, "two").await;
        assert_eq!(at(&done, "result/resultType"), "\"complete\"", "{done:?}");
        until("the second question has its answer", || answer_to(&harness, "\"second\"").is_some())
            .await;
    }
}

/// A legacy server that asks beside `prompts/list`, and answers it once it was
/// answered itself.
fn asking_beside_a_list() -> impl Fn(&Recorded) -> Reply + Send + Sync + 'static {
    let server = LegacyOnly::default();
    let waiting = Arc::new(Mutex::new(None));
    let wish = WISH.replace("ID", "list");
    move |request| {
        let in_session = request.header("mcp-session-id").is_some();
        if request.rpc_method().as_deref() == Some("prompts/list") && in_session {
            let (reply, stream) = Reply::live_stream();
            *waiting.lock().unwrap() = Some((request.rpc_id(), stream));
            server.say(&wish);
            return reply;
        }
        if request.rpc_method().is_none() && request.rpc_id() == "\"list\"" {
            let (id, stream) = waiting.lock().unwrap().take().unwrap();
            let _ =
                stream.send(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"prompts":[]}}}}"#));
        }
        server.reply(request)
    }
}

#[tokio::test]
async fn a_question_that_may_be_of_a_call_without_questions_is_refused() {
    let harness = Harness::start(OPEN, asking_beside_a_list()).await;
    // The client of this one may take as long as it likes; no other call waits for it.
    let wished = call(&harness, "aside", "").await;
    assert!(accepting(&wished).is_some(), "{wished:?}");
    let body = modern_body("prompts/list", "", ASKING);
    let answer = harness.post_with(&mirrors("prompts/list", None), body.as_bytes()).await;
    let answer = last(&answer);
    assert_eq!(at(&answer, "result/prompts"), "[]", "{answer:?}");
    let told = answer_to(&harness, "\"list\"").unwrap().text();
    assert!(told.contains("-32601") && told.contains("2025-11-25"), "{told}");
}

/// A server may take long to open the stream of a session.
#[tokio::test]
async fn a_question_on_a_stream_that_opens_late_is_heard() {
    let server = LegacyOnly::default();
    let late = Arc::new(Mutex::new(None));
    let harness = Harness::start(OPEN, move |request| {
        let in_session = request.header("mcp-session-id").is_some();
        if request.method == "GET" && in_session {
            let (reply, stream) = Reply::live_stream();
            *late.lock().unwrap() = Some(stream);
            return Reply { end: End::Later, live: reply.live, ..Reply::events("") };
        }
        let reply = server.reply(request);
        if request.rpc_method().as_deref() == Some("tools/call")
            && in_session
            && let Some(stream) = late.lock().unwrap().take()
        {
            let wish = WISH.replace("ID", &format!("wish-{}", request.rpc_id()));
            let _ = stream.send(format!("data: {wish}\n\n"));
        }
        reply
    })
    .await;
    let done = carried_out(&harness, "aside").await;
    assert_eq!(at(&done, "result/told"), r#"{"action":"accept"}"#, "{done:?}");
}

/// A server may end the stream of a session whenever it likes.
#[tokio::test]
async fn a_stream_that_has_ended_is_open_again_before_the_next_call() {
    let server = LegacyOnly::default();
    let streams = Arc::new(AtomicUsize::new(0));
    let opened = Arc::clone(&streams);
    let harness = Harness::start(OPEN, move |request| {
        let is_stream = request.method == "GET" && request.header("mcp-session-id").is_some();
        if is_stream && opened.fetch_add(1, Ordering::Relaxed) < 2 {
            return Reply::events(": nothing yet\n\n");
        }
        server.reply(request)
    })
    .await;
    for _ in 0..20 {
        if streams.load(Ordering::Relaxed) < 3 {
            call(&harness, "echo", "").await;
        }
    }
    let done = carried_out(&harness, "aside").await;
    assert_eq!(at(&done, "result/told"), r#"{"action":"accept"}"#, "{done:?}");
}

/// A server may refuse a stream as long as it believes that there is one already.
#[tokio::test]
async fn a_stream_that_is_refused_for_now_is_asked_for_again() {
    for status in [403, 409, 429] {
        let server = LegacyOnly::default();
        let refused = AtomicUsize::new(0);
        let harness = Harness::start(OPEN, move |request| {
            let is_stream = request.method == "GET" && request.header("mcp-session-id").is_some();
            if is_stream && refused.fetch_add(1, Ordering::Relaxed) == 0 {
                return Reply::empty(status);
            }
            server.reply(request)
        })
        .await;
        let done = carried_out(&harness, "aside").await;
        assert_eq!(at(&done, "result/told"), r#"{"action":"accept"}"#, "{status}: {done:?}");
    }
}
