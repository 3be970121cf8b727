//! Misbehaving children: the caller gets an error, and other callers are not affected.

use sluice_http::SendError;
use sluice_stdio::Instances;

use crate::client::{Server, call, until};

#[tokio::test]
async fn a_broken_answer_costs_only_its_caller() {
    let server = Server::new("legacy", Instances::Shared);
    let session = server.begin().await;
    let hanging = server.call(&session, "1", "hold");
    let others = async {
        let held = || server.recorded().iter().any(|line| line.contains("\"hold\""));
        until("the call is held", held).await;
        for tool in ["garbage", "long"] {
            let error = server.call(&session, "2", tool).await.unwrap_err();
            assert!(
                matches!(&error, SendError::Lost(why) if why.contains("its answer")),
                "{error}"
            );
        }
        let forged = server.call(&session, "3", "forged").await.unwrap();
        assert_eq!(forged.text(), "true");
        server.call(&session, "4", "release").await.unwrap();
    };
    let (held, ()) = tokio::join!(hanging, others);
    assert_eq!(held.unwrap().text(), "first");
}

#[tokio::test]
async fn a_child_that_dies_is_started_again_but_not_at_once_for_ever() {
    let server = Server::new("legacy", Instances::Shared);
    let session = server.begin().await;
    let error = server.call(&session, "1", "die").await.unwrap_err();
    assert!(matches!(&error, SendError::Lost(why) if why.contains("exit status: 3")), "{error}");
    let answer = server.call(&session, "2", "echo").await.unwrap();
    assert_eq!(answer.status, 200, "the session outlives the child");
    let late = server.call(&session, "3", "dielate").await.unwrap();
    assert!(late.is_stream() && late.body.contains("-32603"), "{late:?}");
    let error = server.call(&session, "4", "echo").await.unwrap_err();
    let SendError::NotStarted(why) = error else { panic!("{error}") };
    assert!(why.contains("not started again within"), "{why}");
}

#[tokio::test]
async fn subscriptions_are_made_again_at_a_new_child() {
    let server = Server::new("legacy", Instances::Shared);
    let session = server.begin().await;
    let subscribe =
        r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///a"}}"#;
    server.post(&session, subscribe).await.unwrap();
    assert!(server.call(&session, "2", "die").await.is_err());
    let mut stream = server.listen(&session).await;
    server.call(&session, "3", "touched").await.unwrap();
    assert!(stream.next().await.unwrap().contains("resources/updated"));
    let again =
        server.recorded().iter().filter(|line| line.contains("resources/subscribe")).count();
    assert_eq!(again, 2);
}

#[tokio::test]
async fn a_line_without_end_ends_the_child() {
    let server = Server::new("legacy", Instances::Shared);
    let error = server.call("", "1", "endless").await.unwrap_err();
    assert!(error.to_string().contains("without end"), "{error}");
    assert_eq!(server.call("", "2", "echo").await.unwrap().status, 200);
}

#[tokio::test]
async fn a_child_that_does_not_read_blocks_nobody_for_ever() {
    let server = Server::new("legacy", Instances::Session);
    let (one, two) = (server.begin().await, server.begin().await);
    server.call(&one, "1", "deaf").await.unwrap();
    let bulk = format!(r#""params":{{"bulk":"{}","#, "x".repeat(20 << 20));
    let large = call("2", "echo").replace(r#""params":{"#, &bulk);
    let (first, second, other) = tokio::join!(
        server.post(&one, &large),
        async {
            // The first waits for an answer that does not come.
            let second = server.post(&one, &large).await;
            server.delete(&one).await;
            second
        },
        server.call(&two, "1", "echo"),
    );
    assert!(first.unwrap_err().to_string().contains("the session was ended"));
    assert!(second.unwrap_err().to_string().contains("does not read"));
    assert_eq!(other.unwrap().status, 200);
}

#[tokio::test]
async fn a_command_that_cannot_be_started_says_why() {
    let check = async |command: &[&str], expected: &str| {
        let command = command.iter().map(ToString::to_string).collect();
        let server = Server::of(command, Instances::Shared);
        let error = server.call("", "1", "echo").await.unwrap_err();
        assert!(matches!(&error, SendError::NotStarted(why) if why.contains(expected)), "{error}");
    };
    check(&["no-such-program"], "command `no-such-program` is not found\nhint: ").await;
    check(&["/etc/passwd"], "not executable").await;
    check(&["sh", "-c", "exit 7"], "exit status: 7) before it introduced itself\nhint: ").await;
    let complains = "echo first >&2; printf '\\033[31msecond %s' \"$RECORD\" >&2; exit 7";
    let expected = "exit status: 7) before it introduced itself: \"first | second [secret]\"";
    check(&["sh", "-c", complains], expected).await;
    let complains = "echo \"bad $2 at $3\" >&2; echo wrong hushed-word >&2; exit 7";
    let command =
        ["sh", "-c", complains, "sh", "--token", "sk-hush1", "postgres://me:hushed-word@h/db"];
    check(&command, "itself: \"bad [secret] at postgres://[secret]@h/db | wrong [secret]\"").await;
}
