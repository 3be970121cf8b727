//! Decisions by grant and rule, and failures of servers by their kind.
//!
//! Grants and rules come and go, so only so many series are kept. Further ones are counted together
//! as `(other)`.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use sluice_store::{Outcome, Record};

use super::Label;

/// Series of decisions by grant and rule, beside those of `(other)`.
const MOST_SERIES: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfRule {
    server: Label,
    grant: Label,
    rule: Label,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfFailure {
    server: Label,
    kind: &'static str,
}

/// See the module.
#[derive(Debug)]
pub(super) struct LabelledMetrics {
    decisions: Family<OfRule, Counter>,
    kept: AtomicUsize,
    failures: Family<OfFailure, Counter>,
    /// The label of calls without a value, and of those that are not counted by themselves.
    none: Arc<str>,
    other: Arc<str>,
}

impl Default for LabelledMetrics {
    fn default() -> LabelledMetrics {
        LabelledMetrics {
            decisions: Family::default(),
            kept: AtomicUsize::new(0),
            failures: Family::default(),
            none: "".into(),
            other: "(other)".into(),
        }
    }
}

impl LabelledMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "rule_decisions",
            "Decisions by server, grant, rule and outcome",
            self.decisions.clone(),
        );
        registry.register(
            "upstream_errors",
            "Requests that a server failed, by kind of failure",
            self.failures.clone(),
        );
    }

    /// A decision was made.
    pub(super) fn note_decision(&self, record: &Record) {
        let label = |text: Option<&Arc<str>>| Label(Arc::clone(text.unwrap_or(&self.none)));
        let series = OfRule {
            server: label(record.server.as_ref()),
            grant: label(record.grant.as_ref().map(|grant| &grant.label)),
            rule: label(record.rule.as_ref()),
            outcome: record.outcome.map_or("", Outcome::as_str),
        };
        if let Some(counter) = self.decisions.get(&series) {
            counter.inc();
            return;
        }
        let is_kept = |kept: usize| (kept < MOST_SERIES).then_some(kept + 1);
        let has_room = self.kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_kept);
        let series = if has_room.is_ok() { series } else { self.other(series.outcome) };
        self.decisions.get_or_create(&series).inc();
    }

    fn other(&self, outcome: &'static str) -> OfRule {
        let other = || Label(Arc::clone(&self.other));
        OfRule { server: other(), grant: other(), rule: other(), outcome }
    }

    /// A server failed a call.
    pub(super) fn note_failure(&self, server: &Arc<str>, kind: &'static str) {
        let series = OfFailure { server: Label(Arc::clone(server)), kind };
        self.failures.get_or_create(&series).inc();
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::{encoding::text::encode, registry::Registry};
    use sluice_policy::Timestamp;
    use sluice_store::{GrantRef, Kind, Outcome, Record, new_id};

    use super::{LabelledMetrics, MOST_SERIES};

    #[test]
    fn series_beyond_the_bound_are_counted_together() {
        let metrics = LabelledMetrics::default();
        let at = Timestamp::from_millis(1_794_724_708_123);
        let decision = |rule: usize| Record {
            server: Some("notes".into()),
            grant: Some(GrantRef { id: "g".into(), label: "laptop".into() }),
            rule: Some(format!("/tools/{rule}").into()),
            outcome: Some(Outcome::Deny),
            ..Record::new(new_id(at), at, Kind::Decision)
        };
        for rule in 0..MOST_SERIES + 7 {
            metrics.note_decision(&decision(rule));
        }
        // One that is kept goes on by itself.
        metrics.note_decision(&decision(3));
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let series = text.lines().filter(|line| line.starts_with("rule_decisions_total{"));
        assert_eq!(series.count(), MOST_SERIES + 1);
        let other = r#"{server="(other)",grant="(other)",rule="(other)",outcome="deny"} 7"#;
        assert!(text.contains(other), "no {other}");
        let kept = r#"{server="notes",grant="laptop",rule="/tools/3",outcome="deny"} 2"#;
        assert!(text.contains(kept), "no {kept}");
    }
}
