//! Policies over the API: versions, tags, and what is refused.

use axum::http::{Method, Request};
use serde_json::Value;

use crate::fixture::{Reply, TestApi, request};

const ONE: &str = r#"{"version":"1","default":"allow"}"#;
const OTHER: &str = "version: \"1\"\ndefault: deny\n";
const PATH: &str = "/api/v1/servers/files/policies/dev";

async fn put(
    api: &TestApi,
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
    api.send(Request::from_parts(parts, body)).await
}

#[tokio::test]
async fn a_policy_is_put_changed_and_taken_out_of_force() {
    let api = TestApi::new();
    let created = put(&api, PATH, "application/json", ONE, &[]).await;
    let version = created.expect(201)["version"].as_str().unwrap().to_owned();
    assert_eq!(created.header("etag"), format!("\"{version}\""));
    let changed = put(&api, PATH, "application/yaml", OTHER, &[]).await.expect(200);
    assert_ne!(changed["version"], version.as_str());
    let shown = api.get(PATH).await;
    assert_eq!(shown.expect(200), changed);
    assert_eq!(shown.json()["text"], OTHER);
    let list = api.get("/api/v1/servers/files/policies").await.expect(200);
    let names: Vec<_> =
        list["policies"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["declared", "dev"]);
    api.delete(PATH).await.expect(204);
    api.get(PATH).await.expect(404);
    api.delete(PATH).await.expect(404);
    let versions = api.get(&format!("{PATH}/versions")).await.expect(200);
    let formats: Vec<_> =
        versions["versions"].as_array().unwrap().iter().map(|one| &one["format"]).collect();
    assert_eq!(formats, ["yaml", "json"]);
    assert_eq!(
        api.messages().await,
        [
            "policy `dev` of server `files` put into force",
            "policy `dev` of server `files` put into force",
            "policy `dev` of server `files` taken out of force",
        ]
    );
}

#[tokio::test]
async fn edits_are_not_lost() {
    let api = TestApi::new();
    let json = "application/json";
    put(&api, PATH, json, ONE, &[("if-match", "*")]).await.expect(412);
    let created = put(&api, PATH, json, ONE, &[("if-none-match", "*")]).await;
    created.expect(201);
    let tag = created.header("etag").to_owned();
    put(&api, PATH, json, ONE, &[("if-none-match", "*")]).await.expect(412);
    put(&api, PATH, "text/yaml", OTHER, &[("if-match", &tag)]).await.expect(200);
    put(&api, PATH, json, ONE, &[("if-match", &tag)]).await.expect(412);
    let (mut parts, body) = request(Method::DELETE, PATH, "", "").into_parts();
    parts.headers.insert("if-match", tag.parse().unwrap());
    api.send(Request::from_parts(parts, body)).await.expect(412);
    assert_eq!(api.get(PATH).await.expect(200)["text"], OTHER);
}

#[tokio::test]
async fn every_problem_is_told_with_its_place() {
    let api = TestApi::new();
    let wrong = "{\"version\":\"1\",\"default\":\"allow\",\n\"hid\":[],\n\"hide\":7}";
    let refused = put(&api, PATH, "application/json", wrong, &[]).await.expect(422);
    let problems = refused["problems"].as_array().unwrap();
    let places: Vec<_> = problems.iter().map(|one| one["line"].as_u64().unwrap()).collect();
    assert_eq!(places, [2, 3]);
    assert!(problems.iter().all(|one| one["column"].is_u64() && one["message"].is_string()));
    let failing = r#"{"version":"1","default":"deny","tests":[{"name":"t","call":{"tool":"x"},"expect":"allow"}]}"#;
    let checked =
        api.send(request(Method::POST, "/api/v1/policies/check", "application/json", failing));
    let checked = checked.await.expect(200);
    assert_eq!(checked["ok"], false);
    let refused = put(&api, PATH, "application/json", failing, &[]).await.expect(422);
    assert_eq!(refused["problems"], checked["problems"]);
    let message = refused["problems"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("test `t` fails"), "{message}");
    let good = request(Method::POST, "/api/v1/policies/check", "application/json", ONE);
    assert_eq!(api.send(good).await.text, r#"{"ok":true,"problems":[]}"#);
    assert!(api.messages().await.is_empty());
}

#[tokio::test]
async fn a_policy_is_compared_with_the_tools_of_a_server() {
    let api = TestApi::new();
    let policy = r#"{"version":"1","default":"deny","tools":{"Read":{}}}"#;
    let check = |path: &str, policy: &str| {
        api.send(request(Method::POST, path, "application/json", policy))
    };
    let alone = check("/api/v1/policies/check", policy).await;
    assert_eq!(alone.text, r#"{"ok":true,"problems":[]}"#);
    let compared = check("/api/v1/policies/check?server=files", policy).await.expect(200);
    assert_eq!(compared["ok"], true);
    let warning = &compared["warnings"][0];
    assert_eq!(warning["message"], "the server has no tool `Read`");
    assert!(warning["hint"].as_str().unwrap().contains("`read`"), "{warning}");
    assert_eq!((&warning["line"], &warning["column"]), (&1.into(), &42.into()));
    let right = policy.replace("Read", "read");
    let right = check("/api/v1/policies/check?server=files", &right).await;
    assert_eq!(right.text, r#"{"ok":true,"problems":[]}"#);
    check("/api/v1/policies/check?server=nobody", policy).await.expect(404);
    check("/api/v1/policies/check?srver=files", policy).await.expect(400);
}

#[tokio::test]
async fn a_policy_from_a_file_or_without_a_server_cannot_be_changed() {
    let api = TestApi::new();
    let declared = "/api/v1/servers/files/policies/declared";
    put(&api, declared, "application/json", ONE, &[]).await.expect(409);
    api.delete(declared).await.expect(409);
    let nobody = "/api/v1/servers/nobody/policies/dev";
    put(&api, nobody, "application/json", ONE, &[]).await.expect(404);
    put(&api, PATH, "text/plain", ONE, &[]).await.expect(415);
    put(&api, "/api/v1/servers/files/policies/No", "application/json", ONE, &[]).await.expect(400);
    assert!(api.messages().await.is_empty());
}

#[tokio::test]
async fn a_policy_change_that_the_gateway_refuses_is_undone() {
    let api = TestApi::new();
    put(&api, PATH, "application/json", ONE, &[]).await.expect(201);
    let before = api.store.policies().await.unwrap();
    *api.live.refuses.lock().unwrap() = Some("not now".into());
    put(&api, PATH, "application/yaml", OTHER, &[]).await.expect(409);
    let fresh = "/api/v1/servers/files/policies/fresh";
    let refused: Value = put(&api, fresh, "application/yaml", OTHER, &[]).await.expect(409);
    assert_eq!(refused["detail"], "not now");
    api.delete(PATH).await.expect(409);
    assert_eq!(api.store.policies().await.unwrap(), before);
}

const BASE: &str = r#"{"version":"1","default":"allow","tools":{"drop":{"action":"deny"}}}"#;
const OWN: &str = r#"{"version":"1","default":"allow","extends":"company",
  "tests":[{"name":"no drop","call":{"tool":"drop"},"expect":"deny","rule":"company:/tools/drop/deny_if"}]}"#;
const COMPANY: &str = "/api/v1/servers/files/policies/company";

fn first_message(reply: &Value) -> &str {
    reply["problems"][0]["message"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_policy_extends_another_of_its_server() {
    let api = TestApi::new();
    let json = "application/json";
    let missing = put(&api, PATH, json, OWN, &[]).await.expect(422);
    assert_eq!(
        (&missing["problems"][0]["line"], &missing["problems"][0]["column"]),
        (&1.into(), &44.into())
    );
    assert!(first_message(&missing).contains("has no policy `company`"), "{missing}");
    put(&api, COMPANY, json, BASE, &[]).await.expect(201);
    let check = "/api/v1/policies/check?server=files";
    let checked =
        api.send(request(Method::POST, "/api/v1/policies/check", json, OWN)).await.expect(200);
    assert_eq!(checked["ok"], false, "no server is named");
    let checked = api.send(request(Method::POST, check, json, OWN)).await.expect(200);
    assert_eq!(checked["ok"], true, "{checked}");
    let put_own = put(&api, PATH, json, OWN, &[]).await.expect(201);
    let base = api.get(COMPANY).await.expect(200);
    assert_eq!(
        put_own["extends"],
        serde_json::json!([{ "name": "company", "version": base["version"] }])
    );
    // Others cannot be extended by files, nor in a circle.
    let file =
        put(&api, PATH, json, &OWN.replace("company", "./company.json"), &[]).await.expect(422);
    assert!(
        first_message(&file).contains("policy in the store can extend policies only"),
        "{file}"
    );
    let circle = BASE.replace("\"tools\"", "\"extends\":\"dev\",\"tools\"");
    let circle = put(&api, COMPANY, json, &circle, &[]).await.expect(422);
    assert!(first_message(&circle).contains("circle"), "{circle}");
}

#[tokio::test]
async fn a_base_is_not_changed_or_removed_to_the_harm_of_those_that_extend_it() {
    let api = TestApi::new();
    let json = "application/json";
    put(&api, COMPANY, json, BASE, &[]).await.expect(201);
    let other = BASE.replace("drop", "wipe");
    put(&api, COMPANY, json, &other, &[]).await.expect(200);
    put(&api, COMPANY, json, BASE, &[]).await.expect(200);
    put(&api, PATH, json, OWN, &[]).await.expect(201);
    let refused = put(&api, COMPANY, json, &other, &[]).await.expect(422);
    let why = "policy `dev`, which extends this one: test `no drop` fails";
    assert!(first_message(&refused).starts_with(why), "{refused}");
    assert_eq!(api.get(COMPANY).await.expect(200)["text"], BASE);
    let refused = api.delete(COMPANY).await;
    let refused = refused.expect(409);
    let detail = refused["detail"].as_str().unwrap();
    assert!(
        detail.contains("policy `company` of server `files` is extended by `dev`"),
        "{refused}"
    );
    // With a change that they can live with, they are in force anew.
    let more = BASE.replace("\"drop\"", "\"wipe\":{},\"drop\"");
    put(&api, COMPANY, json, &more, &[]).await.expect(200);
    let messages = api.messages().await;
    let last = messages.last().unwrap();
    assert_eq!(
        last,
        "policy `company` of server `files` put into force, and with it the policies that extend it: `dev`"
    );
    api.delete(PATH).await.expect(204);
    api.delete(COMPANY).await.expect(204);
}

#[tokio::test]
async fn what_has_no_effect_is_told_when_a_policy_is_put() {
    let api = TestApi::new();
    let (json, yaml) = ("application/json", "application/yaml");
    let wrong = r#"{"version":"1","default":"deny","tools":{"raed":{}}}"#;
    let put_wrong = put(&api, PATH, json, wrong, &[]).await.expect(201);
    let warnings = put_wrong["warnings"].as_array().unwrap();
    let message = warnings[0]["message"].as_str().unwrap();
    assert!(message.contains("raed"), "{put_wrong}");
    assert!(warnings[0]["hint"].as_str().unwrap().contains("read"), "{put_wrong}");
    assert_eq!((warnings.len(), &warnings[0]["line"]), (1, &1.into()));
    // It is in force all the same, and a policy without them says nothing.
    assert_eq!(api.get(PATH).await.expect(200)["text"], wrong);
    let fine = put(&api, PATH, yaml, OTHER, &[]).await.expect(200);
    assert!(fine.get("warnings").is_none(), "{fine}");
    // A server that does not list its tools leaves nothing to compare, and that is said.
    let silent = serde_json::json!({"name": "silent", "url": "https://a.example.com/"});
    api.post("/api/v1/servers", &silent).await.expect(201);
    let path = "/api/v1/servers/silent/policies/dev";
    let unseen = put(&api, path, json, wrong, &[]).await.expect(201);
    let message = unseen["warnings"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("the policy was not compared with the tools of server `silent`: "));
}
