//! A server whose definition changes while the gateway runs: what is known of the same
//! endpoint stays, and what is known of another one does not.

use std::time::Duration;

use sluice_store::{Secret, Transport};

use crate::{
    bridge::{before_legacy, reached},
    harness::{Harness, at, json},
};

/// Depends on definitions, so that the tools must be learnt.
const NO_WRITES: &str =
    r#"{"version":"1","default":"allow","tools":{"@destructive":{"action":"deny"}}}"#;

/// Calls as a modern client of a legacy server, for whom the bridge keeps a session.
async fn call(harness: &Harness) {
    let answer = harness.modern_call("echo", r#"{"n":1}"#).await;
    assert_eq!(at(&json(&answer), "result/resultType"), "\"complete\"", "{}", answer.text());
}

/// How often the server was introduced to somebody, and asked for its tools.
fn asked(harness: &Harness) -> [usize; 2] {
    ["initialize", "tools/list"].map(|method| reached(harness, method).len())
}

#[tokio::test]
async fn a_new_timeout_forgets_neither_the_learnt_tools_nor_the_session() {
    let (harness, _) = before_legacy(NO_WRITES).await;
    call(&harness).await;
    let before = asked(&harness);
    assert!(before.iter().all(|times| *times > 0), "{before:?}");
    let mut configuration = harness.configuration.clone();
    configuration.servers[0].timeout = Duration::from_secs(7);
    harness.gateway.apply(&configuration).unwrap();
    call(&harness).await;
    assert_eq!(asked(&harness), before);
    assert_eq!(reached(&harness, "tools/call").len(), 2);
}

#[tokio::test]
async fn a_new_header_is_sent_at_once_and_the_tools_are_learnt_again() {
    let (harness, _) = before_legacy(NO_WRITES).await;
    call(&harness).await;
    let [_, lists] = asked(&harness);
    let mut configuration = harness.configuration.clone();
    let Transport::Http { headers, .. } = &mut configuration.servers[0].transport else {
        panic!("the server is reached by HTTP")
    };
    headers.push(("x-key".into(), Secret::new("new".into())));
    harness.gateway.apply(&configuration).unwrap();
    call(&harness).await;
    assert_eq!(asked(&harness)[1], lists + 1);
    let calls = reached(&harness, "tools/call");
    let sent: Vec<_> = calls.iter().map(|call| call.header("x-key")).collect();
    assert_eq!(sent, [None, Some("new")]);
}

#[tokio::test]
async fn another_endpoint_of_the_same_name_is_learnt_from_the_beginning() {
    let (harness, _) = before_legacy(NO_WRITES).await;
    call(&harness).await;
    let before = asked(&harness);
    let mut configuration = harness.configuration.clone();
    let Transport::Http { url, .. } = &mut configuration.servers[0].transport else {
        panic!("the server is reached by HTTP")
    };
    url.push_str("?other");
    harness.gateway.apply(&configuration).unwrap();
    call(&harness).await;
    let after = asked(&harness);
    assert!(after.iter().zip(before).all(|(after, before)| *after > before), "{after:?}");
}
