//! The hash chain: each record of a writer names the hash of the one before, so
//! that none can be changed or taken out unseen.
//!
//! A record's text is JSON whose last member is its hash, over all of the text
//! before that member. There is one chain per writer, because several processes
//! may write one database. Pruning leaves an [`Anchor`] in the log, which says
//! where the chains go on.

mod verify;

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use crate::digest::{from_hex, push_hex, sha256};

pub(crate) use verify::Verifier;
pub use verify::{Fault, Verified};

pub(crate) type Hash = [u8; 32];

/// What a chain begins with.
const START: Hash = [0; 32];

/// The end of one writer's chain.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    writer: Arc<str>,
    last: Hash,
}

impl Chain {
    /// A chain that begins now.
    pub(crate) fn new(writer: &str) -> Chain {
        Chain::after(writer, START)
    }

    /// A chain that has come to the record with this hash.
    fn after(writer: &str, last: Hash) -> Chain {
        Chain { writer: writer.into(), last }
    }

    pub(crate) fn writer(&self) -> &str {
        &self.writer
    }

    /// The hash of its last record.
    pub(crate) fn last(&self) -> &Hash {
        &self.last
    }

    /// Links a record to the one before: adds to its text what its hash is over
    /// too. The chain moves on.
    pub(crate) fn link(&mut self, text: &mut String) {
        text.push_str(r#","chain":""#);
        text.push_str(&self.writer);
        text.push_str(r#"","prev":""#);
        push_hex(text, &self.last);
        text.push('"');
        self.last = sha256(text.as_bytes());
    }

    /// Takes apart what [`link`](Chain::link) and [`close`] have put together: the
    /// text as it was, the chain as it was, and the hash that is in the text. `None`
    /// if it is not in that form.
    pub(crate) fn split(text: &str) -> Option<(&str, Chain, Hash)> {
        let (text, hash) = text.strip_suffix("\"}")?.rsplit_once(r#"","hash":""#)?;
        let (text, previous) = text.rsplit_once(r#"","prev":""#)?;
        let (text, writer) = text.rsplit_once(r#","chain":""#)?;
        Some((text, Chain::found(writer, from_hex(previous)?)?, from_hex(hash)?))
    }

    /// A chain as a log names it; `None` if no writer was ever named so.
    pub(crate) fn found(writer: &str, last: Hash) -> Option<Chain> {
        let is_name = writer.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_name.then(|| Chain::after(writer, last))
    }
}

/// Adds a record's hash to its text, which ends with that.
pub(crate) fn close(text: &mut String, hash: &Hash) {
    text.push_str(r#","hash":""#);
    push_hex(text, hash);
    text.push_str("\"}");
}

/// Where the chains go on after the oldest records were pruned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Anchor {
    /// The last record that was pruned.
    pub(crate) through: i64,
    /// By writer: its last pruned record, and that record's hash in hexadecimal.
    pub(crate) chains: BTreeMap<String, (i64, String)>,
}

/// How an anchor begins in a record's text, of which it is the last. No string in a
/// record can hold this, because its quotes would be escaped; recorded values of
/// arguments can, but are never the last to be closed.
const ANCHOR: &str = r#","anchor":{"through":"#;

impl Anchor {
    /// The member that makes a record an anchor, from its comma on.
    pub(crate) fn member(&self) -> String {
        let mut text = format!("{ANCHOR}{},\"chains\":{{", self.through);
        for (place, (writer, (sequence, hash))) in self.chains.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            // Writing to a string cannot fail. A writer's name is an id of ours.
            let _ = write!(text, r#"{comma}"{writer}":{{"seq":{sequence},"hash":"{hash}"}}"#);
        }
        text.push_str("}}");
        text
    }

    /// The anchor in a record's text, if it is one.
    fn of(text: &str) -> Option<Anchor> {
        let (_, anchor) = text.rsplit_once(ANCHOR)?;
        let member = format!(r#"{{"through":{anchor}"#);
        let anchor: serde_json::Value = serde_json::from_str(&member).ok()?;
        let chain = |(writer, end): (&String, &serde_json::Value)| {
            let (sequence, hash) = (end.get("seq")?.as_i64()?, end.get("hash")?.as_str()?);
            Some((writer.clone(), (sequence, hash.to_owned())))
        };
        let chains = anchor.get("chains")?.as_object()?.iter().map(chain).collect::<Option<_>>()?;
        Some(Anchor { through: anchor.get("through")?.as_i64()?, chains })
    }
}
