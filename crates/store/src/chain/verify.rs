//! Checking a log against its chain, record by record.

use super::{Anchor, ChainEnd, ChainKey, Hash};
use crate::{digest::hex, head::Disagreement, log::Entry, signed_head::SignedHead};

/// The most faults that are reported; a log with more is hopeless anyway.
const MOST_FAULTS: usize = 1_000;

/// A place where the store differs from what was written. The number in it is for display: it
/// names a record in reports, and no operation of the store takes it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("record {0} is not in the form it was written in")]
    Form(i64),
    #[error("record {0} was changed, moved or forged")]
    Changed(i64),
    #[error("before record {0} something of the log is missing")]
    Missing(i64),
    #[error("searches do not find record {0}: the summary of its block was changed")]
    Summary(i64),
    /// The log, or another part of the database, is not what its head says.
    #[error(transparent)]
    Head(#[from] Disagreement),
    #[error("the database's schema was changed: {0}")]
    Schema(String),
}

impl Fault {
    /// The number of the record concerned, or 0 if it is not about one.
    pub fn sequence(&self) -> i64 {
        match self {
            Fault::Form(seq) | Fault::Changed(seq) | Fault::Missing(seq) | Fault::Summary(seq) => {
                *seq
            }
            Fault::Head(disagreement) => disagreement.sequence(),
            Fault::Schema(_) => 0,
        }
    }
}

/// The result of checking a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    pub records: u64,
    /// In the order of the records; at most a thousand.
    pub faults: Vec<Fault>,
    /// The number of the last record that was pruned, if any was; for display.
    pub pruned_through: Option<i64>,
    /// Where the log ends; `None` if that is not what was written, or the store is in memory.
    pub head: Option<SignedHead>,
}

/// Checks records in the order they were written.
#[derive(Debug)]
pub(crate) struct Verifier<'k> {
    key: &'k ChainKey,
    /// The record before the next one, if it is known.
    previous: Option<ChainEnd>,
    /// The last pruned record, as the store has noted it.
    pruned: ChainEnd,
    /// The newest anchor seen.
    anchor: Option<Anchor>,
    /// The first record seen.
    first: Option<i64>,
    records: u64,
    faults: Vec<Fault>,
}

impl Verifier<'_> {
    /// A check of a whole log, whose last pruned record is `pruned`.
    pub(crate) fn new(key: &ChainKey, pruned: ChainEnd) -> Verifier<'_> {
        Verifier { previous: Some(pruned), ..Verifier::of_part(key, pruned) }
    }

    /// A check of a part of a log. What precedes its first record is not checked.
    pub(crate) fn of_part(key: &ChainKey, pruned: ChainEnd) -> Verifier<'_> {
        let (previous, anchor, first) = (None, None, None);
        Verifier { key, previous, pruned, anchor, first, records: 0, faults: Vec::new() }
    }

    /// Checks the record with this number; `None` if it could not be read. Its hash is
    /// `hash`.
    pub(crate) fn check(&mut self, seq: i64, hash: Option<Hash>, entry: Option<Entry>) {
        self.records += 1;
        self.first.get_or_insert(seq);
        let before = self.previous.replace(ChainEnd { seq, hash: hash.unwrap_or_default() });
        // Numbers have no gaps, so removing records from the middle is noticed too.
        if before.is_some_and(|before| before.seq + 1 != seq) {
            self.report(Fault::Missing(seq));
        }
        let Some(mut entry) = entry else {
            self.report(Fault::Form(seq));
            return;
        };
        // After a gap the record may still be whole: then its stored predecessor is gone.
        if let Some(before) = before.filter(|before| before.seq + 1 == seq) {
            entry.prev = before.hash;
            if !entry.is_intact(self.key) {
                self.report(Fault::Changed(seq));
                return;
            }
        }
        if let Some(anchor) = entry.record.anchor {
            self.anchor = Some(anchor);
        }
    }

    /// The last record that was checked.
    pub(crate) fn last(&self) -> Option<ChainEnd> {
        self.previous
    }

    /// Adds a fault, unless there are very many.
    pub(crate) fn report(&mut self, fault: Fault) {
        if self.faults.len() < MOST_FAULTS {
            self.faults.push(fault);
        }
    }

    /// The result for a part of a log.
    pub(crate) fn finish_part(self) -> Verified {
        let pruned_through = Some(self.pruned.seq).filter(|through| *through > 0);
        Verified { records: self.records, faults: self.faults, pruned_through, head: None }
    }

    /// The result for a whole log. It must begin with its first record, or where its
    /// newest anchor says.
    pub(crate) fn finish(mut self) -> Verified {
        let ChainEnd { seq, hash } = self.pruned;
        let is_anchored = match &self.anchor {
            None => self.pruned == ChainEnd::NONE,
            Some(anchor) => anchor.through == seq && anchor.hash == hex(&hash),
        };
        let fault = Fault::Missing(self.first.unwrap_or(seq + 1));
        if !is_anchored && !self.faults.contains(&fault) {
            self.report(fault);
        }
        // What concerns no record comes last.
        self.faults.sort_by_key(|fault| (fault.sequence() == 0, fault.sequence()));
        self.finish_part()
    }
}

#[cfg(test)]
mod tests {
    use sluice_policy::Timestamp;

    use super::{Fault, Verifier};
    use crate::{
        chain::{Anchor, ChainEnd, ChainKey, push_link},
        digest::hex,
        id::new_id,
        key::Key,
        log::{Cursor, Entry},
        record::{Kind, Record},
    };

    fn key() -> ChainKey {
        ChainKey::derive(&Key::from_bytes([7; 32]))
    }

    fn record(number: i64) -> Record {
        let at = Timestamp::from_millis(number);
        let mut record = Record::new(new_id(at), at, Kind::Decision);
        record.message = Some(format!("r{number:02}"));
        record
    }

    /// The record after `before`, by one of two writers.
    fn entry(key: &ChainKey, before: ChainEnd, record: Record) -> Entry {
        let seq = before.seq + 1;
        let writer = if seq % 2 == 0 { "even" } else { "odd" };
        let mut text = record.text();
        push_link(&mut text, writer, &before.hash);
        let hash = key.hash(&text, None);
        let (cursor, prev) = (Cursor(seq), before.hash);
        Entry { cursor, record, writer: writer.into(), charges: None, prev, hash }
    }

    fn end(log: &[Entry]) -> ChainEnd {
        let last = log.last().map(|last| ChainEnd { seq: last.cursor.0, hash: last.hash });
        last.unwrap_or(ChainEnd::NONE)
    }

    /// Ten records by two writers in turn.
    fn log() -> Vec<Entry> {
        (1..=10).fold(Vec::new(), |mut log, number| {
            log.push(entry(&key(), end(&log), record(number)));
            log
        })
    }

    /// The log without its first `count` records, with an anchor at its end.
    fn prune(count: usize) -> (ChainEnd, Vec<Entry>) {
        let mut log = log();
        let pruned = end(&log[..count]);
        let anchor = Anchor { through: pruned.seq, hash: hex(&pruned.hash) };
        log.drain(..count);
        log.push(entry(&key(), end(&log), Record { anchor: Some(anchor), ..record(11) }));
        (pruned, log)
    }

    fn faults(pruned: ChainEnd, log: &[Entry]) -> Vec<Fault> {
        let key = key();
        let mut verifier = Verifier::new(&key, pruned);
        for entry in log {
            verifier.check(entry.cursor.0, Some(entry.hash), Some(entry.clone()));
        }
        verifier.finish().faults
    }

    #[test]
    fn a_log_as_written_verifies() {
        assert_eq!(faults(ChainEnd::NONE, &log()), []);
        let (pruned, log) = prune(4);
        assert_eq!(faults(pruned, &log), []);
    }

    #[test]
    fn a_changed_record_is_detected() {
        let mut changed = log();
        changed[4].record.message = Some("rXX".into());
        assert_eq!(faults(ChainEnd::NONE, &changed), [Fault::Changed(5)]);
        // A new hash for the changed record does not hide the change, even by who has the key.
        changed[4] = entry(&key(), end(&changed[..4]), changed[4].record.clone());
        assert_eq!(faults(ChainEnd::NONE, &changed), [Fault::Changed(6)]);
    }

    #[test]
    fn a_record_that_is_forged_without_the_key_is_detected() {
        let mut forged = log();
        let other = ChainKey::derive(&Key::from_bytes([8; 32]));
        forged.push(entry(&other, end(&forged), record(11)));
        assert_eq!(faults(ChainEnd::NONE, &forged), [Fault::Changed(11)]);
    }

    #[test]
    fn an_unreadable_record_is_detected() {
        let key = key();
        let mut verifier = Verifier::new(&key, ChainEnd::NONE);
        for entry in log() {
            let seq = entry.cursor.0;
            verifier.check(seq, Some(entry.hash), Some(entry).filter(|_| seq != 3));
        }
        assert_eq!(verifier.finish().faults, [Fault::Form(3)]);
    }

    #[test]
    fn removed_and_swapped_records_are_detected_even_if_the_rest_is_renumbered() {
        let renumber = |log: &mut [Entry]| {
            (1..).zip(log).for_each(|(number, entry)| entry.cursor = Cursor(number));
        };
        let mut cut = log();
        cut.remove(2);
        assert_eq!(faults(ChainEnd::NONE, &cut), [Fault::Missing(4)]);
        renumber(&mut cut);
        assert_eq!(faults(ChainEnd::NONE, &cut), [Fault::Changed(3)]);
        let mut of_one_writer: Vec<_> = log().into_iter().step_by(2).collect();
        renumber(&mut of_one_writer);
        assert_eq!(faults(ChainEnd::NONE, &of_one_writer).len(), 4);
        let mut swapped = log();
        swapped.swap(3, 4);
        renumber(&mut swapped);
        assert_eq!(faults(ChainEnd::NONE, &swapped), [4, 5, 6].map(Fault::Changed));
    }

    #[test]
    fn a_log_without_its_beginning_is_not_mistaken_for_a_pruned_one() {
        let whole = log();
        assert_eq!(faults(ChainEnd::NONE, &whole[4..]), [Fault::Missing(5)]);
        assert_eq!(faults(end(&whole[..4]), &whole[4..]), [Fault::Missing(5)]);
        let (pruned, log) = prune(4);
        assert_eq!(faults(pruned, &log[1..]), [Fault::Missing(6)]);
        assert_eq!(faults(ChainEnd { seq: 5, hash: log[0].hash }, &log[1..]), [Fault::Missing(6)]);
        // Without its anchor it is only cut short.
        assert_eq!(faults(pruned, &log[..6]), [Fault::Missing(5)]);
    }

    /// Recorded argument values are text that the caller chose.
    #[test]
    fn a_caller_cannot_forge_an_anchor() {
        let forged = r#"{"args.x":{"y":1,"anchor":{"through":2,"hash":""}}}"#;
        let mut cut = log();
        let pruned = end(&cut[..4]);
        cut.drain(..4);
        let record = Record { arg_values: Some(forged.into()), ..record(11) };
        cut.push(entry(&key(), end(&cut), record));
        assert_eq!(faults(pruned, &cut), [Fault::Missing(5)]);
    }
}
