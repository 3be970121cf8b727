//! `/grants`.

use std::sync::Arc;

use axum::{Json as Answer, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use sluice_store::{Grant, Name};

use super::{
    Plane, Problem,
    extract::{Asked, By, Json, Named},
    whole,
};
use crate::{
    clock,
    ops::{GrantPage, Issued, WantedGrant},
};

/// Grants on one page, unless fewer are asked for.
const MOST: usize = 1_000;

#[derive(Serialize)]
pub(super) struct Grants {
    grants: Vec<ShownGrant>,
    next: Option<String>,
}

#[derive(Serialize)]
pub(super) struct ShownGrant {
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
pub(super) struct ShownToken {
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
pub(super) struct Paging {
    limit: Option<usize>,
    cursor: Option<String>,
}

pub(super) async fn list(
    State(plane): State<Arc<Plane>>,
    Asked(Paging { limit, cursor }): Asked<Paging>,
) -> Result<Answer<Grants>, Problem> {
    let limit = limit.unwrap_or(MOST).clamp(1, MOST);
    let GrantPage { grants, next } = plane.ops.grants(cursor.as_deref(), limit).await?;
    Ok(Answer(Grants { grants: grants.iter().map(ShownGrant::of).collect(), next }))
}

pub(super) async fn show(
    State(plane): State<Arc<Plane>>,
    Named(id): Named<String>,
) -> Result<Answer<ShownGrant>, Problem> {
    Ok(Answer(ShownGrant::of(&plane.ops.grant(&id).await?)))
}

pub(super) async fn create(
    State(plane): State<Arc<Plane>>,
    By(actor): By,
    Json(new): Json<NewGrant>,
) -> Result<(StatusCode, Answer<ShownToken>), Problem> {
    let NewGrant { servers, label, policy, principal, expires } = new;
    let wanted = WantedGrant { servers, label, policy, principal, expires };
    let issued = whole(async move { plane.ops.create_grant(wanted, &actor).await }).await?;
    Ok((StatusCode::CREATED, Answer(ShownToken::of(issued))))
}

pub(super) async fn rotate(
    State(plane): State<Arc<Plane>>,
    By(actor): By,
    Named(id): Named<String>,
) -> Result<Answer<ShownToken>, Problem> {
    let issued = whole(async move { plane.ops.rotate_grant(&id, &actor).await }).await?;
    Ok(Answer(ShownToken::of(issued)))
}

pub(super) async fn revoke(
    State(plane): State<Arc<Plane>>,
    By(actor): By,
    Named(id): Named<String>,
) -> Result<StatusCode, Problem> {
    whole(async move { plane.ops.revoke_grant(&id, &actor).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl ShownGrant {
    fn of(grant: &Grant) -> ShownGrant {
        ShownGrant {
            id: grant.id.clone(),
            label: grant.label.to_string(),
            servers: texts(&grant.servers),
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

impl ShownToken {
    fn of(Issued { grant, token }: Issued) -> ShownToken {
        ShownToken {
            label: grant.label.to_string(),
            servers: texts(&grant.servers),
            policy: grant.policy.to_string(),
            token: token.text().to_owned(),
            expires_at: grant.expires_at.map(|at| at.to_string()),
            id: grant.id,
        }
    }
}

fn texts(names: &[Name]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}
