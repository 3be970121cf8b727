//! The state of the gateway: its status, liveness and readiness probes, and metrics.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{Html, IntoResponse},
};
use serde::Serialize;
use sluice_store::{AttachedPolicy, ScrubReport};
use utoipa::ToSchema;

use super::{
    AdminState, Problem,
    extract::RequestCaller,
    openapi::{NotFound, TooManyRequests, Unauthorized},
};
use crate::{
    live::{FileProblem, FileVersion, HeadExport, Running},
    schema::ObjectName,
};

/// The page at the URL of each approval. It needs no token, so it says nothing about the call.
const APPROVAL: &str = "<!doctype html>
<html lang=\"en\">
<head><meta charset=\"utf-8\"><title>Sluicegate: approval</title></head>
<body>
<h1>A held call</h1>
<p>This call was refused and waits for approval until it expires. Approvals cannot be given yet.
<code>GET /api/v1/approvals</code> lists the calls that wait; <code>sluice log</code> shows the
record of each.</p>
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
    /// Where signed heads of the audit log are exported to.
    head_exports: Vec<HeadExportStatus>,
}

/// The export of signed heads to one place.
#[derive(Serialize, ToSchema)]
struct HeadExportStatus {
    /// `file` or `url`.
    target: &'static str,
    /// When the last one was exported since the start; null if none was.
    #[schema(required, format = DateTime)]
    exported_at: Option<String>,
    /// How many exports failed since the start.
    failures: u64,
    /// Why the last one failed; null if it did not.
    #[schema(required)]
    last_error: Option<String>,
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
    /// A digest of its text, and after `+` one of each policy that it extends.
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
    log: LogStatus,
    /// How far the system clock is ahead of the time that windows and retention go by, in
    /// milliseconds, if it has jumped and is not trusted.
    #[schema(required)]
    clock_ahead_ms: Option<i64>,
    scrub: ScrubStatus,
}

/// The slow check of the whole store in the background.
#[derive(Serialize, ToSchema)]
struct ScrubStatus {
    /// How many records the present pass has checked.
    checked: u64,
    /// When the last whole pass ended; null if none has since the start.
    #[schema(required, format = DateTime)]
    finished_at: Option<String>,
    /// How many faults the present pass has found, or the last one if this one has found none yet.
    faults: u64,
    /// The first of them.
    #[schema(required)]
    first_fault: Option<String>,
}

impl ScrubStatus {
    fn of(report: ScrubReport) -> ScrubStatus {
        let ScrubReport { checked, finished_at, faults, first_fault } = report;
        let finished_at = finished_at.map(|at| at.to_string());
        ScrubStatus { checked, finished_at, faults, first_fault }
    }
}

/// The space of the audit log.
#[derive(Serialize, ToSchema)]
struct LogStatus {
    /// Whether calls are refused because records that must be kept fill the log.
    full: bool,
    /// Bytes of the records that must be kept.
    used: u64,
    /// The bytes that they may take.
    max: u64,
    /// How many records were refused since the start, because the log or a grant's share of it
    /// had no space for them.
    refused: u64,
}

pub(super) async fn show_approval() -> Html<&'static str> {
    Html(APPROVAL)
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
        (status = 503, description = "They cannot: the store has failed, or the audit log is full", body = ProbeAnswer),
    )
)]
pub(super) async fn check_readiness(
    State(state): State<Arc<AdminState>>,
) -> (StatusCode, Json<ProbeAnswer>) {
    let health = state.ops.store().health();
    if health.ok && !health.log.is_full() {
        (StatusCode::OK, Json(ProbeAnswer { status: "ready" }))
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, Json(ProbeAnswer { status: "not ready" }))
    }
}

/// Read the metrics
///
/// With `metrics = "open"` in the configuration, no token is needed.
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
        TooManyRequests,
    )
)]
pub(super) async fn read_metrics(State(state): State<Arc<AdminState>>) -> impl IntoResponse {
    let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, media_type)], state.ops.live().metrics())
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
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
) -> Result<Json<GatewayStatus>, Problem> {
    let live = state.ops.live();
    let running = live.running().ok_or_else(Problem::no_such_path)?;
    let Running { started_at, listen, admin, config } = running;
    let in_force = live.in_force();
    let health = state.ops.store().health();
    Ok(Json(GatewayStatus {
        version: env!("CARGO_PKG_VERSION"),
        started_at: started_at.to_string(),
        listen: listen.to_string(),
        admin: admin.to_string(),
        config: ConfigStatus::of(config),
        problems: live.problems(),
        servers: in_force.servers.iter().filter(|one| caller.covers(&one.name)).count(),
        policies: in_force
            .policies
            .iter()
            .filter(|policy| caller.covers(&policy.server))
            .map(|policy| ActivePolicy::of(policy, &in_force.policies))
            .collect(),
        grants: state.ops.count_grants().await.ok(),
        store: StoreStatus {
            ok: health.ok,
            last_error: health.last_error,
            queued: health.queued,
            deferred: health.deferred,
            dropped: health.dropped,
            log: LogStatus {
                full: health.log.is_full(),
                used: health.log.used,
                max: health.log.max,
                refused: health.log.refused,
            },
            clock_ahead_ms: health.clock_ahead,
            scrub: ScrubStatus::of(health.scrub),
        },
        head_exports: live.head_exports().into_iter().map(HeadExportStatus::of).collect(),
    }))
}

impl HeadExportStatus {
    fn of(export: HeadExport) -> HeadExportStatus {
        let HeadExport { target, exported_at, failures, last_error } = export;
        let exported_at = exported_at.map(|at| at.to_string());
        HeadExportStatus { target, exported_at, failures, last_error }
    }
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
    fn of(policy: &AttachedPolicy, others: &[AttachedPolicy]) -> ActivePolicy {
        ActivePolicy {
            server: policy.server.to_string(),
            name: policy.name.to_string(),
            version: policy.version_in_force(others),
        }
    }
}
