//! Audit records: what happened, in the words of the contract.
//!
//! Argument values are never part of a record here; who wants some recorded
//! puts them into the message itself.

use serde::Serialize;
use sluice_policy::Timestamp;

/// What a record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Decision,
    Outcome,
    Auth,
    Approval,
    Admin,
    Drift,
}

/// A grant, as records name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GrantRef {
    pub id: String,
    pub label: String,
}

/// The policy that decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PolicyRef {
    pub name: String,
    pub version: String,
}

/// What came back from the upstream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UpstreamRef {
    pub status: Option<u16>,
    pub is_error: Option<bool>,
    pub micros: u64,
}

/// One record, before it is chained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Record {
    pub id: String,
    /// Milliseconds since the Unix epoch.
    #[serde(serialize_with = "millis")]
    pub at: Timestamp,
    pub kind: Kind,
    /// The request a decision and its outcome have in common.
    pub request: Option<String>,
    pub server: Option<String>,
    pub grant: Option<GrantRef>,
    pub principal: Option<String>,
    pub session: Option<String>,
    pub method: Option<String>,
    pub tool: Option<String>,
    /// `allow`, `deny`, `hide`, `approve`, `shadow_deny` or `error`.
    pub outcome: Option<&'static str>,
    pub rule: Option<String>,
    pub message: Option<String>,
    pub policy: Option<PolicyRef>,
    /// Sorted.
    pub arg_keys: Vec<String>,
    pub arg_digest: Option<String>,
    pub upstream: Option<UpstreamRef>,
    pub micros: Option<u64>,
}

impl Record {
    /// A record of something at a moment, with nothing else said yet.
    pub fn new(id: String, at: Timestamp, kind: Kind) -> Record {
        Record {
            id,
            at,
            kind,
            request: None,
            server: None,
            grant: None,
            principal: None,
            session: None,
            method: None,
            tool: None,
            outcome: None,
            rule: None,
            message: None,
            policy: None,
            arg_keys: Vec::new(),
            arg_digest: None,
            upstream: None,
            micros: None,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn millis<S: serde::Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(at.as_millis())
}
