//! Holds the current snapshot and the grants, swaps them, and notifies watchers of changes.

use std::sync::Arc;

use arc_swap::ArcSwap;
use sluice_policy::Timestamp;
use sluice_store::{Grant, TokenHash};
use tokio::sync::watch;

use crate::{
    grants::{Grants, Holder},
    settings::Settings,
    snapshot::{ApplyError, Builtins, Configuration, ServerState, Snapshot},
};

/// The value of the change counter that means that the gateway is closing.
const CLOSING: u64 = u64::MAX;

/// See the module.
#[derive(Debug)]
pub(crate) struct LiveConfig {
    snapshot: ArcSwap<Snapshot>,
    grants: Grants,
    /// Counts changes of the configuration.
    changes: watch::Sender<u64>,
    builtins: Builtins,
}

/// Waits for changes of the configuration.
#[derive(Debug)]
pub(crate) struct Changes(watch::Receiver<u64>);

impl Changes {
    /// Waits for the next change; `None` if there will be no more.
    pub(crate) async fn next(&mut self) -> Option<()> {
        self.0.changed().await.ok()
    }

    /// Whether the gateway is closing. Marks all changes so far as seen.
    pub(crate) fn is_closing(&mut self) -> bool {
        *self.0.borrow_and_update() == CLOSING
    }
}

impl LiveConfig {
    /// An empty configuration.
    pub(crate) fn new(builtins: Builtins) -> LiveConfig {
        LiveConfig {
            snapshot: ArcSwap::default(),
            grants: Grants::default(),
            changes: watch::channel(0).0,
            builtins,
        }
    }

    /// Applies a configuration, as a whole or not at all.
    pub(crate) fn apply(
        &self,
        configuration: &Configuration,
        settings: &Settings,
    ) -> Result<(), ApplyError> {
        let before = self.snapshot.load_full();
        let next = Arc::new(Snapshot::build(configuration, &before, settings, &self.builtins)?);
        self.snapshot.store(Arc::clone(&next));
        next.take_effect(configuration, &before);
        self.grants.replace(&configuration.grants);
        self.announce();
        Ok(())
    }

    /// Adds or replaces the grant of a token, or removes it.
    pub(crate) fn set_grant(&self, token: &TokenHash, grant: Option<&Grant>) {
        self.grants.set(token, grant);
        self.announce();
    }

    /// Activates servers that are in no configuration, for a holder that is not a stored
    /// grant.
    pub(crate) fn hold(&self, snapshot: Snapshot, token: &TokenHash, holder: &Arc<Holder>) {
        self.snapshot.store(Arc::new(snapshot));
        self.grants.hold(token, holder);
    }

    /// The server of that name.
    pub(crate) fn server(&self, name: &str) -> Option<Arc<ServerState>> {
        self.snapshot.load().server(name).cloned()
    }

    /// The servers of a grant that exist, in the grant's order.
    pub(crate) fn servers_of(&self, holder: &Holder) -> Vec<Arc<ServerState>> {
        let snapshot = self.snapshot.load();
        holder.servers.iter().filter_map(|name| snapshot.server(name.as_str()).cloned()).collect()
    }

    /// How many secrets were removed from the answers of each server.
    pub(crate) fn count_masked(&self) -> Vec<(Arc<str>, u64)> {
        self.snapshot
            .load()
            .servers()
            .map(|link| (Arc::clone(&link.name), link.count_masked()))
            .collect()
    }

    /// The grant a token belongs to, valid or not.
    pub(crate) fn grant(&self, token: &TokenHash) -> Option<Arc<Holder>> {
        self.grants.find(token)
    }

    /// The grants that were used since the last time, and when.
    pub(crate) fn take_uses(&self) -> Vec<(String, Timestamp)> {
        self.grants.take_uses()
    }

    /// Watches for changes from now on.
    pub(crate) fn changes(&self) -> Changes {
        Changes(self.changes.subscribe())
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.changes.borrow() == CLOSING
    }

    /// Ends streams that would never end by themselves.
    pub(crate) fn close(&self) {
        self.changes.send_replace(CLOSING);
    }

    fn announce(&self) {
        self.changes.send_modify(|count| *count = count.saturating_add(1).min(CLOSING - 1));
    }
}
