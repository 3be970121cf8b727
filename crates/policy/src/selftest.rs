//! Runs a policy's own `tests` against it.

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
    /// Its byte offset in the policy's text.
    pub(crate) offset: usize,
}

/// The result of one of a policy's own tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestResult {
    pub name: String,
    /// The outcome of the last call, and its rule.
    pub outcome: Outcome,
    pub rule: Option<String>,
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// The test's byte offset in the policy's text.
    pub offset: usize,
}

impl Policy {
    /// Runs the policy's own tests, each with empty counters.
    ///
    /// They run without tool definitions, so that the result depends on the policy alone.
    pub fn run_tests(&self) -> Vec<TestResult> {
        self.tests
            .iter()
            .map(|test| {
                let (outcome, rule) = test.last_call(self);
                let failure = test.failure(outcome, rule.as_deref());
                TestResult {
                    name: test.name.to_string(),
                    outcome,
                    rule,
                    failure,
                    offset: test.offset,
                }
            })
            .collect()
    }
}

impl SelfTest {
    /// The outcome of the test's last call.
    fn last_call(&self, policy: &Policy) -> (Outcome, Option<String>) {
        // The loader has checked that the arguments are an object.
        let Ok(call) = Call::new(&self.tool, self.args.as_ref().map(Document::root)) else {
            return (Outcome::Deny, None);
        };
        let mut counters = HashMap::new();
        (0..self.times)
            .map(|_| step(policy, &call, self.at, &mut counters))
            .last()
            .unwrap_or((Outcome::Deny, None))
    }

    fn failure(&self, outcome: Outcome, rule: Option<&str>) -> Option<String> {
        let by = rule.map(|rule| format!(" by `{rule}`")).unwrap_or_default();
        let got = format!("got `{}`{by}", outcome.name());
        if outcome != self.expect {
            return Some(format!("expected `{}`, {got}", self.expect.name()));
        }
        let wanted = self.rule.as_deref().filter(|wanted| Some(*wanted) != rule)?;
        Some(format!("expected rule `{wanted}`, {got}"))
    }
}

/// Makes one call with this test's own counters.
fn step(
    policy: &Policy,
    call: &Call<'_>,
    at: Timestamp,
    counters: &mut HashMap<Box<str>, Amount>,
) -> (Outcome, Option<String>) {
    match judge(Some(policy), call, Facts::NoList, at) {
        Decision::Deny(denial) => (denial.outcome(), Some(denial.rule.into_owned())),
        Decision::Hold(terms) => (Outcome::Hold, Some(terms.rule.to_owned())),
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
