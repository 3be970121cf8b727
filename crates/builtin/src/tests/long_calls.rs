//! A server with long calls, over stdio and over HTTP.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::Request;
use http_body_util::BodyExt as _;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream},
    sync::Semaphore,
    task::JoinHandle,
};

use super::super::{
    Builtin, Call, Calling, Endpoint, Identity, Image, ToolResult, Verdict, serve_stdio,
};

/// Reports once and waits at a gate; then it has failed without saying so.
struct Slow {
    gate: Semaphore,
    under_way: AtomicUsize,
}

struct Guard<'s>(&'s AtomicUsize);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Slow {
    fn new() -> Arc<Slow> {
        Arc::new(Slow { gate: Semaphore::new(0), under_way: AtomicUsize::new(0) })
    }

    async fn until(&self, calls: usize) {
        while self.under_way.load(Ordering::SeqCst) != calls {
            tokio::task::yield_now().await;
        }
    }
}

impl Builtin for Slow {
    fn identity(&self) -> Identity<'_> {
        Identity { name: "slow", title: "Slow", version: "1", instructions: "" }
    }

    fn tools(&self) -> &'static str {
        r#"[{"name":"wait","inputSchema":{"type":"object"}}]"#
    }

    fn call<'a>(&'a self, call: Call<'a>) -> Calling<'a> {
        Box::pin(async move {
            self.under_way.fetch_add(1, Ordering::SeqCst);
            let _guard = Guard(&self.under_way);
            call.progress.report(1, 2, "half");
            self.gate.acquire().await.unwrap().forget();
            let images = vec![Image { media_type: "image/png", data: "AAAA".into() }];
            Ok(ToolResult { has_failed: true, images, ..ToolResult::text("done") })
        })
    }

    fn has_long_calls(&self) -> bool {
        true
    }
}

const DONE: &str = r#""result":{"content":[{"type":"text","text":"done"},{"type":"image","data":"AAAA","mimeType":"image/png"}],"isError":false}}"#;
const REPORT: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1,"total":2,"message":"half"}}"#;

fn wait(id: usize, meta: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"wait"{meta}}}}}"#
    )
}

const WITH_PROGRESS: &str = r#","_meta":{"progressToken":"p"}"#;

struct Lines {
    ours: BufReader<DuplexStream>,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Lines {
    fn start(server: &Arc<Slow>) -> Lines {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (input, output) = tokio::io::split(theirs);
        let serving = tokio::spawn(serve_stdio(Arc::<Slow>::clone(server), input, output));
        Lines { ours: BufReader::new(ours), serving }
    }

    async fn say(&mut self, line: &str) {
        self.ours.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn hear(&mut self) -> String {
        let mut line = String::new();
        let heard = tokio::time::timeout(Duration::from_secs(20), self.ours.read_line(&mut line));
        heard.await.expect("a line").unwrap();
        line.trim_end().to_owned()
    }
}

#[tokio::test]
async fn lines_are_answered_as_calls_end() {
    let server = Slow::new();
    let mut lines = Lines::start(&server);
    lines.say(&wait(1, "")).await;
    lines.say(&wait(2, WITH_PROGRESS)).await;
    assert_eq!(lines.hear().await, REPORT);
    lines.say(r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#).await;
    assert_eq!(lines.hear().await, r#"{"jsonrpc":"2.0","id":3,"result":{}}"#);
    // The same id twice could be answered only once.
    lines.say(&wait(1, "")).await;
    assert!(lines.hear().await.contains("request 1 is under way already"));
    lines
        .say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#)
        .await;
    server.until(1).await;
    server.gate.add_permits(1);
    assert_eq!(lines.hear().await, format!(r#"{{"jsonrpc":"2.0","id":2,{DONE}"#));
    // An id that is free again may be used again.
    lines.say(&wait(1, "")).await;
    server.gate.add_permits(1);
    assert_eq!(lines.hear().await, format!(r#"{{"jsonrpc":"2.0","id":1,{DONE}"#));
}

#[tokio::test]
async fn calls_at_once_have_a_bound_that_pings_do_not_have() {
    let server = Slow::new();
    let mut lines = Lines::start(&server);
    for id in 0..256 {
        lines.say(&wait(id, "")).await;
    }
    lines.say(&wait(256, "")).await;
    assert!(lines.hear().await.contains("256 calls are under way already"));
    lines.say(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#).await;
    assert_eq!(lines.hear().await, r#"{"jsonrpc":"2.0","id":"p","result":{}}"#);
}

#[tokio::test(start_paused = true)]
async fn calls_still_running_soon_after_the_last_line_are_dropped() {
    let server = Slow::new();
    let mut lines = Lines::start(&server);
    lines.say(&wait(1, "")).await;
    server.until(1).await;
    lines.ours.get_mut().shutdown().await.unwrap();
    lines.serving.await.unwrap().unwrap();
    assert_eq!(server.under_way.load(Ordering::SeqCst), 0);
}

fn post(session: &str, body: String) -> Request<bytes::Bytes> {
    Request::post("/").header("mcp-session-id", session).body(body.into()).unwrap()
}

#[tokio::test]
async fn a_session_s_own_cancellation_counts() {
    let server = Slow::new();
    let endpoint = Endpoint::new(Arc::<Slow>::clone(&server));
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
    let begun = endpoint.answer(post("", hello.into())).await;
    let session = begun.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let again = endpoint.answer(post("", hello.into())).await;
    assert_ne!(again.headers()["mcp-session-id"].to_str().unwrap(), session);
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    let calling = endpoint.answer(post(&session, wait(1, "")));
    let cancelling = async {
        server.until(1).await;
        endpoint.answer(post("other", cancel.into())).await;
        assert_eq!(server.under_way.load(Ordering::SeqCst), 1);
        assert_eq!(endpoint.answer(post(&session, cancel.into())).await.status(), 202);
    };
    let (answer, ()) = tokio::join!(calling, cancelling);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8(body.to_vec()).unwrap().contains("-32800"));
    assert_eq!(server.under_way.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn reports_come_before_the_answer_and_the_verdict_beside_it() {
    let server = Slow::new();
    let endpoint = Endpoint::new(Arc::<Slow>::clone(&server));
    let answer = endpoint.answer(post("s", wait(1, WITH_PROGRESS))).await;
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let verdict = answer.extensions().get::<Verdict>().unwrap().clone();
    assert!(!verdict.has_failed());
    server.gate.add_permits(1);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let expected = format!("data: {REPORT}\n\ndata: {{\"jsonrpc\":\"2.0\",\"id\":1,{DONE}\n\n");
    assert_eq!(String::from_utf8(body.to_vec()).unwrap(), expected);
    assert!(verdict.has_failed());
    // Dropping the answer cancels the call.
    let answer = endpoint.answer(post("s", wait(2, WITH_PROGRESS))).await;
    server.until(1).await;
    drop(answer);
    assert_eq!(server.under_way.load(Ordering::SeqCst), 0);
}
