//! Signed heads: statements of where the log ended at some time, for keeping elsewhere. Each is
//! one line of JSON with an Ed25519 signature, so that an auditor can verify it
//! without a secret.
//!
//! The signature is over the line up to its last member. The key is derived from the master key,
//! and signs nothing else.

use std::fmt::Write as _;

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use sluice_policy::Timestamp;

use crate::{
    StoreError,
    chain::ChainEnd,
    digest::{from_hex, hex},
    head::{Disagreement, Incarnation},
    key::Key,
    log::Log,
    store::Store,
};

/// A signed head as it is exported; only its signature says whether it is genuine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedHead {
    pub at: Timestamp,
    /// The identity of the database, in hexadecimal.
    pub incarnation: String,
    /// The number of the last record, or 0.
    pub seq: i64,
    /// Its hash, in hexadecimal.
    pub hash: String,
    /// The public key of the signature, in hexadecimal.
    pub signer: String,
    /// The signature, in hexadecimal.
    pub signature: String,
}

/// How a log compares with heads that were exported earlier.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeadComparison {
    /// Heads whose records are in the log, as they were.
    pub found: u64,
    /// Genuine heads whose records were pruned.
    pub pruned: u64,
    pub faults: Vec<HeadFault>,
}

/// An exported head that the log contradicts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the head of {at}: {what}")]
pub struct HeadFault {
    pub at: Timestamp,
    pub seq: i64,
    pub what: HeadMismatch,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeadMismatch {
    #[error("it was changed, or signed with the key of another data directory")]
    NotGenuine,
    #[error(transparent)]
    Log(#[from] Disagreement),
}

impl SignedHead {
    /// The line, without its line break.
    pub fn text(&self) -> String {
        let mut text = self.signed_text();
        // Writing to a string cannot fail.
        let _ = write!(text, r#","signature":"{}"}}"#, self.signature);
        text
    }

    /// The part of the line that is signed.
    fn signed_text(&self) -> String {
        let SignedHead { at, incarnation, seq, hash, signer, .. } = self;
        format!(
            r#"{{"head":1,"at":"{at}","incarnation":"{incarnation}","seq":{seq},"hash":"{hash}","signer":"{signer}""#
        )
    }
}

/// The key that heads are signed with.
#[derive(Debug)]
pub(crate) struct HeadSigner(Ed25519KeyPair);

impl HeadSigner {
    /// `None` if the key cannot be used.
    pub(crate) fn derive(master: &Key) -> Option<HeadSigner> {
        let seed = master.derive("sluicegate exported heads");
        Ed25519KeyPair::from_seed_unchecked(seed.as_bytes()).ok().map(HeadSigner)
    }

    pub(crate) fn sign(
        &self,
        incarnation: Incarnation,
        end: ChainEnd,
        at: Timestamp,
    ) -> SignedHead {
        let mut head = SignedHead {
            at,
            incarnation: hex(&incarnation),
            seq: end.seq,
            hash: hex(&end.hash),
            signer: hex(self.0.public_key().as_ref()),
            signature: String::new(),
        };
        head.signature = hex(self.0.sign(head.signed_text().as_bytes()).as_ref());
        head
    }

    /// Whether this key has signed the head as it is.
    pub(crate) fn has_signed(&self, head: &SignedHead) -> bool {
        let public = self.0.public_key().as_ref();
        let halves = head.signature.as_bytes().chunks(64);
        let halves = halves.map(|half| from_hex(str::from_utf8(half).ok()?));
        let Some(signature) = halves.collect::<Option<Vec<_>>>() else { return false };
        head.signer == hex(public)
            && UnparsedPublicKey::new(&ED25519, public)
                .verify(head.signed_text().as_bytes(), &signature.concat())
                .is_ok()
    }
}

impl Store {
    /// Signs the present head. Fails if the log is not what its head says.
    pub async fn sign_head(&self) -> Result<SignedHead, StoreError> {
        match &self.log {
            Log::Memory(_) => Err(StoreError::Failed("a store in memory has no head".into())),
            Log::Sqlite(sqlite) => sqlite.sign_head().await,
        }
    }

    /// Compares the log with heads that were exported earlier: whether each is genuine, and its
    /// record is in the log.
    pub async fn compare_heads(
        &self,
        heads: Vec<SignedHead>,
    ) -> Result<HeadComparison, StoreError> {
        match &self.log {
            Log::Memory(_) => Ok(HeadComparison::of_foreign(&heads)),
            Log::Sqlite(sqlite) => sqlite.compare_heads(heads).await,
        }
    }
}

impl HeadComparison {
    /// None of these heads can be of this store.
    fn of_foreign(heads: &[SignedHead]) -> HeadComparison {
        let fault = |&SignedHead { at, seq, .. }: &SignedHead| HeadFault {
            at,
            seq,
            what: Disagreement::Foreign(seq).into(),
        };
        HeadComparison { faults: heads.iter().map(fault).collect(), ..HeadComparison::default() }
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{ED25519, UnparsedPublicKey};
    use sluice_policy::Timestamp;

    use super::{HeadSigner, SignedHead};
    use crate::{chain::ChainEnd, digest::from_hex, key::Key};

    fn signer(byte: u8) -> HeadSigner {
        HeadSigner::derive(&Key::from_bytes([byte; 32])).unwrap()
    }

    fn head() -> SignedHead {
        let end = ChainEnd { seq: 7, hash: [3; 32] };
        signer(7).sign([1; 16], end, Timestamp::from_millis(1_700_000_000_000))
    }

    /// As `docs/operations.md` describes it.
    #[test]
    fn a_line_is_checked_with_the_public_key_alone() {
        let text = head().text();
        let (signed, rest) = text.split_once(r#","signature":""#).unwrap();
        let (first, second) = rest.strip_suffix(r#""}"#).unwrap().split_at(64);
        let signature = [from_hex(first).unwrap(), from_hex(second).unwrap()].concat();
        let public = from_hex(&head().signer).unwrap();
        let key = UnparsedPublicKey::new(&ED25519, public);
        assert!(key.verify(signed.as_bytes(), &signature).is_ok());
        let start = r#"{"head":1,"at":"2023-11-14T22:13:20.000Z","incarnation":"01010101010101010101010101010101","seq":7,"hash":"0303"#;
        assert!(text.starts_with(start), "{text}");
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
    }

    #[test]
    fn a_changed_or_foreign_head_is_not_genuine() {
        assert!(signer(7).has_signed(&head()));
        assert!(!signer(8).has_signed(&head()));
        let changes: [fn(&mut SignedHead); 7] = [
            |head| head.at = Timestamp::from_millis(0),
            |head| head.incarnation.replace_range(..1, "f"),
            |head| head.seq += 1,
            |head| head.hash.replace_range(..1, "f"),
            |head| head.signer.replace_range(..2, "xx"),
            |head| head.signature.clear(),
            |head| head.signature.replace_range(..2, "é"),
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut other = head();
            change(&mut other);
            assert!(!signer(7).has_signed(&other), "{number}");
        }
    }
}
