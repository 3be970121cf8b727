//! Grants over the API: what holds for the gateway when the answer comes.

use axum::http::Method;
use serde_json::{Value, json};
use sluice_store::TokenHash;

use crate::plane::{Plane, request};

fn wanted() -> Value {
    json!({"servers": ["files"], "label": "laptop", "policy": "dev", "principal": "alice",
           "expires": "30d"})
}

async fn post(plane: &Plane, path: &str) -> crate::plane::Reply {
    plane.send(request(Method::POST, path, "", "")).await
}

fn hash(created: &Value) -> TokenHash {
    TokenHash::of(created["token"].as_str().unwrap())
}

#[tokio::test]
async fn a_grant_is_created_rotated_and_revoked() {
    let plane = Plane::new();
    let created = plane.post("/api/v1/grants", &wanted()).await.expect(201);
    let keys: Vec<_> = created.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["id", "label", "servers", "policy", "token", "expires_at"]);
    let id = created["id"].as_str().unwrap();
    assert!(plane.live.grants.lock().unwrap().contains_key(&hash(&created)));
    let path = format!("/api/v1/grants/{id}");
    let shown = plane.get(&path).await;
    assert_eq!(shown.expect(200)["state"], "valid");
    assert!(!shown.text.contains(created["token"].as_str().unwrap()));

    let rotated = post(&plane, &format!("{path}/rotate")).await.expect(200);
    assert_eq!(rotated["id"], id);
    {
        let grants = plane.live.grants.lock().unwrap();
        assert!(!grants.contains_key(&hash(&created)));
        assert!(grants.contains_key(&hash(&rotated)));
    }
    plane.delete(&path).await.expect(204);
    plane.delete(&path).await.expect(204);
    assert!(plane.live.grants.lock().unwrap()[&hash(&rotated)].revoked_at.is_some());
    assert_eq!(plane.get(&path).await.expect(200)["state"], "revoked");
    post(&plane, &format!("{path}/rotate")).await.expect(409);
    assert_eq!(
        plane.messages().await,
        ["grant `laptop` created", "grant `laptop` rotated", "grant `laptop` revoked"]
    );
    let log = plane.get(&format!("/api/v1/audit?grant={id}")).await.expect(200);
    assert_eq!(log["records"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn what_is_wrong_with_a_grant_is_said() {
    let plane = Plane::new();
    for (key, value, status, detail) in [
        ("servers", json!(["nobody"]), 422, "no server `nobody`"),
        ("servers", json!([]), 422, "at least one server"),
        ("label", json!("A B"), 422, "is no name"),
        ("label", json!("alice"), 409, "grant `alice` is declared"),
        ("policy", json!(""), 422, "is no name"),
        ("expires", json!("soon"), 422, "`expires` must be"),
        ("expires", json!("2020-01-01T00:00:00Z"), 422, "over already"),
        ("principal", json!("a\nb"), 422, "control characters"),
        ("token", json!("sg_mine"), 400, "unknown field `token`"),
    ] {
        let mut new = wanted();
        new[key] = value;
        let problem = plane.post("/api/v1/grants", &new).await.expect(status);
        assert!(problem["detail"].as_str().unwrap().contains(detail), "{problem}");
    }
    plane.get("/api/v1/grants/nobody").await.expect(404);
    post(&plane, "/api/v1/grants/nobody/rotate").await.expect(404);
    assert!(plane.messages().await.is_empty());
}

#[tokio::test]
async fn declared_grants_are_shown_and_stay() {
    let plane = Plane::new();
    assert_eq!(plane.get("/api/v1/grants/file:alice").await.expect(200)["source"], "file");
    plane.delete("/api/v1/grants/file:alice").await.expect(409);
    post(&plane, "/api/v1/grants/file:alice/rotate").await.expect(409);
}

#[tokio::test]
async fn grants_come_page_by_page() {
    let plane = Plane::new();
    for _ in 0..4 {
        plane.post("/api/v1/grants", &wanted()).await.expect(201);
    }
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = plane.get(&format!("/api/v1/grants?limit=2{cursor}")).await.expect(200);
        let grants = page["grants"].as_array().unwrap();
        assert!(grants.len() <= 2);
        seen.extend(grants.iter().map(|one| one["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen.len(), 5);
    assert!(seen.is_sorted());
    plane.get("/api/v1/grants?colour=1").await.expect(400);
}
