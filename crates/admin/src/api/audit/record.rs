//! The schemas of audit records. The store writes records as text, which is sent
//! unchanged; these types only describe it.

#![expect(dead_code, reason = "only the schemas of these types are used")]

use std::collections::BTreeMap;

use utoipa::ToSchema;

use crate::schema::{RecordId, RecordKind, RecordOutcome};

/// A page of the audit log.
#[derive(ToSchema)]
pub(crate) struct RecordPage {
    records: Vec<AuditRecord>,
    /// The cursor of the next page; null on the last one.
    #[schema(required)]
    next: Option<String>,
    /// The place of the newest record of the page, to be sent as `after`.
    newest: String,
}

/// An audit record. Fields that do not apply are left out.
#[derive(ToSchema)]
struct AuditRecord {
    id: RecordId,
    #[schema(format = DateTime)]
    at: String,
    kind: RecordKind,
    /// The ULID that a decision and its outcome have in common.
    #[schema(value_type = RecordId, required = false)]
    request: Option<RecordId>,
    #[schema(nullable = false)]
    server: Option<String>,
    #[schema(value_type = RecordGrant, required = false)]
    grant: Option<RecordGrant>,
    #[schema(nullable = false)]
    principal: Option<String>,
    #[schema(nullable = false)]
    session: Option<String>,
    /// The MCP method.
    #[schema(nullable = false)]
    method: Option<String>,
    #[schema(nullable = false)]
    tool: Option<String>,
    #[schema(value_type = RecordOutcome, required = false)]
    outcome: Option<RecordOutcome>,
    /// The resource, prompt or task that was aimed at.
    #[schema(nullable = false)]
    target: Option<String>,
    #[schema(value_type = RecordActor, required = false)]
    actor: Option<RecordActor>,
    /// The id of the approval that the call waits for or was given.
    #[schema(nullable = false)]
    approval: Option<String>,
    /// The rule that decided.
    #[schema(nullable = false)]
    rule: Option<String>,
    #[schema(nullable = false)]
    message: Option<String>,
    #[schema(value_type = RecordPolicy, required = false)]
    policy: Option<RecordPolicy>,
    /// Names of the arguments, sorted.
    #[schema(nullable = false)]
    arg_keys: Option<Vec<String>>,
    /// A keyed digest of the arguments.
    #[schema(nullable = false, pattern = "^[0-9a-f]{64}$")]
    arg_digest: Option<String>,
    /// Values of arguments that `audit.values` asks for, by path.
    #[schema(value_type = Object, required = false)]
    arg_values: Option<()>,
    #[schema(value_type = RecordUpstream, required = false)]
    upstream: Option<RecordUpstream>,
    /// Microseconds since the request came in.
    #[schema(nullable = false)]
    micros: Option<u64>,
    #[schema(value_type = RecordAnchor, required = false)]
    anchor: Option<RecordAnchor>,
    /// The writer of the chain that the record is in.
    chain: String,
    /// The hash of the record before in that chain.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    prev: String,
    /// The SHA-256 of the record's text up to this field.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    hash: String,
}

/// The grant of a call.
#[derive(ToSchema)]
struct RecordGrant {
    id: String,
    label: String,
}

/// The person, token or program that made a change.
#[derive(ToSchema)]
struct RecordActor {
    id: String,
    label: String,
    /// The network address it acted from.
    #[schema(nullable = false)]
    address: Option<String>,
}

/// The policy that decided.
#[derive(ToSchema)]
struct RecordPolicy {
    name: String,
    version: String,
}

/// The answer of the server.
#[derive(ToSchema)]
struct RecordUpstream {
    /// Its HTTP status.
    #[schema(nullable = false)]
    status: Option<u16>,
    #[schema(nullable = false)]
    is_error: Option<bool>,
    /// Microseconds that it took.
    micros: u64,
}

/// Where the chains go on after older records were pruned.
#[derive(ToSchema)]
struct RecordAnchor {
    /// The sequence number of the last pruned record.
    through: i64,
    /// The last pruned record of each chain, by writer.
    chains: BTreeMap<String, RecordChainEnd>,
}

/// The last pruned record of a chain.
#[derive(ToSchema)]
struct RecordChainEnd {
    seq: i64,
    #[schema(pattern = "^[0-9a-f]{64}$")]
    hash: String,
}
