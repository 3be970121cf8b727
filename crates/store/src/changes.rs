//! Notification of registry changes, made by this process or by others.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::{StoreError, store::Store};

/// How often the registry is checked for changes by other processes.
const POLL: Duration = Duration::from_millis(250);

/// A change of the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The registry's epoch after the change.
    pub epoch: u64,
    /// Whether another process made the change, or part of it.
    pub is_foreign: bool,
}

/// The registry's epoch as this process knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Known {
    epoch: u64,
    /// The newest epoch that includes a change by another process.
    foreign: u64,
}

/// Notifies subscribers of changes.
#[derive(Debug)]
pub(crate) struct Announcer(watch::Sender<Known>);

impl Announcer {
    pub(crate) fn new(epoch: u64) -> Announcer {
        Announcer(watch::Sender::new(Known { epoch, foreign: 0 }))
    }

    /// Announces that this process made the change that ends with this epoch.
    pub(crate) fn announce_own(&self, epoch: u64) {
        self.0.send_if_modified(|known| known.advance(epoch, known.epoch + 1 != epoch));
    }

    /// Announces the epoch that was read from the registry.
    fn announce_found(&self, epoch: u64) {
        self.0.send_if_modified(|known| known.advance(epoch, true));
    }
}

impl Known {
    fn advance(&mut self, epoch: u64, is_foreign: bool) -> bool {
        if epoch <= self.epoch {
            return false;
        }
        self.epoch = epoch;
        if is_foreign {
            self.foreign = epoch;
        }
        true
    }
}

/// A stream of changes. Changes in quick succession may be coalesced.
#[derive(Debug)]
pub struct Changes {
    store: Store,
    announcer: Arc<Announcer>,
    known: watch::Receiver<Known>,
    seen: u64,
}

impl Changes {
    /// Waits for the next change. An error means that the registry could not be checked;
    /// the next call checks again.
    pub async fn next(&mut self) -> Result<Change, StoreError> {
        loop {
            let known = *self.known.borrow_and_update();
            if known.epoch > self.seen {
                let is_foreign = known.foreign > self.seen;
                self.seen = known.epoch;
                return Ok(Change { epoch: known.epoch, is_foreign });
            }
            // This struct holds the announcer, so the channel never closes.
            let told = tokio::time::timeout(POLL, self.known.changed()).await;
            if told.is_err() {
                self.announcer.announce_found(self.store.epoch().await?);
            }
        }
    }
}

impl Store {
    /// The changes of the registry after `epoch`, which is a snapshot's.
    pub fn changes(&self, epoch: u64) -> Changes {
        let announcer = Arc::clone(&self.announcer);
        let known = announcer.0.subscribe();
        Changes { store: self.clone(), announcer, known, seen: epoch }
    }
}
