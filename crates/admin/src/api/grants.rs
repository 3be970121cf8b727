//! `/grants`.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde::{Deserialize, Serialize};
use sluice_store::{Name, Patch};
use utoipa::{IntoParams, ToSchema};

use super::{
    AdminState, Problem,
    extract::{self, JsonBody, PathParams, Preconditions, QueryParams, RequestCaller},
    openapi::{
        Conflict, ContentTooLarge, InternalServerError, NotFound, PreconditionFailed,
        ServiceUnavailable, UnprocessableContent, UnsupportedMediaType,
    },
    run_to_completion,
    servers::DeclarationSource,
};
use crate::{
    auth::{Caller, permission::Permission},
    clock,
    ops::{Expected, GrantChanges, GrantFilter, GrantPage, IssuedToken, SeenGrant, WantedGrant},
    schema::{ObjectName, TimeOrSpan},
};

/// The default and the maximum number of grants on a page.
const MAX_LIMIT: usize = 1_000;

/// A page of grants, in the order of their ids.
#[derive(Serialize, ToSchema)]
pub(super) struct GrantList {
    grants: Vec<GrantView>,
    /// The cursor of the next page; null on the last one.
    #[schema(required)]
    next: Option<String>,
}

/// A grant without its token.
#[derive(Serialize, ToSchema)]
pub(super) struct GrantView {
    id: String,
    #[schema(value_type = ObjectName)]
    label: String,
    /// The servers that it can call.
    #[schema(value_type = Vec<ObjectName>)]
    servers: Vec<String>,
    /// The name of the policy that each of these servers judges its calls by.
    #[schema(value_type = ObjectName)]
    policy: String,
    /// The person or program it was issued to.
    #[schema(required)]
    principal: Option<String>,
    source: DeclarationSource,
    state: GrantState,
    #[schema(format = DateTime)]
    created_at: String,
    /// The label of its creator; null if a file declares it.
    #[schema(required)]
    created_by: Option<String>,
    /// When a request with its token was last accepted.
    #[schema(format = DateTime, required)]
    last_used: Option<String>,
    #[schema(format = DateTime, required)]
    expires_at: Option<String>,
    #[schema(format = DateTime, required)]
    revoked_at: Option<String>,
}

/// Whether a grant can be used.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum GrantState {
    Valid,
    Expired,
    Revoked,
}

/// A grant with its token, which is never shown again.
#[derive(Serialize, ToSchema)]
pub(super) struct IssuedGrant {
    id: String,
    #[schema(value_type = ObjectName)]
    label: String,
    #[schema(value_type = Vec<ObjectName>)]
    servers: Vec<String>,
    #[schema(value_type = ObjectName)]
    policy: String,
    /// What clients send as `Authorization: Bearer`.
    token: String,
    #[schema(format = DateTime, required)]
    expires_at: Option<String>,
}

/// A grant to create.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewGrant {
    /// The servers that it can call.
    #[schema(value_type = Vec<ObjectName>, min_items = 1)]
    servers: Vec<String>,
    #[schema(value_type = ObjectName)]
    label: String,
    /// The name of the policy that each of these servers judges its calls by.
    #[schema(value_type = ObjectName)]
    policy: String,
    /// The person or program it is issued to.
    #[schema(min_length = 1, max_length = 256)]
    principal: Option<String>,
    /// When it ends, which must be in the future; a span is counted from now.
    #[schema(value_type = Option<TimeOrSpan>)]
    expires: Option<String>,
}

/// New values for some properties of a grant. A property that is left out keeps its value.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GrantPatch {
    #[schema(value_type = Option<ObjectName>, nullable = false)]
    label: Option<String>,
    /// The servers that it can call, instead of those until now.
    #[schema(value_type = Option<Vec<ObjectName>>, nullable = false, min_items = 1)]
    servers: Option<Vec<String>>,
    #[schema(value_type = Option<ObjectName>, nullable = false)]
    policy: Option<String>,
    /// The person or program it is issued to; null for nobody.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 256)]
    #[serde(default, deserialize_with = "extract::read_patch")]
    principal: Patch<String>,
    /// When it ends, which must be in the future; null for never.
    #[schema(value_type = Option<TimeOrSpan>)]
    #[serde(default, deserialize_with = "extract::read_patch")]
    expires: Patch<String>,
}

impl GrantPatch {
    /// Whether it changes nothing but which policy the grant has.
    fn is_of_policy_alone(&self) -> bool {
        self.label.is_none()
            && self.servers.is_none()
            && self.principal == Patch::Keep
            && self.expires == Patch::Keep
    }
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct RotateQuery {
    /// How long the old token works after this, as a span of at most 30 days; by default
    /// it is refused at once.
    #[param(value_type = Option<String>, nullable = false)]
    overlap: Option<String>,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct GrantQuery {
    /// Grants for this server.
    #[param(value_type = ObjectName, required = false)]
    server: Option<String>,
    /// Grants that are judged by the policy of this name.
    #[param(value_type = ObjectName, required = false)]
    policy: Option<String>,
    /// Grants of this principal.
    #[param(nullable = false)]
    principal: Option<String>,
    /// How many grants to answer with, at most and by default 1000.
    #[param(value_type = u64, required = false)]
    limit: Option<usize>,
    /// `next` of the page before.
    #[param(nullable = false)]
    cursor: Option<String>,
}

/// List the grants
#[utoipa::path(
    get,
    path = "/grants",
    operation_id = "list_grants",
    tag = "grants",
    params(GrantQuery),
    responses(
        (status = 200, description = "A page of grants", body = GrantList),
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn list(
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
    QueryParams(asked): QueryParams<GrantQuery>,
) -> Result<Json<GrantList>, Problem> {
    let GrantQuery { server, policy, principal, limit, cursor } = asked;
    let filter = GrantFilter { server, policy, principal };
    let limit = limit.unwrap_or(MAX_LIMIT).clamp(1, MAX_LIMIT);
    let GrantPage { grants, next } = state.ops.grants(&filter, cursor.as_deref(), limit).await?;
    // A page may have fewer than `limit` for that; `next` says whether more follow.
    let visible = grants.iter().filter(|seen| is_visible(&caller, seen));
    Ok(Json(GrantList { grants: visible.map(GrantView::of).collect(), next }))
}

/// Show a grant
#[utoipa::path(
    get,
    path = "/grants/{id}",
    operation_id = "show_grant",
    tag = "grants",
    params(("id" = String, Path, description = "The id or the label of the grant")),
    responses(
        (
            status = 200,
            description = "The grant",
            body = GrantView,
            headers(("ETag" = String, description = "The version of its properties, in quotes"))
        ),
        NotFound,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn show(
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
    PathParams(id): PathParams<String>,
) -> Result<Response, Problem> {
    let seen = state.ops.seen_grant(&id).await?;
    if !is_visible(&caller, &seen) {
        return Err(refuse_grant(&caller, &seen));
    }
    Ok(answer_with_tag(&seen))
}

/// Whether a grant has a server that the caller's role includes.
fn is_visible(caller: &Caller, seen: &SeenGrant) -> bool {
    caller.is_unlimited() || seen.grant.servers.iter().any(|server| caller.covers(server))
}

fn refuse_grant(caller: &Caller, seen: &SeenGrant) -> Problem {
    let other = seen.grant.servers.iter().find(|server| !caller.covers(server));
    Problem::other_server(caller, other.map_or("", Name::as_str))
}

/// Refuses to change a grant that has a server which the caller's role does not include. Returns
/// the version that this holds for; `None` for a caller whose role includes all servers.
async fn check_changeable(
    state: &AdminState,
    caller: &Caller,
    id: &str,
) -> Result<Option<String>, Problem> {
    if caller.is_unlimited() {
        return Ok(None);
    }
    let seen = state.ops.seen_grant(id).await?;
    if seen.grant.servers.iter().all(|server| caller.covers(server)) {
        return Ok(Some(seen.version()));
    }
    Err(refuse_grant(caller, &seen))
}

/// Refuses servers that the caller's role does not include.
fn check_servers(caller: &Caller, servers: &[String]) -> Result<(), Problem> {
    match servers.iter().find(|server| !caller.covers_text(server)) {
        Some(other) => Err(Problem::other_server(caller, other)),
        None => Ok(()),
    }
}

/// Change a grant
///
/// Its tokens stay the same.
#[utoipa::path(
    patch,
    path = "/grants/{id}",
    operation_id = "edit_grant",
    tag = "grants",
    params(
        ("id" = String, Path, description = "The id or the label of the grant"),
        ("If-Match" = Option<String>, Header, nullable = false, description = "Versions one of which must be current, in quotes and separated by commas"),
    ),
    request_body = GrantPatch,
    responses(
        (
            status = 200,
            description = "The grant as it is now",
            body = GrantView,
            headers(("ETag" = String, description = "The version of its properties, in quotes"))
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
pub(super) async fn edit(
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
    PathParams(id): PathParams<String>,
    Preconditions(expected): Preconditions,
    JsonBody(patch): JsonBody<GrantPatch>,
) -> Result<Response, Problem> {
    if !patch.is_of_policy_alone() && !caller.may(Permission::WriteGrants) {
        return Err(Problem::forbidden(&caller, Permission::WriteGrants));
    }
    check_servers(&caller, patch.servers.as_deref().unwrap_or_default())?;
    let expected = match (check_changeable(&state, &caller, &id).await?, expected) {
        (Some(version), Expected::Anything) => Expected::Versions(vec![version]),
        (_, expected) => expected,
    };
    let actor = caller.actor();
    let GrantPatch { label, servers, policy, principal, expires } = patch;
    let changes = GrantChanges { label, servers, policy, principal, expires };
    let edit = async move { state.ops.edit_grant(&id, changes, &expected, &actor).await };
    Ok(answer_with_tag(&run_to_completion(edit).await?))
}

/// Create a grant
///
/// The answer has its token, which cannot be read again later.
#[utoipa::path(
    post,
    path = "/grants",
    operation_id = "create_grant",
    tag = "grants",
    request_body = NewGrant,
    responses(
        (status = 201, description = "The grant and its token", body = IssuedGrant),
        Conflict,
        ContentTooLarge,
        UnsupportedMediaType,
        UnprocessableContent,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn create(
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
    JsonBody(new): JsonBody<NewGrant>,
) -> Result<(StatusCode, Json<IssuedGrant>), Problem> {
    check_servers(&caller, &new.servers)?;
    let actor = caller.actor();
    let NewGrant { servers, label, policy, principal, expires } = new;
    let wanted = WantedGrant { servers, label, policy, principal, expires };
    let issued =
        run_to_completion(async move { state.ops.create_grant(wanted, &actor).await }).await?;
    Ok((StatusCode::CREATED, Json(IssuedGrant::of(issued))))
}

/// Replace the token of a grant
///
/// The old token is refused at once, or after an overlap. A token from a rotation before
/// is refused at once.
#[utoipa::path(
    post,
    path = "/grants/{id}/rotate",
    operation_id = "rotate_grant",
    tag = "grants",
    params(
        ("id" = String, Path, description = "The id or the label of the grant"),
        RotateQuery,
    ),
    responses(
        (status = 200, description = "The grant and its new token", body = IssuedGrant),
        NotFound,
        Conflict,
        UnprocessableContent,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn rotate(
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
    PathParams(id): PathParams<String>,
    QueryParams(RotateQuery { overlap }): QueryParams<RotateQuery>,
) -> Result<Json<IssuedGrant>, Problem> {
    check_changeable(&state, &caller, &id).await?;
    let actor = caller.actor();
    let rotate = async move { state.ops.rotate_grant(&id, overlap.as_deref(), &actor).await };
    Ok(Json(IssuedGrant::of(run_to_completion(rotate).await?)))
}

/// Revoke a grant for good
#[utoipa::path(
    delete,
    path = "/grants/{id}",
    operation_id = "revoke_grant",
    tag = "grants",
    params(("id" = String, Path, description = "The id or the label of the grant")),
    responses(
        (status = 204, description = "The grant is revoked"),
        NotFound,
        Conflict,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn revoke(
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
    PathParams(id): PathParams<String>,
) -> Result<StatusCode, Problem> {
    check_changeable(&state, &caller, &id).await?;
    let actor = caller.actor();
    run_to_completion(async move { state.ops.revoke_grant(&id, &actor).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A grant with its entity tag.
fn answer_with_tag(seen: &SeenGrant) -> Response {
    let tag = [(header::ETAG, format!("\"{}\"", seen.version()))];
    (tag, Json(GrantView::of(seen))).into_response()
}

impl GrantView {
    fn of(seen: &SeenGrant) -> GrantView {
        let grant = &seen.grant;
        GrantView {
            id: grant.id.clone(),
            label: grant.label.to_string(),
            servers: names_to_strings(&grant.servers),
            policy: grant.policy.to_string(),
            principal: grant.principal.clone(),
            // Ids that the store makes have no colon.
            source: if grant.id.starts_with("file:") {
                DeclarationSource::File
            } else {
                DeclarationSource::Stored
            },
            state: if grant.revoked_at.is_some() {
                GrantState::Revoked
            } else if grant.is_valid(clock::now()) {
                GrantState::Valid
            } else {
                GrantState::Expired
            },
            created_at: grant.created_at.to_string(),
            created_by: grant.created_by.clone(),
            last_used: seen.last_used.map(|at| at.to_string()),
            expires_at: grant.expires_at.map(|at| at.to_string()),
            revoked_at: grant.revoked_at.map(|at| at.to_string()),
        }
    }
}

impl IssuedGrant {
    fn of(IssuedToken { grant, token }: IssuedToken) -> IssuedGrant {
        IssuedGrant {
            label: grant.label.to_string(),
            servers: names_to_strings(&grant.servers),
            policy: grant.policy.to_string(),
            token: token.text().to_owned(),
            expires_at: grant.expires_at.map(|at| at.to_string()),
            id: grant.id,
        }
    }
}

fn names_to_strings(names: &[Name]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}
