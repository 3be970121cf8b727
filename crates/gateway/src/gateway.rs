//! The handle to the data path, and the state that all its requests share.

use std::sync::Arc;

use sluice_classify::Assessment;
use sluice_policy::Timestamp;
use sluice_store::{Grant, Name, Store, TokenHash};

use crate::{
    assess::Tools,
    connections::Connections,
    failures::Failures,
    keys::Keys,
    legacy_sse::Clients,
    live_config::LiveConfig,
    metrics::Metrics,
    repair::Repairs,
    settings::Settings,
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
    pub(crate) sessions: ClientSessions,
    pub(crate) metrics: Metrics,
    pub(crate) failures: Failures,
}

/// In-memory state of clients that are connected or have a session.
#[derive(Debug, Default)]
pub(crate) struct ClientSessions {
    /// Connected clients of the oldest transport (HTTP+SSE).
    pub(crate) legacy_clients: Clients,
    /// What is needed to re-establish sessions with one server.
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
        let inner = Inner {
            keys: Keys::derive(&settings.key)?,
            config: LiveConfig::new(builtins),
            connections: Connections::new(settings.descriptors),
            sessions: ClientSessions::default(),
            metrics: Metrics::default(),
            failures: Failures::default(),
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

    /// Metrics in the text format of Prometheus.
    pub fn metrics(&self) -> String {
        self.inner.metrics.text(self.inner.connections.count(), &self.inner.store)
    }
}
