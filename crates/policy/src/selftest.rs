//! A policy's own `tests`, run against it.

use std::collections::HashMap;

use sluice_wire::json::Document;

use crate::{
    amount::Amount,
    decision::{Decision, Outcome},
    facts::Facts,
    judge::{Call, judge},
    policy::Policy,
    time::Timestamp,
};

/// One entry of `tests`.
#[derive(Debug)]
pub(crate) struct SelfTest {
    pub(crate) name: Box<str>,
    pub(crate) tool: Box<str>,
    pub(crate) args: Option<Document>,
    pub(crate) times: u32,
    pub(crate) at: Timestamp,
    pub(crate) expect: Outcome,
    pub(crate) rule: Option<Box<str>>,
    /// Where it stands in the policy's text, in bytes.
    pub(crate) offset: usize,
}

/// How one of a policy's own tests came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestResult {
    pub name: String,
    /// What went wrong, if it failed.
    pub failure: Option<String>,
    /// Where the test stands in the policy's text, in bytes.
    pub offset: usize,
}

impl Policy {
    /// Runs the policy's own tests, each with empty counters.
    ///
    /// They know no tool definitions, so that the answer depends on the policy alone.
    pub fn run_tests(&self) -> Vec<TestResult> {
        self.tests
            .iter()
            .map(|test| TestResult {
                name: test.name.to_string(),
                failure: test.failure(self),
                offset: test.offset,
            })
            .collect()
    }
}

impl SelfTest {
    fn failure(&self, policy: &Policy) -> Option<String> {
        let args = self.args.as_ref().map(Document::root);
        let call = match Call::new(&self.tool, args) {
            Ok(call) => call,
            Err(error) => return Some(error.to_string()),
        };
        let mut counters = HashMap::new();
        let mut last = (Outcome::Deny, None);
        for _ in 0..self.times {
            last = step(policy, &call, self.at, &mut counters);
        }
        let (outcome, rule) = last;
        let by = rule.as_ref().map(|rule| format!(" by `{rule}`")).unwrap_or_default();
        if outcome != self.expect {
            return Some(format!(
                "expected `{}`, got `{}`{by}",
                self.expect.name(),
                outcome.name()
            ));
        }
        let wanted = self.rule.as_deref();
        (wanted.is_some() && wanted != rule.as_deref()).then(|| {
            format!("expected rule `{}`, got `{}`{by}", wanted.unwrap_or_default(), outcome.name())
        })
    }
}

/// One call against counters of this test alone.
fn step(
    policy: &Policy,
    call: &Call<'_>,
    at: Timestamp,
    counters: &mut HashMap<Box<str>, Amount>,
) -> (Outcome, Option<String>) {
    match judge(Some(policy), call, Facts::NoList, at) {
        Decision::Deny(denial) => (denial.outcome(), Some(denial.rule.into_owned())),
        Decision::Hold(terms) => (Outcome::Approve, Some(terms.rule.to_owned())),
        Decision::Allow(allow) => {
            let admitted =
                allow.admit(|limit| counters.get(limit.counter()).copied().unwrap_or_default());
            if let Err(denial) = admitted {
                return (denial.outcome(), Some(denial.rule.into_owned()));
            }
            for charge in allow.charges() {
                let reading = counters.entry(charge.limit.counter.clone()).or_default();
                *reading = reading.checked_add(charge.amount).unwrap_or(Amount::MAX);
            }
            (Outcome::Allow, None)
        }
    }
}
