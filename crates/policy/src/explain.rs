//! Explanations: the decision on one call, with a trace of every check.
//!
//! An explanation runs the same code as a real decision, with a recording witness.

mod readings;
mod report;

use crate::{
    amount::Amount,
    decision::{Decision, Denial},
    facts::Facts,
    judge::{Call, judge_watched},
    limit::{Concurrency, Limit},
    policy::{Mode, Policy},
    time::Timestamp,
};

pub use readings::{Readings, UnknownCounter, explain_with_readings};
use report::Recorder;
pub(crate) use report::window_json;
pub use report::{ChargeReport, Explanation, Step, StepResult};

/// Explains the decision on a call, with the given counter readings and calls in
/// progress.
///
/// The outcome is the one under enforcement, also in shadow mode.
pub fn explain(
    policy: Option<&Policy>,
    call: &Call<'_>,
    facts: Facts<'_>,
    at: Timestamp,
    reading: impl Fn(&Limit) -> Amount,
    in_progress: impl Fn(&Concurrency) -> Amount,
) -> Explanation {
    let mut recorder = Recorder::default();
    let decision = judge_watched(policy, call, facts, at, &mut recorder);
    let is_passed = matches!(&decision, Decision::Allow(allow) if allow.objection().is_some());
    let mut in_shadow = is_passed;
    let mut explanation = match decision.under_enforcement() {
        Decision::Deny(denial) => explain_denial(&denial),
        Decision::Hold(terms) => Explanation::of_hold(&terms),
        Decision::Allow(allow) => {
            recorder.limits(&allow, &reading);
            recorder.leases(&allow, &in_progress);
            match allow.admit(&reading, &in_progress) {
                Err(denial) => {
                    in_shadow |= denial.in_shadow;
                    explain_denial(&denial)
                }
                Ok(()) => Explanation::of_allow(&allow, &reading),
            }
        }
    };
    explanation.trace = recorder.finish(&explanation);
    if let Some(policy) = policy {
        let mut layers = policy.layers();
        explanation.shadow = in_shadow || layers.all(|layer| layer.mode == Mode::Shadow);
        let rule = explanation.rule.as_deref();
        explanation.base = rule.and_then(|rule| policy.base_of_rule(rule)).map(String::from);
    }
    explanation
}

fn explain_denial(denial: &Denial<'_>) -> Explanation {
    Explanation {
        rule: Some(denial.rule.clone().into_owned()),
        message: Some(denial.message.clone().into_owned()),
        retry_after_ms: denial.retry_after,
        ..Explanation::new(denial.outcome())
    }
}
