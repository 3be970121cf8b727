//! Grants over the API: what holds for the gateway when the answer comes.

use axum::http::Method;
use serde_json::{Value, json};
use sluice_store::TokenHash;

use crate::fixture::{TestApi, request};

fn wanted() -> Value {
    json!({"servers": ["files"], "label": "laptop", "policy": "dev", "principal": "alice",
           "expires": "30d"})
}

async fn post(api: &TestApi, path: &str) -> crate::fixture::Reply {
    api.send(request(Method::POST, path, "", "")).await
}

fn hash(created: &Value) -> TokenHash {
    TokenHash::of(created["token"].as_str().unwrap())
}

#[tokio::test]
async fn a_grant_is_created_rotated_and_revoked() {
    let api = TestApi::new();
    let created = api.post("/api/v1/grants", &wanted()).await.expect(201);
    let keys: Vec<_> = created.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["id", "label", "servers", "policy", "token", "expires_at"]);
    let id = created["id"].as_str().unwrap();
    assert!(api.live.grants.lock().unwrap().contains_key(&hash(&created)));
    let path = format!("/api/v1/grants/{id}");
    let shown = api.get(&path).await;
    assert_eq!(shown.expect(200)["state"], "valid");
    assert!(!shown.text.contains(created["token"].as_str().unwrap()));

    let rotated = post(&api, &format!("{path}/rotate")).await.expect(200);
    assert_eq!(rotated["id"], id);
    {
        let grants = api.live.grants.lock().unwrap();
        assert!(!grants.contains_key(&hash(&created)));
        assert!(grants.contains_key(&hash(&rotated)));
    }
    api.delete(&path).await.expect(204);
    api.delete(&path).await.expect(204);
    assert!(api.live.grants.lock().unwrap()[&hash(&rotated)].revoked_at.is_some());
    assert_eq!(api.get(&path).await.expect(200)["state"], "revoked");
    post(&api, &format!("{path}/rotate")).await.expect(409);
    assert_eq!(
        api.messages().await,
        ["grant `laptop` created", "grant `laptop` rotated", "grant `laptop` revoked"]
    );
    let log = api.get(&format!("/api/v1/audit?grant={id}")).await.expect(200);
    assert_eq!(log["records"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn an_invalid_grant_is_refused_with_its_problem() {
    let api = TestApi::new();
    for (key, value, status, detail) in [
        ("servers", json!(["nobody"]), 422, "no server `nobody`"),
        ("servers", json!([]), 422, "at least one server"),
        ("label", json!("A B"), 422, "is not a valid name"),
        ("label", json!("alice"), 409, "grant `alice` is declared"),
        ("policy", json!(""), 422, "is not a valid name"),
        ("expires", json!("soon"), 422, "`expires` must be"),
        ("expires", json!("2020-01-01T00:00:00Z"), 422, "over already"),
        ("principal", json!("a\nb"), 422, "control characters"),
        ("token", json!("sg_mine"), 400, "unknown field `token`"),
    ] {
        let mut new = wanted();
        new[key] = value;
        let problem = api.post("/api/v1/grants", &new).await.expect(status);
        assert!(problem["detail"].as_str().unwrap().contains(detail), "{problem}");
    }
    api.get("/api/v1/grants/nobody").await.expect(404);
    post(&api, "/api/v1/grants/nobody/rotate").await.expect(404);
    assert!(api.messages().await.is_empty());
}

#[tokio::test]
async fn a_grant_is_edited_and_keeps_its_token() {
    let api = TestApi::new();
    let created = api.post("/api/v1/grants", &wanted()).await.expect(201);
    // A label names a grant as well as its id.
    let shown = api.get("/api/v1/grants/laptop").await.expect(200);
    assert_eq!((&shown["id"], &shown["created_by"]), (&created["id"], &json!("admin token")));
    assert_eq!(shown["last_used"], Value::Null);
    let changes = json!({"label": "desk", "policy": "careful", "expires": null});
    let edited = api.patch("/api/v1/grants/laptop", &changes, "").await.expect(200);
    assert_eq!(edited["label"], "desk");
    assert_eq!((&edited["expires_at"], &edited["principal"]), (&Value::Null, &json!("alice")));
    assert_eq!(api.live.grants.lock().unwrap()[&hash(&created)].policy.as_str(), "careful");
    api.get("/api/v1/grants/laptop").await.expect(404);
    let expires = created["expires_at"].as_str().unwrap();
    assert_eq!(
        api.messages().await[1],
        format!(
            "grant `laptop` edited: label from `laptop` to `desk`, \
             policy from `dev` to `careful`, expiry from `{expires}` to `never`"
        )
    );
}

#[tokio::test]
async fn an_edit_that_cannot_be_made_changes_nothing() {
    let api = TestApi::new();
    api.post("/api/v1/grants", &wanted()).await.expect(201);
    let mut other = wanted();
    other["label"] = "desk".into();
    api.post("/api/v1/grants", &other).await.expect(201);
    api.post("/api/v1/grants", &other).await.expect(409);
    for (changes, status, detail) in [
        (json!({"label": "desk"}), 409, "there is already a grant `desk`"),
        (json!({"label": "alice"}), 409, "grant `alice` is declared"),
        (json!({"servers": ["nobody"]}), 422, "no server `nobody`"),
        (json!({"servers": []}), 422, "at least one server"),
        (json!({"expires": "soon"}), 422, "`expires` must be"),
        (json!({"token": "sg_mine"}), 400, "unknown field `token`"),
    ] {
        let problem = api.patch("/api/v1/grants/laptop", &changes, "").await.expect(status);
        assert!(problem["detail"].as_str().unwrap().contains(detail), "{problem}");
    }
    let changes = json!({"policy": "careful"});
    api.patch("/api/v1/grants/file:alice", &changes, "").await.expect(409);
    api.patch("/api/v1/grants/nobody", &changes, "").await.expect(404);
    assert_eq!(api.messages().await.len(), 2);
}

#[tokio::test]
async fn an_edit_of_another_version_is_refused() {
    let api = TestApi::new();
    api.post("/api/v1/grants", &wanted()).await.expect(201);
    let tag = |reply: &crate::fixture::Reply| reply.headers["etag"].to_str().unwrap().to_owned();
    let seen = tag(&api.get("/api/v1/grants/laptop").await);
    let edited = api.patch("/api/v1/grants/laptop", &json!({"policy": "b"}), &seen).await;
    edited.expect(200);
    assert_ne!(tag(&edited), seen);
    api.patch("/api/v1/grants/laptop", &json!({"policy": "c"}), &seen).await.expect(412);
    assert_eq!(api.get("/api/v1/grants/laptop").await.expect(200)["policy"], "b");
}

#[tokio::test]
async fn a_rotated_token_works_while_it_overlaps() {
    let api = TestApi::new();
    let created = api.post("/api/v1/grants", &wanted()).await.expect(201);
    let path = "/api/v1/grants/laptop/rotate";
    for wrong in ["soon", "31d"] {
        post(&api, &format!("{path}?overlap={wrong}")).await.expect(422);
    }
    let rotated = post(&api, &format!("{path}?overlap=10m")).await.expect(200);
    {
        let grants = api.live.grants.lock().unwrap();
        assert!(grants[&hash(&created)].expires_at < grants[&hash(&rotated)].expires_at);
    }
    // An edit reaches both tokens, and another rotation ends the older one.
    api.patch("/api/v1/grants/laptop", &json!({"policy": "b"}), "").await.expect(200);
    assert_eq!(api.live.grants.lock().unwrap()[&hash(&created)].policy.as_str(), "b");
    let again = post(&api, path).await.expect(200);
    let grants = api.live.grants.lock().unwrap();
    assert_eq!(grants.keys().collect::<Vec<_>>(), [&hash(&again)]);
}

#[tokio::test]
async fn declared_grants_are_shown_and_stay() {
    let api = TestApi::new();
    assert_eq!(api.get("/api/v1/grants/file:alice").await.expect(200)["source"], "file");
    api.delete("/api/v1/grants/file:alice").await.expect(409);
    post(&api, "/api/v1/grants/file:alice/rotate").await.expect(409);
}

#[tokio::test]
async fn grants_come_page_by_page() {
    let api = TestApi::new();
    for number in 0..4 {
        let mut new = wanted();
        new["label"] = format!("laptop-{number}").into();
        api.post("/api/v1/grants", &new).await.expect(201);
    }
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = api.get(&format!("/api/v1/grants?limit=2{cursor}")).await.expect(200);
        let grants = page["grants"].as_array().unwrap();
        assert!(grants.len() <= 2);
        seen.extend(grants.iter().map(|one| one["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen.len(), 5);
    assert!(seen.is_sorted());
    api.get("/api/v1/grants?colour=1").await.expect(400);
}
