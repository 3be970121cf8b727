//! `/approvals`.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use sluice_store::{Approval, Held};
use utoipa::{IntoParams, ToSchema};

use super::extract::RequestCaller;
use super::{
    AdminState, Problem,
    extract::QueryParams,
    openapi::{InternalServerError, ServiceUnavailable},
    paging::cut_page,
};
use crate::schema::ObjectName;

/// The calls that wait for a decision, the oldest first.
#[derive(Serialize, ToSchema)]
pub(super) struct ApprovalList {
    approvals: Vec<ApprovalView>,
    /// The cursor of the next page; null on the last one.
    #[schema(required)]
    next: Option<String>,
}

/// Filters, all of which must hold, and the page.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ApprovalQuery {
    /// Calls of this server.
    #[param(value_type = ObjectName, required = false)]
    server: Option<String>,
    /// Calls of the grant with this id or label.
    #[param(nullable = false)]
    grant: Option<String>,
    /// Calls of this tool.
    #[param(nullable = false)]
    tool: Option<String>,
    /// How many to answer with, at most and by default 1000.
    #[param(value_type = u64, required = false)]
    limit: Option<usize>,
    /// `next` of the page before.
    #[param(nullable = false)]
    cursor: Option<String>,
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
    params(ApprovalQuery),
    responses(
        (status = 200, description = "A page of the calls that wait, the oldest first", body = ApprovalList),
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn list(
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
    QueryParams(asked): QueryParams<ApprovalQuery>,
) -> Result<Json<ApprovalList>, Problem> {
    let mut pending = state.ops.pending_approvals().await?;
    pending.retain(|held| caller.covers_text(&held.approval.server));
    // Ids begin with the time of the call.
    pending.sort_by(|one, other| one.id.cmp(&other.id));
    let wanted = pending.into_iter().filter(|held| asked.admits(&held.approval));
    let (pending, next) = cut_page(wanted, |held| &held.id, asked.cursor.as_deref(), asked.limit);
    Ok(Json(ApprovalList { approvals: pending.into_iter().map(build_view).collect(), next }))
}

impl ApprovalQuery {
    fn admits(&self, approval: &Approval) -> bool {
        let grant = &approval.grant;
        let is_of = |wanted: &str| wanted == &*grant.id || wanted == &*grant.label;
        self.server.as_ref().is_none_or(|server| *server == approval.server)
            && self.tool.as_ref().is_none_or(|tool| *tool == approval.tool)
            && self.grant.as_deref().is_none_or(is_of)
    }
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
