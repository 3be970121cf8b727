//! Checking a log against its chains, record by record.

use std::{collections::HashMap, sync::Arc};

use super::{Anchor, Hash, START};
use crate::{digest::hex, log::Entry};

/// The most faults that are reported; a log with more is hopeless anyway.
const MOST_FAULTS: usize = 1_000;

/// A place where a log differs from what was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("record {0} is not in the form it was written in")]
    Form(i64),
    #[error("record {0} was changed after it was written")]
    Changed(i64),
    #[error("before record {0} something of the log is missing")]
    Missing(i64),
    #[error("the log once ended with record {0}, which is missing")]
    CutOff(i64),
    #[error("searches do not find record {0}: the summary of its block was changed")]
    Summary(i64),
}

impl Fault {
    /// The number of the record concerned.
    pub fn sequence(&self) -> i64 {
        let (Fault::Form(sequence)
        | Fault::Changed(sequence)
        | Fault::Missing(sequence)
        | Fault::CutOff(sequence)
        | Fault::Summary(sequence)) = self;
        *sequence
    }
}

/// The result of checking a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    pub records: u64,
    /// In the order of the records; at most a thousand.
    pub faults: Vec<Fault>,
    /// The last record that was pruned, if any was.
    pub pruned_through: Option<i64>,
}

/// Checks records in the order they were written.
#[derive(Debug, Default)]
pub(crate) struct Verifier {
    /// By writer: the hash of its last record seen.
    last: HashMap<Arc<str>, Hash>,
    /// Chains whose first record here is not their beginning: its number, its writer, and
    /// the hash of its predecessor. Only an anchor can explain these.
    cut: Vec<(i64, Arc<str>, Hash)>,
    /// The newest anchor seen.
    anchor: Option<Anchor>,
    /// The noted end of the log, until its record is seen.
    end: Option<(i64, Hash)>,
    first: Option<i64>,
    previous: Option<i64>,
    records: u64,
    faults: Vec<Fault>,
}

impl Verifier {
    /// A check of a log that is known to have reached `end`, a record's number and hash.
    pub(crate) fn new(end: Option<(i64, Hash)>) -> Verifier {
        Verifier { end, ..Verifier::default() }
    }

    /// Checks the record with this number; `None` if it could not be read.
    pub(crate) fn check(&mut self, number: i64, entry: Option<&Entry>) {
        self.records += 1;
        self.first.get_or_insert(number);
        // Numbers have no gaps, so removing a whole chain is noticed too.
        let before = self.previous.replace(number);
        let is_next = before.is_none_or(|last| last + 1 == number);
        // A fault of the record itself is reported below.
        let is_end = |(end, hash)| end == number && entry.is_none_or(|entry| entry.hash == hash);
        self.end = self.end.filter(|end| !is_end(*end));
        let Some(entry) = entry else {
            self.report(Fault::Form(number));
            return;
        };
        if !entry.is_intact() {
            self.report(Fault::Changed(number));
        } else if let Some(anchor) = &entry.record.anchor {
            self.anchor = Some(anchor.clone());
        }
        let follows = self.follow(number, entry);
        if !(is_next && follows) {
            self.report(Fault::Missing(number));
        }
    }

    /// Whether the record follows its predecessor in its chain, as far as it is known
    /// yet.
    fn follow(&mut self, number: i64, entry: &Entry) -> bool {
        let Entry { writer, prev, hash, .. } = entry;
        if let Some(expected) = self.last.insert(Arc::clone(writer), *hash) {
            return expected == *prev;
        }
        if *prev != START {
            self.cut.push((number, Arc::clone(writer), *prev));
        }
        true
    }

    /// Adds a fault, unless there are very many.
    pub(crate) fn report(&mut self, fault: Fault) {
        if self.faults.len() < MOST_FAULTS {
            self.faults.push(fault);
        }
    }

    /// The result for the newest part of a log, whose beginning is not checked.
    pub(crate) fn finish_part(mut self) -> Verified {
        // If the end is before the first record, it was pruned or is not in this part.
        let end = self.end.map(|(end, _)| end);
        if let Some(end) = end.filter(|end| self.first.is_none_or(|first| first <= *end)) {
            self.report(Fault::CutOff(end));
        }
        let pruned_through = self.anchor.map(|anchor| anchor.through);
        Verified { records: self.records, faults: self.faults, pruned_through }
    }

    /// The result for a whole log. It must begin with its first record, or where its
    /// newest anchor says.
    pub(crate) fn finish(mut self) -> Verified {
        let anchor = self.anchor.clone().unwrap_or_default();
        let mut missing: Vec<i64> =
            self.first.filter(|first| *first != anchor.through + 1).into_iter().collect();
        for (sequence, writer, previous) in std::mem::take(&mut self.cut) {
            let anchored = anchor.chains.get(&*writer);
            if anchored.is_none_or(|end| end.hash != hex(&previous)) {
                missing.push(sequence);
            }
        }
        for sequence in missing {
            let fault = Fault::Missing(sequence);
            if !self.faults.contains(&fault) {
                self.report(fault);
            }
        }
        self.faults.sort_by_key(Fault::sequence);
        self.finish_part()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sluice_policy::Timestamp;

    use super::{Fault, Verifier};
    use crate::{
        chain::{Anchor, Chain, ChainEnd},
        digest::hex,
        id::new_id,
        log::{Cursor, Entry},
        record::{Kind, Record},
    };

    fn record(number: i64) -> Record {
        let at = Timestamp::from_millis(number);
        let mut record = Record::new(new_id(at), at, Kind::Decision);
        record.message = Some(format!("r{number:02}"));
        record
    }

    fn entry(chain: &mut Chain, number: i64, record: Record) -> Entry {
        let prev = *chain.last();
        chain.link(&mut record.text());
        let (writer, hash) = (Arc::clone(chain.writer()), *chain.last());
        Entry { cursor: Cursor(number), record, writer, prev, hash }
    }

    /// Ten records by two writers in turn.
    fn log() -> Vec<Entry> {
        let mut chains = [Chain::begin(), Chain::begin()];
        (1..=10)
            .map(|number| entry(&mut chains[usize::from(number % 2 == 0)], number, record(number)))
            .collect()
    }

    /// The log without its first `count` records, with an anchor at its end.
    fn pruned(count: usize) -> Vec<Entry> {
        let mut log = log();
        let mut anchor = Anchor::default();
        for entry in log.drain(..count) {
            anchor.through = entry.cursor.0;
            let end = ChainEnd { seq: entry.cursor.0, hash: hex(&entry.hash) };
            anchor.chains.insert(entry.writer.to_string(), end);
        }
        let record = Record { anchor: Some(anchor), ..record(11) };
        log.push(entry(&mut Chain::begin(), 11, record));
        log
    }

    fn faults(log: &[Entry]) -> Vec<Fault> {
        let mut verifier = Verifier::default();
        for entry in log {
            verifier.check(entry.cursor.0, Some(entry));
        }
        verifier.finish().faults
    }

    #[test]
    fn a_log_as_written_verifies() {
        assert_eq!(faults(&log()), []);
        assert_eq!(faults(&pruned(4)), []);
    }

    #[test]
    fn a_changed_record_is_detected() {
        let mut changed = log();
        changed[4].record.message = Some("rXX".into());
        assert_eq!(faults(&changed), [Fault::Changed(5)]);
        // A new hash for the changed record does not hide the change.
        let mut chain = Chain::after(&changed[4].writer, changed[4].prev);
        changed[4] = entry(&mut chain, 5, changed[4].record.clone());
        assert_eq!(faults(&changed), [Fault::Missing(7)]);
    }

    #[test]
    fn an_unreadable_record_is_detected() {
        let mut verifier = Verifier::default();
        for entry in log() {
            let number = entry.cursor.0;
            verifier.check(number, Some(&entry).filter(|_| number != 3));
        }
        assert_eq!(verifier.finish().faults, [Fault::Form(3), Fault::Missing(5)]);
    }

    #[test]
    fn removed_records_are_detected_even_if_the_rest_is_renumbered() {
        let mut cut = log();
        cut.remove(2);
        assert_eq!(faults(&cut), [Fault::Missing(4), Fault::Missing(5)]);
        (1..).zip(&mut cut).for_each(|(number, entry)| entry.cursor = Cursor(number));
        assert_eq!(faults(&cut), [Fault::Missing(4)]);
        let chain: Vec<_> = log().into_iter().filter(|entry| entry.cursor.0 % 2 == 1).collect();
        assert_eq!(faults(&chain).len(), 4);
    }

    #[test]
    fn a_log_without_its_beginning_is_not_mistaken_for_a_pruned_one() {
        assert_eq!(faults(&log()[4..]), [Fault::Missing(5), Fault::Missing(6)]);
        let cut = &pruned(4)[1..];
        assert_eq!(faults(cut), [Fault::Missing(6), Fault::Missing(7)]);
        // Without its anchor it is only cut short.
        assert_eq!(faults(&pruned(4)[..6]), [Fault::Missing(5), Fault::Missing(6)]);
    }

    /// Recorded argument values are text that the caller chose.
    #[test]
    fn a_caller_cannot_forge_an_anchor() {
        let forged = r#"{"args.x":{"y":1,"anchor":{"through":2,"chains":{}}}}"#;
        let mut cut = log().split_off(4);
        let record = Record { arg_values: Some(forged.into()), ..record(11) };
        cut.push(entry(&mut Chain::begin(), 11, record));
        assert_eq!(faults(&cut), [Fault::Missing(5), Fault::Missing(6)]);
    }
}
