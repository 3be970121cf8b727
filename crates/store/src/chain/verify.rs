//! Checking a log against its chains, record by record.

use std::collections::HashMap;

use super::{Anchor, Link, START};
use crate::digest::hex;

/// Faults that are told one by one; a log with more is beyond that.
const MOST_FAULTS: usize = 1_000;

/// Where a log is not what was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("record {0} is not in the form it was written in")]
    Form(i64),
    #[error("record {0} was changed after it was written")]
    Changed(i64),
    #[error("before record {0} something of the log is missing")]
    Missing(i64),
}

impl Fault {
    /// The record it is about.
    pub fn sequence(&self) -> i64 {
        let (Fault::Form(sequence) | Fault::Changed(sequence) | Fault::Missing(sequence)) = self;
        *sequence
    }
}

/// What checking a log found.
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
    last: HashMap<String, [u8; 32]>,
    /// Chains that do not begin with their first record: where, whose, and what
    /// the record before hashes to. Only an anchor can account for those.
    cut: Vec<(i64, String, [u8; 32])>,
    /// The newest one seen.
    anchor: Option<Anchor>,
    first: Option<i64>,
    previous: Option<i64>,
    records: u64,
    faults: Vec<Fault>,
}

impl Verifier {
    pub(crate) fn check(&mut self, sequence: i64, text: &str) {
        self.records += 1;
        self.first.get_or_insert(sequence);
        // Numbers have no gaps, so that a whole chain cannot be taken out either.
        let is_next = self.previous.replace(sequence).is_none_or(|last| last + 1 == sequence);
        let Some(link) = Link::of(text) else {
            self.fault(Fault::Form(sequence));
            return;
        };
        if !link.is_true() {
            self.fault(Fault::Changed(sequence));
        } else if let Some(anchor) = Anchor::of(text) {
            self.anchor = Some(anchor);
        }
        let follows = self.follow(sequence, &link);
        if !(is_next && follows) {
            self.fault(Fault::Missing(sequence));
        }
    }

    /// Whether the record follows the last one of its chain, as far as is known yet.
    fn follow(&mut self, sequence: i64, link: &Link<'_>) -> bool {
        if let Some(last) = self.last.get_mut(link.writer) {
            let expected = std::mem::replace(last, link.hash);
            return expected == link.previous;
        }
        self.last.insert(link.writer.to_owned(), link.hash);
        if link.previous != START {
            self.cut.push((sequence, link.writer.to_owned(), link.previous));
        }
        true
    }

    fn fault(&mut self, fault: Fault) {
        if self.faults.len() < MOST_FAULTS {
            self.faults.push(fault);
        }
    }

    /// What was found in the newest part of a log, whose beginning is not known.
    pub(crate) fn finish_part(self) -> Verified {
        let pruned_through = self.anchor.map(|anchor| anchor.through);
        Verified { records: self.records, faults: self.faults, pruned_through }
    }

    /// What was found in a whole log: it begins with its first record, or where
    /// its newest anchor says.
    pub(crate) fn finish(mut self) -> Verified {
        let anchor = self.anchor.clone().unwrap_or_default();
        let mut missing: Vec<i64> =
            self.first.filter(|first| *first != anchor.through + 1).into_iter().collect();
        for (sequence, writer, previous) in std::mem::take(&mut self.cut) {
            let anchored = anchor.chains.get(&writer);
            if anchored.is_none_or(|(_, hash)| *hash != hex(&previous)) {
                missing.push(sequence);
            }
        }
        for sequence in missing {
            let fault = Fault::Missing(sequence);
            if !self.faults.contains(&fault) {
                self.fault(fault);
            }
        }
        self.faults.sort_by_key(Fault::sequence);
        self.finish_part()
    }
}

#[cfg(test)]
mod tests {
    use sluice_policy::Timestamp;

    use super::{Fault, Verifier};
    use crate::{
        chain::{Anchor, Chain, Link},
        digest::hex,
        id::new_id,
        record::{Kind, Line, Record},
    };

    fn line(number: i64) -> Line {
        let at = Timestamp::from_millis(number);
        let mut record = Record::new(new_id(at), at, Kind::Decision);
        record.message = Some(format!("r{number}"));
        record.line()
    }

    /// Two writers in turn, five records each.
    fn log() -> Vec<(i64, String)> {
        let mut chains = [Chain::new("one"), Chain::new("other")];
        let mut write = |number: i64| {
            let mut line = line(number);
            chains[usize::from(number % 2 == 0)].link(&mut line);
            (number, line.text().to_owned())
        };
        (1..=10).map(&mut write).collect()
    }

    /// The log without its first `count` records, with an anchor at its end.
    fn pruned(count: usize) -> Vec<(i64, String)> {
        let mut log = log();
        let mut anchor = Anchor::default();
        for (sequence, text) in log.drain(..count) {
            let link = Link::of(&text).unwrap();
            anchor.through = sequence;
            anchor.chains.insert(link.writer.into(), (sequence, hex(&link.hash)));
        }
        let mut line = line(11);
        line.extend(&anchor.member());
        Chain::new("third").link(&mut line);
        log.push((11, line.text().to_owned()));
        log
    }

    fn faults(records: &[(i64, String)]) -> Vec<Fault> {
        let mut verifier = Verifier::default();
        for (sequence, text) in records {
            verifier.check(*sequence, text);
        }
        verifier.finish().faults
    }

    #[test]
    fn what_was_written_verifies() {
        assert_eq!(faults(&log()), []);
        assert_eq!(faults(&pruned(4)), []);
    }

    #[test]
    fn what_was_changed_or_taken_out_shows() {
        let mut records = log();
        records[2].1 = records[2].1.replace("r3", "rX");
        assert_eq!(faults(&records), [Fault::Changed(3)]);
        let mut records = log();
        records[1].1 = "{}".into();
        assert_eq!(faults(&records), [Fault::Form(2), Fault::Missing(4)]);
        // Renumbering what is left does not hide it.
        let mut records = log();
        records.remove(2);
        (1..).zip(&mut records).for_each(|(number, record)| record.0 = number);
        assert_eq!(faults(&records), [Fault::Missing(4)]);
    }

    #[test]
    fn a_whole_chain_taken_out_shows() {
        let kept: Vec<_> = log().into_iter().filter(|(number, _)| number % 2 == 1).collect();
        assert_eq!(faults(&kept).len(), 4);
    }

    #[test]
    fn a_log_cut_short_in_front_is_not_taken_for_a_pruned_one() {
        assert_eq!(faults(&log()[4..]), [Fault::Missing(5), Fault::Missing(6)]);
        assert_eq!(faults(&pruned(4)[1..]), [Fault::Missing(6), Fault::Missing(7)]);
        let mut renumbered = pruned(4)[2..].to_vec();
        (5..).zip(&mut renumbered).for_each(|(number, record)| record.0 = number);
        assert_eq!(faults(&renumbered), [Fault::Missing(5), Fault::Missing(6)]);
        // Without its anchor it is only cut short.
        let anchorless = pruned(4)[..6].to_vec();
        assert_eq!(faults(&anchorless), [Fault::Missing(5), Fault::Missing(6)]);
    }
}
