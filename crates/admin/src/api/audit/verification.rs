//! Checking the log, and comparing it with heads that were exported earlier.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use sluice_policy::Timestamp;
use sluice_store::{Fault, HeadFault, SignedHead};
use utoipa::ToSchema;

use crate::api::{
    AdminState, Problem,
    extract::JsonBody,
    openapi::{
        BadRequest, ContentTooLarge, InternalServerError, ServiceUnavailable, UnsupportedMediaType,
    },
};

/// Heads that are compared in one request, at most.
const MOST_HEADS: usize = 1_000;

/// The result of checking the whole log.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct Verification {
    /// Whether there are no faults.
    ok: bool,
    /// How many records were checked.
    records: u64,
    /// The sequence number of the last pruned record; null if none was pruned.
    #[schema(required)]
    pruned_through: Option<i64>,
    faults: Vec<ChainFault>,
    /// Where the log ends, signed; null if that is not what was written.
    #[schema(required)]
    head: Option<ExportedHead>,
}

/// A record that is not as it was written.
#[derive(Serialize, ToSchema)]
struct ChainFault {
    /// The sequence number of the record.
    seq: i64,
    message: String,
}

/// Where the log ended at some time, signed by the gateway.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ExportedHead {
    /// The version of this form: 1.
    head: u8,
    #[schema(format = DateTime)]
    at: String,
    /// The identity of the database.
    incarnation: String,
    /// The sequence number of the last record; 0 if there was none.
    seq: i64,
    /// Its hash.
    hash: String,
    /// The public key (Ed25519) of the signature.
    signer: String,
    /// The signature over the text of this object, as it was exported, up to `,"signature"`.
    signature: String,
}

/// Heads that were exported earlier.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct ExportedHeads {
    /// At most 1000.
    #[schema(max_items = 1000)]
    heads: Vec<ExportedHead>,
}

/// How the log compares with heads.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct HeadsCompared {
    /// Whether there are no faults.
    ok: bool,
    /// How many of their records are in the log, as they were.
    found: u64,
    /// How many of their records were pruned.
    pruned: u64,
    faults: Vec<ChainFault>,
}

impl ExportedHead {
    fn of(head: SignedHead) -> ExportedHead {
        let SignedHead { at, incarnation, seq, hash, signer, signature } = head;
        ExportedHead { head: 1, at: at.to_string(), incarnation, seq, hash, signer, signature }
    }

    fn read(self) -> Option<SignedHead> {
        let ExportedHead { head: 1, at, incarnation, seq, hash, signer, signature } = self else {
            return None;
        };
        let at = Timestamp::from_rfc3339(&at)?;
        Some(SignedHead { at, incarnation, seq, hash, signer, signature })
    }
}

/// Verify the audit log
///
/// Checks the hash of every record, and that none is missing.
#[utoipa::path(
    post,
    path = "/audit/verify",
    operation_id = "verify_log",
    tag = "audit",
    responses(
        (status = 200, description = "The result", body = Verification),
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(in crate::api) async fn verify(
    State(state): State<Arc<AdminState>>,
) -> Result<Json<Verification>, Problem> {
    let verified = state.ops.verify().await?;
    let shown = |fault: &Fault| ChainFault { seq: fault.sequence(), message: fault.to_string() };
    Ok(Json(Verification {
        ok: verified.faults.is_empty(),
        records: verified.records,
        pruned_through: verified.pruned_through,
        faults: verified.faults.iter().map(shown).collect(),
        head: verified.head.map(ExportedHead::of),
    }))
}

/// Compare the audit log with exported heads
///
/// Checks that each head was signed by this gateway, and that its record is in the log as it
/// was. So records are missed that were cut off together with `keys/head`.
#[utoipa::path(
    post,
    path = "/audit/heads/compare",
    operation_id = "compare_heads",
    tag = "audit",
    request_body = ExportedHeads,
    responses(
        (status = 200, description = "The result", body = HeadsCompared),
        BadRequest,
        ContentTooLarge,
        UnsupportedMediaType,
        InternalServerError,
        ServiceUnavailable,
    )
)]
pub(in crate::api) async fn compare_heads(
    State(state): State<Arc<AdminState>>,
    JsonBody(exported): JsonBody<ExportedHeads>,
) -> Result<Json<HeadsCompared>, Problem> {
    if exported.heads.len() > MOST_HEADS {
        return Err(Problem::request(format!(
            "at most {MOST_HEADS} heads can be compared at once"
        )));
    }
    let heads: Option<Vec<_>> = exported.heads.into_iter().map(ExportedHead::read).collect();
    let heads = heads.ok_or_else(|| Problem::request("`heads` has one that is not a head"))?;
    let compared = state.ops.compare_heads(heads).await?;
    let shown = |fault: &HeadFault| ChainFault { seq: fault.seq, message: fault.to_string() };
    Ok(Json(HeadsCompared {
        ok: compared.faults.is_empty(),
        found: compared.found,
        pruned: compared.pruned,
        faults: compared.faults.iter().map(shown).collect(),
    }))
}
