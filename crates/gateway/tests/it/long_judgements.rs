//! Judging a large message does not keep other calls waiting.

use sluice_store::TokenHash;
use sluice_testkit::{RawClient, Upstream, mcp_server};
use tokio::task::JoinSet;

use crate::harness::{Harness, at, grant, json, request};

const TOOLS: &str = r#"[{"name":"t","inputSchema":{"type":"object"}},{"name":"u"}]"#;

const SEARCHING: &str = r#"{"version":"1","default":"allow","tools":{"t":{"deny_if":[{"conditions":[
  {"path":"args.q","op":"regex","value":"(?s)a.{400}z"}]}]}}}"#;

/// Text on which the regex below has many different ways to go on.
fn scrambled(length: usize) -> String {
    let mut state: u32 = 1;
    let mut letter = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if state >> 31 == 0 { 'a' } else { 'b' }
    };
    (0..length).map(|_| letter()).collect()
}

fn call(harness: &Harness, tool: &str, text: &str) -> Vec<u8> {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{{"q":"{text}"}}}}}}"#
    );
    request("POST", "/mcp/notes", harness.address, &[], body.as_bytes())
}

/// The few first connections share one thread.
#[tokio::test]
async fn other_calls_of_a_thread_are_answered_while_a_long_text_is_searched() {
    let harness = Harness::start(SEARCHING, mcp_server(TOOLS)).await;
    let mut slow = RawClient::connect(harness.address).await.unwrap();
    slow.send(&call(&harness, "t", &scrambled(40_000))).await.unwrap();
    let mut quick = RawClient::connect(harness.address).await.unwrap();
    let mut answered_meanwhile = 0;
    let searched = loop {
        quick.send(&call(&harness, "u", "x")).await.unwrap();
        tokio::select! {
            biased;
            searched = slow.answer() => break searched.unwrap().unwrap(),
            answer = quick.answer() => {
                assert_eq!(answer.unwrap().unwrap().status, 200);
                answered_meanwhile += 1;
            }
        }
    };
    assert_eq!(searched.status, 200);
    // Searching takes a hundred times as long as a call, however busy the machine.
    assert!(answered_meanwhile >= 10, "{answered_meanwhile} calls while the text was searched");
}

/// One grant has at most half of the turns.
#[tokio::test]
async fn a_grant_with_many_long_texts_does_not_take_the_turns_of_others() {
    const BOB: &str = "sg_test_token_of_bob";
    let upstream = Upstream::start(mcp_server(TOOLS)).await.unwrap();
    let mut configuration = Harness::configuration(&upstream, SEARCHING);
    let bob = grant("bob", &["notes"], "rules");
    configuration.grants.push((TokenHash::of(BOB), bob));
    let harness = Harness::with(upstream, configuration).await;
    let bearer = format!("Bearer {BOB}");
    let text = "x".repeat(15_000);
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{{"q":"{text}"}}}}}}"#
    );
    let headers = [("authorization", bearer.as_str())];
    let bytes = request("POST", "/mcp/notes", harness.address, &headers, body.as_bytes());
    let (last, begin) = bytes.split_last().unwrap();
    // All but the last byte is there before, so that it is soon there as a whole.
    let mut other = RawClient::connect(harness.address).await.unwrap();
    other.send(begin).await.unwrap();
    let mut waiting = JoinSet::new();
    for _ in 0..48 {
        let mut slow = RawClient::connect(harness.address).await.unwrap();
        slow.send(&call(&harness, "t", &scrambled(5_000))).await.unwrap();
        waiting.spawn(async move { slow.answer().await.unwrap().unwrap().status });
    }
    // The first text is being searched, so the others have come too, or come now.
    assert_eq!(waiting.join_next().await.unwrap().unwrap(), 200);
    other.send(&[*last]).await.unwrap();
    let answer = other.answer().await.unwrap().unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    while waiting.try_join_next().is_some() {}
    assert!(waiting.len() >= 24, "{} texts of the other grant were still waiting", waiting.len());
    assert!(waiting.join_all().await.iter().all(|status| *status == 200));
}

/// What is judged apart is judged alike.
#[tokio::test]
async fn a_large_call_is_judged_recorded_and_sent_like_a_small_one() {
    const RULES: &str = r#"{"version":"1","default":"allow","hide":["drop"],"tools":{"t":{
      "limits":[{"counter":"c","window":"day","max":2}],
      "deny_if":[{"conditions":[{"path":"args.q","op":"starts_with","value":"no"}]}]}}}"#;
    let harness = Harness::start(RULES, mcp_server(TOOLS)).await;
    let long = "x".repeat(200_000);
    let denied = harness.raw(&call(&harness, "t", &format!("no{long}"))).await;
    let rule = at(&json(&denied), "result/_meta/sluicegate~decision/rule");
    assert_eq!(rule, r#""/tools/t/deny_if/args.q-starts_with""#);
    let hidden = harness.raw(&call(&harness, "drop", &long)).await;
    assert!(hidden.text().contains("is not available"), "{}", hidden.text());
    for _ in 0..2 {
        let allowed = harness.raw(&call(&harness, "t", &long)).await;
        assert_eq!(at(&json(&allowed), "error"), "");
        assert_eq!(at(&json(&allowed), "result/isError"), "");
    }
    let spent = harness.raw(&call(&harness, "t", &long)).await;
    let rule = at(&json(&spent), "result/_meta/sluicegate~decision/rule");
    assert_eq!(rule, r#""/tools/t/limits/c""#);
    assert_eq!(harness.calls().len(), 2);
    let records = harness.records().await;
    let outcomes: Vec<_> = records
        .iter()
        .filter(|record| at(record, "kind") == r#""decision""#)
        .map(|record| at(record, "outcome"))
        .collect();
    assert_eq!(outcomes, [r#""deny""#, r#""hide""#, r#""allow""#, r#""allow""#, r#""deny""#]);
    harness.verify().await;
}
