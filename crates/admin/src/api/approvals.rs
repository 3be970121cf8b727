//! `/approvals`.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Serialize;
use sluice_store::{Approval, Held};
use utoipa::ToSchema;

use super::extract::RequestCaller;
use super::{
    AdminState, Problem,
    openapi::{InternalServerError, ServiceUnavailable},
};
use crate::schema::ObjectName;

/// The calls that wait for a decision, the oldest first.
#[derive(Serialize, ToSchema)]
pub(super) struct ApprovalList {
    approvals: Vec<ApprovalView>,
}

/// A call that waits for a decision.
#[derive(Serialize, ToSchema)]
struct ApprovalView {
    id: String,
    #[schema(value_type = ObjectName)]
    server: String,
    grant: ApprovalGrant,
    #[schema(required)]
    principal: Option<String>,
    tool: String,
    /// The rule that demands the approval.
    rule: String,
    /// How many people must approve.
    approvers: u8,
    /// What the policy says to them.
    message: String,
    policy: ApprovalPolicy,
    /// Names of the arguments, sorted.
    arg_keys: Vec<String>,
    #[schema(format = DateTime)]
    requested_at: String,
    #[schema(format = DateTime)]
    expires_at: String,
}

/// The grant that the call was made with.
#[derive(Serialize, ToSchema)]
struct ApprovalGrant {
    id: String,
    label: String,
}

/// The policy that demands the approval.
#[derive(Serialize, ToSchema)]
struct ApprovalPolicy {
    name: String,
    version: String,
}

/// List the calls that wait for approval
#[utoipa::path(
    get,
    path = "/approvals",
    operation_id = "list_approvals",
    tag = "approvals",
    responses(
        (status = 200, description = "The calls that wait, the oldest first", body = ApprovalList),
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn list(
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
) -> Result<Json<ApprovalList>, Problem> {
    let mut pending = state.ops.pending_approvals().await?;
    pending.retain(|held| caller.covers_text(&held.approval.server));
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
