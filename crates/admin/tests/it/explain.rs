//! `/policies/explain`.

use axum::http::Method;
use serde_json::{Value, json};

use crate::fixture::{TestApi, request};

const EXPLAIN: &str = "/api/v1/policies/explain";

/// What is asked of a policy in the request.
fn ask(policy: &Value, more: &Value) -> Value {
    let mut asked = json!({"text": policy.to_string()});
    asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    asked
}

#[tokio::test]
async fn a_call_is_explained_by_a_text_with_times_and_readings() {
    let api = TestApi::new();
    let policy = json!({"version": "1", "default": "deny", "tools": {
        "pay": {"limits": [{"counter": "money", "window": "day", "max": 100, "increment_from": "args.amount"}]}
    }});
    let call = json!({"tool": "pay", "at": "2027-01-31T23:59:00Z", "used": {"money": 99.9}});
    let mut asked = ask(&policy, &call);
    asked["arguments"] = json!({"amount": 0.1});
    let told = api.post(EXPLAIN, &asked).await.expect(200);
    assert_eq!((&told["outcome"], &told["rule"]), (&"allow".into(), &Value::Null));
    assert_eq!(told["charges"][0]["used"].to_string(), "99.9");
    // Numbers keep every digit: no float is this large.
    let more = asked.to_string().replace(r#""amount":0.1"#, r#""amount":0.100000000000000001"#);
    let sent = request(Method::POST, EXPLAIN, "application/json", &more);
    let told = api.send(sent).await.expect(200);
    assert_eq!(told["rule"], "/tools/pay/limits/money");
    assert_eq!(told["retry_after_ms"], 60_000);
    let steps = told["trace"].as_array().unwrap();
    assert_eq!(steps.last().unwrap()["step"], "decision");
    assert!(api.messages().await.is_empty());
}

#[tokio::test]
async fn a_server_lends_its_definitions_and_policies() {
    let api = TestApi::new();
    let own = json!({"version": "1", "default": "allow", "extends": "declared"});
    let told = api.post(EXPLAIN, &ask(&own, &json!({"server": "files", "tool": "read"}))).await;
    let told = told.expect(200);
    assert_eq!((&told["outcome"], &told["base"]), (&"deny".into(), &"declared".into()));
    api.post(EXPLAIN, &ask(&own, &json!({"tool": "read"}))).await.expect(422);
    let by_category = json!({"version": "1", "default": "deny", "tools": {"@read": {}}});
    let known = ask(&by_category, &json!({"server": "files", "tool": "read"}));
    assert_eq!(api.post(EXPLAIN, &known).await.expect(200)["outcome"], "allow");
    let alone = ask(&by_category, &json!({"tool": "read"}));
    assert_eq!(api.post(EXPLAIN, &alone).await.expect(200)["rule"], "(unknown tool)");
}

#[tokio::test]
async fn policies_in_force_are_found_by_name_and_by_grant() {
    let api = TestApi::new();
    let named = json!({"server": "files", "policy": "declared", "tool": "read"});
    assert_eq!(api.post(EXPLAIN, &named).await.expect(200)["rule"], "(default deny)");
    let granted = json!({"server": "files", "grant": "alice", "tool": "read"});
    assert_eq!(api.post(EXPLAIN, &granted).await.expect(200)["rule"], "(default deny)");
    let bare = json!({"servers": ["files"], "label": "bare", "policy": "none-yet"});
    api.post("/api/v1/grants", &bare).await.expect(201);
    let granted = json!({"server": "files", "grant": "bare", "tool": "read"});
    assert_eq!(api.post(EXPLAIN, &granted).await.expect(200)["rule"], "(no policy)");
}

#[tokio::test]
async fn wrong_questions_are_refused_with_the_reason() {
    let api = TestApi::new();
    let other = json!({"name": "other", "url": "https://a.example.com/"});
    api.post("/api/v1/servers", &other).await.expect(201);
    let text = r#"{"version":"1","default":"deny"}"#;
    for (asked, status, part) in [
        (json!({"tool": "x"}), 422, "one of `policy`, `text` and `grant`"),
        (json!({"tool": "x", "policy": "declared"}), 422, "`policy` needs `server`"),
        (json!({"tool": "x", "grant": "alice"}), 422, "`grant` needs `server`"),
        (json!({"tool": "x", "server": "files", "policy": "declred"}), 404, "declred"),
        (json!({"tool": "x", "server": "fils", "policy": "declared"}), 404, "fils"),
        (json!({"tool": "x", "server": "other", "grant": "alice"}), 422, "may not call"),
        (json!({"tool": "x", "text": text, "policy": "p"}), 422, "exclude each other"),
        (json!({"tool": "x", "text": "{}"}), 422, "problems"),
        (json!({"tool": "x", "text": text, "at": "noon"}), 422, "`at` must be a time"),
        (json!({"tool": "x", "text": text, "used": {"a": 1}}), 422, "no counter `a`"),
        (json!({"tool": "x", "text": text, "used": {"a": -1}}), 422, "must not be negative"),
        (json!({"tool": "x", "text": text, "arguments": [1]}), 422, "must be an object"),
        (json!({"text": text}), 400, "tool"),
    ] {
        let refused = api.post(EXPLAIN, &asked).await.expect(status);
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains(part), "{asked}: {refused}");
    }
    let twice = r#"{"tool":"x","text":"{\"version\":\"1\",\"default\":\"deny\"}","arguments":{"a":1,"a":2}}"#;
    let sent = request(Method::POST, EXPLAIN, "application/json", twice);
    api.send(sent).await.expect(422);
}
