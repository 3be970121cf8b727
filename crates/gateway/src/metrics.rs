//! Metrics for Prometheus.

mod evidence;
mod labels;

use std::{
    fmt::{self, Write as _},
    sync::{Arc, atomic::Ordering},
};

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};
use sluice_policy::Timestamp;
use sluice_store::{Outcome, Record, Store, UpstreamRef};

use self::{
    evidence::{HeadExportMetrics, LogSpaceMetrics, ScrubMetrics},
    labels::LabelledMetrics,
};
use crate::exchange::Exchange;

/// A label that several series share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Label(Arc<str>);

impl EncodeLabelValue for Label {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(&self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Decision {
    server: Label,
    tool: Label,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfServer {
    server: Label,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfBound {
    bound: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfResult {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfVersion {
    version: Label,
}

/// All metrics.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    decisions: Family<Decision, Counter>,
    labelled: LabelledMetrics,
    unauthenticated: Counter,
    deciding: Histogram,
    upstream: Family<OfServer, Histogram, fn() -> Histogram>,
    total: Histogram,
    in_flight: Gauge,
    open: Gauge,
    sessions: Counter,
    bounds: Family<OfBound, Counter>,
    store_queue: Gauge,
    store_healthy: Gauge,
    log_space: LogSpaceMetrics,
    scrub: ScrubMetrics,
    pub(crate) exports: HeadExportMetrics,
    clock_ahead: Gauge,
    approvals: Counter,
    approvals_expired: Counter,
    approvals_pending: Gauge,
    reloads: Family<OfResult, Counter>,
    masked: Family<OfServer, Counter>,
    config: Family<OfVersion, Gauge>,
    reload_ok: Gauge,
    reload_time: Gauge,
    /// The label for tools that are in no list.
    unknown: Arc<str>,
}

fn latencies() -> Histogram {
    // From 10 µs to about 80 s.
    Histogram::new(exponential_buckets(0.000_01, 2.5, 18))
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut metrics = Metrics {
            registry: Registry::with_prefix("sluice"),
            decisions: Family::default(),
            labelled: LabelledMetrics::default(),
            unauthenticated: Counter::default(),
            deciding: latencies(),
            upstream: Family::new_with_constructor(latencies),
            total: latencies(),
            in_flight: Gauge::default(),
            open: Gauge::default(),
            sessions: Counter::default(),
            bounds: Family::default(),
            store_queue: Gauge::default(),
            store_healthy: Gauge::default(),
            log_space: LogSpaceMetrics::default(),
            scrub: ScrubMetrics::default(),
            exports: HeadExportMetrics::default(),
            clock_ahead: Gauge::default(),
            approvals: Counter::default(),
            approvals_expired: Counter::default(),
            approvals_pending: Gauge::default(),
            reloads: Family::default(),
            masked: Family::default(),
            config: Family::default(),
            reload_ok: Gauge::default(),
            reload_time: Gauge::default(),
            unknown: "(unknown)".into(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "decisions",
            "Decisions by server, tool and outcome",
            self.decisions.clone(),
        );
        registry.register(
            "auth_failures",
            "Requests without a valid token",
            self.unauthenticated.clone(),
        );
        let seconds = Unit::Seconds;
        registry.register_with_unit(
            "decision",
            "Time from a request to its decision",
            seconds,
            self.deciding.clone(),
        );
        let seconds = Unit::Seconds;
        registry.register_with_unit(
            "upstream",
            "Time from sending to the whole answer",
            seconds,
            self.upstream.clone(),
        );
        let seconds = Unit::Seconds;
        registry.register_with_unit(
            "call",
            "Time from a request to its whole answer",
            seconds,
            self.total.clone(),
        );
        registry.register("in_flight", "Requests being dealt with", self.in_flight.clone());
        registry.register("open_streams", "Connections and streams of clients", self.open.clone());
        registry.register("sessions", "Sessions begun", self.sessions.clone());
        registry.register(
            "bound_refusals",
            "Requests refused because their grant or server was at this bound",
            self.bounds.clone(),
        );
        self.labelled.register(registry);
        registry.register("approvals_requested", "Calls held for a human", self.approvals.clone());
        registry.register(
            "approvals_expired",
            "Held calls whose time was over",
            self.approvals_expired.clone(),
        );
        registry.register(
            "approvals_pending",
            "Held calls that wait for a human, as of the last few seconds",
            self.approvals_pending.clone(),
        );
        registry.register(
            "secrets_masked",
            "Secrets of a server that were removed from its answers",
            self.masked.clone(),
        );
        self.register_store();
        self.register_config();
    }

    fn register_store(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "store_queue",
            "Writes that wait for the store",
            self.store_queue.clone(),
        );
        registry.register(
            "store_healthy",
            "Whether the store's last write went well",
            self.store_healthy.clone(),
        );
        self.log_space.register(registry);
        self.scrub.register(registry);
        self.exports.register(registry);
        registry.register(
            "clock_ahead_seconds",
            "How far the system clock has jumped, while it is not trusted",
            self.clock_ahead.clone(),
        );
    }

    fn register_config(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "config_info",
            "The version of the configuration in force",
            self.config.clone(),
        );
        registry.register(
            "config_reloads",
            "Configurations that were put in force, also at start, and that were refused",
            self.reloads.clone(),
        );
        registry.register(
            "config_last_reload_successful",
            "Whether the configuration could be put in force when it was last read",
            self.reload_ok.clone(),
        );
        registry.register_with_unit(
            "config_last_reload_success_timestamp",
            "When the configuration in force was read",
            Unit::Seconds,
            self.reload_time.clone(),
        );
    }

    /// A configuration was applied.
    pub(crate) fn note_configuration(&self, version: &str, at: Timestamp) {
        self.config.clear();
        self.config.get_or_create(&OfVersion { version: Label(version.into()) }).set(1);
        self.reload_ok.set(1);
        self.reloads.get_or_create(&OfResult { result: "applied" }).inc();
        self.reload_time.set(at.as_millis() / 1000);
    }

    /// A configuration could not be applied.
    pub(crate) fn note_configuration_refused(&self) {
        self.reload_ok.set(0);
        self.reloads.get_or_create(&OfResult { result: "refused" }).inc();
    }

    /// Held calls have expired, and others still wait.
    pub(crate) fn note_approvals(&self, expired: u64, pending: usize) {
        self.approvals_expired.inc_by(expired);
        self.approvals_pending.set(i64::try_from(pending).unwrap_or(i64::MAX));
    }

    /// A decision was made.
    pub(crate) fn note_decision(&self, exchange: &Exchange, record: &Record) {
        let tools = exchange.server.link.state.tools.tool_list();
        let tool = match &record.tool {
            Some(tool) if tools.is_some_and(|tools| tools.has(tool)) => Arc::clone(tool),
            Some(_) => Arc::clone(&self.unknown),
            None => record.method.as_deref().unwrap_or_default().into(),
        };
        let outcome = record.outcome.map_or("", Outcome::as_str);
        let decision = Decision {
            server: Label(Arc::clone(&exchange.server.link.name)),
            tool: Label(tool),
            outcome,
        };
        self.decisions.get_or_create(&decision).inc();
        self.labelled.note_decision(record);
        self.deciding.observe(seconds(crate::settle::micros(exchange.started)));
        if record.outcome == Some(Outcome::Hold) {
            self.approvals.inc();
        }
    }

    /// A request was denied for which there is no server.
    pub(crate) fn note_unserved(&self, record: &Record) {
        let tool = match &record.tool {
            Some(_) => Arc::clone(&self.unknown),
            None => record.method.as_deref().unwrap_or_default().into(),
        };
        let server = Label(Arc::clone(&self.unknown));
        let outcome = record.outcome.map_or("", Outcome::as_str);
        self.decisions.get_or_create(&Decision { server, tool: Label(tool), outcome }).inc();
    }

    /// A forwarded call has ended.
    pub(crate) fn note_outcome(
        &self,
        decision: &Record,
        upstream: Option<&UpstreamRef>,
        micros: u64,
    ) {
        self.total.observe(seconds(micros));
        if let (Some(upstream), Some(server)) = (upstream, &decision.server) {
            let server = OfServer { server: Label(Arc::clone(server)) };
            self.upstream.get_or_create(&server).observe(seconds(upstream.micros));
        }
    }

    /// A forwarded request has failed because of its server.
    pub(crate) fn note_upstream_error(&self, server: &Arc<str>, kind: &'static str) {
        self.labelled.note_failure(server, kind);
    }

    /// How many secrets were removed from the answers of each server so far.
    pub(crate) fn note_masked(&self, counts: Vec<(Arc<str>, u64)>) {
        for (server, count) in counts {
            let server = OfServer { server: Label(server) };
            self.masked.get_or_create(&server).inner().store(count, Ordering::Relaxed);
        }
    }

    pub(crate) fn note_unauthenticated(&self) {
        self.unauthenticated.inc();
    }

    pub(crate) fn note_session(&self) {
        self.sessions.inc();
    }

    /// A request was refused, because its grant or its server is at this bound.
    pub(crate) fn note_bound(&self, bound: &'static str) {
        self.bounds.get_or_create(&OfBound { bound }).inc();
    }

    /// Counts a request as in flight until the returned value is dropped.
    pub(crate) fn in_flight(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    /// The metrics in Prometheus text format.
    pub(crate) fn text(&self, open: usize, store: &Store) -> String {
        self.open.set(i64::try_from(open).unwrap_or(i64::MAX));
        let health = store.health();
        self.store_queue.set(i64::try_from(health.queued).unwrap_or(i64::MAX));
        self.store_healthy.set(i64::from(health.ok));
        self.log_space.set(&health.log);
        self.scrub.set(&health.scrub);
        self.clock_ahead.set(health.clock_ahead.unwrap_or_default() / 1000);
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

#[expect(clippy::cast_precision_loss, reason = "2^52 microseconds are 142 years")]
fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// A request in flight.
#[derive(Debug)]
pub(crate) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}
