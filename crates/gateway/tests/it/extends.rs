//! Policies that extend a company-wide base: both judge, each in its own mode, and a base that is
//! edited takes effect in all policies that extend it.

use sluice_gateway::Configuration;
use sluice_store::{BaseFile, TokenHash};
use sluice_testkit::{Recorded, Reply, Upstream, mcp_server};

use crate::harness::{Harness, TOKEN, at, grant, json, policy, server};

const TOOLS: &str = r#"[{"name":"get"},{"name":"drop"},{"name":"pay"},{"name":"secret"}]"#;
const BASE: &str = r#"{"version":"1","default":"allow","hide":["secret"],
  "resources":{"allow":["file:///open/*"]},
  "tools":{"drop":{"action":"deny","reason":"Nobody drops anything here."},
           "pay":{"rate_limit":"2/hour"}}}"#;

fn answer(request: &Recorded) -> Reply {
    match request.rpc_method().as_deref() {
        Some("resources/read") => Reply::result(request, r#"{"contents":[]}"#),
        _ => mcp_server(TOOLS)(request),
    }
}

/// A gateway whose grant has this policy, beside the policy `company`.
async fn start(base: &str, own: &str) -> Harness {
    let upstream = Upstream::start(answer).await.unwrap();
    let mut configuration = Harness::configuration(&upstream, own);
    configuration.policies.push(policy("notes", "company", base));
    Harness::with(upstream, configuration).await
}

/// The outcome and rule of the last decision, and the version of the policy that made it.
async fn last(harness: &Harness) -> (String, String, String) {
    let records = harness.records().await;
    let record = records.iter().rfind(|record| at(record, "kind") == "\"decision\"").unwrap();
    let text = |path| at(record, path).trim_matches('"').to_owned();
    (text("outcome"), text("rule"), text("policy/version"))
}

async fn call(harness: &Harness, tool: &str) -> (String, String) {
    harness.call(tool, "{}").await;
    let (outcome, rule, _) = last(harness).await;
    (outcome, rule)
}

fn said(outcome: &str, rule: &str) -> (String, String) {
    (outcome.into(), rule.into())
}

/// The configuration with another text for a policy.
fn edited(harness: &Harness, name: &str, text: Option<&str>) -> Configuration {
    let mut configuration = harness.configuration.clone();
    configuration.policies.retain(|policy| policy.name.as_str() != name);
    configuration.policies.extend(text.map(|text| policy("notes", name, text)));
    configuration
}

#[tokio::test]
async fn what_the_company_denies_no_server_allows() {
    let own = r#"{"version":"1","default":"deny","extends":"company",
      "tools":{"drop":{},"get":{},"secret":{}},"resources":"allow"}"#;
    let harness = start(BASE, own).await;
    assert_eq!(call(&harness, "get").await, said("allow", ""));
    let answer = json(&harness.call("drop", "{}").await);
    assert!(at(&answer, "result/content/0/text").contains("Nobody drops anything here."));
    let rule = at(&answer, "result/_meta/sluicegate~decision/rule");
    assert_eq!(rule, "\"company:/tools/drop/deny_if\"");
    assert_eq!(call(&harness, "secret").await, said("hide", "company:(hidden)"));
    assert_eq!(call(&harness, "pay").await, said("deny", "(default deny)"));
    assert_eq!(harness.calls().len(), 1);
    let list = json(&harness.post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await);
    assert_eq!(at(&list, "result/tools"), r#"[{"name":"get"},{"name":"drop"}]"#);
    for (uri, rule) in [("file:///open/a", ""), ("file:///b", "company:/resources")] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{{"uri":"{uri}"}}}}"#
        );
        harness.post(&body).await;
        assert_eq!(last(&harness).await.1, rule, "{uri}");
    }
}

#[tokio::test]
async fn a_base_that_is_edited_takes_effect_at_once_under_a_new_version() {
    let own = r#"{"version":"1","default":"allow","extends":"company"}"#;
    let harness = start(BASE, own).await;
    assert_eq!(call(&harness, "get").await, said("allow", ""));
    let (.., before) = last(&harness).await;
    let stricter = r#"{"version":"1","default":"allow","tools":{"get":{"action":"deny"}}}"#;
    harness.gateway.apply(&edited(&harness, "company", Some(stricter))).unwrap();
    assert_eq!(call(&harness, "get").await, said("deny", "company:/tools/get/deny_if"));
    let (.., after) = last(&harness).await;
    assert_ne!(before, after);
    let [own_before, own_after] = [&before, &after].map(|version| version.split('+').next());
    assert_eq!(own_before, own_after, "only the base has changed");
    // Spelt in another way, the key is the same.
    let escaped = r#"{"version":"1","default":"allow","\u0065xtends":"company"}"#;
    harness.gateway.apply(&edited(&harness, "rules", Some(escaped))).unwrap();
    assert_eq!(call(&harness, "drop").await, said("deny", "company:/tools/drop/deny_if"));
    let mut both = edited(&harness, "company", Some(stricter));
    both.policies.retain(|policy| policy.name.as_str() != "rules");
    both.policies.push(policy("notes", "rules", escaped));
    harness.gateway.apply(&both).unwrap();
    assert_eq!(call(&harness, "get").await, said("deny", "company:/tools/get/deny_if"));
}

#[tokio::test]
async fn without_its_base_a_policy_allows_nothing() {
    let own = r#"{"version":"1","default":"allow","extends":"company"}"#;
    let harness = start(BASE, own).await;
    assert_eq!(call(&harness, "get").await, said("allow", ""));
    let broken = [None, Some(r#"{"version":"1","default":"allow","extends":"rules"}"#)];
    for base in broken {
        harness.gateway.apply(&edited(&harness, "company", base)).unwrap();
        assert_eq!(call(&harness, "get").await, said("deny", "(no policy)"), "{base:?}");
        let list = json(&harness.post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await);
        assert_eq!(at(&list, "result/tools"), "[]", "{base:?}");
    }
    harness.gateway.apply(&harness.configuration).unwrap();
    assert_eq!(call(&harness, "get").await, said("allow", ""));
}

#[tokio::test]
async fn a_base_is_enforced_under_a_policy_in_shadow_mode() {
    let own = r#"{"version":"1","default":"deny","mode":"shadow","extends":"company",
      "resources":"deny"}"#;
    let harness = start(BASE, own).await;
    assert_eq!(call(&harness, "get").await, said("shadow_deny", "(default deny)"));
    assert_eq!(call(&harness, "drop").await, said("deny", "company:/tools/drop/deny_if"));
    // What the policy in shadow mode denies is charged to the base all the same.
    for _ in 0..2 {
        assert_eq!(call(&harness, "pay").await, said("shadow_deny", "(default deny)"));
    }
    let refused = json(&harness.call("pay", "{}").await);
    assert!(at(&refused, "result/content/0/text").contains("Rate limit reached: 2 per hour"));
    assert_eq!(last(&harness).await.1, "company:/tools/pay/limits/pay_rate");
    assert_eq!(harness.calls().len(), 3);
    for (uri, outcome, rule) in [
        ("file:///open/a", "shadow_deny", "/resources"),
        ("file:///b", "deny", "company:/resources"),
    ] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{{"uri":"{uri}"}}}}"#
        );
        harness.post(&body).await;
        let (found, named, _) = last(&harness).await;
        assert_eq!((found.as_str(), named.as_str()), (outcome, rule), "{uri}");
    }
}

#[tokio::test]
async fn a_policy_is_enforced_over_a_base_in_shadow_mode() {
    let base = r#"{"version":"1","default":"allow","mode":"shadow",
      "tools":{"drop":{"action":"deny"},"pay":{"rate_limit":"1/hour"},"get":{"action":"approve"}}}"#;
    let own = r#"{"version":"1","default":"allow","extends":"company",
      "tools":{"pay":{"limits":[{"counter":"paid","window":"hour","max":2}]}}}"#;
    let harness = start(base, own).await;
    assert_eq!(call(&harness, "drop").await, said("shadow_deny", "company:/tools/drop/deny_if"));
    assert_eq!(call(&harness, "get").await, said("shadow_deny", "company:/tools/get/approval"));
    let limit = "company:/tools/pay/limits/pay_rate";
    for (outcome, rule) in [
        ("allow", ""),
        // The limit in shadow mode is over, and the other one is charged.
        ("shadow_deny", limit),
        ("deny", "/tools/pay/limits/paid"),
    ] {
        assert_eq!(call(&harness, "pay").await, said(outcome, rule));
    }
    assert_eq!(harness.calls().len(), 4);
}

#[tokio::test]
async fn both_charge_a_counter_that_both_name_once() {
    let base = r#"{"version":"1","default":"allow",
      "all_tools":{"limits":[{"counter":"calls","window":"hour","max":3}]}}"#;
    let own = r#"{"version":"1","default":"allow","extends":"company",
      "tools":{"pay":{"limits":[{"counter":"calls","window":"hour","max":2}]}}}"#;
    let harness = start(base, own).await;
    for (tool, outcome, rule) in [
        ("pay", "allow", ""),
        ("pay", "allow", ""),
        ("pay", "deny", "/tools/pay/limits/calls"),
        ("get", "allow", ""),
        ("get", "deny", "company:/all_tools/limits/calls"),
    ] {
        assert_eq!(call(&harness, tool).await, said(outcome, rule), "{tool}");
    }
}

#[tokio::test]
async fn an_approval_is_bound_to_the_version_of_the_base() {
    let base = r#"{"version":"1","default":"allow","tools":{"pay":{"approval":{"approvers":2}}}}"#;
    let own = r#"{"version":"1","default":"allow","extends":"company",
      "tools":{"pay":{"approval":{"expires":"5m"}}}}"#;
    let harness = start(base, own).await;
    let id = |answer| at(&json(&answer), "result/_meta/sluicegate~decision/approval/id");
    let first = id(harness.call("pay", "{}").await);
    assert_eq!(last(&harness).await.1, "company:/tools/pay/approval");
    assert_eq!(id(harness.call("pay", "{}").await), first, "the same call joins it");
    let other = base.replace("\"approvers\":2", "\"approvers\":1");
    harness.gateway.apply(&edited(&harness, "company", Some(&other))).unwrap();
    assert_ne!(id(harness.call("pay", "{}").await), first);
}

#[tokio::test]
async fn a_server_asks_the_client_only_what_both_permit() {
    let base = r#"{"version":"1","default":"allow","server_requests":["roots"]}"#;
    let own = r#"{"version":"1","default":"allow","extends":"company"}"#;
    let harness = start(base, own).await;
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{},"sampling":{}}}}"#;
    harness.post(hello).await;
    let declared = harness.upstream.bodies_of("initialize");
    assert!(declared.iter().any(|body| body.contains("roots") && !body.contains("sampling")));
}

#[tokio::test]
async fn a_file_beside_a_policy_is_its_base() {
    let own = r#"{"version":"1","default":"allow","extends":"./company.json"}"#;
    let upstream = Upstream::start(answer).await.unwrap();
    let mut configuration = Harness::configuration(&upstream, own);
    let file = |text: &str| BaseFile {
        name: "./company.json".into(),
        text: text.into(),
        format: sluice_policy::Format::Json,
    };
    configuration.policies[0].base_files = vec![file(BASE)];
    configuration.grants = vec![(TokenHash::of(TOKEN), grant("alice", &["notes"], "rules"))];
    configuration.servers = vec![server("notes", &upstream.url())];
    let harness = Harness::with(upstream, configuration).await;
    let rule = "./company.json:/tools/drop/deny_if";
    assert_eq!(call(&harness, "drop").await, said("deny", rule));
    let mut after = harness.configuration.clone();
    after.policies[0].base_files = vec![file(r#"{"version":"1","default":"allow"}"#)];
    harness.gateway.apply(&after).unwrap();
    assert_eq!(call(&harness, "drop").await, said("allow", ""));
}
