//! Legacy servers behind the bridge that send very much: many requests that no client can answer,
//! and large messages.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use sluice_testkit::{End, LegacyOnly, Recorded, Reply, Upstream};
use sluice_wire::json::{Bounds, Document};

use crate::{
    harness::{Harness, at},
    talk::{OPEN, mirrors, modern_body, until},
};

/// How many posts of one kind a server has to answer at a time.
#[derive(Default)]
struct Crowd {
    now: AtomicUsize,
    most: AtomicUsize,
    all: AtomicUsize,
}

/// Thousands of requests that no client can answer cost as many tasks and connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_that_no_client_can_answer_are_turned_away_in_order() {
    let question = |id: usize| {
        format!(
            "data: {{\"jsonrpc\":\"2.0\",\"id\":\"q{id}\",\"method\":\"sampling/createMessage\",\"params\":{{}}}}\n\n"
        )
    };
    let flood = (0..2000).map(question).collect::<Vec<_>>().concat();
    for on_stream in [true, false] {
        let (server, flood) = (LegacyOnly::default(), flood.clone());
        let crowd = Arc::new(Crowd::default());
        let seen = Arc::clone(&crowd);
        let upstream = Upstream::start(move |request: &Recorded| {
            let method = request.rpc_method();
            if request.method == "GET" && on_stream {
                return Reply::events(flood.clone()).ending(End::Never);
            }
            if method.as_deref() == Some("tools/call") && !on_stream {
                return Reply::events(flood.clone()).ending(End::Never);
            }
            if method.is_none() && request.text().contains("\"error\"") {
                let now = seen.now.fetch_add(1, Ordering::Relaxed) + 1;
                seen.most.fetch_max(now, Ordering::Relaxed);
                seen.all.fetch_add(1, Ordering::Relaxed);
                // The others could come meanwhile.
                std::thread::sleep(Duration::from_millis(2));
                seen.now.fetch_sub(1, Ordering::Relaxed);
                return Reply::empty(202);
            }
            server.reply(request)
        });
        let upstream = upstream.await.unwrap();
        let configuration = Harness::configuration(&upstream, OPEN);
        let harness = Harness::with(upstream, configuration).await;
        let answer = harness.modern_call("echo", "{}").await;
        until("they are turned away", || crowd.all.load(Ordering::Relaxed) == 64).await;
        if !on_stream {
            assert_eq!(answer.status, 502, "{}", answer.text());
            assert!(answer.text().contains("more than 64 requests"), "{}", answer.text());
        }
        assert_eq!(harness.modern("tools/list", None, "").await.status, 200);
        assert_eq!(crowd.all.load(Ordering::Relaxed), 64);
        assert_eq!(crowd.most.load(Ordering::Relaxed), 1);
    }
}

/// Large messages are read on another thread.
#[tokio::test]
async fn large_events_and_documents_arrive_whole_and_in_order() {
    let large = "x".repeat(600 << 10);
    for is_stream in [true, false] {
        let (server, large) = (LegacyOnly::default(), large.clone());
        let upstream = Upstream::start(move |request: &Recorded| {
            if request.rpc_method().as_deref() != Some("tools/call") {
                return server.reply(request);
            }
            let id = request.rpc_id();
            let result = format!(r#"{{"content":[{{"type":"text","text":"{large}"}}]}}"#);
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
            if !is_stream {
                return Reply::json(answer);
            }
            let said = |data: &str| {
                let params = format!(r#"{{"level":"error","data":"{data}"}}"#);
                format!(
                    r#"data: {{"jsonrpc":"2.0","method":"notifications/message","params":{params}}}"#
                )
            };
            let events = [said("first"), said(&large), said("third"), format!("data: {answer}")];
            Reply::events(events.join("\n\n") + "\n\n")
        })
        .await
        .unwrap();
        let configuration = Harness::configuration(&upstream, OPEN);
        let harness = Harness::with(upstream, configuration).await;
        let body = modern_body("tools/call", r#""name":"echo","arguments":{}"#, "{}")
            .replace(r#""_meta":{"#, r#""_meta":{"io.modelcontextprotocol/logLevel":"debug","#);
        let headers = mirrors("tools/call", Some("echo"));
        let answer = harness.post_with(&headers, body.as_bytes()).await;
        assert_eq!(answer.status, 200);
        let text = answer.text();
        let events = text.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
        let heard: Vec<_> = events
            .filter(|line| line.starts_with('{'))
            .map(|line| Document::parse(line, &Bounds::default()).unwrap())
            .collect();
        let lengths: Vec<_> = heard.iter().map(|said| at(said, "params/data").len()).collect();
        if is_stream {
            assert_eq!(lengths, [7, (600 << 10) + 2, 7, 0]);
        }
        let text = at(heard.last().unwrap(), "result/content/0/text");
        assert_eq!(text.len(), (600 << 10) + 2);
    }
}
