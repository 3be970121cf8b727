//! `/grants`.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use sluice_store::{Grant, Name};
use utoipa::{IntoParams, ToSchema};

use super::{
    Plane, Problem,
    extract::{JsonBody, PathParams, QueryParams, RequestActor},
    openapi::{
        Conflict, ContentTooLarge, InternalServerError, NotFound, ServiceUnavailable,
        UnprocessableContent, UnsupportedMediaType,
    },
    run_to_completion,
    servers::DeclarationSource,
};
use crate::{
    clock,
    ops::{GrantPage, IssuedToken, WantedGrant},
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

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct GrantQuery {
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
    State(plane): State<Arc<Plane>>,
    QueryParams(GrantQuery { limit, cursor }): QueryParams<GrantQuery>,
) -> Result<Json<GrantList>, Problem> {
    let limit = limit.unwrap_or(MAX_LIMIT).clamp(1, MAX_LIMIT);
    let GrantPage { grants, next } = plane.ops.grants(cursor.as_deref(), limit).await?;
    Ok(Json(GrantList { grants: grants.iter().map(GrantView::of).collect(), next }))
}

/// Show a grant
#[utoipa::path(
    get,
    path = "/grants/{id}",
    operation_id = "show_grant",
    tag = "grants",
    params(("id" = String, Path, description = "The id of the grant")),
    responses(
        (status = 200, description = "The grant", body = GrantView),
        NotFound,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn show(
    State(plane): State<Arc<Plane>>,
    PathParams(id): PathParams<String>,
) -> Result<Json<GrantView>, Problem> {
    Ok(Json(GrantView::of(&plane.ops.grant(&id).await?)))
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
    State(plane): State<Arc<Plane>>,
    RequestActor(actor): RequestActor,
    JsonBody(new): JsonBody<NewGrant>,
) -> Result<(StatusCode, Json<IssuedGrant>), Problem> {
    let NewGrant { servers, label, policy, principal, expires } = new;
    let wanted = WantedGrant { servers, label, policy, principal, expires };
    let issued =
        run_to_completion(async move { plane.ops.create_grant(wanted, &actor).await }).await?;
    Ok((StatusCode::CREATED, Json(IssuedGrant::of(issued))))
}

/// Replace the token of a grant
///
/// The old token is refused at once.
#[utoipa::path(
    post,
    path = "/grants/{id}/rotate",
    operation_id = "rotate_grant",
    tag = "grants",
    params(("id" = String, Path, description = "The id of the grant")),
    responses(
        (status = 200, description = "The grant and its new token", body = IssuedGrant),
        NotFound,
        Conflict,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn rotate(
    State(plane): State<Arc<Plane>>,
    RequestActor(actor): RequestActor,
    PathParams(id): PathParams<String>,
) -> Result<Json<IssuedGrant>, Problem> {
    let issued =
        run_to_completion(async move { plane.ops.rotate_grant(&id, &actor).await }).await?;
    Ok(Json(IssuedGrant::of(issued)))
}

/// Revoke a grant for good
#[utoipa::path(
    delete,
    path = "/grants/{id}",
    operation_id = "revoke_grant",
    tag = "grants",
    params(("id" = String, Path, description = "The id of the grant")),
    responses(
        (status = 204, description = "The grant is revoked"),
        NotFound,
        Conflict,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn revoke(
    State(plane): State<Arc<Plane>>,
    RequestActor(actor): RequestActor,
    PathParams(id): PathParams<String>,
) -> Result<StatusCode, Problem> {
    run_to_completion(async move { plane.ops.revoke_grant(&id, &actor).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl GrantView {
    fn of(grant: &Grant) -> GrantView {
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
