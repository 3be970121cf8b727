//! Who may ask, in which order that is checked, and what is open to all.

use axum::{
    body::Body,
    http::{Method, Request, StatusCode},
};

use serde_json::json;

use crate::plane::{HOST, Plane, TOKEN, declared, request};

fn plain(path: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let mut builder = Request::builder().uri(path);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(Body::empty()).unwrap()
}

#[tokio::test]
async fn host_and_origin_come_before_everything_else() {
    let plane = Plane::new();
    for path in ["/", "/healthz", "/metrics", "/api/v1/servers", "/nowhere"] {
        let reply = plane.send(plain(path, &[("host", "evil.example.com")])).await;
        assert_eq!(reply.expect(403)["type"], "urn:sluicegate:problem:host", "{path}");
        plane.send(plain(path, &[])).await.expect(403);
        let foreign = [("host", HOST), ("origin", "https://evil.example.com")];
        let reply = plane.send(plain(path, &foreign)).await;
        assert_eq!(reply.expect(403)["type"], "urn:sluicegate:problem:origin", "{path}");
    }
    for origin in ["https://app.example.com", "http://127.0.0.1:8788"] {
        plane.send(plain("/healthz", &[("host", HOST), ("origin", origin)])).await.expect(200);
    }
}

#[tokio::test]
async fn the_api_needs_the_admin_token() {
    let plane = Plane::new();
    let wrong = format!("Bearer {TOKEN}x");
    let basic = format!("Basic {TOKEN}");
    for authorization in ["Bearer x", "Bearer", &wrong, &basic] {
        let headers = [("host", HOST), ("authorization", authorization)];
        let reply = plane.send(plain("/api/v1/servers", &headers)).await;
        assert_eq!(reply.expect(401)["type"], "urn:sluicegate:problem:token", "{authorization}");
        assert_eq!(reply.header("www-authenticate"), "Bearer");
    }
    // Nobody learns which paths there are.
    plane.send(plain("/api/v1/nowhere", &[("host", HOST)])).await.expect(401);
    plane.get("/api/v1/nowhere").await.expect(404);
    plane.send(request(Method::PATCH, "/api/v1/servers/files", "", "")).await.expect(405);
}

#[tokio::test]
async fn failures_are_recorded_but_do_not_fill_the_log() {
    let plane = Plane::new();
    for _ in 0..30 {
        plane.send(plain("/api/v1/status", &[("host", HOST)])).await.expect(401);
    }
    let messages = plane.messages().await;
    assert!(messages.iter().all(|text| text.starts_with("admin API: ")), "{messages:?}");
    // A minute may end in between, which starts the count again.
    assert!((9..=20).contains(&messages.len()), "{}", messages.len());
}

#[tokio::test]
async fn metrics_are_open_on_loopback_only() {
    let open = plain("/metrics", &[("host", HOST)]);
    assert_eq!(Plane::new().send(open).await.text, "sluice_up 1\n");
    let afar = Plane::with(false);
    afar.send(plain("/metrics", &[("host", HOST)])).await.expect(401);
    assert_eq!(afar.get("/metrics").await.text, "sluice_up 1\n");
}

#[tokio::test]
async fn probes_and_the_home_page_need_no_token() {
    let plane = Plane::new();
    let ready = plane.send(plain("/readyz", &[("host", HOST)])).await;
    assert_eq!(ready.expect(200)["status"], "ready");
    let home = plane.send(plain("/", &[("host", HOST)])).await;
    assert!(home.text.contains("Sluicegate"), "{}", home.text);
    assert_eq!(home.header("x-content-type-options"), "nosniff");
}

#[tokio::test]
async fn a_store_that_has_stopped_is_not_ready() {
    let plane = Plane::new();
    plane.store.clone().close().await.unwrap();
    // The writer ends in its own time.
    while plane.store.health().ok {
        tokio::task::yield_now().await;
    }
    assert_eq!(plane.get("/readyz").await.status, StatusCode::SERVICE_UNAVAILABLE);
    let status = plane.get("/api/v1/status").await.expect(200);
    assert_eq!(status["store"]["ok"], false);
    assert_eq!(status["problems"][0]["file"], "sluice.toml");
}

#[tokio::test]
async fn the_status_says_which_versions_are_in_force() {
    let plane = Plane::new();
    let status = plane.get("/api/v1/status").await.expect(200);
    let config = json!({
        "version": "0123456789abcdef",
        "loaded_at": "1970-01-01T00:00:01.000Z",
        "last_reload": { "at": "1970-01-01T00:00:02.000Z", "ok": false },
    });
    assert_eq!(status["config"], config);
    assert_eq!(status["listen"], "127.0.0.1:8787");
    assert_eq!(status["started_at"], "1970-01-01T00:00:00.000Z");
    let declared = &declared().policies[0];
    let policy = json!({ "server": "files", "name": "declared", "version": declared.version });
    assert_eq!(status["policies"], json!([policy]));
    assert_eq!((&status["servers"], &status["grants"]), (&json!(1), &json!(1)));
}
