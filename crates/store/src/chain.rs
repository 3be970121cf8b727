//! The hash chain: each record of a writer names the hash of the one before, so
//! that none can be changed or taken out unseen.
//!
//! A record is stored as JSON text whose last member is its hash, over all of
//! the text before that member. There is one chain per writer, because several
//! processes may write one database. Pruning leaves an [`Anchor`] in the log,
//! which says where the chains go on.

mod verify;

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use crate::{
    digest::{from_hex, push_hex, sha256},
    record::Line,
};

pub(crate) use verify::Verifier;
pub use verify::{Fault, Verified};

/// What a chain begins with.
const START: [u8; 32] = [0; 32];

/// The end of one writer's chain.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    writer: Arc<str>,
    last: [u8; 32],
}

impl Chain {
    /// A chain that begins now.
    pub(crate) fn new(writer: &str) -> Chain {
        Chain { writer: writer.into(), last: START }
    }

    /// Completes the record's text by linking it to the one before; the chain moves on.
    pub(crate) fn link(&mut self, line: &mut Line) {
        line.complete(|text| {
            text.push_str(r#","chain":""#);
            text.push_str(&self.writer);
            text.push_str(r#"","prev":""#);
            push_hex(text, &self.last);
            text.push('"');
            self.last = sha256(text.as_bytes());
            text.push_str(r#","hash":""#);
            push_hex(text, &self.last);
            text.push_str("\"}");
        });
    }
}

/// What a record's text says of its place in a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link<'t> {
    pub(crate) writer: &'t str,
    previous: [u8; 32],
    pub(crate) hash: [u8; 32],
    /// What the hash is over.
    covered: &'t str,
}

impl<'t> Link<'t> {
    /// `None` if the text is not as [`Chain::link`] leaves it.
    pub(crate) fn of(text: &'t str) -> Option<Link<'t>> {
        let (covered, hash) = text.strip_suffix("\"}")?.rsplit_once(r#","hash":""#)?;
        let (rest, previous) = covered.strip_suffix('"')?.rsplit_once(r#"","prev":""#)?;
        let (_, writer) = rest.rsplit_once(r#","chain":""#)?;
        Some(Link { writer, previous: from_hex(previous)?, hash: from_hex(hash)?, covered })
    }

    fn is_true(&self) -> bool {
        sha256(self.covered.as_bytes()) == self.hash
    }
}

/// Where the chains go on after the oldest records were pruned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Anchor {
    /// The last record that was pruned.
    pub(crate) through: i64,
    /// By writer: its last pruned record, and that record's hash in hexadecimal.
    pub(crate) chains: BTreeMap<String, (i64, String)>,
}

/// How an anchor begins in a record's text. No string in a record can hold this,
/// because its quotes would be escaped.
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
        if !text.contains(ANCHOR) {
            return None;
        }
        let record: serde_json::Value = serde_json::from_str(text).ok()?;
        let anchor = record.get("anchor")?;
        let chain = |(writer, end): (&String, &serde_json::Value)| {
            let (sequence, hash) = (end.get("seq")?.as_i64()?, end.get("hash")?.as_str()?);
            Some((writer.clone(), (sequence, hash.to_owned())))
        };
        let chains = anchor.get("chains")?.as_object()?.iter().map(chain).collect::<Option<_>>()?;
        Some(Anchor { through: anchor.get("through")?.as_i64()?, chains })
    }
}
