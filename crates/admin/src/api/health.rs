//! How the gateway is doing: for people, for probes, and for Prometheus.

use std::sync::Arc;

use axum::{
    Json as Answer,
    extract::State,
    http::{StatusCode, header},
    response::{Html, IntoResponse},
};
use serde::Serialize;

use super::Plane;
use crate::live::FileProblem;

const HOME: &str = "<!doctype html>
<html lang=\"en\">
<head><meta charset=\"utf-8\"><title>Sluicegate</title></head>
<body>
<h1>Sluicegate</h1>
<p>The gateway runs. A dashboard comes with a later version; until then, use the
<code>sluice</code> command or the API at <code>/api/v1</code>.</p>
</body>
</html>
";

#[derive(Serialize)]
pub(super) struct Word {
    status: &'static str,
}

#[derive(Serialize)]
pub(super) struct Status {
    version: &'static str,
    /// What was wrong with the last edit of a file.
    problems: Vec<FileProblem>,
    store: ShownStore,
}

#[derive(Serialize)]
struct ShownStore {
    ok: bool,
    last_error: Option<String>,
    queued: usize,
    deferred: usize,
    dropped: u64,
}

pub(super) async fn home() -> Html<&'static str> {
    Html(HOME)
}

pub(super) async fn alive() -> Answer<Word> {
    Answer(Word { status: "ok" })
}

/// Whether calls can be judged and recorded now.
pub(super) async fn ready(State(plane): State<Arc<Plane>>) -> (StatusCode, Answer<Word>) {
    if plane.ops.store().health().ok {
        (StatusCode::OK, Answer(Word { status: "ready" }))
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, Answer(Word { status: "not ready" }))
    }
}

pub(super) async fn metrics(State(plane): State<Arc<Plane>>) -> impl IntoResponse {
    let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, media_type)], plane.ops.live().metrics())
}

pub(super) async fn status(State(plane): State<Arc<Plane>>) -> Answer<Status> {
    let health = plane.ops.store().health();
    Answer(Status {
        version: env!("CARGO_PKG_VERSION"),
        problems: plane.ops.live().problems(),
        store: ShownStore {
            ok: health.ok,
            last_error: health.last_error,
            queued: health.queued,
            deferred: health.deferred,
            dropped: health.dropped,
        },
    })
}
