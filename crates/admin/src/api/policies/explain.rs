//! `/policies/explain`. The answer is the explanation as `sluice policy explain --json` prints it.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Json, extract::State};
use serde::Deserialize;
use serde_json::{Number, Value, value::RawValue};
use sluice_policy::{Explanation, Format};
use utoipa::ToSchema;

use super::super::{
    AdminState, Problem,
    extract::{JsonBody, RequestCaller},
    openapi::{
        ContentTooLarge, InternalServerError, NotFound, ServiceUnavailable, UnprocessableContent,
        UnsupportedMediaType,
    },
};
use crate::{
    ops::SupposedCall,
    schema::{CallOutcome, ObjectName},
};

/// A call to explain, and the policy that judges it: `policy` of `server`, `text`, or that of
/// `grant` on `server`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExplainRequest {
    /// The server that is called. Its definitions are used, and `text` may extend its policies.
    #[schema(value_type = Option<ObjectName>, nullable = false)]
    server: Option<String>,
    /// The name of a policy of the server.
    #[schema(value_type = Option<ObjectName>, nullable = false)]
    policy: Option<String>,
    /// A policy that need not be in force.
    #[schema(nullable = false)]
    text: Option<String>,
    /// The language of `text`; JSON by default.
    #[schema(nullable = false)]
    format: Option<TextFormat>,
    tool: String,
    #[schema(value_type = Option<Object>, nullable = false)]
    arguments: Option<Box<RawValue>>,
    /// The id or the label of a grant; its policy judges if no other is given.
    #[schema(nullable = false)]
    grant: Option<String>,
    /// The time of the call; now by default.
    #[schema(format = DateTime, nullable = false)]
    at: Option<String>,
    /// What counters hold, and how many calls are in progress for rules such as
    /// `/tools/eval/concurrent`; 0 by default.
    #[schema(value_type = BTreeMap<String, f64>)]
    #[serde(default)]
    used: BTreeMap<String, Number>,
}

/// The language of a text.
#[derive(Deserialize, ToSchema, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum TextFormat {
    Json,
    Yaml,
}

/// The decision on a call, with every check.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used: the explanation itself is written")]
pub(crate) struct CallExplanation {
    outcome: CallOutcome,
    /// The rule that decides, unless the call is allowed.
    #[schema(required)]
    rule: Option<String>,
    /// The message to the caller.
    #[schema(required)]
    message: Option<String>,
    charges: Vec<ExplainedCharge>,
    /// All checks, in order.
    trace: Vec<ExplainedStep>,
    /// Whether what stops the call does not take effect, because its policy is in shadow mode; for
    /// an allowed call, whether all its policies are.
    shadow: bool,
    /// The policy whose rule decides, if it is one that the policy extends.
    #[schema(nullable = false)]
    base: Option<String>,
    /// When a retry may succeed.
    #[schema(nullable = false)]
    retry_after_ms: Option<u64>,
    /// How many people must approve a held call.
    #[schema(nullable = false)]
    approvers: Option<u8>,
    /// How long a held call waits for them.
    #[schema(nullable = false)]
    expires_seconds: Option<u64>,
}

/// A charge of an allowed call.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct ExplainedCharge {
    counter: String,
    scope: String,
    /// `minute`, `hour`, `day`, `month`, or seconds.
    window: Value,
    amount: f64,
    max: f64,
    used: f64,
}

/// One check.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct ExplainedStep {
    /// The kind of check.
    step: String,
    /// Its rule id, if it has one.
    #[schema(required)]
    rule: Option<String>,
    /// `pass`, `match`, or the outcome that the check demands.
    result: String,
    /// The result in words.
    detail: String,
}

/// Explain the decision on a call
///
/// Nothing is called, charged or recorded. If the server does not list its tools, what depends on
/// their definitions is denied, as it is for real calls then.
#[utoipa::path(
    post,
    path = "/policies/explain",
    operation_id = "explain_call",
    tag = "policies",
    request_body = ExplainRequest,
    responses(
        (status = 200, description = "The decision, and every check", body = CallExplanation),
        NotFound,
        ContentTooLarge,
        UnsupportedMediaType,
        UnprocessableContent,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(crate) async fn explain(
    State(state): State<Arc<AdminState>>,
    RequestCaller(caller): RequestCaller,
    JsonBody(asked): JsonBody<ExplainRequest>,
) -> Result<Json<Explanation>, Problem> {
    let ExplainRequest { server, policy, text, format, tool, arguments, grant, at, used } = asked;
    // A text alone is about no server.
    if server.is_some() || policy.is_some() || grant.is_some() {
        Problem::check_server(&caller, server.as_deref())?;
    }
    let format = match format {
        Some(TextFormat::Yaml) => Format::Yaml,
        Some(TextFormat::Json) | None => Format::Json,
    };
    let call = SupposedCall {
        server,
        policy,
        text: text.map(|text| (text, format)),
        tool,
        arguments: arguments.map(|arguments| arguments.get().to_owned()),
        grant,
        at,
        used: used.into_iter().map(|(counter, number)| (counter, number.to_string())).collect(),
    };
    Ok(Json(state.ops.explain_call(call).await?))
}
