//! `/servers/{name}/policies`, `/policies/check` and `/policies/suggest`. A policy's version is its
//! entity tag.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sluice_policy::{Format, SuggestedPolicy, ToolSeen, suggest_policy};
use sluice_store::{AttachedPolicy, Name, PolicyVersion};

use super::{
    Plane, Problem,
    extract::{JsonBody, PathParams, PolicyText, RequestActor},
    run_to_completion,
    servers::source_name,
};
use crate::ops::{self, Expected, PutPolicy};

#[derive(Serialize)]
pub(super) struct PolicyList {
    policies: Vec<PolicySummary>,
}

#[derive(Serialize)]
struct PolicySummary {
    server: String,
    name: String,
    version: String,
    format: &'static str,
    source: &'static str,
}

#[derive(Serialize)]
struct PolicyView {
    server: String,
    name: String,
    version: String,
    format: &'static str,
    source: &'static str,
    text: String,
}

#[derive(Serialize)]
pub(super) struct VersionList {
    versions: Vec<VersionView>,
}

#[derive(Serialize)]
struct VersionView {
    version: String,
    format: &'static str,
    at: String,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SuggestRequest {
    server: String,
}

#[derive(Serialize)]
pub(super) struct PolicySuggestion {
    server: String,
    policy: Value,
    /// What it does, in words.
    effect: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct CheckResult {
    ok: bool,
    problems: Vec<sluice_policy::Problem>,
}

pub(super) async fn list(
    State(plane): State<Arc<Plane>>,
    PathParams(server): PathParams<Name>,
) -> Result<Json<PolicyList>, Problem> {
    let policies = plane.ops.policies(&server)?;
    Ok(Json(PolicyList { policies: policies.iter().map(PolicySummary::of).collect() }))
}

pub(super) async fn show(
    State(plane): State<Arc<Plane>>,
    PathParams((server, name)): PathParams<(Name, Name)>,
) -> Result<Response, Problem> {
    Ok(answer_with_tag(StatusCode::OK, plane.ops.policy(&server, &name)?))
}

pub(super) async fn put(
    State(plane): State<Arc<Plane>>,
    RequestActor(actor): RequestActor,
    PathParams((server, name)): PathParams<(Name, Name)>,
    headers: HeaderMap,
    PolicyText { text, format }: PolicyText,
) -> Result<Response, Problem> {
    let expected = parse_preconditions(&headers)?;
    let put =
        async move { plane.ops.put_policy(&server, &name, text, format, &expected, &actor).await };
    let PutPolicy { policy, is_new } = run_to_completion(put).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(answer_with_tag(status, policy))
}

pub(super) async fn remove(
    State(plane): State<Arc<Plane>>,
    RequestActor(actor): RequestActor,
    PathParams((server, name)): PathParams<(Name, Name)>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let expected = parse_preconditions(&headers)?;
    let remove = async move { plane.ops.remove_policy(&server, &name, &expected, &actor).await };
    run_to_completion(remove).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn versions(
    State(plane): State<Arc<Plane>>,
    PathParams((server, name)): PathParams<(Name, Name)>,
) -> Result<Json<VersionList>, Problem> {
    let versions = plane.ops.policy_versions(&server, &name).await?;
    Ok(Json(VersionList { versions: versions.into_iter().map(VersionView::of).collect() }))
}

pub(super) async fn check(
    State(plane): State<Arc<Plane>>,
    PolicyText { text, format }: PolicyText,
) -> Result<Json<CheckResult>, Problem> {
    let problems = plane.ops.check_policy(text, format).await?;
    Ok(Json(CheckResult { ok: problems.is_empty(), problems }))
}

pub(super) async fn suggest(
    State(plane): State<Arc<Plane>>,
    JsonBody(wanted): JsonBody<SuggestRequest>,
) -> Result<Json<PolicySuggestion>, Problem> {
    let server = ops::parse_name(&wanted.server)?;
    let tools = plane.ops.tools(&server, false).await?;
    let assessed = tools.iter().map(|tool| ToolSeen::assessed(&tool.name, &tool.assessment));
    let SuggestedPolicy { policy, effect } = suggest_policy(assessed);
    let policy = serde_json::from_str(&policy).unwrap_or_default();
    Ok(Json(PolicySuggestion { server: server.to_string(), policy, effect }))
}

/// What the caller takes to be in force.
fn parse_preconditions(headers: &HeaderMap) -> Result<Expected, Problem> {
    let tags = |name| {
        let values: Result<Vec<_>, _> =
            headers.get_all(name).iter().map(|one| one.to_str()).collect();
        values.map(|values| values.join(",")).map_err(|_| Problem::request("a tag cannot be read"))
    };
    let (matching, none_matching) = (tags(header::IF_MATCH)?, tags(header::IF_NONE_MATCH)?);
    match (matching.trim(), none_matching.trim()) {
        ("", "") => Ok(Expected::Anything),
        ("", "*") => Ok(Expected::Nothing),
        ("*", "") => Ok(Expected::Something),
        (tags, "") => {
            let version = |tag: &str| tag.trim().trim_matches('"').to_owned();
            Ok(Expected::Versions(tags.split(',').map(version).collect()))
        }
        _ => Err(Problem::request("`If-None-Match` can only be `*`, and stand alone")),
    }
}

/// A policy with its tag.
fn answer_with_tag(status: StatusCode, policy: AttachedPolicy) -> Response {
    let tag = [(header::ETAG, format!("\"{}\"", policy.version))];
    (status, tag, Json(PolicyView::of(policy))).into_response()
}

impl PolicySummary {
    fn of(policy: &AttachedPolicy) -> PolicySummary {
        PolicySummary {
            server: policy.server.to_string(),
            name: policy.name.to_string(),
            version: policy.version.clone(),
            format: format_name(policy.format),
            source: source_name(policy.source),
        }
    }
}

impl PolicyView {
    fn of(policy: AttachedPolicy) -> PolicyView {
        PolicyView {
            server: policy.server.to_string(),
            name: policy.name.to_string(),
            version: policy.version,
            format: format_name(policy.format),
            source: source_name(policy.source),
            text: policy.text,
        }
    }
}

impl VersionView {
    fn of(PolicyVersion { policy, at }: PolicyVersion) -> VersionView {
        VersionView {
            version: policy.version,
            format: format_name(policy.format),
            at: at.to_string(),
            text: policy.text,
        }
    }
}

fn format_name(format: Format) -> &'static str {
    match format {
        Format::Json => "json",
        Format::Yaml => "yaml",
    }
}
