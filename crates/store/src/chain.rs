//! The hash chain: each record of a writer contains the hash of the record before it, so
//! that no record can be changed or removed unnoticed.
//!
//! The chain is over the record's exported text, one line of JSON: its last member is
//! the hash of all text before it. There is one chain per writer, because several
//! processes may write one log. Pruning leaves an [`Anchor`] in the log, from which
//! the chains continue.

mod verify;

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use serde::Deserialize;
use sluice_policy::Timestamp;

use crate::{
    digest::{push_hex, sha256},
    id,
};

pub(crate) use verify::Verifier;
pub use verify::{Fault, Verified};

pub(crate) type Hash = [u8; 32];

/// The predecessor hash of a chain's first record.
const START: Hash = [0; 32];

/// The end of one writer's chain.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    writer: Arc<str>,
    last: Hash,
}

impl Chain {
    /// A new chain, under a name that no other writer has.
    pub(crate) fn begin() -> Chain {
        Chain::after(&id::new_id(Timestamp::from_millis(0)).to_string().into(), START)
    }

    /// A chain whose last record has this hash.
    pub(crate) fn after(writer: &Arc<str>, last: Hash) -> Chain {
        Chain { writer: Arc::clone(writer), last }
    }

    pub(crate) fn writer(&self) -> &Arc<str> {
        &self.writer
    }

    /// The hash of its last record.
    pub(crate) fn last(&self) -> &Hash {
        &self.last
    }

    /// Links a record to its predecessor: adds the chain members to its text, which the
    /// hash covers too. The record is then the last of the chain.
    pub(crate) fn link(&mut self, text: &mut String) {
        push_link(text, &self.writer, &self.last);
        self.last = sha256(text.as_bytes());
    }
}

/// Adds the members that place a record in its chain.
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

/// Where the chains continue after the oldest records were pruned.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Anchor {
    /// The sequence number of the last record that was pruned.
    pub(crate) through: i64,
    /// The last pruned record of each chain, by writer.
    pub(crate) chains: BTreeMap<String, ChainEnd>,
}

/// The last pruned record of a chain, and its hash in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChainEnd {
    pub(crate) seq: i64,
    pub(crate) hash: String,
}

impl Anchor {
    /// Appends it to a record's text.
    pub(crate) fn push(&self, text: &mut String) {
        // Writing to a string cannot fail. A writer's name is an id of ours.
        let _ = write!(text, r#"{{"through":{},"chains":{{"#, self.through);
        for (index, (writer, ChainEnd { seq, hash })) in self.chains.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(text, r#"{comma}"{writer}":{{"seq":{seq},"hash":"{hash}"}}"#);
        }
        text.push_str("}}");
    }

    /// Its text alone.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        self.push(&mut text);
        text
    }
}
