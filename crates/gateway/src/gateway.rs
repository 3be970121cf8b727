//! The gateway as others hold it: what is in force, and how to change it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use arc_swap::ArcSwap;
use ring::hmac;
use sluice_classify::Assessment;
use sluice_policy::Timestamp;
use sluice_store::{Grant, Name, Store, TokenHash};
use tokio::sync::watch;

use crate::{
    assess::Tools,
    failures::Failures,
    grants::Grants,
    legacy_sse::Clients,
    metrics::Metrics,
    refusal::Refusal,
    repair::Repairs,
    seal::Seal,
    settings::Settings,
    snapshot::{ApplyError, Builtins, Configuration, Snapshot},
    stack::Stacks,
};

/// The value of `changes` that means the end.
pub(crate) const CLOSING: u64 = u64::MAX;
/// Descriptors kept for what is not a client's: files, upstreams, the other plane.
const SPARE_DESCRIPTORS: usize = 256;

/// A handle to the data path; clones share it.
#[derive(Debug, Clone)]
pub struct Gateway {
    pub(crate) inner: Arc<Inner>,
}

/// The one state behind all handles.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) settings: Settings,
    pub(crate) store: Store,
    pub(crate) seal: Seal,
    /// The key of digests of arguments.
    pub(crate) digests: hmac::Key,
    pub(crate) snapshot: ArcSwap<Snapshot>,
    pub(crate) grants: Grants,
    /// Counts what has been put in force, for those who stay connected.
    pub(crate) changes: watch::Sender<u64>,
    pub(crate) metrics: Metrics,
    pub(crate) failures: Failures,
    /// Connections and streams of clients that are open.
    pub(crate) open: AtomicUsize,
    /// Clients of the oldest transport that are connected.
    pub(crate) legacy_clients: Clients,
    pub(crate) repairs: Repairs,
    pub(crate) stacks: Stacks,
    builtins: Builtins,
}

/// One tool of a server, as it is known here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownTool {
    pub name: String,
    /// What it can do, and why it is thought so.
    pub assessment: Assessment,
    /// The definition as the server wrote it.
    pub definition: String,
}

impl Gateway {
    /// A gateway with nothing in force yet, so that everything is refused.
    pub fn new(settings: Settings, store: Store, builtins: Builtins) -> Option<Gateway> {
        let seal = Seal::new(&settings.key)?;
        let digests =
            hmac::Key::new(hmac::HMAC_SHA256, settings.key.derive("argument digests").as_bytes());
        let inner = Inner {
            seal,
            digests,
            snapshot: ArcSwap::default(),
            grants: Grants::default(),
            changes: watch::channel(0).0,
            metrics: Metrics::default(),
            failures: Failures::default(),
            open: AtomicUsize::new(0),
            legacy_clients: Clients::default(),
            repairs: Repairs::default(),
            stacks: Stacks::default(),
            settings,
            store,
            builtins,
        };
        Some(Gateway { inner: Arc::new(inner) })
    }

    /// Puts a configuration in force, whole or not at all.
    pub fn apply(&self, configuration: &Configuration) -> Result<(), ApplyError> {
        let inner = &self.inner;
        let before = inner.snapshot.load_full();
        let next = Snapshot::build(configuration, &before, &inner.settings, &inner.builtins)?;
        let next = Arc::new(next);
        inner.snapshot.store(Arc::clone(&next));
        next.take_effect(configuration, &before);
        inner.grants.replace(&configuration.grants);
        inner.announce();
        Ok(())
    }

    /// Puts one grant in force, or ends what a token was worth.
    pub fn set_grant(&self, token: &TokenHash, grant: Option<&Grant>) {
        self.inner.grants.set(token, grant);
        self.inner.announce();
    }

    /// The tools of a server, asked for anew if `fresh`, or why no list is to be had.
    pub async fn tools(&self, server: &Name, fresh: bool) -> Result<Vec<KnownTool>, String> {
        let link = {
            let snapshot = self.inner.snapshot.load();
            let server = snapshot.server(server.as_str()).ok_or("there is no such server")?;
            Arc::clone(&server.link)
        };
        if fresh {
            link.state.tools.suspect();
        }
        let known = link.state.tools.known().filter(|_| !fresh);
        let list = match known {
            Some(known) => known,
            None => Tools::learn(&link, &self.inner.settings.answer_bounds())
                .await
                .ok_or_else(|| link.state.tools.failure())?,
        };
        let shown = |(name, assessment, definition): (&str, &Assessment, &str)| KnownTool {
            name: name.to_owned(),
            assessment: assessment.clone(),
            definition: definition.to_owned(),
        };
        let mut tools: Vec<_> = list.assessed().map(shown).collect();
        tools.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(tools)
    }

    /// Has metrics say which version of the configuration is in force, and since when.
    pub fn note_configured(&self, version: &str, at: Timestamp) {
        self.inner.metrics.note_configuration(version, at);
    }

    /// Has metrics say that a newer configuration could not be put in force.
    pub fn note_configuration_refused(&self) {
        self.inner.metrics.configuration_refused();
    }

    /// Metrics in the text format of Prometheus.
    pub fn metrics(&self) -> String {
        self.inner.metrics.text(&self.inner)
    }

    /// Ends streams that would never end by themselves.
    pub(crate) fn close_streams(&self) {
        self.inner.changes.send_replace(CLOSING);
    }
}

impl Inner {
    fn announce(&self) {
        self.changes.send_modify(|count| *count = count.saturating_add(1).min(CLOSING - 1));
    }

    /// Room for one more connection, of a client or for a stream of its own at
    /// the server, kept as long as this is held.
    pub(crate) fn standing(self: &Arc<Inner>) -> Result<Standing, Refusal> {
        let most = self.settings.descriptors.saturating_sub(SPARE_DESCRIPTORS);
        let standing = Standing(Arc::clone(self));
        if self.open.fetch_add(1, Ordering::Relaxed) >= most {
            // Dropping gives the place back.
            return Err(Refusal::Busy);
        }
        Ok(standing)
    }
}

/// A place among the open connections and streams.
#[derive(Debug)]
pub(crate) struct Standing(Arc<Inner>);

impl Drop for Standing {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
