//! Explanations: the decision on one call, with a trace of every check.
//!
//! An explanation runs the same code as a real decision, with a recording witness.

mod report;

use crate::{
    amount::Amount,
    decision::{Decision, Denial},
    facts::Facts,
    judge::{Call, judge_watched},
    limit::Limit,
    policy::{Mode, Policy},
    time::Timestamp,
};

use report::Recorder;
pub use report::{ChargeReport, Explanation, Step};

/// Explains the decision on a call, with the given counter readings.
///
/// The outcome is the one under enforcement, also in shadow mode.
pub fn explain(
    policy: Option<&Policy>,
    call: &Call<'_>,
    facts: Facts<'_>,
    at: Timestamp,
    reading: impl Fn(&Limit) -> Amount,
) -> Explanation {
    let mut recorder = Recorder::default();
    let decision = judge_watched(policy, call, facts, at, &mut recorder);
    let mut explanation = match decision {
        Decision::Deny(denial) => explain_denial(&denial),
        Decision::Hold(terms) => Explanation::of_hold(&terms),
        Decision::Allow(allow) => {
            recorder.limits(&allow, &reading);
            match allow.admit(&reading) {
                Err(denial) => explain_denial(&denial),
                Ok(()) => Explanation::of_allow(&allow, &reading),
            }
        }
    };
    explanation.trace = recorder.finish(&explanation);
    explanation.shadow = policy.is_some_and(|policy| policy.mode == Mode::Shadow);
    explanation
}

fn explain_denial(denial: &Denial<'_>) -> Explanation {
    Explanation {
        outcome: denial.outcome().name(),
        rule: Some(denial.rule.clone().into_owned()),
        message: Some(denial.message.clone().into_owned()),
        retry_after_ms: denial.retry_after,
        ..Explanation::default()
    }
}
