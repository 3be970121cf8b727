//! Policies over the API: versions, tags, and what is refused.

use axum::http::{Method, Request};
use serde_json::Value;

use crate::plane::{Plane, Reply, request};

const ONE: &str = r#"{"version":"1","default":"allow"}"#;
const OTHER: &str = "version: \"1\"\ndefault: deny\n";
const PATH: &str = "/api/v1/servers/files/policies/dev";

async fn put(
    plane: &Plane,
    path: &str,
    media_type: &str,
    text: &str,
    tag: &[(&str, &str)],
) -> Reply {
    let (mut parts, body) = request(Method::PUT, path, media_type, text).into_parts();
    for (name, value) in tag {
        let name = axum::http::HeaderName::try_from(*name).unwrap();
        parts.headers.insert(name, value.parse().unwrap());
    }
    plane.send(Request::from_parts(parts, body)).await
}

#[tokio::test]
async fn a_policy_is_put_changed_and_taken_out_of_force() {
    let plane = Plane::new();
    let created = put(&plane, PATH, "application/json", ONE, &[]).await;
    let version = created.expect(201)["version"].as_str().unwrap().to_owned();
    assert_eq!(created.header("etag"), format!("\"{version}\""));
    let changed = put(&plane, PATH, "application/yaml", OTHER, &[]).await.expect(200);
    assert_ne!(changed["version"], version.as_str());
    let shown = plane.get(PATH).await;
    assert_eq!(shown.expect(200), changed);
    assert_eq!(shown.json()["text"], OTHER);
    let list = plane.get("/api/v1/servers/files/policies").await.expect(200);
    let names: Vec<_> =
        list["policies"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["declared", "dev"]);
    plane.delete(PATH).await.expect(204);
    plane.get(PATH).await.expect(404);
    plane.delete(PATH).await.expect(404);
    let versions = plane.get(&format!("{PATH}/versions")).await.expect(200);
    let formats: Vec<_> =
        versions["versions"].as_array().unwrap().iter().map(|one| &one["format"]).collect();
    assert_eq!(formats, ["yaml", "json"]);
    assert_eq!(
        plane.messages().await,
        [
            "policy `dev` of server `files` put into force",
            "policy `dev` of server `files` put into force",
            "policy `dev` of server `files` taken out of force",
        ]
    );
}

#[tokio::test]
async fn edits_are_not_lost() {
    let plane = Plane::new();
    let json = "application/json";
    put(&plane, PATH, json, ONE, &[("if-match", "*")]).await.expect(412);
    let created = put(&plane, PATH, json, ONE, &[("if-none-match", "*")]).await;
    created.expect(201);
    let tag = created.header("etag").to_owned();
    put(&plane, PATH, json, ONE, &[("if-none-match", "*")]).await.expect(412);
    put(&plane, PATH, "text/yaml", OTHER, &[("if-match", &tag)]).await.expect(200);
    put(&plane, PATH, json, ONE, &[("if-match", &tag)]).await.expect(412);
    let (mut parts, body) = request(Method::DELETE, PATH, "", "").into_parts();
    parts.headers.insert("if-match", tag.parse().unwrap());
    plane.send(Request::from_parts(parts, body)).await.expect(412);
    assert_eq!(plane.get(PATH).await.expect(200)["text"], OTHER);
}

#[tokio::test]
async fn every_problem_is_told_with_its_place() {
    let plane = Plane::new();
    let wrong = "{\"version\":\"1\",\"default\":\"allow\",\n\"hid\":[],\n\"hide\":7}";
    let refused = put(&plane, PATH, "application/json", wrong, &[]).await.expect(422);
    let problems = refused["problems"].as_array().unwrap();
    let places: Vec<_> = problems.iter().map(|one| one["line"].as_u64().unwrap()).collect();
    assert_eq!(places, [2, 3]);
    assert!(problems.iter().all(|one| one["column"].is_u64() && one["message"].is_string()));
    let failing = r#"{"version":"1","default":"deny","tests":[{"name":"t","call":{"tool":"x"},"expect":"allow"}]}"#;
    let checked =
        plane.send(request(Method::POST, "/api/v1/policies/check", "application/json", failing));
    let checked = checked.await.expect(200);
    assert_eq!(checked["ok"], false);
    let refused = put(&plane, PATH, "application/json", failing, &[]).await.expect(422);
    assert_eq!(refused["problems"], checked["problems"]);
    let message = refused["problems"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("test `t` fails"), "{message}");
    let good = request(Method::POST, "/api/v1/policies/check", "application/json", ONE);
    assert_eq!(plane.send(good).await.text, r#"{"ok":true,"problems":[]}"#);
    assert!(plane.messages().await.is_empty());
}

#[tokio::test]
async fn what_is_declared_or_has_no_server_is_not_changed() {
    let plane = Plane::new();
    let declared = "/api/v1/servers/files/policies/declared";
    put(&plane, declared, "application/json", ONE, &[]).await.expect(409);
    plane.delete(declared).await.expect(409);
    let nobody = "/api/v1/servers/nobody/policies/dev";
    put(&plane, nobody, "application/json", ONE, &[]).await.expect(404);
    put(&plane, PATH, "text/plain", ONE, &[]).await.expect(415);
    put(&plane, "/api/v1/servers/files/policies/No", "application/json", ONE, &[])
        .await
        .expect(400);
    assert!(plane.messages().await.is_empty());
}

#[tokio::test]
async fn what_the_gateway_does_not_take_is_undone() {
    let plane = Plane::new();
    put(&plane, PATH, "application/json", ONE, &[]).await.expect(201);
    let before = plane.store.policies().await.unwrap();
    *plane.live.refuses.lock().unwrap() = Some("not now".into());
    put(&plane, PATH, "application/yaml", OTHER, &[]).await.expect(409);
    let fresh = "/api/v1/servers/files/policies/fresh";
    let refused: Value = put(&plane, fresh, "application/yaml", OTHER, &[]).await.expect(409);
    assert_eq!(refused["detail"], "not now");
    plane.delete(PATH).await.expect(409);
    assert_eq!(plane.store.policies().await.unwrap(), before);
}
