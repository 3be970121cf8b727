//! Approvals: which calls need a human's approval, and with which terms.

use crate::condition::Predicate;

/// How long an approval waits by default.
pub(crate) const DEFAULT_EXPIRES_SECONDS: u64 = 15 * 60;

/// The approval settings of one entry.
#[derive(Debug)]
pub(crate) struct Approval {
    /// Whether every call needs approval, regardless of `when`.
    pub(crate) always: bool,
    /// Calls for which any of these holds need approval too. They are evaluated in any case,
    /// because a condition that cannot be judged denies.
    pub(crate) when: Box<[Predicate]>,
    pub(crate) expires_seconds: u64,
    pub(crate) approvers: u8,
    pub(crate) rule: Box<str>,
    /// The message to the caller, if the policy has one.
    pub(crate) message: Option<Box<str>>,
}

impl Approval {
    /// Whether every call needs approval, whatever its arguments.
    pub(crate) fn holds_every_call(&self) -> bool {
        self.always || self.when.iter().any(|predicate| predicate.conditions.is_empty())
    }

    /// Whether no call ever needs approval: `when` is an empty list.
    pub(crate) fn never_asks(&self) -> bool {
        !self.always && self.when.is_empty()
    }
}

/// The terms for approving one held call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms<'p> {
    /// The rule that requires approval; of several, the first in the order of denials.
    pub rule: &'p str,
    /// The policy's message to the caller.
    pub message: Option<&'p str>,
    /// How many different people must approve: the largest number in any entry.
    pub approvers: u8,
    /// How long the approval waits: the shortest time in any entry.
    pub expires_seconds: u64,
}

impl<'p> Terms<'p> {
    pub(crate) fn of(approval: &'p Approval) -> Terms<'p> {
        Terms {
            rule: &approval.rule,
            message: approval.message.as_deref(),
            approvers: approval.approvers,
            expires_seconds: approval.expires_seconds,
        }
    }

    /// Combines both into the stricter terms.
    pub(crate) fn and(self, other: &Approval) -> Terms<'p> {
        Terms {
            approvers: self.approvers.max(other.approvers),
            expires_seconds: self.expires_seconds.min(other.expires_seconds),
            ..self
        }
    }

    /// Combines the terms of two policies into the stricter ones, under the rule of the first.
    pub(crate) fn and_of(self, other: &Terms<'_>) -> Terms<'p> {
        Terms {
            approvers: self.approvers.max(other.approvers),
            expires_seconds: self.expires_seconds.min(other.expires_seconds),
            ..self
        }
    }
}
