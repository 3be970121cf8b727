//! Leases: the places that calls in progress take.

use std::collections::{BTreeMap, HashMap};

use crate::{
    counter::{CounterKey, Lease},
    id::Id,
};

/// The calls in progress, by request and by what they share places with.
#[derive(Debug, Default)]
pub(super) struct LeaseCounts {
    held: BTreeMap<Id, Vec<CounterKey>>,
    counts: HashMap<CounterKey, u64>,
}

impl LeaseCounts {
    /// How many calls are in progress for each lease.
    pub(super) fn count(&self, leases: &[Lease]) -> Vec<u64> {
        let count = |lease: &Lease| self.counts.get(&lease.key).copied().unwrap_or_default();
        leases.iter().map(count).collect()
    }

    /// Whether there is a place for each.
    pub(super) fn fit(&self, leases: &[Lease]) -> bool {
        self.count(leases).iter().zip(leases).all(|(count, lease)| *count < lease.max)
    }

    pub(super) fn take(&mut self, id: Id, leases: Vec<Lease>) {
        if leases.is_empty() {
            return;
        }
        let keys: Vec<_> = leases.into_iter().map(|lease| lease.key).collect();
        for key in &keys {
            *self.counts.entry(key.clone()).or_default() += 1;
        }
        self.held.insert(id, keys);
    }

    pub(super) fn give_back(&mut self, id: Id) {
        for key in self.held.remove(&id).unwrap_or_default() {
            let Some(count) = self.counts.get_mut(&key) else { continue };
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.counts.remove(&key);
            }
        }
    }
}
