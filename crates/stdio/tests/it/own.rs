//! One child per session.

use sluice_stdio::Instances;

use crate::client::{Server, Stream, call, runs, until};

#[tokio::test]
async fn each_session_has_its_child_until_it_ends() {
    let server = Server::new("legacy", Instances::Session);
    let (one, two) = (server.begin().await, server.begin().await);
    let first = server.call(&one, "1", "echo").await.unwrap().text().to_owned();
    let second = server.call(&two, "1", "echo").await.unwrap().text().to_owned();
    let common = server.call("", "1", "echo").await.unwrap().text().to_owned();
    assert!(first != second && second != common && first != common);
    let hello: Vec<_> =
        server.recorded().into_iter().filter(|line| line.contains("sampling")).collect();
    assert_eq!(hello.len(), 2, "the clients' own words: {hello:?}");
    assert_eq!(server.delete(&one).await, 200);
    until("its child ends", || !runs(&first)).await;
    assert!(runs(&second));
    assert_eq!(server.call(&one, "2", "echo").await.unwrap().status, 404);
    drop(server);
    until("all have ended", || !runs(&second) && !runs(&common)).await;
}

#[tokio::test]
async fn a_child_can_ask_its_client() {
    let server = Server::new("legacy", Instances::Session);
    let session = server.begin().await;
    let call = crate::client::call("1", "ask");
    let answer =
        server.send("POST", &[("mcp-session-id", &session)], &call).await.unwrap().into_body();
    let mut stream = crate::client::Stream::new(answer);
    let asked = stream.next().await.unwrap();
    assert!(asked.contains(r#""id":"ask-1""#) && asked.contains("sampling"), "{asked}");
    for id in ["\"ask-2\"", "\"ask-1\"", "\"ask-1\""] {
        let reply = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        assert_eq!(server.post(&session, &reply).await.unwrap().status, 202);
    }
    assert!(stream.next().await.unwrap().contains("answered"));
    assert!(stream.next().await.is_none());
    server.call(&session, "2", "echo").await.unwrap();
    let replies = server.recorded().iter().filter(|line| line.contains("ask-")).count();
    assert_eq!(replies, 1, "only the answer that was asked for, once");
}

#[tokio::test]
async fn logs_are_the_clients_own() {
    let server = Server::new("legacy", Instances::Session);
    let session = server.begin().await;
    let answer = server.call(&session, "1", "log").await.unwrap();
    assert!(answer.is_stream() && answer.body.contains("secret"), "{answer:?}");
    server.call(&session, "2", "changed").await.unwrap();
    let mut stream = server.listen(&session).await;
    assert!(stream.next().await.unwrap().contains("list_changed"), "kept until it was opened");
}

#[tokio::test]
async fn a_session_ends_with_its_child() {
    let server = Server::new("legacy", Instances::Session);
    let session = server.begin().await;
    let mut stream = server.listen(&session).await;
    assert!(server.call(&session, "1", "die").await.is_err());
    assert!(stream.next().await.is_none());
    assert_eq!(server.call(&session, "2", "echo").await.unwrap().status, 404);
}

#[tokio::test]
async fn a_ping_before_the_introduction_is_answered_for_the_client() {
    let server = Server::new("early", Instances::Session);
    let session = server.begin().await;
    server.call(&session, "1", "echo").await.unwrap();
    let answered = r#"{"jsonrpc":"2.0","id":"early","result":{}}"#;
    assert!(server.recorded().iter().any(|line| line == answered), "{:?}", server.recorded());
}

#[tokio::test]
async fn many_sessions_leave_nothing_behind() {
    let server = Server::new("legacy", Instances::Session);
    let mut pids = Vec::new();
    for _ in 0..10 {
        let begun = std::iter::repeat_with(|| server.begin()).take(10);
        for session in futures_util::future::join_all(begun).await {
            pids.push(server.call(&session, "1", "echo").await.unwrap().text().to_owned());
            assert_eq!(server.delete(&session).await, 200);
        }
    }
    pids.sort();
    pids.dedup();
    assert_eq!(pids.len(), 100);
    until("all have ended", || !pids.iter().any(|pid| runs(pid))).await;
}

#[tokio::test]
async fn log_lines_too_many_for_one_call_cost_neither_it_nor_another() {
    let server = Server::new("legacy", Instances::Session);
    let session = server.begin().await;
    let headers = [("mcp-session-id", session.as_str())];
    let others = async {
        let held = || server.recorded().iter().any(|line| line.contains("\"hold\""));
        until("the call is held", held).await;
        let flood = server.send("POST", &headers, &call("2", "flood")).await.unwrap();
        let mut flood = Stream::new(flood.into_body());
        // Nobody reads meanwhile; the answer to this comes after the last line.
        let ping = r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#;
        server.post(&session, ping).await.unwrap();
        server.call(&session, "4", "release").await.unwrap();
        for _ in 0..1000 {
            assert!(flood.next().await.unwrap().contains("notifications/message"));
        }
        server.call(&session, "5", "drained").await.unwrap();
        let mut last = String::new();
        while let Some(event) = flood.next().await {
            last = event;
        }
        assert!(last.contains(r#""text":"flooded""#), "{last}");
    };
    let (held, ()) = tokio::join!(server.call(&session, "1", "hold"), others);
    let held = held.unwrap();
    assert!(!held.is_stream() && held.text() == "first", "{held:?}");
}
