//! A second, deliberately naive evaluator of the policy language, written from the
//! normative page alone.
//!
//! Property tests compare it with the real engine. It interprets the JSON document
//! afresh at every call, keeps no compiled form and no index, and assumes that the
//! policy loaded without problems. This head holds the vocabulary; each module holds
//! one chapter of the page.

mod access;
mod answer;
mod chain;
mod decimal;
mod entry;
mod judge;
mod limit;
mod ops;
mod pattern;
mod predicate;
mod walk;

use serde_json::Value;

pub(crate) use access::{method_allowed, prompt_allowed, resource_allowed, server_request_allowed};
pub(crate) use answer::listed_in_view;
pub(crate) use chain::{
    Asked, ChainVerdict, Layer, admit_chain, judge_chain, listed_in_chain, resource_denied,
};
pub(crate) use decimal::Decimal;
pub(crate) use judge::{admit, judge};
pub(crate) use limit::window_start;

/// Asks whether arguments (second) satisfy a schema (first); `None` says that the
/// schema cannot be compiled.
pub(crate) type SchemaCheck<'a> = &'a dyn Fn(&Value, &Value) -> Option<bool>;

/// What is known of the tool's definition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Facts {
    /// No list of tools is available.
    NoList,
    /// A list is available, and the name is not in it.
    NotInList,
    /// The definition is known.
    Known {
        /// One of `read`, `write`, `execute`, `destructive`, `financial`, `other`.
        category: String,
        /// The tool's own `inputSchema`, if the definition has one.
        input_schema: Option<Value>,
    },
}

/// What the first half of the judgement says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// One of `allow`, `deny`, `hide`, `approve`.
    pub(crate) outcome: &'static str,
    /// The rule that decided; `None` for `allow`.
    pub(crate) rule: Option<String>,
    /// Words from the policy; `None` where the engine uses its own.
    pub(crate) message: Option<String>,
    /// What the call charges if it goes through; filled for `allow`, and for `approve`
    /// where every amount can be read.
    pub(crate) charges: Vec<Charge>,
    /// The places that the call takes among those in flight; filled like `charges`.
    pub(crate) leases: Vec<Lease>,
    /// What a held call waits for; only for `approve`.
    pub(crate) approval: Option<Approval>,
}

/// One counter that a call is charged to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) counter: String,
    pub(crate) scope: String,
    /// Whole seconds, or `month`.
    pub(crate) window: String,
    pub(crate) amount: Decimal,
    /// The smallest `max` of all applying limits on this counter.
    pub(crate) max: Decimal,
}

/// A place among the calls in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) rule: String,
    pub(crate) scope: String,
    pub(crate) max: Decimal,
}

/// What a held call waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Approval {
    pub(crate) approvers: u64,
    pub(crate) expires_seconds: u64,
}
