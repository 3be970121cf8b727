//! `/grants/{id}/access` and `/access`.

use axum::http::Method;
use serde_json::{Value, json};

use crate::fixture::{TestApi, request};

async fn put_policy(api: &TestApi, name: &str, policy: &Value) {
    let path = format!("/api/v1/servers/files/policies/{name}");
    let put = request(Method::PUT, &path, "application/json", &policy.to_string());
    api.send(put).await.expect(201);
}

async fn grant(api: &TestApi, label: &str, policy: &str, servers: &[&str]) -> String {
    let new = json!({"servers": servers, "label": label, "policy": policy});
    let created = api.post("/api/v1/grants", &new).await.expect(201);
    created["id"].as_str().unwrap().to_owned()
}

async fn list(api: &TestApi, query: &str) -> Value {
    api.get(&format!("/api/v1/access{query}")).await.expect(200)
}

fn labels(page: &Value) -> Vec<&str> {
    let rows = page["access"].as_array().unwrap().iter();
    rows.map(|row| row["grant"]["label"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn every_tool_of_a_grant_is_shown_with_the_rule_that_decides() {
    let api = TestApi::new();
    let policy = json!({"version": "1", "default": "deny", "tools": {"read": {
        "rate_limit": "10/minute", "concurrent": 2,
        "require": [{"conditions": [{"path": "args.path", "op": "starts_with", "value": "/"}]}],
    }}});
    put_policy(&api, "dev", &policy).await;
    grant(&api, "laptop", "dev", &["files"]).await;
    let page = api.get("/api/v1/grants/laptop/access").await.expect(200);
    let row = &page["access"][0];
    assert_eq!((&row["tool"], &row["outcome"]), (&"read".into(), &"depends".into()));
    assert_eq!((&row["category"], &row["risk"]), (&"read".into(), &"low".into()));
    assert_eq!(row["rule"], "/tools/read/require/args.path-starts_with");
    assert_eq!(row["conditions"], json!([row["rule"]]));
    assert_eq!(row["limits"][0]["counter"], "read_rate");
    assert_eq!(row["concurrent"][0]["max"], 2);
    let shown = api.get("/api/v1/servers/files/policies/dev").await.expect(200);
    let policy = json!({"name": "dev", "version": shown["version"], "source": "stored"});
    assert_eq!(row["policy"], policy);
    // The explanation agrees with a real call.
    let call = json!({"server": "files", "grant": "laptop", "tool": "read"});
    let told = api.post("/api/v1/policies/explain", &call).await.expect(200);
    assert_eq!(told["rule"], row["rule"]);
    api.get("/api/v1/grants/nobody/access").await.expect(404);
}

#[tokio::test]
async fn a_missing_policy_and_a_silent_server_are_named() {
    let api = TestApi::new();
    let silent = json!({"name": "silent", "url": "https://a.example.com/"});
    api.post("/api/v1/servers", &silent).await.expect(201);
    grant(&api, "wide", "none-yet", &["silent", "files"]).await;
    let page = api.get("/api/v1/grants/wide/access").await.expect(200);
    let why = json!([{"server": "silent", "why": "it ended: \"no key\""}]);
    assert_eq!(page["silent"], why);
    let row = &page["access"][0];
    assert_eq!((&row["outcome"], &row["rule"]), (&"deny".into(), &"(no policy)".into()));
    assert_eq!(row["policy"], Value::Null);
}

#[tokio::test]
async fn grants_are_found_by_what_they_may_call() {
    let api = TestApi::new();
    let open = json!({"version": "1", "default": "allow"});
    let shadow = json!({"version": "1", "default": "deny", "mode": "shadow"});
    put_policy(&api, "open", &open).await;
    put_policy(&api, "shadow", &shadow).await;
    for (label, policy) in [("may", "open"), ("passes", "shadow"), ("may-not", "declared")] {
        grant(&api, label, policy, &["files"]).await;
    }
    grant(&api, "gone", "open", &["files"]).await;
    api.delete("/api/v1/grants/gone").await.expect(204);
    let page = list(&api, "?category=read").await;
    assert_eq!(labels(&page), ["may", "passes"]);
    assert_eq!(page["access"][0]["rule"], "(default allow)");
    let shadow = json!({"outcome": "deny", "rule": "(default deny)"});
    assert_eq!(page["access"][1]["shadow"], shadow);
    assert_eq!(labels(&list(&api, "?outcome=deny").await), ["may-not", "alice"]);
    for none in ["?category=destructive", "?tool=write", "?risk=high"] {
        assert!(labels(&list(&api, none).await).is_empty(), "{none}");
    }
    api.get("/api/v1/access?server=nobody").await.expect(404);
    api.get("/api/v1/access?category=Read").await.expect(400);
    api.get("/api/v1/access?cursor=x").await.expect(422);
}

#[tokio::test]
async fn pages_go_on_where_the_one_before_ended() {
    let api = TestApi::new();
    put_policy(&api, "open", &json!({"version": "1", "default": "allow"})).await;
    let mut expected = Vec::new();
    for number in 0..5 {
        let label = format!("grant-{number}");
        expected.push(grant(&api, &label, "open", &["files"]).await);
    }
    expected.sort();
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = list(&api, &format!("?limit=2{cursor}")).await;
        let rows = page["access"].as_array().unwrap();
        assert!((1..=2).contains(&rows.len()));
        found.extend(rows.iter().map(|row| row["grant"]["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={}", next.replace('/', "%2F"));
    }
    assert_eq!(found, expected);
}

#[tokio::test]
async fn callers_without_a_token_are_listed_too() {
    let api = TestApi::new();
    put_policy(&api, "open", &json!({"version": "1", "default": "allow"})).await;
    assert!(labels(&list(&api, "").await).is_empty());
    api.live.let_anyone_call("files", "open");
    let page = list(&api, "").await;
    assert_eq!(labels(&page), ["anonymous:files"]);
    assert_eq!(page["access"][0]["policy"]["name"], "open");
}
