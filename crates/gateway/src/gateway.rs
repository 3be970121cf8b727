//! The handle to the data path, and the state that all its requests share.

use std::sync::Arc;

use sluice_classify::Assessment;
use sluice_listener::{Failure, Failures};
use sluice_policy::Timestamp;
use sluice_store::{Grant, Name, Record, Store, TokenHash};

use crate::{
    assess::Tools,
    budget::Budget,
    connections::Connections,
    decide::Turns,
    grants::Holder,
    keys::Keys,
    legacy_sse::Clients,
    live_config::LiveConfig,
    metrics::Metrics,
    repair::Repairs,
    settings::Settings,
    shares::Shares,
    snapshot::{ApplyError, Builtins, Configuration},
    stack::Stacks,
};

/// A handle to the data path; clones share its state.
#[derive(Debug, Clone)]
pub struct Gateway {
    pub(crate) inner: Arc<Inner>,
}

/// The state behind all handles.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) settings: Settings,
    pub(crate) store: Store,
    pub(crate) keys: Keys,
    pub(crate) config: LiveConfig,
    pub(crate) connections: Connections,
    pub(crate) shares: Shares,
    /// Bytes of long messages.
    pub(crate) bytes: Budget,
    /// Requests whose client is gone.
    pub(crate) unattended: Budget,
    pub(crate) sessions: ClientSessions,
    pub(crate) metrics: Metrics,
    pub(crate) failures: Failures,
    pub(crate) turns: Turns,
}

impl Inner {
    /// Records failed authentications; those of one attempt name the server it was for.
    pub(crate) fn record_failures(&self, failures: Vec<Failure>, server: Option<&str>) {
        self.record_failures_of(failures, server, None);
    }

    /// The same for a caller whose grant is known.
    pub(crate) fn record_failures_of(
        &self,
        failures: Vec<Failure>,
        server: Option<&str>,
        holder: Option<&Holder>,
    ) {
        for Failure { message, is_sum } in failures {
            let now = self.settings.clock.now();
            let server = server.filter(|_| !is_sum).map(Arc::from);
            let holder = holder.filter(|_| !is_sum);
            let record = Record::failed_authentication(now, message);
            self.store.append_deferred(Record {
                server,
                grant: holder.map(|holder| holder.reference.clone()),
                principal: holder.and_then(|holder| holder.principal.clone()),
                ..record
            });
        }
    }
}

/// In-memory state of clients that are connected or have a session.
#[derive(Debug, Default)]
pub(crate) struct ClientSessions {
    /// Connected clients of the oldest transport (HTTP+SSE).
    pub(crate) legacy_clients: Clients,
    /// The state needed to re-establish sessions with one server.
    pub(crate) repairs: Repairs,
    /// Sessions with all servers of a grant.
    pub(crate) stacks: Stacks,
}

/// One tool of a server, as the gateway knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownTool {
    pub name: String,
    /// What the tool can do, and the reasons for that assessment.
    pub assessment: Assessment,
    /// The definition as the server wrote it.
    pub definition: String,
}

impl Gateway {
    /// A gateway without a configuration, which refuses everything.
    pub fn new(settings: Settings, store: Store, builtins: Builtins) -> Option<Gateway> {
        let connections = Connections::new(settings.descriptors);
        let inner = Inner {
            keys: Keys::derive(&settings.key)?,
            config: LiveConfig::new(builtins),
            shares: Shares::new(settings.shares, connections.most()),
            connections,
            bytes: Budget::of_bytes(settings.in_flight, settings.bounds.bytes.max(settings.answer)),
            unattended: Budget::of_unattended(),
            sessions: ClientSessions::default(),
            metrics: Metrics::default(),
            failures: Failures::new(""),
            turns: Turns::default(),
            settings,
            store,
        };
        Some(Gateway { inner: Arc::new(inner) })
    }

    /// Applies a configuration, as a whole or not at all.
    pub fn apply(&self, configuration: &Configuration) -> Result<(), ApplyError> {
        self.inner.config.apply(configuration, &self.inner.settings)
    }

    /// Adds or replaces the grant of a token, or removes it.
    pub fn set_grant(&self, token: &TokenHash, grant: Option<&Grant>) {
        self.inner.config.set_grant(token, grant);
    }

    /// Stores when grants were last used. If that fails, the next time stores later uses.
    pub async fn store_uses(&self) {
        let uses = self.inner.config.take_uses();
        if uses.is_empty() {
            return;
        }
        if let Err(error) = self.inner.store.note_uses(uses).await {
            tracing::warn!(%error, "the last uses of grants could not be stored");
        }
    }

    /// The tools of a server, fetched again if `fresh`, or why the list is unavailable.
    pub async fn tools(&self, server: &Name, fresh: bool) -> Result<Vec<KnownTool>, String> {
        let server = self.inner.config.server(server.as_str()).ok_or("there is no such server")?;
        let link = &server.link;
        if fresh {
            link.state.tools.mark_stale();
        }
        let known = link.state.tools.tool_list().filter(|_| !fresh);
        let list = match known {
            Some(known) => known,
            None => Tools::learn(link, &self.inner.settings.answer_bounds())
                .await
                .ok_or_else(|| link.state.tools.failure())?,
        };
        let shown = |(name, assessment, definition): (&str, &Assessment, &str)| KnownTool {
            name: name.to_owned(),
            assessment: assessment.clone(),
            definition: definition.to_owned(),
        };
        let mut tools: Vec<_> = list.assessments().map(shown).collect();
        tools.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(tools)
    }

    /// Reports in the metrics which configuration version is active, and since when.
    pub fn note_configured(&self, version: &str, at: Timestamp) {
        self.inner.metrics.note_configuration(version, at);
    }

    /// Reports in the metrics that a newer configuration could not be applied.
    pub fn note_configuration_refused(&self) {
        self.inner.metrics.note_configuration_refused();
    }

    /// Reports in the metrics how many held calls have expired, and how many wait.
    pub fn note_approvals(&self, expired: u64, pending: usize) {
        self.inner.metrics.note_approvals(expired, pending);
    }

    /// Reports in the metrics whether a signed head was exported to this place.
    pub fn note_head_export(&self, target: &'static str, is_ok: bool, at: Timestamp) {
        self.inner.metrics.exports.note(target, is_ok, at);
    }

    /// How many connections and streams of clients may be open at a time.
    pub fn capacity(&self) -> usize {
        self.inner.connections.most()
    }

    /// Metrics in the text format of Prometheus.
    pub fn metrics(&self) -> String {
        self.inner.metrics.note_masked(self.inner.config.count_masked());
        self.inner.metrics.text(self.inner.connections.count(), &self.inner.store)
    }
}
