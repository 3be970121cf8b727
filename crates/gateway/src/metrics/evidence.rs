//! Metrics of the audit log: its space, its check in the background, and the export of its heads.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};
use sluice_policy::Timestamp;
use sluice_store::{LogSpace, ScrubReport};

/// The space of the audit log.
#[derive(Debug, Default)]
pub(super) struct LogSpaceMetrics {
    used: Gauge,
    most: Gauge,
    refused: Gauge,
}

impl LogSpaceMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        for (name, help, gauge) in [
            ("log_space_used_bytes", "Records that must be kept", &self.used),
            ("log_space_max_bytes", "Space for records that must be kept", &self.most),
            ("log_refused", "Records refused because the log had no space for them", &self.refused),
        ] {
            registry.register(name, help, gauge.clone());
        }
    }

    pub(super) fn set(&self, space: &LogSpace) {
        let values =
            [(&self.used, space.used), (&self.most, space.max), (&self.refused, space.refused)];
        for (gauge, value) in values {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        }
    }
}

/// The check of the store in the background.
#[derive(Debug, Default)]
pub(super) struct ScrubMetrics {
    records: Gauge,
    faults: Gauge,
    finished: Gauge,
}

impl ScrubMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Records that the present check of the store in the background has read";
        registry.register("scrub_records", help, self.records.clone());
        let help = "Faults that the check of the store in the background has found";
        registry.register("scrub_faults", help, self.faults.clone());
        registry.register_with_unit(
            "scrub_last_finished_timestamp",
            "When the whole store was last checked in the background; 0 if not since the start",
            Unit::Seconds,
            self.finished.clone(),
        );
    }

    pub(super) fn set(&self, report: &ScrubReport) {
        let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.records.set(count(report.checked));
        self.faults.set(count(report.faults));
        self.finished.set(report.finished_at.map_or(0, |at| at.as_millis() / 1000));
    }
}

/// An export of signed heads, by where to and how it went.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfExport {
    target: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfTarget {
    target: &'static str,
}

/// The export of signed heads.
#[derive(Debug, Default)]
pub(crate) struct HeadExportMetrics {
    exports: Family<OfExport, Counter>,
    last: Family<OfTarget, Gauge>,
}

impl HeadExportMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Exports of signed heads of the audit log, by place and result";
        registry.register("head_exports", help, self.exports.clone());
        registry.register_with_unit(
            "head_export_last_success_timestamp",
            "When a signed head was last exported",
            Unit::Seconds,
            self.last.clone(),
        );
    }

    pub(crate) fn note(&self, target: &'static str, is_ok: bool, at: Timestamp) {
        let result = if is_ok { "ok" } else { "failed" };
        self.exports.get_or_create(&OfExport { target, result }).inc();
        if is_ok {
            self.last.get_or_create(&OfTarget { target }).set(at.as_millis() / 1000);
        }
    }
}
