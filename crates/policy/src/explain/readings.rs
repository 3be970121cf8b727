//! Readings of counters that the author of a question supposes, so that limits can be explained.

use std::collections::HashMap;

use super::{Explanation, explain};
use crate::{
    amount::Amount,
    facts::Facts,
    judge::Call,
    limit::{Concurrency, Limit},
    policy::Policy,
    time::Timestamp,
};

/// What counters hold, and how many calls are in progress for rules with `concurrent`. All others
/// are at 0.
#[derive(Debug, Clone, Default)]
pub struct Readings(HashMap<String, Amount>);

/// A reading of something that the policy does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the policy has no counter `{counter}`\nhint: {known}")]
pub struct UnknownCounter {
    pub counter: String,
    known: String,
}

impl Readings {
    /// The readings by the names of counters and by rules.
    pub fn new(readings: impl IntoIterator<Item = (String, Amount)>) -> Readings {
        Readings(readings.into_iter().collect())
    }

    /// Refuses readings of counters that the policy does not have.
    fn check(&self, policy: Option<&Policy>) -> Result<(), UnknownCounter> {
        let mut counters = policy.map(Policy::counters).unwrap_or_default();
        let concurrencies = policy.into_iter().flat_map(Policy::concurrencies);
        counters.extend(concurrencies.map(Concurrency::rule));
        let unknown = self.0.keys().filter(|name| !counters.contains(name.as_str())).min();
        let Some(counter) = unknown.cloned() else { return Ok(()) };
        let known: Vec<_> = counters.into_iter().collect();
        let known = if known.is_empty() {
            "it has none".into()
        } else {
            format!("there are: {}", known.join(", "))
        };
        Err(UnknownCounter { counter, known })
    }

    fn read(&self, name: &str) -> Amount {
        self.0.get(name).copied().unwrap_or_default()
    }
}

/// Explains the decision on a call with these readings.
pub fn explain_with_readings(
    policy: Option<&Policy>,
    call: &Call<'_>,
    facts: Facts<'_>,
    at: Timestamp,
    readings: &Readings,
) -> Result<Explanation, UnknownCounter> {
    readings.check(policy)?;
    let reading = |limit: &Limit| readings.read(limit.counter());
    let in_progress = |concurrency: &Concurrency| readings.read(concurrency.rule());
    Ok(explain(policy, call, facts, at, reading, in_progress))
}
