//! Laws of the engine, as properties over generated policies and calls.
//!
//! The first law is agreement with the [oracle](crate::oracle), over
//! `SLUICEGATE_LAWS` generated policies with 40 calls each: 2,500 of them unless
//! the environment says otherwise, which makes 100,000 comparisons. By default
//! every run sees the same policies, so that `make test` passes or fails for a
//! reason; with the variable set they are fresh ones, so that `make fuzz` finds
//! new ones: `SLUICEGATE_LAWS=100000 cargo test --release -p sluice-policy laws`.

mod agreement;
mod chains;
mod denials;
mod explained;
mod limits;
mod spelling;
mod tool_access;

use std::fmt::Debug;

use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, RngSeed, TestCaseError, TestRunner},
};
use serde_json::Value;
use sluice_policy::{
    Allow, Amount, Call, Concurrency, Consent, Decimal, Decision, Denial, Facts, Format, Limit,
    Policy, Timestamp, ToolFacts, judge, load,
};
use sluice_wire::json::{Bounds, Document};

use crate::{
    generate::{
        WORDS,
        call::{Attempt, Knowledge, definitions},
    },
    oracle::{self, Approval, Charge, Lease, Verdict},
};

/// Runs a law on this many generated inputs, the same ones every time.
fn hold<S: Strategy<Value: Debug>>(
    cases: u32,
    inputs: S,
    law: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    hold_from(RngSeed::Fixed(1), cases, inputs, law);
}

fn hold_from<S: Strategy<Value: Debug>>(
    rng_seed: RngSeed,
    cases: u32,
    inputs: S,
    law: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let config = Config {
        cases,
        rng_seed,
        // The default is a cipher, which without optimisation takes most of the time.
        rng_algorithm: RngAlgorithm::XorShift,
        failure_persistence: None,
        ..Config::default()
    };
    if let Err(failure) = TestRunner::new(config).run(&inputs, law) {
        panic!("{failure}");
    }
}

/// Every definition a generated call may have, in both evaluators' forms.
struct World {
    engine: Vec<ToolFacts>,
    oracle: Vec<oracle::Facts>,
}

impl World {
    fn new() -> World {
        let definitions = definitions();
        // One by one, because they are of one tool as it might be, not a list.
        let read = |definition: &Value| {
            ToolFacts::from_definition(document(&definition.to_string()).root()).unwrap()
        };
        let engine: Vec<_> = definitions.iter().map(read).collect();
        let known = |(facts, tool): (&ToolFacts, Value)| oracle::Facts::Known {
            category: facts.category().name().to_owned(),
            input_schema: tool.get("inputSchema").cloned(),
        };
        let oracle = engine.iter().zip(definitions).map(known).collect();
        World { engine, oracle }
    }

    fn facts(&self, attempt: &Attempt) -> Facts<'_> {
        match attempt.knowledge {
            Knowledge::NoList => Facts::NoList,
            Knowledge::NotInList => Facts::NotInList,
            Knowledge::Definition(number) => Facts::Known(&self.engine[number]),
        }
    }

    fn oracle_facts(&self, attempt: &Attempt) -> oracle::Facts {
        match attempt.knowledge {
            Knowledge::NoList => oracle::Facts::NoList,
            Knowledge::NotInList => oracle::Facts::NotInList,
            Knowledge::Definition(number) => self.oracle[number].clone(),
        }
    }
}

/// The policy of a generated text, if it loads.
fn loaded(policy: &Value) -> Option<Policy> {
    load(policy.to_string().as_bytes(), Format::Json).ok()
}

fn document(text: &str) -> Document {
    Document::parse(text, &Bounds::default()).unwrap()
}

impl Attempt {
    fn document(&self) -> Option<Document> {
        self.args.as_ref().map(|args| document(&args.to_string()))
    }

    /// What a counter reads before this call.
    fn reads(&self, counter: &str) -> &'static str {
        if counter == self.empty { "0" } else { self.reading }
    }

    /// How many calls are in progress for a rule before this call.
    fn in_progress(&self, rule: &str) -> &'static str {
        // A rule of a base reads the same.
        let own = rule.strip_prefix("base-").and_then(|rest| rest.split_once(':'));
        let rule = own.map_or(rule, |(_, rule)| rule);
        if rule.len().is_multiple_of(3) { "0" } else { self.in_progress }
    }

    fn at(&self) -> Timestamp {
        Timestamp::from_millis(self.millis)
    }
}

fn amount(text: &str) -> Amount {
    Amount::exactly(Decimal::read(text)).unwrap()
}

/// What the engine says of a call, in the oracle's words: before its counters
/// are read, and (once approved, if it must be) after.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Said {
    verdict: Verdict,
    refused: Option<(String, Option<String>)>,
}

/// Asks the engine.
fn said(policy: &Policy, attempt: &Attempt, facts: Facts<'_>) -> Said {
    let document = attempt.document();
    let call = Call::new(attempt.tool, document.as_ref().map(Document::root)).unwrap();
    let before = |verdict| Said { verdict, refused: None };
    match judge(Some(policy), &call, facts, attempt.at()).under_enforcement() {
        Decision::Deny(denial) => before(verdict(
            denial.outcome().name(),
            Some(denial.rule.to_string()),
            own_words(&denial),
        )),
        Decision::Allow(allow) => charged(verdict("allow", None, None), &allow, attempt),
        Decision::Hold(terms) => {
            let held = Verdict {
                approval: Some(Approval {
                    approvers: terms.approvers.into(),
                    expires_seconds: terms.expires_seconds,
                }),
                ..verdict("hold", Some(terms.rule.into()), terms.message.map(String::from))
            };
            let call = call.with_consent(Consent::Given);
            match judge(Some(policy), &call, facts, attempt.at()).under_enforcement() {
                Decision::Allow(allow) => charged(held, &allow, attempt),
                Decision::Deny(denial) => Said { verdict: held, refused: Some(refusal(&denial)) },
                Decision::Hold(_) => panic!("an approved call is held again"),
            }
        }
    }
}

fn verdict(outcome: &'static str, rule: Option<String>, message: Option<String>) -> Verdict {
    Verdict { outcome, rule, message, charges: Vec::new(), leases: Vec::new(), approval: None }
}

fn charged(verdict: Verdict, allow: &Allow<'_>, attempt: &Attempt) -> Said {
    let mut charges: Vec<_> = allow
        .charges()
        .map(|charge| {
            let seconds = charge.limit.window().seconds();
            let window = seconds.map_or("month".to_owned(), |seconds| seconds.to_string());
            let start = oracle::window_start(&window, attempt.millis);
            assert_eq!(charge.window_start, Timestamp::from_millis(start));
            Charge {
                counter: charge.limit.counter().to_owned(),
                scope: charge.limit.scope().name().to_owned(),
                window,
                amount: oracle::Decimal::parse(&charge.amount.to_string()).unwrap(),
                max: oracle::Decimal::parse(charge.limit.max_text()).unwrap(),
            }
        })
        .collect();
    charges.sort_by(|a, b| a.counter.cmp(&b.counter));
    let reading = |limit: &Limit| amount(attempt.reads(limit.counter()));
    let in_progress = |concurrency: &Concurrency| amount(attempt.in_progress(concurrency.rule()));
    let refused = allow.admit(reading, in_progress).err().map(|denial| refusal(&denial));
    let leases = allow.leases().map(|concurrency| Lease {
        rule: concurrency.rule().to_owned(),
        scope: concurrency.scope().name().to_owned(),
        max: oracle::Decimal::from(concurrency.max()),
    });
    let mut leases: Vec<_> = leases.collect();
    leases.sort_by(|a, b| a.rule.cmp(&b.rule));
    Said { verdict: Verdict { charges, leases, ..verdict }, refused }
}

fn refusal(denial: &Denial<'_>) -> (String, Option<String>) {
    (denial.rule.to_string(), own_words(denial))
}

/// What the policy has to say, if the words are the policy's.
fn own_words(denial: &Denial<'_>) -> Option<String> {
    denial.message.starts_with(WORDS).then(|| denial.message.to_string())
}
