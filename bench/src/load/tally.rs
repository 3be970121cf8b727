//! The latencies of calls.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Latencies of correctly answered calls, to three digits.
#[derive(Debug)]
pub(crate) struct Tally {
    nanos: Histogram<u64>,
}

impl Tally {
    pub(crate) fn new() -> anyhow::Result<Tally> {
        Ok(Tally { nanos: Histogram::new(3)? })
    }

    pub(crate) fn add(&mut self, latency: Duration) -> anyhow::Result<()> {
        let nanos = u64::try_from(latency.as_nanos())?;
        Ok(self.nanos.record(nanos)?)
    }

    pub(super) fn merge(&mut self, other: &Tally) -> anyhow::Result<()> {
        Ok(self.nanos.add(&other.nanos)?)
    }

    pub(crate) fn calls(&self) -> u64 {
        self.nanos.len()
    }

    /// The latency at a quantile of the calls.
    pub(crate) fn micros(&self, quantile: f64) -> f64 {
        Duration::from_nanos(self.nanos.value_at_quantile(quantile)).as_secs_f64() * 1e6
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Tally;

    #[test]
    fn quantiles_are_those_of_all_calls_together() {
        let (mut one, mut other) = (Tally::new().unwrap(), Tally::new().unwrap());
        for micros in 1..=50 {
            one.add(Duration::from_micros(micros)).unwrap();
            other.add(Duration::from_micros(micros + 50)).unwrap();
        }
        one.merge(&other).unwrap();
        assert_eq!(one.calls(), 100);
        assert_eq!((one.micros(0.5).round(), one.micros(0.99).round()), (50.0, 99.0));
    }
}
