//! The decision on one call: steps 1 to 8 of the policy language (`docs/policy.md`), in order, and
//! the amounts to charge, step 9. The store checks whether these fit the limits.
//!
//! A pure function. A call that cannot be judged is denied. Every step reports to a
//! [`Witness`], so that an explanation runs the same code.

use std::borrow::Cow;

use sluice_wire::json::Value;

use crate::{
    amount::Amount,
    approval::{Approval, Terms},
    condition::{Predicate, Quantifier},
    decimal::Decimal,
    decision::{Allow, ChargeDemand, Decision, Demand, Demands, Denial, JudgingStep},
    default_messages,
    facts::Facts,
    layers::{apply_mode, judge_layers},
    limit::Limit,
    path::Unjudgeable,
    policy::{Entry, Policy, Validate, ValidateBy},
    standing::standing,
    time::Timestamp,
    witness::{Silent, Witness},
};

/// One `tools/call`, with the parts that a decision needs.
#[derive(Debug, Clone, Copy)]
pub struct Call<'c> {
    pub tool: &'c str,
    /// INVARIANT: an object, or `None` when the call has no arguments.
    args: Option<Value<'c>>,
    consent: Consent,
}

/// Whether enough people have approved exactly this call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    NotGiven,
    Given,
}

/// The arguments of a call are not an object.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`arguments` must be an object, found {0}")]
pub struct ArgumentsError(&'static str);

impl<'c> Call<'c> {
    /// A call of `tool`; its arguments, if any, must be an object.
    pub fn new(tool: &'c str, args: Option<Value<'c>>) -> Result<Call<'c>, ArgumentsError> {
        match args {
            Some(args) if args.members().is_none() => Err(ArgumentsError(args.kind().name())),
            args => Ok(Call { tool, args, consent: Consent::NotGiven }),
        }
    }

    /// The same call, with the decision of its approvers.
    #[must_use]
    pub fn with_consent(self, consent: Consent) -> Call<'c> {
        Call { consent, ..self }
    }
}

/// Decides a call. Without a policy it is denied.
pub fn judge<'p>(
    policy: Option<&'p Policy>,
    call: &Call<'_>,
    facts: Facts<'_>,
    at: Timestamp,
) -> Decision<'p> {
    judge_watched(policy, call, facts, at, &mut Silent)
}

pub(crate) fn judge_watched<'p>(
    policy: Option<&'p Policy>,
    call: &Call<'_>,
    facts: Facts<'_>,
    at: Timestamp,
    witness: &mut impl Witness,
) -> Decision<'p> {
    let Some(policy) = policy else {
        return Decision::Deny(Denial {
            rule: Cow::Borrowed("(no policy)"),
            message: Cow::Borrowed("no policy is attached for this server, so nothing is allowed"),
            retry_after: None,
            unavailable: None,
            lacks_definition: false,
            step: JudgingStep::Hide,
            in_shadow: false,
        });
    };
    if policy.bases.is_empty() {
        apply_mode(policy, judge_layer(policy, call, facts, at, witness), at)
    } else {
        judge_layers(policy, call, facts, at, witness)
    }
}

/// Judges a call by one policy, without those that it extends, as if it was enforced.
pub(crate) fn judge_layer<'p>(
    policy: &'p Policy,
    call: &Call<'_>,
    facts: Facts<'_>,
    at: Timestamp,
    witness: &mut impl Witness,
) -> Result<Decision<'p>, Denial<'p>> {
    Judgement { policy, call, facts, witness }.steps(at)
}

struct Judgement<'p, 'c, W> {
    policy: &'p Policy,
    call: &'c Call<'c>,
    facts: Facts<'c>,
    witness: &'c mut W,
}

impl<'p, W: Witness> Judgement<'p, '_, W> {
    fn steps(&mut self, at: Timestamp) -> Result<Decision<'p>, Denial<'p>> {
        let entries = standing(self.policy, self.call.tool, self.facts);
        self.witness.note_standing(self.policy, self.facts, &entries);
        let entries =
            entries.map_err(|reason| reason.denial(self.call.tool, &self.policy.prefix))?;
        self.validate(&entries).map_err(|denial| denial.in_step(JudgingStep::ValidateArgs))?;
        for entry in &entries {
            self.require(entry).map_err(|denial| denial.in_step(JudgingStep::Require))?;
        }
        for entry in &entries {
            self.deny_if(entry).map_err(|denial| denial.in_step(JudgingStep::DenyIf))?;
        }
        let terms = self.approval(&entries);
        if let Some(terms) = terms.map_err(|denial| denial.in_step(JudgingStep::Approval))?
            && self.call.consent == Consent::NotGiven
        {
            return Ok(Decision::Hold(terms));
        }
        let demands = self.demands(&entries)?;
        Ok(Decision::Allow(Allow { at, demands, objection: None }))
    }

    fn validate(&mut self, entries: &[&'p Entry]) -> Result<(), Denial<'p>> {
        for entry in entries {
            self.validate_by(&entry.validate)?;
        }
        if !self.policy.validates_by_default(entries) {
            return Ok(());
        }
        let checked =
            self.refuse_invalid(&self.policy.validate_args_rule, None, self.own_schema_refusal());
        checked.map_err(|denial| self.own_schema_denial(denial))
    }

    fn validate_by(&mut self, validate: &'p Validate) -> Result<(), Denial<'p>> {
        let (rule, message) = (&validate.rule, validate.message.as_deref());
        match &validate.by {
            ValidateBy::Default | ValidateBy::NotByDefault => Ok(()),
            ValidateBy::Own => {
                let checked = self.refuse_invalid(rule, message, self.own_schema_refusal());
                checked.map_err(|denial| self.own_schema_denial(denial))
            }
            ValidateBy::Schema { schema, .. } => {
                self.refuse_invalid(rule, message, schema.refuse(self.call.args))
            }
        }
    }

    fn own_schema_denial(&self, denial: Denial<'p>) -> Denial<'p> {
        Denial { lacks_definition: !self.facts.is_known(), ..denial }
    }

    fn own_schema_refusal(&self) -> Option<String> {
        match self.facts.schema() {
            Ok(schema) => schema.refuse(self.call.args),
            Err(why) => Some(format!("they cannot be checked, because {why}")),
        }
    }

    fn refuse_invalid(
        &mut self,
        rule: &'p str,
        message: Option<&'p str>,
        refusal: Option<String>,
    ) -> Result<(), Denial<'p>> {
        self.witness.note_validation(rule, refusal.as_deref());
        let Some(refusal) = refusal else { return Ok(()) };
        Err(denial(rule, message, || default_messages::explain_invalid_arguments(&refusal)))
    }

    fn require(&mut self, entry: &'p Entry) -> Result<(), Denial<'p>> {
        for predicate in &entry.require {
            let message = predicate.message.as_deref();
            let mut failing = None;
            for condition in &predicate.conditions {
                let holds = condition.holds(self.call.args, Quantifier::All);
                self.witness.note_condition("require", condition, self.call.args, holds);
                match holds {
                    Ok(true) => {}
                    // The conditions after the first failing one are evaluated only for the
                    // witness; they cannot change the decision.
                    Ok(false) | Err(_) => failing = failing.or(Some((condition, holds.err()))),
                }
            }
            match failing {
                None => {}
                Some((condition, None)) => {
                    return Err(denial(&condition.rule, message, || {
                        default_messages::explain_require(condition)
                    }));
                }
                Some((condition, Some(problem))) => {
                    return Err(unjudgeable(&condition.rule, message, problem, || {
                        default_messages::unjudgeable(condition, problem)
                    }));
                }
            }
        }
        Ok(())
    }

    fn deny_if(&mut self, entry: &'p Entry) -> Result<(), Denial<'p>> {
        for predicate in &entry.deny_if {
            if self.fires("deny_if", predicate, None)? {
                let message = predicate.message.as_deref();
                return Err(denial(&predicate.rule, message, || {
                    default_messages::explain_deny_if(predicate)
                }));
            }
        }
        Ok(())
    }

    /// Whether all conditions hold, each for any of its values. A condition that cannot be judged
    /// denies under `rule`, or under its own id.
    fn fires(
        &mut self,
        list: &'static str,
        predicate: &'p Predicate,
        rule: Option<&'p str>,
    ) -> Result<bool, Denial<'p>> {
        let mut all = true;
        for condition in &predicate.conditions {
            let holds = condition.holds(self.call.args, Quantifier::Any);
            self.witness.note_condition(list, condition, self.call.args, holds);
            match holds {
                Ok(holds) => all &= holds,
                Err(problem) => {
                    let rule = rule.unwrap_or(&condition.rule);
                    return Err(unjudgeable(rule, predicate.message.as_deref(), problem, || {
                        default_messages::unjudgeable(condition, problem)
                    }));
                }
            }
        }
        if all {
            self.witness.note_predicate(list, predicate);
        }
        Ok(all)
    }

    /// The terms on which the call is held, if any entry requires approval. All entries are
    /// evaluated, because a condition that cannot be judged denies.
    fn approval(&mut self, entries: &[&'p Entry]) -> Result<Option<Terms<'p>>, Denial<'p>> {
        let mut terms: Option<Terms<'p>> = None;
        for approval in entries.iter().filter_map(|entry| entry.approval.as_ref()) {
            let asks = self.asks(approval)?;
            self.witness.note_approval(approval, asks, self.call.consent);
            if asks {
                terms =
                    Some(terms.map_or_else(|| Terms::of(approval), |terms| terms.and(approval)));
            }
        }
        Ok(terms)
    }

    fn asks(&mut self, approval: &'p Approval) -> Result<bool, Denial<'p>> {
        let mut asks = approval.always;
        for predicate in &approval.when {
            asks |= self.fires("approval", predicate, Some(&approval.rule))?;
        }
        Ok(asks)
    }

    fn demands(&mut self, entries: &[&'p Entry]) -> Result<Demands<'p>, Denial<'p>> {
        let mut demands = Demands::new();
        for entry in entries {
            for limit in &entry.limits {
                let amount = amount(limit, self.call.args);
                self.witness.note_amount(limit, &amount);
                demands.push(Demand::Charge(ChargeDemand { limit, amount: amount? }));
            }
            demands.extend(entry.concurrent.as_ref().map(Demand::Lease));
        }
        Ok(demands)
    }
}

/// The amount that a call adds to a limit's counter.
fn amount<'p>(limit: &'p Limit, args: Option<Value<'_>>) -> Result<Amount, Denial<'p>> {
    let Some(path) = &limit.increment_from else { return Ok(Amount::ONE) };
    let message = limit.message.as_deref();
    let wrong = |why: &str| {
        denial(&limit.rule, message, || default_messages::explain_missing_amount(path, why))
    };
    let number = match path.single(args) {
        Err(problem @ Unjudgeable::LookAlike) => {
            return Err(unjudgeable(&limit.rule, message, problem, || {
                default_messages::explain_look_alike(path)
            }));
        }
        Err(Unjudgeable::Type) => return Err(wrong("is not a number")),
        Ok(None) => return Err(wrong("is missing")),
        Ok(Some(value)) => value.as_number().ok_or_else(|| wrong("is not a number"))?,
    };
    Amount::exactly(Decimal::read(number)).map_err(|error| wrong(&error.to_string()))
}

/// A denial by a rule, with the policy's message or the engine's own words.
pub(crate) fn denial<'p>(
    rule: &'p str,
    message: Option<&'p str>,
    own_words: impl FnOnce() -> String,
) -> Denial<'p> {
    let message = message.map_or_else(|| Cow::Owned(own_words()), Cow::Borrowed);
    Denial {
        rule: Cow::Borrowed(rule),
        message,
        retry_after: None,
        unavailable: None,
        lacks_definition: false,
        // The caller says which, if it is another.
        step: JudgingStep::Limits,
        in_shadow: false,
    }
}

impl Denial<'_> {
    pub(crate) fn in_step(self, step: JudgingStep) -> Self {
        Denial { step, ..self }
    }
}

fn unjudgeable<'p>(
    rule: &'p str,
    message: Option<&'p str>,
    problem: Unjudgeable,
    own_words: impl FnOnce() -> String,
) -> Denial<'p> {
    let rule = Cow::Owned(format!("{rule}{}", problem.suffix()));
    Denial { rule, ..denial("", message, own_words) }
}
