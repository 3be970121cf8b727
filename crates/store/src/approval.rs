//! Approvals: calls that were held, and wait for people.

use sluice_policy::Timestamp;

use crate::record::{GrantRef, PolicyRef};

/// A call that needs approval. Values of arguments are not kept, only what they
/// are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// What tells one held call from another: whatever an approval is bound to.
    pub digest: String,
    pub server: String,
    pub grant: GrantRef,
    pub principal: Option<String>,
    pub tool: String,
    /// The rule that asks.
    pub rule: String,
    /// How many people must agree.
    pub approvers: u8,
    /// What the caller is told.
    pub message: String,
    pub policy: PolicyRef,
    /// Sorted.
    pub arg_keys: Vec<String>,
    pub requested_at: Timestamp,
    pub expires_at: Timestamp,
}

/// What a held call waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    pub id: String,
    pub expires_at: Timestamp,
    /// Whether the same call was waiting already.
    pub joined: bool,
}
