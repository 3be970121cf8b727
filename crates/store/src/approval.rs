//! Approvals: calls that were held, and wait for people.
//!
//! The rules by which a held call moves from one state to the next are here, so
//! that every back-end has the same; a back-end only stores the result in the
//! transaction in which it read the state.

use std::sync::Arc;

use sluice_policy::Timestamp;

use crate::{
    actor::Actor,
    id,
    record::{GrantRef, Kind, Outcome, PolicyRef, Record},
};

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

/// How far a held call has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalState {
    /// It waits for people.
    Pending,
    /// Enough people have approved it, and nobody has made the call yet.
    Approved,
    Denied,
    /// The call was made.
    Consumed,
    /// Its time was over before.
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

    /// The state of this name.
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

/// What one person says of a held call.
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

/// What became of a vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    /// It was counted, and others must agree too.
    Waiting,
    /// The call may now be made, once.
    Approved,
    Denied,
    /// It came too late: the call does not wait any more.
    TooLate(ApprovalState),
    /// This person has voted already, and that vote stands.
    Repeated,
}

/// A held call as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub id: String,
    pub approval: Approval,
    pub state: ApprovalState,
    /// In the order they were cast.
    pub votes: Vec<Vote>,
}

impl Held {
    /// A call that is held from now on.
    pub(crate) fn new(approval: Approval) -> Held {
        let id = id::new_id(approval.requested_at).to_string();
        Held { id, approval, state: ApprovalState::Pending, votes: Vec::new() }
    }

    /// Whether the same call can join it.
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

    /// Uses an approval up; whether there was one.
    pub(crate) fn consume(&mut self, now: Timestamp) -> bool {
        let is_given = self.state == ApprovalState::Approved && self.approval.expires_at > now;
        if is_given {
            self.state = ApprovalState::Consumed;
        }
        is_given
    }

    /// Ends it if its time is over; whether it was.
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
