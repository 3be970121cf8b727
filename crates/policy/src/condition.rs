//! Conditions and predicates: tests on the arguments of a call.

use sluice_wire::json::Value;

use crate::{
    default_messages::Phrases,
    operator::Test,
    path::{ArgPath, Unjudgeable},
};

/// One test on one path.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) path: ArgPath,
    pub(crate) test: Test,
    /// The operator's phrases for messages.
    pub(crate) phrases: Phrases,
    /// The operator's value as compact JSON, for people.
    pub(crate) value: Box<str>,
    /// `<list>/<path>-<op>`: the rule id if this condition decides.
    pub(crate) rule: Box<str>,
}

/// Conditions that must hold together.
#[derive(Debug)]
pub(crate) struct Predicate {
    pub(crate) conditions: Box<[Condition]>,
    /// The rule id if the whole predicate decides.
    pub(crate) rule: Box<str>,
    /// The message to the caller, if the policy has one.
    pub(crate) message: Option<Box<str>>,
}

/// How a condition treats the many values of a path with `*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantifier {
    /// `require`: it must hold for all of them.
    All,
    /// `deny_if` and `when`: it must hold for any of them.
    Any,
}

impl Condition {
    /// Whether the condition holds for a call's arguments.
    pub(crate) fn holds(
        &self,
        args: Option<Value<'_>>,
        quantifier: Quantifier,
    ) -> Result<bool, Unjudgeable> {
        let mut all = true;
        let mut any = false;
        self.path.walk(args, &mut |found| {
            let holds = self.test.holds(found)?;
            all &= holds;
            any |= holds;
            Ok(())
        })?;
        Ok(match quantifier {
            Quantifier::All => all,
            Quantifier::Any => any,
        })
    }
}
