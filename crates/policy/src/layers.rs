//! The decision of a policy that extends others: each of them judges the call by itself.
//!
//! Policies that are enforced decide first: the denial of the earliest step, and of several in one
//! step the one of the base; else a hold on the strictest terms; else the charges of all of them.
//! What those in shadow mode have against a call that passes becomes its objection.

use smallvec::SmallVec;

use crate::{
    approval::Terms,
    decision::{Allow, Decision, Demands, Denial, JudgingStep, Objection},
    facts::Facts,
    judge::{Call, judge_layer},
    policy::{Mode, Policy},
    time::Timestamp,
    witness::Witness,
};

/// What the policies of one mode found, those of bases first.
#[derive(Default)]
struct Findings<'p> {
    denial: Option<Denial<'p>>,
    terms: Option<Terms<'p>>,
    demands: Demands<'p>,
}

impl<'p> Findings<'p> {
    fn add(&mut self, found: Result<Decision<'p>, Denial<'p>>) {
        match found {
            Err(denial) | Ok(Decision::Deny(denial)) => {
                let is_earlier = |kept: &Denial<'_>| denial.step < kept.step;
                if self.denial.as_ref().is_none_or(is_earlier) {
                    self.denial = Some(denial);
                }
            }
            Ok(Decision::Hold(terms)) => {
                let terms = match self.terms.take() {
                    Some(first) => first.and_of(&terms),
                    None => terms,
                };
                self.terms = Some(terms);
            }
            Ok(Decision::Allow(allow)) => self.demands.extend(allow.demands),
        }
    }

    /// What stops the call, or what it is to be charged.
    fn conclude(self) -> Result<Demands<'p>, Objection<'p>> {
        match (self.denial, self.terms) {
            // Approval comes before the limits.
            (Some(denial), Some(terms)) if denial.step == JudgingStep::Limits => {
                Err(Objection::Hold(terms))
            }
            (Some(denial), _) => Err(Objection::Deny(denial)),
            (None, Some(terms)) => Err(Objection::Hold(terms)),
            (None, None) => Ok(self.demands),
        }
    }
}

/// Decides a call by a policy and those that it extends.
pub(crate) fn judge_layers<'p>(
    policy: &'p Policy,
    call: &Call<'_>,
    facts: Facts<'_>,
    at: Timestamp,
    witness: &mut impl Witness,
) -> Decision<'p> {
    combine_layers(policy, at, |layer| {
        witness.note_layer(layer);
        judge_layer(layer, call, facts, at, witness)
    })
}

/// Combines what a policy and those that it extends find, each in its own mode.
pub(crate) fn combine_layers<'p>(
    policy: &'p Policy,
    at: Timestamp,
    mut judge: impl FnMut(&'p Policy) -> Result<Decision<'p>, Denial<'p>>,
) -> Decision<'p> {
    let (mut enforced, mut in_shadow) = (Findings::default(), Findings::default());
    for layer in policy.layers() {
        let found = judge(layer);
        let refuses = matches!(&found, Err(denial) if denial.refuses_in_shadow());
        if layer.mode == Mode::Enforce || refuses {
            enforced.add(found);
        } else {
            in_shadow.add(found);
        }
    }
    match (enforced.conclude(), in_shadow.conclude()) {
        (Err(Objection::Deny(denial)), _) => Decision::Deny(denial),
        (Err(Objection::Hold(terms)), _) => Decision::Hold(terms),
        (Ok(demands), Err(objection)) => pass_in_shadow(at, demands, objection),
        (Ok(mut demands), Ok(more)) => {
            demands.extend(more);
            Decision::Allow(Allow { at, demands, objection: None })
        }
    }
}

/// The decision of one policy in its own mode.
pub(crate) fn apply_mode<'p>(
    policy: &Policy,
    found: Result<Decision<'p>, Denial<'p>>,
    at: Timestamp,
) -> Decision<'p> {
    let objection = match found {
        Err(denial) | Ok(Decision::Deny(denial))
            if policy.mode == Mode::Enforce || denial.refuses_in_shadow() =>
        {
            return Decision::Deny(denial);
        }
        Err(denial) | Ok(Decision::Deny(denial)) => Objection::Deny(denial),
        Ok(Decision::Hold(terms)) if policy.mode == Mode::Shadow => Objection::Hold(terms),
        Ok(decision) => return decision,
    };
    pass_in_shadow(at, SmallVec::new(), objection)
}

fn pass_in_shadow<'p>(
    at: Timestamp,
    demands: Demands<'p>,
    objection: Objection<'p>,
) -> Decision<'p> {
    let objection = match objection {
        Objection::Deny(denial) => Objection::Deny(Denial { in_shadow: true, ..denial }),
        Objection::Hold(terms) => Objection::Hold(terms),
    };
    Decision::Allow(Allow { at, demands, objection: Some(Box::new(objection)) })
}
