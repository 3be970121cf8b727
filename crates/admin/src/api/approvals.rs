//! `/approvals`.

use std::sync::Arc;

use axum::{Json as Answer, extract::State};
use serde::Serialize;
use sluice_store::{Approval, Held};

use super::{Plane, Problem};

#[derive(Serialize)]
pub(super) struct Approvals {
    approvals: Vec<ShownApproval>,
}

#[derive(Serialize)]
struct ShownApproval {
    id: String,
    server: String,
    grant: ShownGrant,
    principal: Option<String>,
    tool: String,
    rule: String,
    approvers: u8,
    message: String,
    policy: ShownPolicy,
    arg_keys: Vec<String>,
    requested_at: String,
    expires_at: String,
}

#[derive(Serialize)]
struct ShownGrant {
    id: String,
    label: String,
}

#[derive(Serialize)]
struct ShownPolicy {
    name: String,
    version: String,
}

pub(super) async fn list(State(plane): State<Arc<Plane>>) -> Result<Answer<Approvals>, Problem> {
    let pending = plane.ops.pending_approvals().await?;
    Ok(Answer(Approvals { approvals: pending.into_iter().map(shown).collect() }))
}

fn shown(Held { id, approval, .. }: Held) -> ShownApproval {
    let Approval { grant, policy, .. } = &approval;
    ShownApproval {
        id,
        grant: ShownGrant { id: grant.id.to_string(), label: grant.label.to_string() },
        policy: ShownPolicy { name: policy.name.to_string(), version: policy.version.to_string() },
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
