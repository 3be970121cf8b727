//! `/grants`.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use sluice_store::{Grant, Name};

use super::{
    Plane, Problem,
    extract::{JsonBody, PathParams, QueryParams, RequestActor},
    run_to_completion,
};
use crate::{
    clock,
    ops::{GrantPage, IssuedToken, WantedGrant},
};

/// GrantList on one page, unless fewer are asked for.
const MAX_LIMIT: usize = 1_000;

#[derive(Serialize)]
pub(super) struct GrantList {
    grants: Vec<GrantView>,
    next: Option<String>,
}

#[derive(Serialize)]
pub(super) struct GrantView {
    id: String,
    label: String,
    servers: Vec<String>,
    policy: String,
    principal: Option<String>,
    source: &'static str,
    /// `valid`, `expired` or `revoked`.
    state: &'static str,
    created_at: String,
    expires_at: Option<String>,
    revoked_at: Option<String>,
}

/// A grant with its token, which is never shown again.
#[derive(Serialize)]
pub(super) struct IssuedGrant {
    id: String,
    label: String,
    servers: Vec<String>,
    policy: String,
    token: String,
    expires_at: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewGrant {
    servers: Vec<String>,
    label: String,
    policy: String,
    principal: Option<String>,
    expires: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GrantQuery {
    limit: Option<usize>,
    cursor: Option<String>,
}

pub(super) async fn list(
    State(plane): State<Arc<Plane>>,
    QueryParams(GrantQuery { limit, cursor }): QueryParams<GrantQuery>,
) -> Result<Json<GrantList>, Problem> {
    let limit = limit.unwrap_or(MAX_LIMIT).clamp(1, MAX_LIMIT);
    let GrantPage { grants, next } = plane.ops.grants(cursor.as_deref(), limit).await?;
    Ok(Json(GrantList { grants: grants.iter().map(GrantView::of).collect(), next }))
}

pub(super) async fn show(
    State(plane): State<Arc<Plane>>,
    PathParams(id): PathParams<String>,
) -> Result<Json<GrantView>, Problem> {
    Ok(Json(GrantView::of(&plane.ops.grant(&id).await?)))
}

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

pub(super) async fn rotate(
    State(plane): State<Arc<Plane>>,
    RequestActor(actor): RequestActor,
    PathParams(id): PathParams<String>,
) -> Result<Json<IssuedGrant>, Problem> {
    let issued =
        run_to_completion(async move { plane.ops.rotate_grant(&id, &actor).await }).await?;
    Ok(Json(IssuedGrant::of(issued)))
}

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
            // No id that is made has a colon.
            source: if grant.id.starts_with("file:") { "file" } else { "stored" },
            state: if grant.revoked_at.is_some() {
                "revoked"
            } else if grant.is_valid(clock::now()) {
                "valid"
            } else {
                "expired"
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
