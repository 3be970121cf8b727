//! How the gateway is doing: for people, for probes, and for Prometheus.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{Html, IntoResponse},
};
use serde::Serialize;
use sluice_store::AttachedPolicy;

use super::{Plane, Problem};
use crate::live::{FileProblem, FileVersion, Running};

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
pub(super) struct ProbeAnswer {
    status: &'static str,
}

#[derive(Serialize)]
pub(super) struct GatewayStatus {
    version: &'static str,
    started_at: String,
    /// Where agents connect to.
    listen: String,
    admin: String,
    config: ConfigStatus,
    /// What was wrong with the last edit of a file.
    problems: Vec<FileProblem>,
    servers: usize,
    policies: Vec<ActivePolicy>,
    /// How many can be used now; null if the store cannot be read.
    grants: Option<usize>,
    store: StoreStatus,
}

#[derive(Serialize)]
struct ConfigStatus {
    version: String,
    loaded_at: String,
    /// Null if the files have not changed since the start.
    last_reload: Option<ReloadStatus>,
}

#[derive(Serialize)]
struct ReloadStatus {
    at: String,
    ok: bool,
}

#[derive(Serialize)]
struct ActivePolicy {
    server: String,
    name: String,
    version: String,
}

#[derive(Serialize)]
struct StoreStatus {
    ok: bool,
    last_error: Option<String>,
    queued: usize,
    deferred: usize,
    dropped: u64,
}

pub(super) async fn home() -> Html<&'static str> {
    Html(HOME)
}

pub(super) async fn alive() -> Json<ProbeAnswer> {
    Json(ProbeAnswer { status: "ok" })
}

/// Whether calls can be judged and recorded now.
pub(super) async fn ready(State(plane): State<Arc<Plane>>) -> (StatusCode, Json<ProbeAnswer>) {
    if plane.ops.store().health().ok {
        (StatusCode::OK, Json(ProbeAnswer { status: "ready" }))
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, Json(ProbeAnswer { status: "not ready" }))
    }
}

pub(super) async fn metrics(State(plane): State<Arc<Plane>>) -> impl IntoResponse {
    let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, media_type)], plane.ops.live().metrics())
}

pub(super) async fn status(
    State(plane): State<Arc<Plane>>,
) -> Result<Json<GatewayStatus>, Problem> {
    let live = plane.ops.live();
    let running = live.running().ok_or_else(Problem::no_such_path)?;
    let Running { started_at, listen, admin, config } = running;
    let in_force = live.in_force();
    let health = plane.ops.store().health();
    Ok(Json(GatewayStatus {
        version: env!("CARGO_PKG_VERSION"),
        started_at: started_at.to_string(),
        listen: listen.to_string(),
        admin: admin.to_string(),
        config: ConfigStatus::of(config),
        problems: live.problems(),
        servers: in_force.servers.len(),
        policies: in_force.policies.iter().map(ActivePolicy::of).collect(),
        grants: plane.ops.count_grants().await.ok(),
        store: StoreStatus {
            ok: health.ok,
            last_error: health.last_error,
            queued: health.queued,
            deferred: health.deferred,
            dropped: health.dropped,
        },
    }))
}

impl ConfigStatus {
    fn of(config: FileVersion) -> ConfigStatus {
        let FileVersion { version, loaded_at, reloaded_at, is_reload_ok } = config;
        let last_reload =
            reloaded_at.map(|at| ReloadStatus { at: at.to_string(), ok: is_reload_ok });
        ConfigStatus { version, loaded_at: loaded_at.to_string(), last_reload }
    }
}

impl ActivePolicy {
    fn of(policy: &AttachedPolicy) -> ActivePolicy {
        ActivePolicy {
            server: policy.server.to_string(),
            name: policy.name.to_string(),
            version: policy.version.clone(),
        }
    }
}
