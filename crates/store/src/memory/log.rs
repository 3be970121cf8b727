//! The log of the in-memory back-end.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use sluice_policy::Timestamp;

use super::Memory;
use crate::{
    StoreError,
    chain::{self, Anchor, Chain, ChainEnd, Verified, Verifier},
    digest::hex,
    id,
    log::{Cursor, Entry, Filter, Page},
    record::{Kind, Record},
};

/// All records, the oldest first, and their chain.
pub(super) struct Records {
    entries: VecDeque<Entry>,
    chain: Chain,
    newest: i64,
    /// The last pruned record of each writer.
    ends: BTreeMap<Arc<str>, ChainEnd>,
    /// Total bytes of the exported texts.
    size: usize,
}

impl Default for Records {
    fn default() -> Records {
        let (entries, chain) = (VecDeque::new(), Chain::begin());
        Records { entries, chain, newest: 0, ends: BTreeMap::new(), size: 0 }
    }
}

impl Records {
    pub(super) fn append(&mut self, record: Record) {
        let prev = *self.chain.last();
        let mut text = record.text();
        self.chain.link(&mut text);
        let (writer, hash) = (Arc::clone(self.chain.writer()), *self.chain.last());
        chain::close(&mut text, &hash);
        self.newest += 1;
        self.size += text.len();
        self.entries.push_back(Entry { cursor: Cursor(self.newest), record, writer, prev, hash });
    }

    /// Removes records from the front as long as the limits require; returns how many.
    fn prune(&mut self, oldest: Timestamp, max_size: usize, now: Timestamp) -> u64 {
        let mut pruned = 0;
        let mut through = 0;
        while let Some(entry) = self.entries.front() {
            if entry.record.at >= oldest && self.size <= max_size {
                break;
            }
            let Some(entry) = self.entries.pop_front() else { break };
            (through, pruned) = (entry.cursor.0, pruned + 1);
            self.size -= self.size.min(entry.text().len());
            let end = ChainEnd { seq: through, hash: hex(&entry.hash) };
            self.ends.insert(entry.writer, end);
        }
        if pruned > 0 {
            self.lay_anchor(through, now);
        }
        pruned
    }

    fn lay_anchor(&mut self, through: i64, now: Timestamp) {
        let entries = &self.entries;
        self.ends.retain(|writer, _| entries.iter().any(|entry| entry.writer == *writer));
        if !self.ends.contains_key(self.chain.writer()) {
            // A chain of which every record was pruned is not continued.
            self.chain = Chain::begin();
        }
        let ends = self.ends.iter().map(|(writer, end)| (writer.to_string(), end.clone()));
        let anchor = Anchor { through, chains: ends.collect() };
        self.append(Record {
            message: Some(format!("records up to {through} were pruned")),
            anchor: Some(anchor),
            ..Record::new(id::new_id(now), now, Kind::Admin)
        });
    }
}

impl Memory {
    pub(crate) fn page(&self, filter: &Filter, limit: usize) -> Page {
        let state = self.lock();
        let entries = state.records.entries.iter().filter(|entry| filter.matches(entry)).cloned();
        let found = if filter.newest_first {
            entries.rev().take(limit.saturating_add(1)).collect()
        } else {
            entries.take(limit.saturating_add(1)).collect()
        };
        Page::of(found, limit)
    }

    pub(crate) fn verify(&self) -> Verified {
        let state = self.lock();
        let mut verifier = Verifier::default();
        for entry in &state.records.entries {
            verifier.check(entry.cursor.0, Some(entry));
        }
        verifier.finish()
    }

    pub(crate) fn prune(&self, keep: Duration, max_size: u64) -> Result<u64, StoreError> {
        // Expired calls are removed below, but each must have a record of its expiry
        // first.
        self.expire()?;
        let now = self.clock.now();
        let keep = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
        let oldest = Timestamp::from_millis(now.as_millis().saturating_sub(keep));
        let mut state = self.open()?;
        state.approvals.retain(|_, held| held.approval.expires_at >= oldest);
        Ok(state.records.prune(oldest, usize::try_from(max_size).unwrap_or(usize::MAX), now))
    }
}
