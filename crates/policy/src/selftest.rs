//! Runs a policy's own `tests` against it.
//!
//! A test whose outcome rests on a definition that is not known fails, unless that is what it
//! expects: it would pass or fail for a reason that its author did not mean.

use std::collections::HashMap;

use sluice_classify::Category;
use sluice_wire::json::Document;

use crate::{
    amount::Amount,
    approval::Terms,
    decision::{Decision, Denial, Objection, Outcome},
    facts::{Facts, ToolFacts},
    judge::{Call, judge},
    limit::Limit,
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
    /// The category of the tool, as the test gives it.
    pub(crate) category: Option<Category>,
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

/// What came of one call.
struct Came {
    outcome: Outcome,
    rule: Option<String>,
    /// Whether it is denied because its tool's definition is not known.
    lacks_definition: bool,
}

/// The rule of calls that are denied because their tool's definition is not known.
const UNKNOWN_TOOL: &str = "(unknown tool)";

/// Whether this is that rule, of the policy itself or of a base.
fn is_unknown_tool(rule: &str) -> bool {
    rule.strip_suffix(UNKNOWN_TOOL).is_some_and(|base| base.is_empty() || base.ends_with(':'))
}

impl Policy {
    /// Runs the policy's own tests, each with empty counters.
    ///
    /// They run without tool definitions, so that the result depends on the policy alone.
    pub fn run_tests(&self) -> Vec<TestResult> {
        self.run_each(None)
    }

    /// Runs the policy's own tests for a server with these tools.
    pub fn run_tests_on(&self, tools: &[ToolFacts]) -> Vec<TestResult> {
        self.run_each(Some(tools))
    }

    fn run_each(&self, tools: Option<&[ToolFacts]>) -> Vec<TestResult> {
        let run = |test: &SelfTest| {
            let facts = test.facts(tools);
            let came = test.last_call(self, facts);
            let failure = test.contradiction(facts).or_else(|| test.failure(&came));
            TestResult {
                name: test.name.to_string(),
                outcome: came.outcome,
                rule: came.rule,
                failure,
                offset: test.offset,
            }
        };
        self.tests.iter().map(run).collect()
    }
}

impl SelfTest {
    /// What is known of the called tool: its definition in the list, else the test's `category`.
    fn facts<'t>(&self, tools: Option<&'t [ToolFacts]>) -> Facts<'t> {
        match (self.category, Facts::find(tools, &self.tool)) {
            (_, known @ Facts::Known(_)) | (None, known) => known,
            (Some(category), _) => Facts::OfCategory(category),
        }
    }

    /// Why the test and the server's list disagree on the tool, if they do.
    fn contradiction(&self, facts: Facts<'_>) -> Option<String> {
        let (said, listed) = (self.category?, facts.category()?);
        (said != listed).then(|| {
            let tool = &self.tool;
            format!("`category` is `{said}`, and the definition of `{tool}` makes it `{listed}`")
        })
    }

    /// The result of the test's last call.
    fn last_call(&self, policy: &Policy, facts: Facts<'_>) -> Came {
        let nothing = Came { outcome: Outcome::Deny, rule: None, lacks_definition: false };
        // The loader has checked that the arguments are an object.
        let Ok(call) = Call::new(&self.tool, self.args.as_ref().map(Document::root)) else {
            return nothing;
        };
        let mut counters = HashMap::new();
        (0..self.times)
            .map(|_| step(policy, &call, facts, self.at, &mut counters))
            .last()
            .unwrap_or(nothing)
    }

    fn failure(&self, came: &Came) -> Option<String> {
        let rule = came.rule.as_deref();
        let expects_unknown = self.rule.as_deref().is_some_and(is_unknown_tool);
        if came.lacks_definition && !expects_unknown {
            return Some(self.unknown_definition(rule));
        }
        let by = rule.map(|rule| format!(" by `{rule}`")).unwrap_or_default();
        let got = format!("got `{}`{by}", came.outcome.name());
        if came.outcome != self.expect {
            return Some(format!("expected `{}`, {got}", self.expect.name()));
        }
        let wanted = self.rule.as_deref().filter(|wanted| Some(*wanted) != rule)?;
        Some(format!("expected rule `{wanted}`, {got}"))
    }

    fn unknown_definition(&self, rule: Option<&str>) -> String {
        let supply = match rule {
            Some(rule) if is_unknown_tool(rule) => "say `category` in its `call`, or",
            // A category does not tell the schema.
            _ => "give the schema itself as `validate_args`, or",
        };
        format!(
            "the outcome rests on the definition of `{}`, which is not known: {supply} run \
             `sluice policy test --tools FILE`",
            self.tool
        )
    }
}

/// Makes one call with this test's own counters.
fn step(
    policy: &Policy,
    call: &Call<'_>,
    facts: Facts<'_>,
    at: Timestamp,
    counters: &mut HashMap<Box<str>, Amount>,
) -> Came {
    let denied = |denial: Denial<'_>| Came {
        outcome: denial.outcome(),
        lacks_definition: denial.lacks_definition,
        rule: Some(denial.rule.into_owned()),
    };
    let passed = |outcome, rule| Came { outcome, rule, lacks_definition: false };
    let held = |terms: Terms<'_>| passed(Outcome::Hold, Some(terms.rule.to_owned()));
    let allow = match judge(Some(policy), call, facts, at) {
        Decision::Deny(denial) => return denied(denial),
        Decision::Hold(terms) => return held(terms),
        Decision::Allow(allow) => allow,
    };
    let reading = |limit: &Limit| counters.get(limit.counter()).copied().unwrap_or_default();
    // Each call has ended before the next one begins.
    let admitted = allow.admit(reading, |_| Amount::ZERO);
    let refusal = match admitted {
        Err(denial) if !denial.is_in_shadow() => return denied(denial),
        admitted => admitted.err(),
    };
    let in_shadow = refusal.as_ref().map(|_| allow.without_shadow());
    for charge in in_shadow.as_ref().unwrap_or(&allow).charges() {
        let reading = counters.entry(charge.limit.counter.clone()).or_default();
        *reading = reading.checked_add(charge.amount).unwrap_or(Amount::MAX);
    }
    match (allow.objection(), refusal) {
        (Some(Objection::Deny(denial)), _) => denied(denial.clone()),
        (Some(Objection::Hold(terms)), _) => held(terms.clone()),
        (None, Some(denial)) => denied(denial),
        (None, None) => passed(Outcome::Allow, None),
    }
}
