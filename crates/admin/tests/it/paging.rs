//! Lists page by page, and their filters.

use axum::http::Method;
use serde_json::{Value, json};
use sluice_policy::Timestamp;
use sluice_store::{Approval, GrantRef, Kind, PolicyRef, Record, new_id};

use crate::fixture::{TestApi, request};

/// The values of `field` of all items, in pages of two.
async fn collect(api: &TestApi, path: &str, key: &str, field: &str) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let mark = if path.contains('?') { '&' } else { '?' };
        let page = api.get(&format!("{path}{mark}limit=2{cursor}")).await.expect(200);
        let items = page[key].as_array().unwrap();
        assert!(items.len() <= 2);
        found.extend(items.iter().map(|item| item[field].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { return found };
        assert_eq!(items.len(), 2, "only the last page is short");
        cursor = format!("&cursor={next}");
    }
}

async fn add_servers(api: &TestApi, count: usize) {
    for number in 0..count {
        let server = json!({"name": format!("s{number}"), "url": "https://a.example.com/"});
        api.post("/api/v1/servers", &server).await.expect(201);
    }
}

#[tokio::test]
async fn servers_are_paged_by_name() {
    let api = TestApi::new();
    add_servers(&api, 4).await;
    let path = "/api/v1/servers";
    assert_eq!(collect(&api, path, "servers", "name").await, ["files", "s0", "s1", "s2", "s3"]);
    let stored = format!("{path}?source=stored");
    assert_eq!(collect(&api, &stored, "servers", "name").await, ["s0", "s1", "s2", "s3"]);
    let none = format!("{path}?transport=stdio");
    assert!(collect(&api, &none, "servers", "name").await.is_empty());
    api.get("/api/v1/servers?source=mine").await.expect(400);
    api.get("/api/v1/servers?page=2").await.expect(400);
}

#[tokio::test]
async fn policies_and_their_versions_are_paged() {
    let api = TestApi::new();
    let path = "/api/v1/servers/files/policies";
    for number in 0..5 {
        for name in ["dev", "ops"] {
            let text =
                json!({"version": "1", "default": "deny", "description": format!("{number}")});
            let put = format!("{path}/{name}");
            let put = request(Method::PUT, &put, "application/json", &text.to_string());
            assert!(api.send(put).await.status.is_success());
        }
    }
    assert_eq!(collect(&api, path, "policies", "name").await, ["declared", "dev", "ops"]);
    let stored = format!("{path}?source=stored");
    assert_eq!(collect(&api, &stored, "policies", "name").await, ["dev", "ops"]);
    let versions = format!("{path}/dev/versions");
    let texts = collect(&api, &versions, "versions", "text").await;
    let numbers: Vec<Value> = texts
        .iter()
        .map(|text| serde_json::from_str::<Value>(text).unwrap()["description"].take())
        .collect();
    assert_eq!(numbers, ["4", "3", "2", "1", "0"]);
    let all = api.get(&versions).await.expect(200);
    assert_eq!((all["versions"].as_array().unwrap().len(), &all["next"]), (5, &Value::Null));
}

#[tokio::test]
async fn grants_have_filters() {
    let api = TestApi::new();
    add_servers(&api, 1).await;
    for (label, server, principal) in
        [("a", "s0", "ada"), ("b", "files", "ada"), ("c", "s0", "bob")]
    {
        let new =
            json!({"servers": [server], "label": label, "policy": label, "principal": principal});
        api.post("/api/v1/grants", &new).await.expect(201);
    }
    for (query, mut expected) in [
        ("server=s0", vec!["a", "c"]),
        ("principal=ada", vec!["a", "b"]),
        ("principal=ada&server=s0", vec!["a"]),
        ("policy=declared", vec!["alice"]),
    ] {
        let path = format!("/api/v1/grants?{query}");
        let mut found = collect(&api, &path, "grants", "label").await;
        found.sort();
        expected.sort_unstable();
        assert_eq!(found, expected, "{query}");
    }
}

async fn hold(api: &TestApi, tool: &str, label: &str) {
    let at = Timestamp::from_millis(4_000_000_000_000);
    let approval = Approval {
        digest: format!("{tool} {label}"),
        server: "files".into(),
        grant: GrantRef { id: format!("id-{label}").into(), label: label.into() },
        principal: None,
        tool: tool.into(),
        rule: "/tools/x/approval".into(),
        approvers: 1,
        message: "ask".into(),
        policy: PolicyRef { name: "dev".into(), version: "1".into() },
        arg_keys: Vec::new(),
        requested_at: at,
        expires_at: Timestamp::from_millis(at.as_millis() + 900_000),
    };
    api.store.hold(approval, Record::new(new_id(at), at, Kind::Decision)).await.unwrap();
}

#[tokio::test]
async fn held_calls_are_paged_and_filtered() {
    let api = TestApi::new();
    for (tool, label) in [("pay", "a"), ("drop", "a"), ("pay", "b")] {
        hold(&api, tool, label).await;
    }
    let path = "/api/v1/approvals";
    let mut all = collect(&api, path, "approvals", "tool").await;
    all.sort();
    assert_eq!(all, ["drop", "pay", "pay"]);
    let count = async |query: &str| {
        collect(&api, &format!("{path}?{query}"), "approvals", "id").await.len()
    };
    assert_eq!(count("tool=pay").await, 2);
    assert_eq!(count("grant=a").await, 2);
    assert_eq!(count("grant=id-b&tool=pay").await, 1);
    assert_eq!(count("server=other").await, 0);
}
