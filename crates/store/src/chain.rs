//! The hash chain: each record of a writer names the hash of the one before, so
//! that none can be changed or taken out unseen.
//!
//! A record is stored as JSON text whose last member is its hash, over all of
//! the text before that member. There is one chain per writer, because several
//! processes may write one database.

use std::{collections::HashMap, fmt::Write as _};

use sha2::{Digest as _, Sha256};

use crate::{grant::hex, record::Record};

/// What a chain begins with.
const START: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The end of one writer's chain.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    writer: String,
    last: String,
}

impl Chain {
    /// A chain that begins now.
    pub(crate) fn new(writer: String) -> Chain {
        Chain { writer, last: START.into() }
    }

    /// The record's text, linked to the one before; the chain moves on.
    pub(crate) fn link(&mut self, record: &Record) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string(record)?;
        // A record is an object with members, so this closes it again.
        text.pop();
        let (writer, last) = (&self.writer, &self.last);
        // Writing to a string cannot fail.
        let _ = write!(text, r#","chain":"{writer}","prev":"{last}""#);
        let hash = hash(&text);
        let _ = write!(text, r#","hash":"{hash}"}}"#);
        self.last = hash;
        Ok(text)
    }
}

fn hash(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// Where a log is not what was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("record {0} is not in the form it was written in")]
    Form(i64),
    #[error("record {0} was changed after it was written")]
    Changed(i64),
    #[error("before record {0} something of its chain is missing")]
    Missing(i64),
}

/// What checking a log found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    pub records: u64,
    pub faults: Vec<Fault>,
}

/// Checks records in the order they were written.
#[derive(Debug, Default)]
pub(crate) struct Verifier {
    /// By writer: the hash of its last record seen.
    last: HashMap<String, String>,
    records: u64,
    faults: Vec<Fault>,
}

impl Verifier {
    pub(crate) fn check(&mut self, sequence: i64, text: &str) {
        self.records += 1;
        let Some((writer, previous, stated, computed)) = taken_apart(text) else {
            self.faults.push(Fault::Form(sequence));
            return;
        };
        if stated != computed {
            self.faults.push(Fault::Changed(sequence));
        }
        // The first record seen of a writer is where checking begins: older
        // ones may have been pruned.
        let expected = self.last.insert(writer.to_owned(), stated.to_owned());
        if expected.is_some_and(|expected| expected != previous) {
            self.faults.push(Fault::Missing(sequence));
        }
    }

    pub(crate) fn finish(self) -> Verified {
        Verified { records: self.records, faults: self.faults }
    }
}

/// Writer, previous hash, stated hash, and the hash it should be.
fn taken_apart(text: &str) -> Option<(&str, &str, &str, String)> {
    let (covered, stated) = text.strip_suffix("\"}")?.rsplit_once(r#","hash":""#)?;
    let (rest, previous) = covered.strip_suffix('"')?.rsplit_once(r#"","prev":""#)?;
    let (_, writer) = rest.rsplit_once(r#","chain":""#)?;
    Some((writer, previous, stated, hash(covered)))
}

#[cfg(test)]
mod tests {
    use sluice_policy::Timestamp;

    use super::{Chain, Fault, Verifier};
    use crate::record::{Kind, Record};

    fn linked(count: i64) -> Vec<String> {
        let mut chain = Chain::new("writer".into());
        let record = |n| Record::new(format!("r{n}"), Timestamp::from_millis(n), Kind::Decision);
        (0..count).map(|n| chain.link(&record(n)).unwrap()).collect()
    }

    fn faults(records: &[String]) -> Vec<Fault> {
        let mut verifier = Verifier::default();
        for (sequence, text) in (1..).zip(records) {
            verifier.check(sequence, text);
        }
        verifier.finish().faults
    }

    #[test]
    fn what_was_written_verifies() {
        assert_eq!(faults(&linked(5)), []);
        // Pruned from the front, it still does.
        assert_eq!(faults(&linked(5)[2..]), []);
    }

    #[test]
    fn what_was_changed_or_taken_out_shows() {
        let mut records = linked(5);
        records[2] = records[2].replace("r2", "rX");
        assert_eq!(faults(&records), [Fault::Changed(3)]);
        let mut records = linked(5);
        records.remove(2);
        assert_eq!(faults(&records), [Fault::Missing(3)]);
        let mut records = linked(5);
        records[1] = "{}".into();
        assert_eq!(faults(&records), [Fault::Form(2), Fault::Missing(3)]);
    }
}
