//! `/grants/{id}/access` and `/access`.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sluice_classify::{Category, Risk};
use sluice_policy::{ConcurrencyTerms, LimitTerms, Treatment};
use utoipa::{IntoParams, ToSchema};

use super::{
    AdminState, Problem,
    catalog::parse_choice,
    extract::{PathParams, QueryParams, RequestCaller},
    openapi::{InternalServerError, NotFound, ServiceUnavailable, UnprocessableContent},
    servers::DeclarationSource,
};
use crate::{
    ops::{self, AccessFilter, AccessPage, AccessRow},
    schema::{ObjectName, ToolCategory, ToolRisk, ToolTreatment},
};

/// Rows on a page by default.
const DEFAULT_LIMIT: usize = 200;
/// Rows on a page, at most.
const MAX_LIMIT: usize = 1_000;

/// A page of tools, in the order of grants, servers and tools.
#[derive(Serialize, ToSchema)]
pub(super) struct AccessList {
    access: Vec<AccessView>,
    /// Servers whose tools cannot be listed, so that they are missing here.
    silent: Vec<SilentServer>,
    /// The cursor of the next page; null on the last one.
    #[schema(required)]
    next: Option<String>,
}

/// What happens to the calls of one tool by one grant.
#[derive(Serialize, ToSchema)]
struct AccessView {
    grant: AccessGrant,
    #[schema(value_type = ObjectName)]
    server: String,
    tool: String,
    #[schema(value_type = ToolCategory)]
    category: &'static str,
    #[schema(value_type = ToolRisk)]
    risk: &'static str,
    #[schema(value_type = ToolTreatment)]
    outcome: &'static str,
    /// The rule that decides; of an allowed tool, the entry that lists it, `(default allow)`, or
    /// `(shadow mode)`.
    rule: String,
    /// The policy of that rule, if it is one that the policy extends.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<String>,
    /// The policy that decides; null if the server has none of the grant's, or it is not in force.
    #[schema(required)]
    policy: Option<AccessPolicy>,
    /// The rules that depend on the arguments of a call.
    conditions: Vec<String>,
    /// The limits that calls are charged to.
    limits: Vec<AccessLimit>,
    /// The bounds of calls in progress.
    concurrent: Vec<AccessConcurrency>,
    /// How many people must approve a call, if each is held.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    approvers: Option<u8>,
    /// What policies in shadow mode would do with calls that pass.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    shadow: Option<AccessShadow>,
}

/// A grant; `anonymous:` and a server for callers without a token.
#[derive(Serialize, ToSchema)]
struct AccessGrant {
    id: String,
    label: String,
    #[schema(required)]
    principal: Option<String>,
}

/// A policy in force.
#[derive(Serialize, ToSchema)]
struct AccessPolicy {
    #[schema(value_type = ObjectName)]
    name: String,
    /// Its version, and those of the policies that it extends, joined by `+`.
    version: String,
    source: DeclarationSource,
}

/// A limit.
#[derive(Serialize, ToSchema)]
struct AccessLimit {
    rule: String,
    counter: String,
    scope: &'static str,
    /// `minute`, `hour`, `day`, `month`, or seconds.
    window: Value,
    #[schema(value_type = f64)]
    max: Value,
    /// The argument that is added; without it, each call adds 1.
    #[schema(nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    increment_from: Option<String>,
}

/// A bound of calls in progress.
#[derive(Serialize, ToSchema)]
struct AccessConcurrency {
    rule: String,
    scope: &'static str,
    max: u64,
}

/// What would happen if policies in shadow mode were enforced.
#[derive(Serialize, ToSchema)]
struct AccessShadow {
    #[schema(value_type = ToolTreatment)]
    outcome: &'static str,
    rule: String,
}

/// A server whose tools cannot be listed.
#[derive(Serialize, ToSchema)]
struct SilentServer {
    #[schema(value_type = ObjectName)]
    server: String,
    why: String,
}

/// Filters, all of which must hold, and the page.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct AccessQuery {
    /// Tools of this server.
    #[param(value_type = ObjectName, required = false)]
    server: Option<String>,
    /// Tools with this name.
    #[param(nullable = false)]
    tool: Option<String>,
    /// Tools of this category.
    #[param(value_type = ToolCategory, required = false)]
    category: Option<String>,
    /// Tools of this risk.
    #[param(value_type = ToolRisk, required = false)]
    risk: Option<String>,
    /// Tools that are treated so.
    #[param(value_type = ToolTreatment, required = false)]
    outcome: Option<String>,
    /// How many rows to answer with, 200 by default and at most 1000.
    #[param(value_type = u64, required = false)]
    limit: Option<usize>,
    /// `next` of the page before.
    #[param(nullable = false)]
    cursor: Option<String>,
}

impl AccessQuery {
    fn filter(&self) -> Result<AccessFilter, Problem> {
        let (category, risk) = (self.category.clone(), self.risk.clone());
        let outcome = self.outcome.clone();
        Ok(AccessFilter {
            server: self.server.as_deref().map(ops::parse_name).transpose()?,
            tool: self.tool.clone(),
            category: parse_choice("category", category, &Category::ALL, Category::name)?.pop(),
            risk: parse_choice("risk", risk, &Risk::ALL, Risk::name)?.pop(),
            outcome: parse_choice("outcome", outcome, &Treatment::ALL, Treatment::name)?.pop(),
            may_pass: false,
        })
    }

    fn limit(&self) -> usize {
        self.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT)
    }
}

/// Show what a grant may call
///
/// For every tool of its servers: what happens to a call, as far as that does not depend on the
/// arguments, and by which rule. The grant is judged as if it could be used now.
#[utoipa::path(
    get,
    path = "/grants/{id}/access",
    operation_id = "show_grant_access",
    tag = "grants",
    params(("id" = String, Path, description = "The id or the label of the grant"), AccessQuery),
    responses(
        (status = 200, description = "A page of its tools", body = AccessList),
        NotFound,
        UnprocessableContent,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn show_grant(
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
    PathParams(id): PathParams<String>,
    QueryParams(asked): QueryParams<AccessQuery>,
) -> Result<Json<AccessList>, Problem> {
    Problem::check_server(&caller, asked.server.as_deref())?;
    let (filter, cursor) = (asked.filter()?, asked.cursor.as_deref());
    let page = state.ops.grant_access(&id, filter, cursor, asked.limit()).await?;
    Ok(Json(AccessList::of(page)))
}

/// List which grants may call which tools
///
/// Grants that can be used now, and callers without a token where a server allows them. Without
/// `outcome`, only tools of which some call may be forwarded.
#[utoipa::path(
    get,
    path = "/access",
    operation_id = "list_access",
    tag = "grants",
    params(AccessQuery),
    responses(
        (status = 200, description = "A page of tools and the grants that may call them", body = AccessList),
        NotFound,
        UnprocessableContent,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(super) async fn list(
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
    QueryParams(asked): QueryParams<AccessQuery>,
) -> Result<Json<AccessList>, Problem> {
    Problem::check_server(&caller, asked.server.as_deref())?;
    let filter = AccessFilter { may_pass: asked.outcome.is_none(), ..asked.filter()? };
    let page = state.ops.all_access(filter, asked.cursor.as_deref(), asked.limit()).await?;
    Ok(Json(AccessList::of(page)))
}

impl AccessList {
    fn of(page: AccessPage) -> AccessList {
        let silent = page.silent.into_iter();
        AccessList {
            access: page.rows.iter().map(AccessView::of).collect(),
            silent: silent
                .map(|(server, why)| SilentServer { server: server.to_string(), why })
                .collect(),
            next: page.next,
        }
    }
}

impl AccessView {
    fn of(AccessRow { caller, judged }: &AccessRow) -> AccessView {
        let access = &judged.access;
        AccessView {
            grant: AccessGrant {
                id: caller.id.clone(),
                label: caller.label.clone(),
                principal: caller.principal.clone(),
            },
            server: judged.server.to_string(),
            tool: judged.tool.clone(),
            category: judged.category.name(),
            risk: judged.risk.name(),
            outcome: access.outcome.name(),
            rule: access.rule.clone(),
            base: access.base.clone(),
            policy: judged.policy.as_ref().map(|policy| AccessPolicy {
                name: policy.name.to_string(),
                version: policy.version.clone(),
                source: policy.source.into(),
            }),
            conditions: access.conditions.clone(),
            limits: access.limits.iter().cloned().map(AccessLimit::from).collect(),
            concurrent: access.concurrent.iter().cloned().map(AccessConcurrency::from).collect(),
            approvers: access.approvers,
            shadow: access.shadow.as_ref().map(|shadow| AccessShadow {
                outcome: shadow.outcome.name(),
                rule: shadow.rule.clone(),
            }),
        }
    }
}

impl From<LimitTerms> for AccessLimit {
    fn from(limit: LimitTerms) -> AccessLimit {
        let LimitTerms { rule, counter, scope, window, max, increment_from } = limit;
        AccessLimit { rule, counter, scope, window, max, increment_from }
    }
}

impl From<ConcurrencyTerms> for AccessConcurrency {
    fn from(ConcurrencyTerms { rule, scope, max }: ConcurrencyTerms) -> AccessConcurrency {
        AccessConcurrency { rule, scope, max }
    }
}
