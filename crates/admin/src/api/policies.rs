//! `/servers/{name}/policies` and `/policies/…`. The version
//! of a policy is its entity tag.

pub(super) mod explain;
mod view;

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use sluice_policy::{SuggestedPolicy, ToolSeen, suggest_policy};
use sluice_store::Name;

use self::view::{
    CheckQuery, CheckResult, PolicyList, PolicyQuery, PolicySuggestion, PolicySummary, PolicyView,
    SuggestRequest, VersionList, VersionQuery, VersionView,
};
use super::{
    AdminState, Problem,
    extract::{
        JsonBody, PathParams, PolicyText, Preconditions, QueryParams, RequestActor, RequestCaller,
    },
    openapi::{
        BadGateway, Conflict, ContentTooLarge, InternalServerError, NotFound, PreconditionFailed,
        ServiceUnavailable, UnprocessableContent, UnsupportedMediaType,
    },
    paging::cut_page,
    problem::PolicyProblem,
    run_to_completion,
};
use crate::{
    ops::{self, PutPolicy},
    schema::{AnyVersion, ObjectName, PolicyDocument},
};

/// Versions on a page by default.
const DEFAULT_VERSIONS: usize = 100;
/// Versions on a page, at most.
const MAX_VERSIONS: usize = 1_000;

/// List the policies of a server
#[utoipa::path(
    get,
    path = "/servers/{name}/policies",
    operation_id = "list_policies",
    tag = "policies",
    params(("name" = ObjectName, Path, description = "The name of the server"), PolicyQuery),
    responses(
        (status = 200, description = "A page of its policies, by name", body = PolicyList),
        NotFound,
    )
)]
pub(super) async fn list(
    State(state): State<Arc<AdminState>>,
    PathParams(server): PathParams<Name>,
    QueryParams(asked): QueryParams<PolicyQuery>,
) -> Result<Json<PolicyList>, Problem> {
    let policies = state.ops.policies(&server)?;
    let summaries = policies.iter().map(|policy| PolicySummary::of(policy, &policies));
    let summaries =
        summaries.filter(|policy| asked.source.is_none_or(|source| policy.source == source));
    let (policies, next) =
        cut_page(summaries, |policy| &policy.name, asked.cursor.as_deref(), asked.limit);
    Ok(Json(PolicyList { policies, next }))
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
    State(state): State<Arc<AdminState>>,
    PathParams((server, name)): PathParams<(Name, Name)>,
) -> Result<Response, Problem> {
    let policy = state.ops.policy(&server, &name)?;
    Ok(answer_with_tag(StatusCode::OK, PolicyView::of(policy, &state.ops.policies(&server)?)))
}

/// Put a policy in force
///
/// Adds the policy, or replaces the one of this name. A policy that has problems, or
/// whose own tests fail, is refused with every problem, and so is one with which a policy that
/// extends it could not be in force. `warnings` in the answer lists what has no effect on the
/// server's tools.
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
    State(state): State<Arc<AdminState>>,
    RequestActor(actor): RequestActor,
    PathParams((server, name)): PathParams<(Name, Name)>,
    Preconditions(expected): Preconditions,
    PolicyText { text, format }: PolicyText,
) -> Result<Response, Problem> {
    let writing = Arc::clone(&state);
    let put = async move {
        let put = writing.ops.put_policy(&server, &name, text, format, &expected, &actor).await;
        put.map(|put| (put, server))
    };
    let (PutPolicy { policy, is_new }, server) = run_to_completion(put).await?;
    let warnings = state.ops.find_warnings_in_force(&policy).await;
    let mut view = PolicyView::of(policy, &state.ops.policies(&server)?);
    view.warnings = warnings.into_iter().map(PolicyProblem::from).collect();
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(answer_with_tag(status, view))
}

/// Take a policy out of force
///
/// Its versions are kept. A policy that others extend is refused.
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
    State(state): State<Arc<AdminState>>,
    RequestActor(actor): RequestActor,
    PathParams((server, name)): PathParams<(Name, Name)>,
    Preconditions(expected): Preconditions,
) -> Result<StatusCode, Problem> {
    let remove = async move { state.ops.remove_policy(&server, &name, &expected, &actor).await };
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
        VersionQuery,
    ),
    responses(
        (status = 200, description = "A page of its versions, the newest first", body = VersionList),
        NotFound,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn list_versions(
    State(state): State<Arc<AdminState>>,
    PathParams((server, name)): PathParams<(Name, Name)>,
    QueryParams(VersionQuery { limit, cursor }): QueryParams<VersionQuery>,
) -> Result<Json<VersionList>, Problem> {
    let versions = state.ops.policy_versions(&server, &name).await?;
    // The cursor counts the older ones, so that it stays right when versions are added.
    let older = cursor.unwrap_or(versions.len()).min(versions.len());
    let limit = limit.unwrap_or(DEFAULT_VERSIONS).clamp(1, MAX_VERSIONS);
    let newer = versions.len() - older;
    let versions: Vec<_> =
        versions.into_iter().skip(newer).take(limit).map(VersionView::of).collect();
    let next = older.checked_sub(versions.len()).filter(|older| *older > 0);
    Ok(Json(VersionList { versions, next: next.map(|older| older.to_string()) }))
}

/// Check a policy
///
/// Reads the policy and runs its own tests, without putting it in force. With `server`, it is
/// also compared with the tools of that server, and may extend its policies.
#[utoipa::path(
    post,
    path = "/policies/check",
    operation_id = "check_policy",
    tag = "policies",
    params(CheckQuery),
    request_body(
        description = "The policy itself, valid or not. YAML can also be sent as `application/x-yaml` or `text/yaml`.",
        content((Value = "application/json"), (Value = "application/yaml"))
    ),
    responses(
        (status = 200, description = "Everything that is wrong with it", body = CheckResult),
        NotFound,
        ContentTooLarge,
        UnsupportedMediaType,
        InternalServerError,
        BadGateway,
    )
)]
pub(super) async fn check(
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
    QueryParams(CheckQuery { server }): QueryParams<CheckQuery>,
    PolicyText { text, format }: PolicyText,
) -> Result<Json<CheckResult>, Problem> {
    if let Some(server) = server.as_ref().filter(|server| !caller.covers_text(server)) {
        return Err(Problem::other_server(&caller, server));
    }
    let server = server.as_deref().map(ops::parse_name).transpose()?;
    let warnings = state.ops.find_policy_warnings(text.clone(), format, server.as_ref()).await?;
    let problems = state.ops.check_policy(text, format, server.as_ref()).await?;
    // Warnings about a policy that does not load may be wrong.
    let warnings = if problems.is_empty() { warnings } else { Vec::new() };
    let [problems, warnings] = [problems, warnings]
        .map(|found| found.into_iter().map(PolicyProblem::from).collect::<Vec<_>>());
    Ok(Json(CheckResult { ok: problems.is_empty(), problems, warnings }))
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
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
    JsonBody(wanted): JsonBody<SuggestRequest>,
) -> Result<Json<PolicySuggestion>, Problem> {
    if !caller.covers_text(&wanted.server) {
        return Err(Problem::other_server(&caller, &wanted.server));
    }
    let server = ops::parse_name(&wanted.server)?;
    let tools = state.ops.tools(&server, false).await?;
    let assessed = tools.iter().map(|tool| ToolSeen::from_assessment(&tool.name, &tool.assessment));
    let SuggestedPolicy { policy, effect } = suggest_policy(assessed);
    let policy = serde_json::from_str(&policy).unwrap_or_default();
    Ok(Json(PolicySuggestion { server: server.to_string(), policy, effect }))
}

/// A policy with its entity tag.
fn answer_with_tag(status: StatusCode, policy: PolicyView) -> Response {
    let tag = [(header::ETAG, format!("\"{}\"", policy.version))];
    (status, tag, Json(policy)).into_response()
}
