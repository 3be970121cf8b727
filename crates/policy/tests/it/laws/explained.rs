//! An explanation is the decision, watched: it never says anything else.

use proptest::prelude::*;
use serde_json::Value;
use sluice_policy::{Call, Concurrency, Explanation, Limit, Mode, Outcome, StepResult, explain};
use sluice_wire::json::Document;

use super::{World, amount, hold, loaded, said};
use crate::{
    generate::{WORDS, call::attempts, policy::policy},
    oracle::{Approval, Charge, Decimal},
};

#[test]
fn an_explanation_agrees_with_the_decision() {
    let world = World::new();
    hold(400, (policy(), attempts(20)), |(text, attempts)| {
        let Some(policy) = loaded(&text) else { return Ok(()) };
        for attempt in &attempts {
            let facts = world.facts(attempt);
            let document = attempt.document();
            let call = Call::new(attempt.tool, document.as_ref().map(Document::root)).unwrap();
            let reading = |limit: &Limit| amount(attempt.reads(limit.counter()));
            let in_progress =
                |concurrency: &Concurrency| amount(attempt.in_progress(concurrency.rule()));
            let explanation =
                explain(Some(&policy), &call, facts, attempt.at(), reading, in_progress);
            let said = said(&policy, attempt, facts);
            let (outcome, rule, words) = match (said.verdict.outcome, &said.refused) {
                ("allow", Some((rule, words))) => ("deny", Some(rule), words),
                (outcome, _) => (outcome, said.verdict.rule.as_ref(), &said.verdict.message),
            };
            prop_assert_eq!(explanation.outcome.name(), outcome, "under {}", text);
            prop_assert_eq!(explanation.rule.as_ref(), rule);
            let own = explanation.message.as_deref().filter(|text| text.starts_with(WORDS));
            prop_assert_eq!(own, words.as_deref());
            let charges = if outcome == "allow" { said.verdict.charges } else { Vec::new() };
            prop_assert_eq!(sorted_charges(&explanation), charges);
            let used = |counter: &str| Decimal::parse(attempt.reads(counter));
            for charge in &explanation.charges {
                prop_assert_eq!(Decimal::of(&charge.used), used(&charge.counter));
            }
            let approval = explanation.approvers.zip(explanation.expires_seconds);
            let approval = approval.map(|(approvers, expires_seconds)| Approval {
                approvers: approvers.into(),
                expires_seconds,
            });
            prop_assert_eq!(approval, said.verdict.approval);
            prop_assert_eq!(explanation.shadow, policy.mode() == Mode::Shadow);
            check_trace(&explanation)?;
        }
        Ok(())
    });
}

fn sorted_charges(explanation: &Explanation) -> Vec<Charge> {
    let window = |window: &Value| match window.as_str() {
        Some("minute") => "60".to_owned(),
        Some("hour") => "3600".to_owned(),
        Some("day") => "86400".to_owned(),
        Some("month") => "month".to_owned(),
        _ => window.to_string(),
    };
    let mut charges: Vec<_> = explanation
        .charges
        .iter()
        .map(|charge| Charge {
            counter: charge.counter.clone(),
            scope: charge.scope.to_owned(),
            window: window(&charge.window),
            amount: Decimal::of(&charge.amount).unwrap(),
            max: Decimal::of(&charge.max).unwrap(),
        })
        .collect();
    charges.sort_by(|a, b| a.counter.cmp(&b.counter));
    charges
}

/// The last step is the decision, and an allowed call has no step that denies.
fn check_trace(explanation: &Explanation) -> Result<(), TestCaseError> {
    let (last, steps) = explanation.trace.split_last().unwrap();
    prop_assert_eq!(last.step, "decision");
    prop_assert_eq!(last.result, StepResult::Outcome(explanation.outcome));
    prop_assert_eq!(&last.rule, &explanation.rule);
    let demands = |outcome| steps.iter().any(|step| step.result == StepResult::Outcome(outcome));
    let (denies, holds) = (demands(Outcome::Deny), demands(Outcome::Hold));
    match explanation.outcome {
        Outcome::Allow => prop_assert!(!denies && !holds, "{:?}", explanation.trace),
        Outcome::Hold => prop_assert!(!denies && holds, "{:?}", explanation.trace),
        Outcome::Deny | Outcome::Hide => {}
    }
    Ok(())
}
