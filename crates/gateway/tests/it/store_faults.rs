//! A store that fails stops calls, not the process; and they go on when it is well.

use rusqlite::Connection;
use sluice_testkit::{Recorded, Reply, mcp_server};

use crate::{
    harness::{Harness, at, json, request},
    talk::until,
};

const POLICY: &str = r#"{"version":"1","default":"deny","resources":"allow","tools":{"read":{"rate_limit":"5/minute"},"pay":{"action":"approve"}}}"#;

async fn ready(harness: &Harness) -> u16 {
    harness.raw(&request("GET", "/readyz", harness.address, &[], b"")).await.status
}

fn requests() -> [String; 4] {
    [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#.into(),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay"}}"#.into(),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"other"}}"#.into(),
        r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:b"}}"#.into(),
    ]
}

/// Breaks the store, sees that nothing leaves, mends it, and sees that calls do.
async fn check(break_it: impl FnOnce(&Connection), mend_it: impl FnOnce(&Connection)) {
    let harness =
        Harness::on_disk(POLICY, |request: &Recorded| match request.rpc_method().as_deref() {
            Some("resources/read") => Reply::result(request, r#"{"contents":[]}"#),
            _ => mcp_server("[]")(request),
        })
        .await;
    assert_eq!(harness.post(&requests()[0]).await.status, 200);
    assert_eq!(ready(&harness).await, 200);
    harness.store.flush().await.unwrap();
    let reached = || harness.calls().len() + harness.upstream.bodies_of("resources/read").len();
    let other = Connection::open(harness.folder.join("sluice.db")).unwrap();
    break_it(&other);
    for body in requests() {
        let answer = harness.post(&body).await;
        assert_eq!(answer.status, 503, "{body}: {}", answer.text());
        assert_eq!(at(&json(&answer), "error/code"), "-32603");
        assert_eq!(at(&json(&answer), "error/data/side"), "\"gateway\"");
        assert!(
            !answer.text().contains("sqlite") && !answer.text().contains("table"),
            "{}",
            answer.text()
        );
    }
    assert_eq!(reached(), 1);
    assert_eq!(ready(&harness).await, 503);
    // What is always open needs no record.
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    assert_eq!(harness.post(ping).await.status, 200);
    mend_it(&other);
    drop(other);
    for body in requests() {
        assert_eq!(harness.post(&body).await.status, 200, "{body}");
    }
    assert_eq!(reached(), 3);
    until("it is ready again", || harness.store.health().ok).await;
    assert_eq!(ready(&harness).await, 200);
    harness.store.flush().await.unwrap();
    harness.verify().await;
}

#[tokio::test]
async fn a_database_without_its_log() {
    check(
        |other| other.execute_batch("ALTER TABLE records RENAME TO gone").unwrap(),
        |other| other.execute_batch("ALTER TABLE gone RENAME TO records").unwrap(),
    )
    .await;
}

#[tokio::test]
async fn a_database_that_refuses_to_be_written() {
    check(
        |other| {
            other
                .execute_batch("CREATE TRIGGER stop BEFORE INSERT ON records BEGIN SELECT RAISE(ABORT, 'disk I/O error'); END")
                .unwrap();
        },
        |other| other.execute_batch("DROP TRIGGER stop").unwrap(),
    )
    .await;
}

#[tokio::test]
async fn a_database_that_somebody_keeps_locked() {
    check(
        |other| other.execute_batch("BEGIN IMMEDIATE").unwrap(),
        |other| other.execute_batch("ROLLBACK").unwrap(),
    )
    .await;
}

#[tokio::test]
async fn a_store_that_has_stopped() {
    let harness = Harness::start(POLICY, mcp_server("[]")).await;
    harness.store.clone().close().await.unwrap();
    for body in requests() {
        assert_eq!(harness.post(&body).await.status, 503, "{body}");
    }
    assert!(harness.calls().is_empty());
    assert!(harness.upstream.bodies_of("resources/read").is_empty());
}
