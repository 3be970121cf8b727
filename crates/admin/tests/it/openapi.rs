//! The OpenAPI document: its golden file, its form, and that every operation
//! answers as it is described there.

use std::{collections::BTreeSet, fs};

use axum::http::Method;
use serde_json::{Value, json};

use crate::{
    described::{Operation, golden_path, list_operations, resolve},
    fixture::{TestApi, request},
};

async fn served() -> String {
    TestApi::new().get("/api/v1/openapi.json").await.text
}

async fn document() -> Value {
    serde_json::from_str(&served().await).unwrap()
}

/// `UPDATE_GOLDENS=1 cargo test -p sluice-admin golden` writes the file anew.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the one setting of this test")]
async fn the_document_is_the_golden_file() {
    // The answer is not checked against the golden file: that may not be there yet.
    let api = TestApi::new();
    let served = api.send_unchecked(request(Method::GET, "/api/v1/openapi.json", "", "")).await;
    if std::env::var("UPDATE_GOLDENS").is_ok() {
        fs::write(golden_path(), &served.text).unwrap();
    }
    let committed = fs::read_to_string(golden_path()).unwrap_or_default();
    assert!(
        committed == served.text,
        "docs/reference/openapi.json is out of date: UPDATE_GOLDENS=1 cargo test -p sluice-admin golden"
    );
}

#[tokio::test]
async fn the_document_needs_the_admin_token() {
    let mut without = request(Method::GET, "/api/v1/openapi.json", "", "");
    without.headers_mut().remove("authorization");
    TestApi::new().send(without).await.expect(401);
}

/// Every route is registered with its description, except for the pages.
#[test]
fn only_the_pages_are_not_described() {
    let source = include_str!("../../src/api.rs");
    let undescribed: Vec<_> = source
        .lines()
        .filter(|line| [".route(", "_service("].iter().any(|call| line.contains(call)))
        .map(str::trim)
        .collect();
    let pages = [r#".route("/approvals/{id}", get(health::show_approval))"#];
    assert_eq!(undescribed, pages);
}

#[tokio::test]
async fn the_document_has_the_form_of_openapi_3_1() {
    let document = document().await;
    assert_eq!(document["openapi"], "3.1.0");
    check_references(&document, &document);
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(jsonschema::draft202012::meta::is_valid(schema), "{name}: {schema}");
    }
    let mut ids = BTreeSet::new();
    for operation in list_operations(&document) {
        let Operation { path, described, .. } = &operation;
        let id = described["operationId"].as_str().unwrap();
        assert!(ids.insert(id.to_owned()), "two operations are `{id}`");
        assert!(!described["summary"].as_str().unwrap_or_default().is_empty(), "{id}");
        let tags = described["tags"].as_array().unwrap();
        let known = document["tags"].as_array().unwrap();
        assert!(tags.iter().all(|tag| known.iter().any(|one| one["name"] == *tag)), "{id}");
        assert_eq!(list_declared_in_path(described), list_named_in(path), "{id}");
        let responses = described["responses"].as_object().unwrap();
        assert!(responses.keys().any(|status| status.starts_with('2')), "{id}");
        for response in responses.values() {
            let description = resolve(&document, response)["description"].as_str();
            assert!(!description.unwrap_or_default().is_empty(), "{id}");
        }
    }
}

fn check_references(document: &Value, value: &Value) {
    match value {
        Value::Object(members) => {
            resolve(document, value);
            members.values().for_each(|member| check_references(document, member));
        }
        Value::Array(items) => items.iter().for_each(|item| check_references(document, item)),
        _ => {}
    }
}

fn list_declared_in_path(described: &Value) -> BTreeSet<String> {
    let parameters = described["parameters"].as_array().into_iter().flatten();
    let in_path = parameters.filter(|one| one["in"] == "path" && one["required"] == true);
    in_path.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

fn list_named_in(path: &str) -> BTreeSet<String> {
    let parts = path.split('/');
    parts.filter_map(|part| Some(part.strip_prefix('{')?.strip_suffix('}')?.to_owned())).collect()
}

#[tokio::test]
async fn operations_need_the_token_unless_the_document_says_otherwise() {
    let document = document().await;
    assert_eq!(document["security"], json!([{ "token": [] }, { "session": [] }]));
    assert_eq!(document["components"]["securitySchemes"]["token"]["scheme"], "bearer");
    let api = TestApi::with(false);
    for Operation { method, path, described } in list_operations(&document) {
        let mut without = request(method, &path.replace(['{', '}'], ""), "", "");
        without.headers_mut().remove("authorization");
        let is_open = described["security"] == json!([{}]);
        let status = api.send(without).await.status;
        assert_eq!(status.as_u16() == 401, !is_open, "{path}: {status}");
    }
}

/// One request that succeeds for each operation, in an order that makes them do so.
/// `ID` stands for the id of the grant that was created.
const REQUESTS: [(&str, &str, &str, &str); 42] = [
    ("add_server", "POST", "/servers", r#"{"name":"a","url":"https://a.example.com/"}"#),
    ("edit_server", "PATCH", "/servers/a", r#"{"timeout":"5s","headers":{"X-A":"b"}}"#),
    ("list_servers", "GET", "/servers?source=file&transport=http&limit=1", ""),
    ("show_server", "GET", "/servers/files", ""),
    ("list_tools", "GET", "/servers/files/tools", ""),
    ("refresh_tools", "POST", "/servers/files/refresh", ""),
    ("put_policy", "PUT", "/servers/files/policies/p", r#"{"version":"1","default":"deny"}"#),
    ("list_policies", "GET", "/servers/files/policies?source=stored&limit=1", ""),
    ("show_policy", "GET", "/servers/files/policies/p", ""),
    ("list_policy_versions", "GET", "/servers/files/policies/p/versions?limit=1&cursor=1", ""),
    ("check_policy", "POST", "/policies/check", r#"{"version":"2"}"#),
    (
        "explain_call",
        "POST",
        "/policies/explain",
        r#"{"server":"files","policy":"p","tool":"read","arguments":{"a":1.50},"at":"2027-01-31T12:00:00Z"}"#,
    ),
    ("suggest_policy", "POST", "/policies/suggest", r#"{"server":"files"}"#),
    (
        "create_grant",
        "POST",
        "/grants",
        r#"{"servers":["files"],"label":"l","policy":"p","principal":"me","expires":"1d"}"#,
    ),
    ("list_grants", "GET", "/grants?limit=1&server=files&policy=p&principal=me", ""),
    ("show_grant", "GET", "/grants/ID", ""),
    ("show_grant_access", "GET", "/grants/ID/access?limit=1&category=read", ""),
    ("list_access", "GET", "/access?server=files&risk=low&tool=read&outcome=deny", ""),
    ("edit_grant", "PATCH", "/grants/ID", r#"{"policy":"q","principal":null}"#),
    ("rotate_grant", "POST", "/grants/ID/rotate?overlap=1m", ""),
    ("revoke_grant", "DELETE", "/grants/ID", ""),
    ("remove_policy", "DELETE", "/servers/files/policies/p", ""),
    ("remove_server", "DELETE", "/servers/a", ""),
    ("list_approvals", "GET", "/approvals?server=a&grant=b&tool=c&limit=1", ""),
    ("list_records", "GET", "/audit?limit=3", ""),
    ("export_records", "GET", "/audit/export?kind=admin", ""),
    ("verify_log", "POST", "/audit/verify", ""),
    ("compare_heads", "POST", "/audit/heads/compare", r#"{"heads":[]}"#),
    ("search_catalog", "GET", "/catalog/servers?q=read&category=read", ""),
    ("invite_person", "POST", "/people", r#"{"login":"bob","role":"viewer","servers":["files"]}"#),
    ("invite_person_again", "POST", "/people/bob/invitation", ""),
    ("list_people", "GET", "/people?role=viewer&limit=1", ""),
    ("show_person", "GET", "/people/bob", ""),
    ("edit_person", "PATCH", "/people/bob", r#"{"name":"Bob","servers":null,"disabled":false}"#),
    ("create_api_token", "POST", "/tokens", r#"{"label":"ci","login":"bob","expires":"1d"}"#),
    ("list_api_tokens", "GET", "/tokens?limit=1", ""),
    ("remove_person", "DELETE", "/people/bob", ""),
    ("show_session", "GET", "/session", ""),
    ("create_sign_in_link", "POST", "/session/links", ""),
    ("sign_out", "DELETE", "/session?everywhere=true", ""),
    ("show_status", "GET", "/status", ""),
    ("show_openapi", "GET", "/openapi.json", ""),
];

#[tokio::test]
async fn every_operation_answers_as_it_is_described() {
    let api = TestApi::new();
    let mut tried = BTreeSet::new();
    let mut id = String::new();
    for (operation, method, path, body) in REQUESTS {
        let path = format!("/api/v1{}", path.replace("ID", &id));
        let media_type = if body.is_empty() { "" } else { "application/json" };
        let method = method.parse().unwrap();
        let reply = api.send(request(method, &path, media_type, body)).await;
        assert!(reply.status.is_success(), "{path}: {}", reply.text);
        if operation == "create_grant" {
            reply.json()["id"].as_str().unwrap().clone_into(&mut id);
        }
        tried.insert(operation.to_owned());
    }
    for (operation, path) in [
        ("check_liveness", "/healthz"),
        ("check_readiness", "/readyz"),
        ("read_metrics", "/metrics"),
    ] {
        assert!(api.get(path).await.status.is_success(), "{path}");
        tried.insert(operation.to_owned());
    }
    // The answer of this one does not end.
    let events =
        api.open(request(Method::GET, "/api/v1/events?kind=decision,health", "", "")).await;
    assert_eq!(events.status(), 200);
    tried.insert("stream_events".to_owned());
    // These two need an entry of the catalogue.
    let found = api.get("/api/v1/catalog/servers?q=read&limit=1").await.expect(200);
    let slug = found["tools"][0]["slug"].as_str().unwrap();
    let tool = found["tools"][0]["name"].as_str().unwrap();
    let server = format!("/api/v1/catalog/servers/{slug}");
    api.get(&server).await.expect(200);
    api.get(&format!("{server}/tools/{tool}")).await.expect(200);
    tried.extend(["show_catalog_server", "show_catalog_tool"].map(String::from));
    // These need a person who signs in, and an id: `people` has their tests.
    tried.extend(["sign_in", "change_password", "revoke_api_token"].map(String::from));
    let operations = list_operations(&document().await);
    let ids = operations.iter().map(|one| one.described["operationId"].as_str().unwrap());
    assert_eq!(tried, ids.map(String::from).collect());
}
