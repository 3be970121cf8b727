//! The hash chain: each record contains the hash of the record before it, so that no record
//! can be changed, moved or removed unnoticed.
//!
//! The chain is over the record's exported text, one line of JSON: its last member is a
//! keyed hash (HMAC-SHA-256) of all text before it, and of the charges that are stored with
//! the record. There is one chain over all records, because all writers of a log commit in
//! one order; each record names its writer. Pruning leaves an [`Anchor`] in the log, from
//! which the chain continues. Where the log ends is kept apart from it: see `head`.

mod verify;

use std::{fmt::Write as _, sync::Arc};

use ring::hmac;
use serde::Deserialize;
use sluice_policy::Timestamp;

use crate::{digest::push_hex, id, key::Key};

pub(crate) use verify::Verifier;
pub use verify::{Fault, Verified};

pub(crate) type Hash = [u8; 32];

/// The predecessor hash of the first record.
pub(crate) const START: Hash = [0; 32];

/// The key of the hashes.
#[derive(Debug, Clone)]
pub(crate) struct ChainKey(hmac::Key);

impl ChainKey {
    pub(crate) fn derive(master: &Key) -> ChainKey {
        let key = master.derive("sluicegate log chain");
        ChainKey(hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()))
    }

    /// The hash of a record's text up to its hash, and of its charges.
    pub(crate) fn hash(&self, text: &str, charges: Option<&str>) -> Hash {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(text.as_bytes());
        if let Some(charges) = charges {
            // The text is one line, so it cannot be confused with what follows.
            context.update(b"\n");
            context.update(charges.as_bytes());
        }
        // The tag has the length of the array, so the conversion cannot fail.
        context.sign().as_ref().try_into().unwrap_or_default()
    }
}

/// The last record of a chain: its number, or 0 before the first, and its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChainEnd {
    pub(crate) seq: i64,
    pub(crate) hash: Hash,
}

impl ChainEnd {
    /// The end of a log without records.
    pub(crate) const NONE: ChainEnd = ChainEnd { seq: 0, hash: START };
}

/// A name that no other writer has.
pub(crate) fn new_writer() -> Arc<str> {
    id::new_id(Timestamp::from_millis(0)).to_string().into()
}

/// Adds the members that place a record in the chain.
pub(crate) fn push_link(text: &mut String, writer: &str, prev: &Hash) {
    text.push_str(r#","chain":""#);
    text.push_str(writer);
    text.push_str(r#"","prev":""#);
    push_hex(text, prev);
    text.push('"');
}

/// Appends a record's hash to its text and closes it.
pub(crate) fn close(text: &mut String, hash: &Hash) {
    text.push_str(r#","hash":""#);
    push_hex(text, hash);
    text.push_str("\"}");
}

/// Where the chain continues after the oldest records were pruned.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Anchor {
    /// The sequence number of the last record that was pruned.
    pub(crate) through: i64,
    /// Its hash in hexadecimal.
    pub(crate) hash: String,
}

impl Anchor {
    /// Appends it to a record's text.
    pub(crate) fn push(&self, text: &mut String) {
        let Anchor { through, hash } = self;
        // Writing to a string cannot fail, and the hash is made of digits.
        let _ = write!(text, r#"{{"through":{through},"hash":"{hash}"}}"#);
    }

    /// Its text alone.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        self.push(&mut text);
        text
    }
}
