//! The state of the gateway: its status, liveness and readiness probes, and metrics.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{Html, IntoResponse},
};
use serde::Serialize;
use sluice_store::AttachedPolicy;
use utoipa::ToSchema;

use super::{
    Plane, Problem,
    openapi::{NotFound, Unauthorized},
};
use crate::{
    live::{FileProblem, FileVersion, Running},
    schema::ObjectName,
};

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

/// The answer to a probe.
#[derive(Serialize, ToSchema)]
pub(super) struct ProbeAnswer {
    status: &'static str,
}

/// The state of the gateway.
#[derive(Serialize, ToSchema)]
pub(super) struct GatewayStatus {
    /// The version of the program.
    version: &'static str,
    #[schema(format = DateTime)]
    started_at: String,
    /// The address of the agent listener.
    listen: String,
    /// The address of the admin listener.
    admin: String,
    config: ConfigStatus,
    /// What was wrong with the last edit of a file.
    problems: Vec<FileProblem>,
    /// How many servers there are.
    servers: usize,
    policies: Vec<ActivePolicy>,
    /// How many grants can be used now; null if the store cannot be read.
    #[schema(required)]
    grants: Option<usize>,
    store: StoreStatus,
}

/// The configuration in force.
#[derive(Serialize, ToSchema)]
struct ConfigStatus {
    /// A digest of the files.
    version: String,
    /// Since when it is in force.
    #[schema(format = DateTime)]
    loaded_at: String,
    /// Null if the files have not changed since the start.
    #[schema(required)]
    last_reload: Option<ReloadStatus>,
}

/// The last time that the files were read because they had changed.
#[derive(Serialize, ToSchema)]
struct ReloadStatus {
    #[schema(format = DateTime)]
    at: String,
    /// Whether they could be put in force.
    ok: bool,
}

/// A policy in force.
#[derive(Serialize, ToSchema)]
struct ActivePolicy {
    #[schema(value_type = ObjectName)]
    server: String,
    #[schema(value_type = ObjectName)]
    name: String,
    /// A digest of its text.
    version: String,
}

/// The state of the store.
#[derive(Serialize, ToSchema)]
struct StoreStatus {
    /// Whether calls can be recorded.
    ok: bool,
    #[schema(required)]
    last_error: Option<String>,
    /// How many writes wait.
    queued: usize,
    /// How many records wait that no call waits for.
    deferred: usize,
    /// How many records were dropped.
    dropped: u64,
}

pub(super) async fn show_home() -> Html<&'static str> {
    Html(HOME)
}

/// Report that the process answers
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "check_liveness",
    tag = "status",
    security(()),
    responses((status = 200, description = "The process answers", body = ProbeAnswer))
)]
pub(super) async fn check_liveness() -> Json<ProbeAnswer> {
    Json(ProbeAnswer { status: "ok" })
}

/// Report whether calls can be judged and recorded
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "check_readiness",
    tag = "status",
    security(()),
    responses(
        (status = 200, description = "They can", body = ProbeAnswer),
        (status = 503, description = "They cannot: the store has failed", body = ProbeAnswer),
    )
)]
pub(super) async fn check_readiness(
    State(plane): State<Arc<Plane>>,
) -> (StatusCode, Json<ProbeAnswer>) {
    if plane.ops.store().health().ok {
        (StatusCode::OK, Json(ProbeAnswer { status: "ready" }))
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, Json(ProbeAnswer { status: "not ready" }))
    }
}

/// Read the metrics
///
/// On a loopback listener no token is needed.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "read_metrics",
    tag = "status",
    security((), ("admin_token" = [])),
    responses(
        (
            status = 200,
            description = "Metrics in the OpenMetrics text format",
            body = String,
            content_type = "application/openmetrics-text"
        ),
        Unauthorized,
    )
)]
pub(super) async fn read_metrics(State(plane): State<Arc<Plane>>) -> impl IntoResponse {
    let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, media_type)], plane.ops.live().metrics())
}

/// Show the state of the gateway
#[utoipa::path(
    get,
    path = "/status",
    operation_id = "show_status",
    tag = "status",
    responses((status = 200, description = "The state", body = GatewayStatus), NotFound)
)]
pub(super) async fn show_status(
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
