//! Children that no longer answer, and children that are only slow.

use std::time::Duration;

use sluice_stdio::Instances;
use tokio::time::Instant;

use crate::client::{Server, runs, until};

const HANG_TIMEOUT: Duration = Duration::from_millis(400);

/// Makes a call and gives it up when its time is over, as the gateway does.
async fn given_up(server: &Server, session: &str, tool: &str) {
    let call = server.call(session, "9", tool);
    assert!(tokio::time::timeout(HANG_TIMEOUT, call).await.is_err(), "it was answered");
}

/// Makes calls that their client cancels long before their time is over, for this long.
async fn cancel_early(server: &Server, session: &str, tool: &str, time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        let cancelled = async {
            tokio::time::sleep(HANG_TIMEOUT / 8).await;
            let cancel =
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}"#;
            server.post(session, cancel).await
        };
        let _ = tokio::join!(server.call(session, "9", tool), cancelled);
    }
}

async fn pid(server: &Server, session: &str) -> String {
    server.call(session, "1", "echo").await.unwrap().text().to_owned()
}

#[tokio::test]
async fn a_child_that_does_not_answer_any_more_is_replaced() {
    let server = Server::impatient("legacy", Instances::Shared, HANG_TIMEOUT);
    let session = server.begin().await;
    let first = pid(&server, &session).await;
    // From now on it neither reads nor answers.
    server.call(&session, "2", "deaf").await.unwrap();
    for _ in 0..3 {
        assert!(runs(&first));
        given_up(&server, &session, "echo").await;
    }
    until("it has ended", || !runs(&first)).await;
    assert_ne!(pid(&server, &session).await, first, "the session goes on with another");
}

#[tokio::test]
async fn the_child_of_a_session_is_replaced_by_that_of_another() {
    let server = Server::impatient("legacy", Instances::Session, HANG_TIMEOUT);
    let session = server.begin().await;
    let first = pid(&server, &session).await;
    server.call(&session, "2", "deaf").await.unwrap();
    for _ in 0..3 {
        given_up(&server, &session, "echo").await;
    }
    until("it has ended", || !runs(&first)).await;
    // The gateway then introduces its client anew.
    assert_eq!(server.call(&session, "3", "echo").await.unwrap().status, 404);
}

#[tokio::test]
async fn a_child_that_is_slow_with_one_call_is_kept() {
    let server = Server::impatient("legacy", Instances::Shared, HANG_TIMEOUT);
    let session = server.begin().await;
    let first = pid(&server, &session).await;
    for _ in 0..4 {
        // No other call is made meanwhile: it says itself that it is alive.
        given_up(&server, &session, "hang").await;
    }
    assert_eq!(pid(&server, &session).await, first);
    let pings = server.recorded().iter().filter(|line| line.contains("\"ping\"")).count();
    assert!(pings >= 1, "{:?}", server.recorded());
}

#[tokio::test]
async fn clients_that_cancel_early_do_not_keep_a_child_that_does_not_answer() {
    for instances in [Instances::Shared, Instances::Session] {
        let server = Server::impatient("legacy", instances, HANG_TIMEOUT);
        let session = server.begin().await;
        let first = pid(&server, &session).await;
        server.call(&session, "2", "deaf").await.unwrap();
        cancel_early(&server, &session, "echo", HANG_TIMEOUT * 5).await;
        until("it has ended", || !runs(&first)).await;
    }
}

#[tokio::test]
async fn clients_that_cancel_early_do_not_end_a_child_that_is_slow_with_one_call() {
    let server = Server::impatient("legacy", Instances::Shared, HANG_TIMEOUT);
    let session = server.begin().await;
    let first = pid(&server, &session).await;
    cancel_early(&server, &session, "hang", HANG_TIMEOUT * 5).await;
    assert_eq!(pid(&server, &session).await, first);
}

#[tokio::test]
async fn a_heartbeat_does_not_keep_a_child_that_does_not_answer() {
    let server = Server::impatient("legacy", Instances::Shared, HANG_TIMEOUT);
    let session = server.begin().await;
    let first = pid(&server, &session).await;
    server.call(&session, "2", "beat").await.unwrap();
    for _ in 0..4 {
        let call = server.call(&session, "9", "echo");
        let _ = tokio::time::timeout(HANG_TIMEOUT, call).await;
    }
    until("it has ended", || !runs(&first)).await;
}

#[tokio::test]
async fn a_child_that_reports_progress_of_a_call_is_kept() {
    let server = Server::impatient("legacy", Instances::Shared, HANG_TIMEOUT);
    let session = server.begin().await;
    let first = pid(&server, &session).await;
    let impatient = async {
        let busy = || server.recorded().iter().any(|line| line.contains("\"busy\""));
        until("it works", busy).await;
        for _ in 0..5 {
            given_up(&server, &session, "echo").await;
        }
    };
    let (answer, ()) = tokio::join!(server.call(&session, "2", "busy"), impatient);
    assert_eq!(answer.unwrap().text(), first);
}
