//! `/approvals`.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Serialize;
use sluice_store::{Approval, Held};

use super::{Plane, Problem};

#[derive(Serialize)]
pub(super) struct ApprovalList {
    approvals: Vec<ApprovalView>,
}

#[derive(Serialize)]
struct ApprovalView {
    id: String,
    server: String,
    grant: ApprovalGrant,
    principal: Option<String>,
    tool: String,
    rule: String,
    approvers: u8,
    message: String,
    policy: ApprovalPolicy,
    arg_keys: Vec<String>,
    requested_at: String,
    expires_at: String,
}

#[derive(Serialize)]
struct ApprovalGrant {
    id: String,
    label: String,
}

#[derive(Serialize)]
struct ApprovalPolicy {
    name: String,
    version: String,
}

pub(super) async fn list(State(plane): State<Arc<Plane>>) -> Result<Json<ApprovalList>, Problem> {
    let pending = plane.ops.pending_approvals().await?;
    Ok(Json(ApprovalList { approvals: pending.into_iter().map(build_view).collect() }))
}

fn build_view(Held { id, approval, .. }: Held) -> ApprovalView {
    let Approval { grant, policy, .. } = &approval;
    ApprovalView {
        id,
        grant: ApprovalGrant { id: grant.id.to_string(), label: grant.label.to_string() },
        policy: ApprovalPolicy {
            name: policy.name.to_string(),
            version: policy.version.to_string(),
        },
        server: approval.server,
        principal: approval.principal,
        tool: approval.tool,
        rule: approval.rule,
        approvers: approval.approvers,
        message: approval.message,
        arg_keys: approval.arg_keys,
        requested_at: approval.requested_at.to_string(),
        expires_at: approval.expires_at.to_string(),
    }
}
