//! The log of the in-memory back-end.

use std::{collections::VecDeque, sync::Arc};

use sluice_policy::Timestamp;

use super::Memory;
use crate::{
    StoreError,
    actor::Actor,
    chain::{self, Anchor, ChainEnd, ChainKey, Verified, Verifier},
    digest::hex,
    id,
    key::Key,
    log::{Cursor, Entry, Filter, Page},
    log_space::{LogUse, Retention},
    record::{Kind, Record},
};

/// All records, the oldest first, and their chain.
pub(super) struct Records {
    entries: VecDeque<Entry>,
    key: ChainKey,
    writer: Arc<str>,
    end: ChainEnd,
    /// The last pruned record.
    pruned: ChainEnd,
    /// Total bytes of the exported texts.
    size: usize,
    pub(super) used: LogUse,
}

impl Records {
    pub(super) fn new(max_size: u64) -> Records {
        Records {
            entries: VecDeque::new(),
            // Who can change the records of this process can also read its keys.
            key: ChainKey::derive(&Key::from_bytes([0; 32])),
            writer: chain::new_writer(),
            end: ChainEnd::NONE,
            pruned: ChainEnd::NONE,
            size: 0,
            used: LogUse::new(max_size),
        }
    }

    pub(super) fn append(&mut self, record: Record) {
        let ChainEnd { seq, hash: prev } = self.end;
        let mut text = record.text();
        chain::push_link(&mut text, &self.writer, &prev);
        let hash = self.key.hash(&text, None);
        chain::close(&mut text, &hash);
        self.end = ChainEnd { seq: seq + 1, hash };
        self.size += text.len();
        self.used.add(&record, text.len());
        let (cursor, writer) = (Cursor(self.end.seq), Arc::clone(&self.writer));
        self.entries.push_back(Entry { cursor, record, writer, charges: None, prev, hash });
    }

    /// Removes records from the front as long as the limits require; returns how many.
    fn prune(&mut self, retention: Retention, now: Timestamp) -> u64 {
        let (oldest, oldest_for_size) = retention.cutoffs(now);
        let max_size = usize::try_from(retention.max_size).unwrap_or(usize::MAX);
        let mut pruned = 0;
        while let Some(entry) = self.entries.front() {
            let cutoff = if self.size > max_size { oldest_for_size } else { oldest };
            if entry.record.at >= cutoff {
                break;
            }
            let Some(entry) = self.entries.pop_front() else { break };
            pruned += 1;
            self.size -= self.size.min(entry.text().len());
            self.pruned = ChainEnd { seq: entry.cursor.0, hash: entry.hash };
        }
        if pruned > 0 {
            self.lay_anchor(now);
        }
        self.used.clear();
        let must_stay = |entry: &&Entry| entry.record.at >= oldest_for_size;
        for entry in self.entries.iter().filter(must_stay) {
            self.used.add(&entry.record, entry.text().len());
        }
        pruned
    }

    fn lay_anchor(&mut self, now: Timestamp) {
        let ChainEnd { seq: through, hash } = self.pruned;
        self.append(Record {
            message: Some(format!("records up to {through} were pruned")),
            anchor: Some(Anchor { through, hash: hex(&hash) }),
            actor: Some(Actor::gateway()),
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
        let mut verifier = Verifier::new(&state.records.key, state.records.pruned);
        for entry in &state.records.entries {
            verifier.check(entry.cursor.0, Some(entry.hash), Some(entry.clone()));
        }
        verifier.finish()
    }

    pub(crate) fn prune(&self, retention: Retention) -> Result<u64, StoreError> {
        // Expired calls are removed below, but each must have a record of its expiry
        // first.
        self.expire()?;
        let mut state = self.open()?;
        let now = self.look_at_clock(&mut state);
        if state.time.distrust().is_some() {
            return Ok(0);
        }
        let (oldest, _) = retention.cutoffs(now);
        state.approvals.retain(|_, held| held.approval.expires_at >= oldest);
        Ok(state.records.prune(retention, now))
    }
}
