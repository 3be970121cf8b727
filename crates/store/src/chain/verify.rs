//! Checking a log against its chains, record by record.

use std::collections::HashMap;

use super::{Anchor, Hash, START};
use crate::{digest::hex, sheet::Row};

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

/// Checks rows in the order they were written.
#[derive(Debug, Default)]
pub(crate) struct Verifier {
    /// By writer: the hash of its last record seen.
    last: HashMap<String, Hash>,
    /// Chains that do not begin with their first record: where, whose, and what
    /// the record before hashes to. Only an anchor can account for those.
    cut: Vec<(i64, String, Hash)>,
    /// The newest one seen.
    anchor: Option<Anchor>,
    first: Option<i64>,
    previous: Option<i64>,
    records: u64,
    faults: Vec<Fault>,
}

impl Verifier {
    /// Checks the row with this number, if it could be read.
    pub(crate) fn check(&mut self, number: i64, row: Option<&Row>) {
        self.records += row.map_or(1, Row::count);
        // One that cannot be read does not tell where it begins.
        let before = self.previous.replace(number);
        let Some(row) = row else {
            self.first.get_or_insert(number);
            self.fault(Fault::Form(number));
            return;
        };
        self.first.get_or_insert(row.first());
        if let Some(changed) = row.changed() {
            self.fault(Fault::Changed(changed));
        } else if let Some(anchor) = row.open_texts().filter_map(Anchor::of).last() {
            self.anchor = Some(anchor);
        }
        // Numbers have no gaps, so that a whole chain cannot be taken out either.
        let is_next = before.is_none_or(|last| last + 1 == row.first());
        let follows = self.follow(row);
        if !(is_next && follows) {
            self.fault(Fault::Missing(row.first()));
        }
    }

    /// Whether the row follows the last one of its chain, as far as is known yet.
    fn follow(&mut self, row: &Row) -> bool {
        let (writer, previous) = (row.chain().writer(), *row.chain().last());
        if let Some(last) = self.last.get_mut(writer) {
            let expected = std::mem::replace(last, row.hash);
            return expected == previous;
        }
        self.last.insert(writer.to_owned(), row.hash);
        if previous != START {
            self.cut.push((row.first(), writer.to_owned(), previous));
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
    use rusqlite::types::ValueRef;
    use sluice_policy::Timestamp;

    use super::{Fault, Verifier};
    use crate::{
        chain::{Anchor, Chain},
        digest::hex,
        id::new_id,
        record::{Kind, Line, Record},
        sheet::{Row, Sheet},
    };

    fn line(number: i64) -> Line {
        let at = Timestamp::from_millis(number);
        let mut record = Record::new(new_id(at), at, Kind::Decision);
        record.message = Some(format!("r{number:02}"));
        record.line()
    }

    fn row(chain: &mut Chain, lines: &mut [Line]) -> Vec<u8> {
        Sheet::default().write(chain, 0, lines.iter_mut()).1.to_owned()
    }

    fn read(number: i64, body: &[u8]) -> Option<Row> {
        Row::read(number, ValueRef::Blob(body), &mut |_| None)
    }

    /// Two writers in turn, five rows each, of two records.
    fn log() -> Vec<(i64, Vec<u8>)> {
        let mut chains = [Chain::new("one"), Chain::new("other")];
        let mut write = |number: i64| {
            let chain = &mut chains[usize::from(number % 4 == 0)];
            (number, row(chain, &mut [line(number - 1), line(number)]))
        };
        (2..=20).step_by(2).map(&mut write).collect()
    }

    /// The log without its first `count` rows, with an anchor at its end.
    fn pruned(count: usize) -> Vec<(i64, Vec<u8>)> {
        let mut log = log();
        let mut anchor = Anchor::default();
        for (number, body) in log.drain(..count) {
            let row = read(number, &body).unwrap();
            anchor.through = number;
            anchor.chains.insert(row.chain().writer().into(), (number, hex(&row.hash)));
        }
        let mut line = line(21);
        line.push(&anchor.member());
        log.push((21, row(&mut Chain::new("third"), &mut [line])));
        log
    }

    fn faults(rows: &[(i64, Vec<u8>)]) -> Vec<Fault> {
        let mut verifier = Verifier::default();
        for (number, body) in rows {
            verifier.check(*number, read(*number, body).as_ref());
        }
        verifier.finish().faults
    }

    fn replace(body: &mut [u8], old: &[u8], new: &[u8]) {
        let place = body.windows(old.len()).position(|part| part == old).unwrap();
        body[place..place + new.len()].copy_from_slice(new);
    }

    #[test]
    fn what_was_written_verifies() {
        assert_eq!(faults(&log()), []);
        assert_eq!(faults(&pruned(4)), []);
    }

    #[test]
    fn what_was_changed_or_taken_out_shows() {
        for (record, text) in [(5, b"r05"), (6, b"r06")] {
            let mut rows = log();
            replace(&mut rows[2].1, text, b"rXX");
            assert_eq!(faults(&rows), [Fault::Changed(record)]);
        }
        let mut rows = log();
        rows[1].1 = b"{}".into();
        assert_eq!(faults(&rows), [Fault::Form(4), Fault::Missing(7)]);
        // Renumbering what is left does not hide it.
        let mut rows = log();
        rows.remove(2);
        (1..).zip(&mut rows).for_each(|(number, row)| row.0 = 2 * number);
        assert_eq!(faults(&rows), [Fault::Missing(7)]);
    }

    /// Recorded values of arguments are a caller's own words.
    #[test]
    fn a_caller_cannot_lay_an_anchor() {
        let forged = r#"{"args.x":{"y":1,"anchor":{"through":2,"chains":{}}}}"#;
        let mut rows = log();
        for micros in [None, Some(1)] {
            let at = Timestamp::from_millis(22);
            let mut record = Record::new(new_id(at), at, Kind::Decision);
            (record.arg_values, record.micros) = (Some(forged.into()), micros);
            rows.push((21, row(&mut Chain::new("third"), &mut [record.line()])));
            assert_eq!(faults(&rows), []);
            rows.pop();
            assert!(Anchor::of(&record.line().lend(|text| text.clone())).is_none());
        }
    }

    #[test]
    fn every_byte_of_a_row_counts() {
        let whole = log();
        for place in 0..whole[4].1.len() {
            let mut rows = whole.clone();
            rows[4].1[place] ^= 1;
            assert!(!faults(&rows).is_empty(), "{place}");
        }
    }

    #[test]
    fn a_whole_chain_taken_out_shows() {
        let kept: Vec<_> = log().into_iter().filter(|(number, _)| number % 4 == 2).collect();
        assert_eq!(faults(&kept).len(), 4);
    }

    #[test]
    fn a_log_cut_short_in_front_is_not_taken_for_a_pruned_one() {
        assert_eq!(faults(&log()[4..]), [Fault::Missing(9), Fault::Missing(11)]);
        assert_eq!(faults(&pruned(4)[1..]), [Fault::Missing(11), Fault::Missing(13)]);
        let mut renumbered = pruned(4)[2..].to_vec();
        (5..).zip(&mut renumbered).for_each(|(number, row)| row.0 = 2 * number);
        let last = renumbered.last_mut().unwrap();
        last.0 -= 1;
        assert_eq!(faults(&renumbered), [Fault::Missing(9), Fault::Missing(11)]);
        // Without its anchor it is only cut short.
        let anchorless = pruned(4)[..6].to_vec();
        assert_eq!(faults(&anchorless), [Fault::Missing(9), Fault::Missing(11)]);
    }
}
