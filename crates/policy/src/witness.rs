//! The observer of a decision, which is notified of every check.
//!
//! Decisions on the data path use the [`Silent`] witness, which the compiler
//! removes; an explanation uses one that records every check.

use sluice_wire::json::Value;

use crate::{
    amount::Amount,
    approval::Approval,
    condition::{Condition, Predicate},
    decision::Denial,
    facts::Facts,
    judge::Consent,
    limit::Limit,
    path::Unjudgeable,
    policy::Policy,
    standing::{Applying, Unavailable},
};

/// Notified of every check, in the order they are made.
pub(crate) trait Witness {
    /// The steps that follow are of this policy, which is extended or extends.
    fn note_layer(&mut self, _policy: &Policy) {}
    /// Which entries apply, or why the tool is unavailable.
    fn note_standing(
        &mut self,
        _policy: &Policy,
        _facts: Facts<'_>,
        _found: &Result<Applying<'_>, Unavailable>,
    ) {
    }
    /// Arguments were checked against a schema.
    fn note_validation(&mut self, _rule: &str, _refusal: Option<&str>) {}
    /// A condition of `require`, `deny_if` or `approval` was judged.
    fn note_condition(
        &mut self,
        _list: &'static str,
        _condition: &Condition,
        _args: Option<Value<'_>>,
        _holds: Result<bool, Unjudgeable>,
    ) {
    }
    /// All conditions of a predicate of `deny_if` or `approval` hold.
    fn note_predicate(&mut self, _list: &'static str, _predicate: &Predicate) {}
    /// An entry requires approval of this call, or does not.
    fn note_approval(&mut self, _approval: &Approval, _asks: bool, _consent: Consent) {}
    /// The amount that the call adds to a limit's counter was computed.
    fn note_amount(&mut self, _limit: &Limit, _amount: &Result<Amount, Denial<'_>>) {}
}

/// Ignores everything.
pub(crate) struct Silent;

impl Witness for Silent {}
