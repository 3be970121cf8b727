//! `/servers/{name}/policies`, `/policies/check` and `/policies/suggest`. The version
//! of a policy is its entity tag.

mod view;

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use sluice_policy::{SuggestedPolicy, ToolSeen, suggest_policy};
use sluice_store::{AttachedPolicy, Name};

use self::view::{
    CheckResult, PolicyList, PolicySuggestion, PolicySummary, PolicyView, SuggestRequest,
    VersionList, VersionView,
};
use super::{
    Plane, Problem,
    extract::{JsonBody, PathParams, PolicyText, RequestActor},
    openapi::{
        BadGateway, Conflict, ContentTooLarge, InternalServerError, NotFound, PreconditionFailed,
        ServiceUnavailable, UnprocessableContent, UnsupportedMediaType,
    },
    problem::PolicyProblem,
    run_to_completion,
};
use crate::{
    ops::{self, Expected, PutPolicy},
    schema::{AnyVersion, ObjectName, PolicyDocument},
};

/// List the policies of a server
#[utoipa::path(
    get,
    path = "/servers/{name}/policies",
    operation_id = "list_policies",
    tag = "policies",
    params(("name" = ObjectName, Path, description = "The name of the server")),
    responses((status = 200, description = "Its policies, by name", body = PolicyList), NotFound)
)]
pub(super) async fn list(
    State(plane): State<Arc<Plane>>,
    PathParams(server): PathParams<Name>,
) -> Result<Json<PolicyList>, Problem> {
    let policies = plane.ops.policies(&server)?;
    Ok(Json(PolicyList { policies: policies.iter().map(PolicySummary::of).collect() }))
}

/// Show a policy
#[utoipa::path(
    get,
    path = "/servers/{name}/policies/{policy}",
    operation_id = "show_policy",
    tag = "policies",
    params(
        ("name" = ObjectName, Path, description = "The name of the server"),
        ("policy" = ObjectName, Path, description = "The name of the policy"),
    ),
    responses(
        (
            status = 200,
            description = "The policy",
            body = PolicyView,
            headers(("ETag" = String, description = "The version of the policy, in quotes"))
        ),
        NotFound,
    )
)]
pub(super) async fn show(
    State(plane): State<Arc<Plane>>,
    PathParams((server, name)): PathParams<(Name, Name)>,
) -> Result<Response, Problem> {
    Ok(answer_with_tag(StatusCode::OK, plane.ops.policy(&server, &name)?))
}

/// Put a policy in force
///
/// Adds the policy, or replaces the one of this name. A policy that has problems, or
/// whose own tests fail, is refused with every problem.
#[utoipa::path(
    put,
    path = "/servers/{name}/policies/{policy}",
    operation_id = "put_policy",
    tag = "policies",
    params(
        ("name" = ObjectName, Path, description = "The name of the server"),
        ("policy" = ObjectName, Path, description = "The name of the policy"),
        ("If-Match" = Option<String>, Header, nullable = false, description = "Versions one of which must be in force, in quotes and separated by commas; `*` for any"),
        ("If-None-Match" = inline(Option<AnyVersion>), Header, nullable = false, description = "`*` if there must be no policy of this name; not together with `If-Match`"),
    ),
    request_body(
        description = "The policy itself. YAML can also be sent as `application/x-yaml` or `text/yaml`.",
        content((PolicyDocument = "application/json"), (PolicyDocument = "application/yaml"))
    ),
    responses(
        (
            status = 200,
            description = "The policy was replaced",
            body = PolicyView,
            headers(("ETag" = String, description = "The version of the policy, in quotes"))
        ),
        (
            status = 201,
            description = "The policy was added",
            body = PolicyView,
            headers(("ETag" = String, description = "The version of the policy, in quotes"))
        ),
        NotFound,
        Conflict,
        PreconditionFailed,
        ContentTooLarge,
        UnsupportedMediaType,
        UnprocessableContent,
        InternalServerError,
        ServiceUnavailable,
    )
)]
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

/// Take a policy out of force
///
/// Its versions are kept.
#[utoipa::path(
    delete,
    path = "/servers/{name}/policies/{policy}",
    operation_id = "remove_policy",
    tag = "policies",
    params(
        ("name" = ObjectName, Path, description = "The name of the server"),
        ("policy" = ObjectName, Path, description = "The name of the policy"),
        ("If-Match" = Option<String>, Header, nullable = false, description = "Versions one of which must be in force, in quotes and separated by commas; `*` for any"),
    ),
    responses(
        (status = 204, description = "The policy is not in force any more"),
        NotFound,
        Conflict,
        PreconditionFailed,
        InternalServerError,
        ServiceUnavailable,
    )
)]
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

/// List the versions of a policy
///
/// A policy that the configuration file declares has no stored versions.
#[utoipa::path(
    get,
    path = "/servers/{name}/policies/{policy}/versions",
    operation_id = "list_policy_versions",
    tag = "policies",
    params(
        ("name" = ObjectName, Path, description = "The name of the server"),
        ("policy" = ObjectName, Path, description = "The name of the policy"),
    ),
    responses(
        (status = 200, description = "Its versions, the newest first", body = VersionList),
        NotFound,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn list_versions(
    State(plane): State<Arc<Plane>>,
    PathParams((server, name)): PathParams<(Name, Name)>,
) -> Result<Json<VersionList>, Problem> {
    let versions = plane.ops.policy_versions(&server, &name).await?;
    Ok(Json(VersionList { versions: versions.into_iter().map(VersionView::of).collect() }))
}

/// Check a policy
///
/// Reads the policy and runs its own tests, without putting it in force.
#[utoipa::path(
    post,
    path = "/policies/check",
    operation_id = "check_policy",
    tag = "policies",
    request_body(
        description = "The policy itself, valid or not. YAML can also be sent as `application/x-yaml` or `text/yaml`.",
        content((Value = "application/json"), (Value = "application/yaml"))
    ),
    responses(
        (status = 200, description = "Everything that is wrong with it", body = CheckResult),
        ContentTooLarge,
        UnsupportedMediaType,
        InternalServerError,
    )
)]
pub(super) async fn check(
    State(plane): State<Arc<Plane>>,
    PolicyText { text, format }: PolicyText,
) -> Result<Json<CheckResult>, Problem> {
    let problems = plane.ops.check_policy(text, format).await?;
    let problems: Vec<_> = problems.into_iter().map(PolicyProblem::from).collect();
    Ok(Json(CheckResult { ok: problems.is_empty(), problems }))
}

/// Suggest a policy for a server
#[utoipa::path(
    post,
    path = "/policies/suggest",
    operation_id = "suggest_policy",
    tag = "policies",
    request_body = SuggestRequest,
    responses(
        (status = 200, description = "The policy to start from", body = PolicySuggestion),
        NotFound,
        ContentTooLarge,
        UnsupportedMediaType,
        UnprocessableContent,
        BadGateway,
    )
)]
pub(super) async fn suggest(
    State(plane): State<Arc<Plane>>,
    JsonBody(wanted): JsonBody<SuggestRequest>,
) -> Result<Json<PolicySuggestion>, Problem> {
    let server = ops::parse_name(&wanted.server)?;
    let tools = plane.ops.tools(&server, false).await?;
    let assessed = tools.iter().map(|tool| ToolSeen::from_assessment(&tool.name, &tool.assessment));
    let SuggestedPolicy { policy, effect } = suggest_policy(assessed);
    let policy = serde_json::from_str(&policy).unwrap_or_default();
    Ok(Json(PolicySuggestion { server: server.to_string(), policy, effect }))
}

/// What `If-Match` and `If-None-Match` say about the policy in force.
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

/// A policy with its entity tag.
fn answer_with_tag(status: StatusCode, policy: AttachedPolicy) -> Response {
    let tag = [(header::ETAG, format!("\"{}\"", policy.version))];
    (status, tag, Json(PolicyView::of(policy))).into_response()
}
