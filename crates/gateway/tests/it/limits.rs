//! Limits: exact under load, at the edges of windows, and for every amount.

use std::{
    net::TcpListener as StdListener,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use sluice_gateway::Configuration;
use sluice_store::TokenHash;
use sluice_testkit::{End, Recorded, Reply, Upstream, mcp_server};

use crate::harness::{Harness, NOON, TOKEN, at, grant, json, policy, server};

const BOB: &str = "sg_test_token_of_bob";
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#;

async fn start(rules: &str) -> Harness {
    Harness::start(rules, mcp_server("[]")).await
}

/// Calls, and gives the rule of the denial; empty if it went through.
async fn denied_by(harness: &Harness, tool: &str, arguments: &str) -> String {
    let answer = harness.call(tool, arguments).await;
    at(&json(&answer), "result/_meta/sluicegate~decision/rule").trim_matches('"').to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_hundred_calls_at_once_just_ten_get_through() {
    let rules = r#"{"version":"1","default":"deny","tools":{"read":{"rate_limit":"10/minute"}}}"#;
    let harness = Arc::new(start(rules).await);
    let calls: Vec<_> = (0..200)
        .map(|_| {
            let harness = Arc::clone(&harness);
            tokio::spawn(async move { denied_by(&harness, "read", "{}").await })
        })
        .collect();
    let mut passed = 0;
    for call in calls {
        passed += usize::from(call.await.unwrap().is_empty());
    }
    assert_eq!((passed, harness.calls().len()), (10, 10));
}

#[tokio::test]
async fn of_two_counters_both_are_charged_or_none() {
    let rules = r#"{"version":"1","default":"deny",
      "all_tools":{"limits":[{"counter":"all","window":"minute","max":5}]},
      "tools":{"read":{"limits":[{"counter":"reads","window":"minute","max":2}]},"write":{}}}"#;
    let harness = start(rules).await;
    for expected in
        ["", "", "/tools/read/limits/reads", "/tools/read/limits/reads", "/tools/read/limits/reads"]
    {
        assert_eq!(denied_by(&harness, "read", "{}").await, expected);
    }
    // Had a refused call charged `all`, these would not fit.
    for expected in ["", "", "", "/all_tools/limits/all"] {
        assert_eq!(denied_by(&harness, "write", "{}").await, expected);
    }
    assert_eq!(harness.calls().len(), 5);
}

#[tokio::test]
async fn windows_begin_and_end_exactly() {
    let rules = r#"{"version":"1","default":"deny","tools":{"read":{"rate_limit":"1/minute"}}}"#;
    let harness = start(rules).await;
    let rule = "/tools/read/limits/read_rate";
    // From one minute to the next, then back into both, then on.
    for (millis, expected) in [
        (NOON + 59_999, ""),
        (NOON + 59_999, rule),
        (NOON + 60_000, ""),
        (NOON + 60_000, rule),
        (NOON + 119_999, rule),
        (NOON + 120_000, ""),
        (NOON, rule),
        (NOON + 60_000, rule),
        (NOON - 1, ""),
        (NOON - 1, rule),
        (NOON + 2_400_000, ""),
        (NOON + 120_000, rule),
    ] {
        harness.clock.store(millis, Ordering::Relaxed);
        assert_eq!(denied_by(&harness, "read", "{}").await, expected, "{}", millis - NOON);
    }
    assert_eq!(harness.calls().len(), 5);
}

#[tokio::test]
async fn denied_calls_consume_no_limit() {
    let rules = r#"{"version":"1","default":"deny","tools":{"read":{"rate_limit":"2/minute",
      "deny_if":[{"conditions":[{"path":"args.bad","op":"exists","value":true}]}]}}}"#;
    let harness = start(rules).await;
    for _ in 0..5 {
        assert_eq!(
            denied_by(&harness, "read", r#"{"bad":1}"#).await,
            "/tools/read/deny_if/args.bad-exists"
        );
        harness.post(&CALL.replace("\"read\"}", r#""read","Name":"x"}"#)).await;
    }
    for expected in ["", "", "/tools/read/limits/read_rate"] {
        assert_eq!(denied_by(&harness, "read", "{}").await, expected);
    }
}

#[tokio::test]
async fn charges_are_given_back_only_when_nothing_was_sent() {
    let rules = r#"{"version":"1","default":"deny","tools":{"read":{"rate_limit":"1/minute"}}}"#;
    // Nobody listens there.
    let port = StdListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let upstream = Upstream::start(mcp_server("[]")).await.unwrap();
    let configuration = Configuration {
        servers: vec![server("notes", &format!("http://127.0.0.1:{port}/mcp"))],
        policies: vec![policy("notes", "rules", rules)],
        grants: vec![(TokenHash::of(TOKEN), grant("alice", &["notes"], "rules"))],
    };
    let harness = Harness::with(upstream, configuration).await;
    for _ in 0..3 {
        let answer = harness.post(CALL).await;
        assert_eq!(answer.status, 502, "{}", answer.text());
        assert_eq!(at(&json(&answer), "error/data/side"), "\"upstream\"");
    }
    let records = harness.records().await;
    let outcomes = records.iter().filter(|record| at(record, "kind") == "\"outcome\"");
    assert_eq!(outcomes.filter(|record| at(record, "outcome") == "\"error\"").count(), 3);
    // This one reads the call, and then dies, errs, or says nothing of use.
    let deaths: [fn(&Recorded) -> Reply; 4] = [
        |_| Reply::json("{\"jsonrpc\":").ending(End::Broken),
        |_| Reply::empty(500),
        |_| Reply::json("nonsense"),
        |request| Reply::result(request, r#"{"content":[],"isError":true}"#),
    ];
    for death in deaths {
        let harness = Harness::start(rules, move |request: &Recorded| {
            match request.rpc_method().as_deref() {
                Some("tools/call") => death(request),
                _ => mcp_server("[]")(request),
            }
        })
        .await;
        harness.post(CALL).await;
        assert_eq!(denied_by(&harness, "read", "{}").await, "/tools/read/limits/read_rate");
        assert_eq!(harness.calls().len(), 1);
    }
}

/// A charge goes back to the window it came from, not to the one it is now.
#[tokio::test]
async fn a_refund_goes_to_the_window_that_was_charged() {
    let rules = r#"{"version":"1","default":"deny","tools":{"read":{"rate_limit":"1/minute"}}}"#;
    let port = StdListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let upstream = Upstream::start(mcp_server("[]")).await.unwrap();
    let mut configuration = Configuration {
        servers: vec![server("notes", &format!("http://127.0.0.1:{port}/mcp"))],
        policies: vec![policy("notes", "rules", rules)],
        grants: vec![(TokenHash::of(TOKEN), grant("alice", &["notes"], "rules"))],
    };
    let harness = Harness::with(upstream.clone(), configuration.clone()).await;
    assert_eq!(harness.post(CALL).await.status, 502);
    configuration.servers = vec![server("notes", &upstream.url())];
    harness.gateway.apply(&configuration).unwrap();
    for expected in ["", "/tools/read/limits/read_rate"] {
        assert_eq!(denied_by(&harness, "read", "{}").await, expected);
    }
}

#[tokio::test]
async fn counters_belong_to_whom_their_scope_says() {
    for (scope, alice_other, bob) in [
        ("grant", false, true),
        ("session", true, true),
        ("principal", false, false),
        ("server", false, false),
    ] {
        let rules = format!(
            r#"{{"version":"1","default":"deny","tools":{{"read":{{"limits":[{{"counter":"c","window":"minute","max":1,"scope":"{scope}"}}]}}}}}}"#
        );
        let upstream = Upstream::start(mcp_server("[]")).await.unwrap();
        let with_principal = |id: &str| {
            let mut grant = grant(id, &["notes"], "rules");
            grant.principal = Some("team".into());
            grant
        };
        let configuration = Configuration {
            servers: vec![server("notes", &upstream.url())],
            policies: vec![policy("notes", "rules", &rules)],
            grants: vec![
                (TokenHash::of(TOKEN), with_principal("alice")),
                (TokenHash::of(BOB), with_principal("bob")),
            ],
        };
        let harness = Harness::with(upstream, configuration).await;
        let send = async |token: &str, session: &str| {
            let token = format!("Bearer {token}");
            let headers = [("authorization", token.as_str()), ("mcp-session-id", session)];
            at(&json(&harness.post_with(&headers, CALL.as_bytes()).await), "result/isError")
                .is_empty()
        };
        let first = harness.session(TOKEN).await;
        let second = harness.session(TOKEN).await;
        let bobs = harness.session(BOB).await;
        assert!(send(TOKEN, &first).await, "{scope}");
        assert!(!send(TOKEN, &first).await, "{scope}");
        assert_eq!(send(TOKEN, &second).await, alice_other, "{scope}");
        assert_eq!(send(BOB, &bobs).await, bob, "{scope}");
    }
}

#[tokio::test]
async fn amounts_are_exact_and_an_invalid_amount_is_denied() {
    let rules = r#"{"version":"1","default":"deny","tools":{"pay":{"limits":[{"counter":"spent","window":"day","max":100,"increment_from":"args.amount"}]}}}"#;
    let harness = start(rules).await;
    let rule = "/tools/pay/limits/spent";
    for amount in [
        "\"5\"",
        "null",
        "-1",
        "-0.0000001",
        "\"NaN\"",
        "1e400",
        "1e308",
        "100.0000000000000000000000000001",
        "[1]",
        "{}",
        "true",
        "101",
        "123456789012345678901234567890",
        "1e-400",
        "1e99999999999",
    ] {
        let found = denied_by(&harness, "pay", &format!(r#"{{"amount":{amount}}}"#)).await;
        assert!(found.starts_with(rule), "{amount}: {found}");
    }
    assert!(denied_by(&harness, "pay", "{}").await.starts_with(rule));
    assert!(
        denied_by(&harness, "pay", r#"{"amount":1,"Amount":50}"#).await.ends_with("(look-alike)")
    );
    assert!(denied_by(&harness, "pay", r#"{"Amount":50}"#).await.ends_with("(look-alike)"));
    assert!(harness.calls().is_empty());
    for amount in ["0.1", "0.2", "99.7", "0", "0.0", "-0", "0e9"] {
        let found = denied_by(&harness, "pay", &format!(r#"{{"amount":{amount}}}"#)).await;
        assert!(found.is_empty() || amount == "-0", "{amount}: {found}");
    }
    assert!(denied_by(&harness, "pay", r#"{"amount":0.000000001}"#).await.starts_with(rule));
}

/// Ten at a time, each in the same window, with a clock that jumps about.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_jumps_lets_no_window_overflow() {
    let rules = r#"{"version":"1","default":"deny","tools":{"read":{"rate_limit":"3/minute"}}}"#;
    let harness = Arc::new(start(rules).await);
    let jumps = Arc::new(AtomicI64::new(0));
    let calls: Vec<_> = (0..60)
        .map(|_| {
            let (harness, jumps) = (Arc::clone(&harness), Arc::clone(&jumps));
            tokio::spawn(async move {
                let jump = jumps.fetch_add(1, Ordering::Relaxed) % 4;
                harness.clock.store(NOON + jump * 60_000, Ordering::Relaxed);
                denied_by(&harness, "read", "{}").await
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    // A call is charged in the window of the time at which it is reserved, which may be
    // later than the time in its record: so the windows are filled, and all calls counted.
    for minute in 0..4 {
        harness.clock.store(NOON + minute * 60_000, Ordering::Relaxed);
        for _ in 0..4 {
            denied_by(&harness, "read", "{}").await;
        }
    }
    assert_eq!(harness.calls().len(), 4 * 3);
}
