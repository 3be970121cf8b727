//! Servers over the API.

use axum::http::Method;
use serde_json::{Value, json};

use crate::fixture::{TestApi, request};

#[tokio::test]
async fn a_server_is_added_shown_and_removed() {
    let api = TestApi::new();
    let new = json!({
        "name": "stripe", "url": "https://mcp.example.com/mcp?key=sesame",
        "headers": {"Authorization": "Bearer open"}, "timeout": "90s",
    });
    let added = api.post("/api/v1/servers", &new).await;
    let expected = json!({
        "name": "stripe", "source": "stored", "transport": "http",
        "url": "https://mcp.example.com/mcp?…", "headers": ["authorization"],
        "timeout": "90s", "anonymous_policy": null,
    });
    assert_eq!(added.expect(201), expected);
    assert_eq!(api.get("/api/v1/servers/stripe").await.expect(200), expected);
    let list = api.get("/api/v1/servers").await;
    assert_eq!(list.expect(200)["servers"][1], expected);
    for secret in ["sesame", "Bearer open", "hush"] {
        assert!(!list.text.contains(secret), "{}", list.text);
    }
    api.delete("/api/v1/servers/stripe").await.expect(204);
    api.get("/api/v1/servers/stripe").await.expect(404);
    api.delete("/api/v1/servers/stripe").await.expect(404);
    assert_eq!(api.messages().await, ["server `stripe` added", "server `stripe` removed"]);
}

#[tokio::test]
async fn an_invalid_server_is_refused_with_its_problem() {
    let api = TestApi::new();
    let url = "https://a.example.com/";
    for (new, status, detail) in [
        (json!({"name": "Nope", "url": url}), 422, "`Nope` is not a valid name"),
        (json!({"name": "a", "url": "ftp://a/"}), 422, "`url` must begin with"),
        (json!({"name": "a", "url": "https://me:pw@a/"}), 422, "user name"),
        (json!({"name": "a", "url": url, "timeout": "soon"}), 422, "`timeout` must be"),
        (json!({"name": "a", "url": url, "headers": {"Host": "b"}}), 422, "header `host`"),
        (json!({"name": "a", "url": url, "headers": {"X": "1", "x": "2"}}), 422, "twice"),
        (json!({"name": "a", "url": url, "colour": 1}), 400, "unknown field `colour`"),
        (json!({"name": "a"}), 400, "missing field `url`"),
        (json!({"name": "a", "command": ["sh"]}), 403, "over HTTP"),
        (json!({"name": "files", "url": url}), 409, "server `files` is there already"),
    ] {
        let problem = api.post("/api/v1/servers", &new).await.expect(status);
        let said = problem["detail"].as_str().unwrap();
        assert!(said.contains(detail), "{new}: {said}");
        assert!(!said.contains("pw"), "{said}");
    }
    assert!(api.messages().await.is_empty());
    let text = request(Method::POST, "/api/v1/servers", "text/plain", "{}");
    api.send(text).await.expect(415);
    let long = format!(r#"{{"name":"a","url":"{}"}}"#, "x".repeat(2 << 20));
    api.send(request(Method::POST, "/api/v1/servers", "application/json", &long)).await.expect(413);
}

#[tokio::test]
async fn a_name_is_taken_once_and_declared_servers_stay() {
    let api = TestApi::new();
    let new = json!({"name": "a", "url": "https://a.example.com/"});
    api.post("/api/v1/servers", &new).await.expect(201);
    let again = api.post("/api/v1/servers", &new).await.expect(409);
    assert_eq!(again["detail"], "server `a` is there already");
    let declared = json!({"name": "files", "url": "https://a.example.com/"});
    let taken = api.post("/api/v1/servers", &declared).await.expect(409);
    assert_eq!(taken["hint"], "choose another name; a file declares this one");
    let declared = api.delete("/api/v1/servers/files").await.expect(409);
    assert_eq!(declared["hint"], "change it there");
}

#[tokio::test]
async fn a_server_change_that_the_gateway_refuses_is_undone() {
    let api = TestApi::new();
    *api.live.refuses.lock().unwrap() = Some("the address is private".into());
    let new = json!({"name": "a", "url": "https://a.example.com/"});
    let refused = api.post("/api/v1/servers", &new).await.expect(409);
    assert_eq!(refused["detail"], "the address is private");
    assert_eq!(api.store.servers().await.unwrap(), []);
    *api.live.refuses.lock().unwrap() = None;
    api.post("/api/v1/servers", &new).await.expect(201);
    let stored = api.store.servers().await.unwrap();
    *api.live.refuses.lock().unwrap() = Some("not now".into());
    api.delete("/api/v1/servers/a").await.expect(409);
    assert_eq!(api.store.servers().await.unwrap(), stored);
}

#[tokio::test]
async fn a_server_of_an_old_name_has_no_old_policies_and_grants() {
    let api = TestApi::new();
    let new = json!({"name": "a", "url": "https://a.example.com/"});
    let policy = json!({"version": "1", "default": "allow"});
    let path = "/api/v1/servers/a/policies/dev";
    let put = || api.send(request(Method::PUT, path, "application/json", &policy.to_string()));
    let servers = async |grant: &serde_json::Value| {
        let path = format!("/api/v1/grants/{}", grant["id"].as_str().unwrap());
        api.get(&path).await.expect(200)["servers"].clone()
    };
    api.post("/api/v1/servers", &new).await.expect(201);
    put().await.expect(201);
    let wanted = json!({"label": "laptop", "servers": ["files", "a"], "policy": "dev"});
    let grant = api.post("/api/v1/grants", &wanted).await.expect(201);
    // A removal that cannot be put in force leaves all as it was.
    *api.live.refuses.lock().unwrap() = Some("not now".into());
    api.delete("/api/v1/servers/a").await.expect(409);
    *api.live.refuses.lock().unwrap() = None;
    assert_eq!(servers(&grant).await, json!(["files", "a"]));
    api.get(path).await.expect(200);
    api.delete("/api/v1/servers/a").await.expect(204);
    assert_eq!(servers(&grant).await, json!(["files"]));
    let last = api.messages().await.pop().unwrap();
    assert_eq!(last, "server `a` removed, and taken out of the grants `laptop`");
    api.post("/api/v1/servers", &new).await.expect(201);
    api.get(path).await.expect(404);
    assert_eq!(servers(&grant).await, json!(["files"]));
    // Nor has one those of a server that a file declared.
    let dev = sluice_store::Name::new("dev").unwrap();
    api.delete("/api/v1/servers/a").await.expect(204);
    let edit =
        || sluice_store::Edit { actor: sluice_store::Actor::gateway(), message: "before".into() };
    let left = sluice_store::AttachedPolicy {
        server: sluice_store::Name::new("a").unwrap(),
        name: dev,
        text: policy.to_string(),
        format: sluice_policy::Format::Json,
        version: String::new(),
        source: sluice_store::Source::Stored,
        base_files: Vec::new(),
    };
    api.store.put_policy(left, edit()).await.unwrap();
    api.post("/api/v1/servers", &new).await.expect(201);
    api.get(path).await.expect(404);
    let messages = api.messages().await;
    let before = "server `a` before it was added: its policies are removed";
    assert!(messages.iter().any(|message| message == before), "{messages:?}");
}

#[tokio::test]
async fn tools_come_as_the_server_defines_them() {
    let api = TestApi::new();
    let tools = api.get("/api/v1/servers/files/tools").await;
    let listed = tools.expect(200);
    let tool = &listed["tools"][0];
    assert_eq!(tool["category"], "read");
    assert_eq!(tool["risk"], "low");
    assert!(tool["confidence"].as_f64().unwrap() > 0.8);
    assert_eq!(tool["reasons"][0]["quote"], "read");
    assert_eq!(tool["recommended_entry"], json!({}));
    assert_eq!(tool["recommended_effect"], "allowed");
    assert!(tool["attacks"].as_array().unwrap().contains(&json!("indirect-injection")));
    assert!(tools.text.contains(r#"{"name":"read","inputSchema":{"maximum":1.50}}"#));
    assert!(!*api.live.asked_anew.lock().unwrap());
    let refresh = request(Method::POST, "/api/v1/servers/files/refresh", "", "");
    api.send(refresh).await.expect(200);
    assert!(*api.live.asked_anew.lock().unwrap());
    api.get("/api/v1/servers/nobody/tools").await.expect(404);
    let new = json!({"name": "down", "url": "https://a.example.com/"});
    api.post("/api/v1/servers", &new).await.expect(201);
    let failed = api.get("/api/v1/servers/down/tools").await.expect(502);
    let detail = failed["detail"].as_str().unwrap();
    assert_eq!(detail, "cannot list the tools of `down`: it ended: \"no key\"");
}

#[tokio::test]
async fn a_policy_is_suggested_with_what_it_does() {
    let api = TestApi::new();
    let suggest = async |body: &Value| api.post("/api/v1/policies/suggest", body).await;
    let suggested = suggest(&json!({"server": "files"})).await.expect(200);
    let policy = json!({
        "version": "1",
        "default": "deny",
        "resources": "allow",
        "prompts": "allow",
        "server_requests": ["sampling", "elicitation", "roots"],
        "tools": {"read": {}},
    });
    assert_eq!(suggested["policy"], policy);
    assert_eq!(
        suggested["effect"],
        json!([
            "1 tool of category read: allowed",
            "any other tool: denied",
            "resources, prompts, sampling, elicitation and roots: not restricted"
        ])
    );
    suggest(&json!({"server": "nobody"})).await.expect(404);
    suggest(&json!({"server": "No Name"})).await.expect(422);
    suggest(&json!({"sever": "files"})).await.expect(400);
}
