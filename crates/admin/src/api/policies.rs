//! `/servers/{name}/policies`, `/policies/check` and `/policies/suggest`. A policy's version is its
//! entity tag.

use std::sync::Arc;

use axum::{
    Json as Answer,
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
    extract::{By, Json, Named, PolicyText},
    servers::source,
    whole,
};
use crate::ops::{self, Expected, Put};

#[derive(Serialize)]
pub(super) struct Policies {
    policies: Vec<ListedPolicy>,
}

#[derive(Serialize)]
struct ListedPolicy {
    server: String,
    name: String,
    version: String,
    format: &'static str,
    source: &'static str,
}

#[derive(Serialize)]
struct ShownPolicy {
    server: String,
    name: String,
    version: String,
    format: &'static str,
    source: &'static str,
    text: String,
}

#[derive(Serialize)]
pub(super) struct Versions {
    versions: Vec<ShownVersion>,
}

#[derive(Serialize)]
struct ShownVersion {
    version: String,
    format: &'static str,
    at: String,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    server: String,
}

#[derive(Serialize)]
pub(super) struct Suggested {
    server: String,
    policy: Value,
    /// What it does, in words.
    effect: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct Checked {
    ok: bool,
    problems: Vec<sluice_policy::Problem>,
}

pub(super) async fn list(
    State(plane): State<Arc<Plane>>,
    Named(server): Named<Name>,
) -> Result<Answer<Policies>, Problem> {
    let policies = plane.ops.policies(&server)?;
    Ok(Answer(Policies { policies: policies.iter().map(ListedPolicy::of).collect() }))
}

pub(super) async fn show(
    State(plane): State<Arc<Plane>>,
    Named((server, name)): Named<(Name, Name)>,
) -> Result<Response, Problem> {
    Ok(tagged(StatusCode::OK, plane.ops.policy(&server, &name)?))
}

pub(super) async fn put(
    State(plane): State<Arc<Plane>>,
    By(actor): By,
    Named((server, name)): Named<(Name, Name)>,
    headers: HeaderMap,
    PolicyText { text, format }: PolicyText,
) -> Result<Response, Problem> {
    let expected = expected(&headers)?;
    let put =
        async move { plane.ops.put_policy(&server, &name, text, format, &expected, &actor).await };
    let Put { policy, is_new } = whole(put).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(tagged(status, policy))
}

pub(super) async fn remove(
    State(plane): State<Arc<Plane>>,
    By(actor): By,
    Named((server, name)): Named<(Name, Name)>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let expected = expected(&headers)?;
    let remove = async move { plane.ops.remove_policy(&server, &name, &expected, &actor).await };
    whole(remove).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn versions(
    State(plane): State<Arc<Plane>>,
    Named((server, name)): Named<(Name, Name)>,
) -> Result<Answer<Versions>, Problem> {
    let versions = plane.ops.policy_versions(&server, &name).await?;
    Ok(Answer(Versions { versions: versions.into_iter().map(ShownVersion::of).collect() }))
}

pub(super) async fn check(
    State(plane): State<Arc<Plane>>,
    PolicyText { text, format }: PolicyText,
) -> Result<Answer<Checked>, Problem> {
    let problems = plane.ops.check_policy(text, format).await?;
    Ok(Answer(Checked { ok: problems.is_empty(), problems }))
}

pub(super) async fn suggest(
    State(plane): State<Arc<Plane>>,
    Json(wanted): Json<Wanted>,
) -> Result<Answer<Suggested>, Problem> {
    let server = ops::name(&wanted.server)?;
    let tools = plane.ops.tools(&server, false).await?;
    let assessed = tools.iter().map(|tool| ToolSeen::from_assessment(&tool.name, &tool.assessment));
    let SuggestedPolicy { policy, effect } = suggest_policy(assessed);
    let policy = serde_json::from_str(&policy).unwrap_or_default();
    Ok(Answer(Suggested { server: server.to_string(), policy, effect }))
}

/// What the caller takes to be in force.
fn expected(headers: &HeaderMap) -> Result<Expected, Problem> {
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
fn tagged(status: StatusCode, policy: AttachedPolicy) -> Response {
    let tag = [(header::ETAG, format!("\"{}\"", policy.version))];
    (status, tag, Answer(ShownPolicy::of(policy))).into_response()
}

impl ListedPolicy {
    fn of(policy: &AttachedPolicy) -> ListedPolicy {
        ListedPolicy {
            server: policy.server.to_string(),
            name: policy.name.to_string(),
            version: policy.version.clone(),
            format: format_name(policy.format),
            source: source(policy.source),
        }
    }
}

impl ShownPolicy {
    fn of(policy: AttachedPolicy) -> ShownPolicy {
        ShownPolicy {
            server: policy.server.to_string(),
            name: policy.name.to_string(),
            version: policy.version,
            format: format_name(policy.format),
            source: source(policy.source),
            text: policy.text,
        }
    }
}

impl ShownVersion {
    fn of(PolicyVersion { policy, at }: PolicyVersion) -> ShownVersion {
        ShownVersion {
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
