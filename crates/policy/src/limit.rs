//! Limits: the maximum of a counter in one window, and of calls in progress at a time; and the
//! scope of both.

use std::fmt;

use crate::{amount::Amount, path::ArgPath, policy::Mode, time::Window};

/// The scope of a counter: the calls that it counts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    Grant,
    Session,
    Principal,
    Server,
}

impl Scope {
    /// The scope with this name.
    pub(crate) fn from_name(name: &str) -> Option<Scope> {
        [Scope::Grant, Scope::Session, Scope::Principal, Scope::Server]
            .into_iter()
            .find(|scope| scope.name() == name)
    }

    /// Its name in policies.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Grant => "grant",
            Scope::Session => "session",
            Scope::Principal => "principal",
            Scope::Server => "server",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One limit of one rule.
#[derive(Debug)]
pub struct Limit {
    pub(crate) counter: Box<str>,
    /// All limits of a policy and its bases that share a counter have the same number.
    pub(crate) counter_number: u32,
    pub(crate) window: Window,
    pub(crate) scope: Scope,
    pub(crate) max: Amount,
    /// The maximum as it was written, for people.
    pub(crate) max_text: Box<str>,
    pub(crate) increment_from: Option<ArgPath>,
    pub(crate) rule: Box<str>,
    /// The mode of the policy that sets it.
    pub(crate) mode: Mode,
    /// The message to the caller, if the policy has one.
    pub(crate) message: Option<Box<str>>,
}

impl Limit {
    /// The counter's name.
    pub fn counter(&self) -> &str {
        &self.counter
    }

    /// The window in which it counts.
    pub fn window(&self) -> Window {
        self.window
    }

    /// The scope of the counter.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// The maximum of the counter.
    pub fn max(&self) -> Amount {
        self.max
    }

    /// The maximum of the counter, as the policy writes it.
    pub fn max_text(&self) -> &str {
        &self.max_text
    }

    /// The rule's id.
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// Whether `amount` fits when the counter is at `reading`.
    pub fn admits(&self, reading: Amount, amount: Amount) -> bool {
        reading.checked_add(amount).is_some_and(|sum| sum <= self.max)
    }
}

/// The maximum of calls in progress at a time, to which one entry applies.
#[derive(Debug)]
pub struct Concurrency {
    pub(crate) max: u64,
    pub(crate) scope: Scope,
    pub(crate) rule: Box<str>,
    /// The mode of the policy that sets it.
    pub(crate) mode: Mode,
    /// The message to the caller, if the policy has one.
    pub(crate) message: Option<Box<str>>,
}

impl Concurrency {
    /// The most calls at a time.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Whose calls are counted together.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// The rule's id, which also tells these calls from those of other entries.
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// Whether one more call fits beside those in progress.
    pub fn admits(&self, in_progress: Amount) -> bool {
        in_progress < Amount::whole(self.max)
    }
}
