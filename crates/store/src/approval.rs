//! Approvals: calls that are held until people decide.
//!
//! The state transitions of a held call are here, so that all back-ends share them. A
//! back-end only stores the new state, in the transaction in which it read the old one.

use std::sync::Arc;

use sluice_policy::Timestamp;

use crate::{
    StoreError,
    actor::Actor,
    id,
    record::{GrantRef, Kind, Outcome, PolicyRef, Record},
};

/// Held calls of one grant that wait; further ones are refused.
pub(crate) const MOST_OF_GRANT: usize = 100;
/// Held calls of all grants that wait; further ones are refused.
pub(crate) const MOST_IN_ALL: usize = 5_000;
/// Held calls of one grant that are kept once they are over; the oldest are removed. The audit
/// log has the record of each.
pub(crate) const MOST_OVER: usize = 1_000;

/// A call that needs approval. Only the names of its arguments are kept, not the values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// Identifies the call; an approval is valid only for this digest.
    pub digest: String,
    pub server: String,
    pub grant: GrantRef,
    pub principal: Option<String>,
    pub tool: String,
    /// The rule that requires approval.
    pub rule: String,
    /// How many people must approve.
    pub approvers: u8,
    /// The message for the caller.
    pub message: String,
    pub policy: PolicyRef,
    /// Sorted.
    pub arg_keys: Vec<String>,
    pub requested_at: Timestamp,
    pub expires_at: Timestamp,
}

/// The pending approval of a held call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    pub id: String,
    pub expires_at: Timestamp,
    /// Whether the same call was already pending.
    pub joined: bool,
}

/// The state of a held call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalState {
    /// It waits for votes.
    Pending,
    /// Enough people have approved it, and the call has not been made yet.
    Approved,
    Denied,
    /// The approved call was made.
    Consumed,
    /// It expired before the call was made.
    Expired,
}

impl ApprovalState {
    const ALL: [ApprovalState; 5] = [
        ApprovalState::Pending,
        ApprovalState::Approved,
        ApprovalState::Denied,
        ApprovalState::Consumed,
        ApprovalState::Expired,
    ];

    /// Parses the name of a state.
    pub fn from_name(name: &str) -> Option<ApprovalState> {
        ApprovalState::ALL.into_iter().find(|state| state.as_str() == name)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            ApprovalState::Pending => "pending",
            ApprovalState::Approved => "approved",
            ApprovalState::Denied => "denied",
            ApprovalState::Consumed => "consumed",
            ApprovalState::Expired => "expired",
        }
    }
}

/// One person's verdict on a held call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Approve,
    Deny,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Approve => "approve",
            Verdict::Deny => "deny",
        }
    }
}

/// One person's vote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vote {
    pub actor: Actor,
    pub verdict: Verdict,
    pub reason: Option<String>,
}

/// The result of a vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    /// It was counted, and more approvals are needed.
    Waiting,
    /// The call may now be made, once.
    Approved,
    Denied,
    /// It came too late: the call is no longer pending.
    TooLate(ApprovalState),
    /// This person has already voted, and the first vote counts.
    Repeated,
}

/// Whether one more call can be held if this many wait already.
pub(crate) fn check_held(of_grant: usize, in_all: usize) -> Result<(), StoreError> {
    if of_grant >= MOST_OF_GRANT {
        return Err(StoreError::TooManyHeld { most: MOST_OF_GRANT, whose: "this grant has" });
    }
    if in_all >= MOST_IN_ALL {
        return Err(StoreError::TooManyHeld { most: MOST_IN_ALL, whose: "all grants have" });
    }
    Ok(())
}

/// A held call as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub id: String,
    pub approval: Approval,
    pub state: ApprovalState,
    /// In the order in which they were cast.
    pub votes: Vec<Vote>,
}

impl Held {
    /// A new pending approval.
    pub(crate) fn new(approval: Approval) -> Held {
        let id = id::new_id(approval.requested_at).to_string();
        Held { id, approval, state: ApprovalState::Pending, votes: Vec::new() }
    }

    /// Whether it waits for people, or for the call to be made.
    pub(crate) fn is_open(&self, now: Timestamp) -> bool {
        matches!(self.state, ApprovalState::Pending | ApprovalState::Approved)
            && self.approval.expires_at > now
    }

    /// Whether its end is recorded.
    pub(crate) fn is_over(&self) -> bool {
        !matches!(self.state, ApprovalState::Pending | ApprovalState::Approved)
    }

    /// Whether the same call can join this one.
    pub(crate) fn can_be_joined(&self, digest: &str, now: Timestamp) -> bool {
        self.approval.digest == digest
            && self.state == ApprovalState::Pending
            && self.approval.expires_at > now
    }

    pub(crate) fn pending(&self, joined: bool) -> Pending {
        Pending { id: self.id.clone(), expires_at: self.approval.expires_at, joined }
    }

    /// Counts a vote.
    pub(crate) fn decide(&mut self, vote: &Vote, now: Timestamp) -> Decided {
        if self.approval.expires_at <= now && self.state == ApprovalState::Pending {
            return Decided::TooLate(ApprovalState::Expired);
        }
        if self.state != ApprovalState::Pending {
            return Decided::TooLate(self.state);
        }
        if self.votes.iter().any(|cast| cast.actor.id == vote.actor.id) {
            return Decided::Repeated;
        }
        self.votes.push(vote.clone());
        if vote.verdict == Verdict::Deny {
            self.state = ApprovalState::Denied;
            return Decided::Denied;
        }
        if self.votes.len() < usize::from(self.approval.approvers) {
            return Decided::Waiting;
        }
        self.state = ApprovalState::Approved;
        Decided::Approved
    }

    /// Uses up an approval; returns whether there was one.
    pub(crate) fn consume(&mut self, now: Timestamp) -> bool {
        let is_given = self.state == ApprovalState::Approved && self.approval.expires_at > now;
        if is_given {
            self.state = ApprovalState::Consumed;
        }
        is_given
    }

    /// Expires it if its time is over; returns whether it did.
    pub(crate) fn expire(&mut self, now: Timestamp) -> bool {
        let is_open = matches!(self.state, ApprovalState::Pending | ApprovalState::Approved);
        let is_over = is_open && self.approval.expires_at <= now;
        if is_over {
            self.state = ApprovalState::Expired;
        }
        is_over
    }

    /// The record of a vote that was counted.
    pub(crate) fn vote_record(&self, vote: &Vote, decided: Decided, now: Timestamp) -> Record {
        let verb = match vote.verdict {
            Verdict::Approve => "approved",
            Verdict::Deny => "denied",
        };
        let reason = vote.reason.as_deref().map_or(String::new(), |reason| format!(": {reason}"));
        Record {
            actor: Some(vote.actor.clone()),
            outcome: match decided {
                Decided::Approved => Some(Outcome::Allow),
                Decided::Denied => Some(Outcome::Deny),
                Decided::Waiting => Some(Outcome::Hold),
                Decided::TooLate(_) | Decided::Repeated => None,
            },
            ..self.record(format!("held call {verb}{reason}"), now)
        }
    }

    /// The record of its expiry.
    pub(crate) fn expiry_record(&self, now: Timestamp) -> Record {
        Record {
            actor: Some(Actor::gateway()),
            outcome: Some(Outcome::Deny),
            ..self.record("held call expired".into(), now)
        }
    }

    fn record(&self, message: String, now: Timestamp) -> Record {
        let Approval { server, grant, principal, tool, rule, policy, .. } = &self.approval;
        Record {
            server: Some(server.as_str().into()),
            grant: Some(grant.clone()),
            principal: principal.as_deref().map(Into::into),
            tool: Some(tool.as_str().into()),
            rule: Some(rule.as_str().into()),
            policy: Some(policy.clone()),
            approval: Some(Arc::from(self.id.as_str())),
            message: Some(message),
            ..Record::new(id::new_id(now), now, Kind::Approval)
        }
    }
}
