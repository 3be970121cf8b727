//! One child shared by all clients, whose requests are kept apart.

use sluice_stdio::Instances;

use crate::client::{Server, call, until};

#[tokio::test]
async fn callers_share_a_child_under_their_own_ids() {
    let server = Server::new("legacy", Instances::Shared);
    let (one, two) = (server.begin().await, server.begin().await);
    assert_ne!(one, two);
    let first = server.call(&one, "1", "echo").await.unwrap();
    let second = server.call(&two, "\"1\"", "echo").await.unwrap();
    let without = server.call("", "-7", "echo").await.unwrap();
    assert!(first.body.contains(r#""id":1,"#) && second.body.contains(r#""id":"1","#));
    assert!(without.body.contains(r#""id":-7,"#), "{without:?}");
    assert_eq!((first.text(), first.text()), (second.text(), without.text()));
    assert!(!first.is_stream());
    let initialised = server.recorded();
    let hello: Vec<_> = initialised.iter().filter(|line| line.contains("initialize\"")).collect();
    assert_eq!(hello.len(), 1);
    assert!(hello[0].contains(r#""capabilities":{}"#), "{hello:?}");
}

#[tokio::test]
async fn answers_may_come_in_any_order() {
    let server = Server::new("legacy", Instances::Shared);
    let session = server.begin().await;
    let held = server.call(&session, "1", "hold");
    let release = async {
        until("the call is held", || {
            server.recorded().iter().any(|line| line.contains("\"hold\""))
        })
        .await;
        server.call(&session, "2", "release").await
    };
    let (held, release) = tokio::join!(held, release);
    let (held, release) = (held.unwrap(), release.unwrap());
    assert!(held.body.contains(r#""id":1,"#) && held.text() == "first", "{held:?}");
    assert!(release.body.contains(r#""id":2,"#) && release.text() == "second", "{release:?}");
}

#[tokio::test]
async fn progress_reaches_the_client_that_gave_the_token() {
    let server = Server::new("legacy", Instances::Shared);
    let session = server.begin().await;
    let answer = server.call(&session, "5", "progress").await.unwrap();
    assert!(answer.is_stream());
    let (progress, result) = answer.body.split_once("\n\n").unwrap();
    assert!(progress.contains(r#""progressToken":"mine-progress""#), "{answer:?}");
    assert!(result.contains(r#""id":5,"#) && answer.text() == "done", "{answer:?}");
}

#[tokio::test]
async fn a_cancellation_reaches_only_the_sessions_own_request() {
    let server = Server::new("legacy", Instances::Shared);
    let (one, two) = (server.begin().await, server.begin().await);
    let hanging = server.call(&one, "9", "hang");
    let cancelling = async {
        let hangs = || server.recorded().iter().any(|line| line.contains("hang"));
        until("the call hangs", hangs).await;
        let cancel =
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}"#;
        // Another session's request of the same id is not meant.
        assert_eq!(server.post(&two, cancel).await.unwrap().status, 202);
        assert_eq!(server.post(&one, cancel).await.unwrap().status, 202);
    };
    let (hanging, ()) = tokio::join!(hanging, cancelling);
    let hanging = hanging.unwrap();
    assert!(hanging.status == 200 && hanging.is_stream() && hanging.body.is_empty(), "{hanging:?}");
    let sent = || {
        let lines = server.recorded();
        let number = |line: &String, key: &str| {
            let (_, rest) = line.split_once(key).unwrap();
            rest.split([',', '}']).next().unwrap().to_owned()
        };
        let hung =
            lines.iter().find(|line| line.contains("hang")).map(|line| number(line, "\"id\":"));
        let cancelled: Vec<_> = lines
            .iter()
            .filter(|line| line.contains("cancelled"))
            .map(|line| number(line, "\"requestId\":"))
            .collect();
        (hung, cancelled)
    };
    until("the cancellation arrives", || !sent().1.is_empty()).await;
    let (hung, cancelled) = sent();
    assert_eq!(cancelled, [hung.unwrap()]);
}

#[tokio::test]
async fn list_changes_reach_all_clients_and_updates_reach_subscribers() {
    let server = Server::new("legacy", Instances::Shared);
    let (one, two) = (server.begin().await, server.begin().await);
    let (mut first, mut second) = (server.listen(&one).await, server.listen(&two).await);
    let subscribe =
        r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///a"}}"#;
    assert!(server.post(&one, subscribe).await.unwrap().body.contains("\"result\""));
    assert!(server.post("", subscribe).await.unwrap().body.contains("needs a session"));
    server.call(&two, "2", "touched").await.unwrap();
    server.call(&two, "3", "changed").await.unwrap();
    assert!(first.next().await.unwrap().contains("resources/updated"));
    assert!(first.next().await.unwrap().contains("list_changed"));
    assert!(second.next().await.unwrap().contains("list_changed"), "and nothing before");
    assert_eq!(server.delete(&one).await, 200);
    assert_eq!(server.delete(&one).await, 404);
    assert!(first.next().await.is_none());
    let unsubscribed =
        || server.recorded().iter().any(|line| line.contains("resources/unsubscribe"));
    until("the last subscription ends", unsubscribed).await;
}

#[tokio::test]
async fn logs_and_requests_of_a_shared_child_reach_no_client() {
    let server = Server::new("legacy", Instances::Shared);
    let (one, two) = (server.begin().await, server.begin().await);
    let mut other = server.listen(&two).await;
    let answer = server.call(&one, "1", "log").await.unwrap();
    assert!(!answer.body.contains("secret"), "{answer:?}");
    assert_eq!(server.call(&one, "2", "ask").await.unwrap().text(), "refused");
    let level =
        r#"{"jsonrpc":"2.0","id":3,"method":"logging/setLevel","params":{"level":"debug"}}"#;
    assert!(server.post(&one, level).await.unwrap().body.contains(r#""result":{}"#));
    assert!(!server.recorded().iter().any(|line| line.contains("setLevel")));
    server.call(&one, "4", "changed").await.unwrap();
    assert!(other.next().await.unwrap().contains("list_changed"), "and nothing before");
}

#[tokio::test]
async fn unknown_sessions_and_invalid_messages_are_refused() {
    let server = Server::new("legacy", Instances::Shared);
    assert_eq!(server.call("none", "1", "echo").await.unwrap().status, 404);
    let stream = server.send("GET", &[("mcp-session-id", "none")], "").await.unwrap();
    assert_eq!(stream.status(), 404);
    assert_eq!(server.send("GET", &[], "").await.unwrap().status(), 405);
    assert_eq!(server.post("", "[]").await.unwrap().status, 400);
    // Line breaks between tokens do not end a message.
    let spread = call("1", "echo").replace(",\"", ",\r\n\"");
    assert!(server.post("", &spread).await.unwrap().body.contains("\"result\""));
}

/// The gateway gives up a request when its time is over: the child may work for others then.
#[tokio::test]
async fn a_request_that_is_given_up_is_cancelled_at_the_child() {
    for instances in [Instances::Shared, Instances::Session] {
        let server = Server::new("legacy", instances);
        let session = server.begin().await;
        let count =
            |what: &str| server.recorded().iter().filter(|line| line.contains(what)).count();
        let hanging = server.call(&session, "9", "hang");
        tokio::select! {
            answer = hanging => panic!("{answer:?}"),
            () = until("the call hangs", || count("hang") == 1) => {}
        }
        until("the child is told", || count("notifications/cancelled") == 1).await;
        let lines = server.recorded();
        let line = |what: &str| lines.iter().find(|line| line.contains(what)).unwrap().clone();
        let (_, rest) =
            line("hang").split_once("\"id\":").map(|(a, b)| (a.len(), b.to_owned())).unwrap();
        let number = rest.split([',', '}']).next().unwrap().to_owned();
        assert!(line("cancelled").contains(&format!("\"requestId\":{number},")), "{lines:?}");
        assert_eq!(server.call(&session, "10", "echo").await.unwrap().status, 200);
    }
}
