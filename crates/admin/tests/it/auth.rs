//! Who may ask, in which order that is checked, and what is open to all.

use axum::{
    body::Body,
    http::{Method, Request, StatusCode},
};

use serde_json::json;

use crate::fixture::{HOST, TOKEN, TestApi, declared, request};

fn plain(path: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let mut builder = Request::builder().uri(path);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(Body::empty()).unwrap()
}

#[tokio::test]
async fn host_and_origin_come_before_everything_else() {
    let api = TestApi::new();
    for path in ["/", "/healthz", "/metrics", "/api/v1/servers", "/nowhere"] {
        let reply = api.send(plain(path, &[("host", "evil.example.com")])).await;
        assert_eq!(reply.expect(403)["type"], "urn:sluicegate:problem:host", "{path}");
        api.send(plain(path, &[])).await.expect(403);
        let foreign = [("host", HOST), ("origin", "https://evil.example.com")];
        let reply = api.send(plain(path, &foreign)).await;
        assert_eq!(reply.expect(403)["type"], "urn:sluicegate:problem:origin", "{path}");
    }
    for origin in ["https://app.example.com", "http://127.0.0.1:8788"] {
        api.send(plain("/healthz", &[("host", HOST), ("origin", origin)])).await.expect(200);
    }
}

#[tokio::test]
async fn the_api_needs_the_admin_token() {
    let api = TestApi::new();
    let wrong = format!("Bearer {TOKEN}x");
    let basic = format!("Basic {TOKEN}");
    for authorization in ["Bearer x", "Bearer", &wrong, &basic] {
        let headers = [("host", HOST), ("authorization", authorization)];
        let reply = api.send(plain("/api/v1/servers", &headers)).await;
        assert_eq!(reply.expect(401)["type"], "urn:sluicegate:problem:token", "{authorization}");
        assert_eq!(reply.header("www-authenticate"), "Bearer");
    }
    // Nobody learns which paths there are.
    api.send(plain("/api/v1/nowhere", &[("host", HOST)])).await.expect(401);
    api.get("/api/v1/nowhere").await.expect(404);
    api.send(request(Method::PUT, "/api/v1/servers/files", "", "")).await.expect(405);
}

#[tokio::test]
async fn failures_are_recorded_but_do_not_fill_the_log() {
    let api = TestApi::new();
    for _ in 0..30 {
        api.send(plain("/api/v1/status", &[("host", HOST)])).await.expect(401);
    }
    let messages = api.messages().await;
    assert!(messages.iter().all(|text| text.starts_with("admin API: ")), "{messages:?}");
    // A minute may end in between, which starts the count again.
    assert!((9..=20).contains(&messages.len()), "{}", messages.len());
}

#[tokio::test]
async fn wrong_tokens_are_limited_and_the_right_one_is_accepted_at_any_time() {
    let api = TestApi::new();
    let guess = || {
        plain("/api/v1/status", &[("host", HOST), ("authorization", "Bearer sga_of_somebody_else")])
    };
    let mut limited = 0;
    // A minute may end in between.
    for _ in 0..60 {
        let reply = api.send(guess()).await;
        if reply.status == StatusCode::TOO_MANY_REQUESTS {
            let wait: u64 = reply.header("retry-after").parse().unwrap();
            assert!((1..=60).contains(&wait), "{wait}");
            assert_eq!(reply.header("connection"), "close");
            assert_eq!(reply.expect(429)["type"], "urn:sluicegate:problem:attempts");
            limited += 1;
        } else {
            reply.expect(401);
        }
    }
    assert!(limited >= 20, "{limited}");
    api.get("/api/v1/servers").await.expect(200);
}

#[tokio::test]
async fn metrics_are_open_only_where_the_operator_says_so() {
    let plainly = || plain("/metrics", &[("host", HOST)]);
    assert_eq!(TestApi::with(true).send(plainly()).await.text, "sluice_up 1\n");
    let api = TestApi::with(false);
    api.send(plainly()).await.expect(401);
    assert_eq!(api.get("/metrics").await.text, "sluice_up 1\n");
}

#[tokio::test]
async fn probes_and_pages_need_no_token() {
    let api = TestApi::new();
    let ready = api.send(plain("/readyz", &[("host", HOST)])).await;
    assert_eq!(ready.expect(200)["status"], "ready");
    for (path, says) in [
        ("/sign-in", "<h1>Sign in</h1>"),
        // The URL that a held call names.
        ("/approvals/0198c5f0a1b2c3d4", "Approvals cannot be given yet."),
    ] {
        let page = api.page(path, "").await;
        assert_eq!(page.status, StatusCode::OK, "{path}");
        assert!(page.text.contains(says), "{path}: {}", page.text);
        assert_eq!(page.header("x-content-type-options"), "nosniff", "{path}");
    }
    assert_eq!(api.page("/", "").await.header("location"), "/sign-in");
}

#[tokio::test]
async fn a_store_that_has_stopped_is_not_ready() {
    let api = TestApi::new();
    api.store.clone().close().await.unwrap();
    // The writer ends in its own time.
    while api.store.health().ok {
        tokio::task::yield_now().await;
    }
    assert_eq!(api.get("/readyz").await.status, StatusCode::SERVICE_UNAVAILABLE);
    let status = api.get("/api/v1/status").await.expect(200);
    assert_eq!(status["store"]["ok"], false);
    assert_eq!(status["problems"][0]["file"], "sluice.toml");
}

#[tokio::test]
async fn the_status_says_which_versions_are_in_force() {
    let api = TestApi::new();
    let status = api.get("/api/v1/status").await.expect(200);
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
