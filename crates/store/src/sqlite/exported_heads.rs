//! Signs the present head, and compares the log with heads that were signed earlier.

use std::path::Path;

use rusqlite::Connection;
use sluice_policy::Timestamp;

use super::{Keys, compare};
use crate::{
    StoreError,
    chain::ChainEnd,
    digest::hex,
    head::{Disagreement, Standing},
    signed_head::{HeadComparison, HeadFault, HeadMismatch, HeadSigner, SignedHead},
};

/// Signs the end of the log. Nothing is signed that `keys/head` does not vouch for: another
/// program may have written it.
pub(super) fn sign(
    connection: &Connection,
    keys: &Keys,
    directory: &Path,
    at: Timestamp,
) -> Result<SignedHead, StoreError> {
    let changed = |disagreement: Disagreement| {
        StoreError::Failed(format!("{disagreement}\nhint: sluice log verify"))
    };
    let head = compare::begin_with_head(connection, directory, &keys.master)?.map_err(changed)?;
    if let Standing::Beyond(count) = compare::place(connection, &head)?.map_err(changed)? {
        return Err(changed(Disagreement::OldHead(count)));
    }
    sign_end(connection, keys, at)
}

/// Signs the end of a log that was compared with `keys/head`.
pub(super) fn sign_end(
    connection: &Connection,
    keys: &Keys,
    at: Timestamp,
) -> Result<SignedHead, StoreError> {
    let incarnation = compare::read_incarnation(connection)?;
    Ok(signer(keys)?.sign(incarnation, compare::read_end(connection)?, at))
}

/// Compares the log with heads.
pub(super) fn compare(
    connection: &Connection,
    keys: &Keys,
    heads: &[SignedHead],
) -> Result<HeadComparison, StoreError> {
    let signer = signer(keys)?;
    let incarnation = hex(&compare::read_incarnation(connection)?);
    let (end, pruned) = (compare::read_end(connection)?, compare::read_pruned(connection)?);
    let mut comparison = HeadComparison::default();
    for head in heads {
        let SignedHead { at, seq, .. } = *head;
        let found = if !signer.has_signed(head) {
            Err(HeadMismatch::NotGenuine)
        } else if head.incarnation != incarnation {
            Err(Disagreement::Foreign(seq).into())
        } else if seq < pruned.seq {
            comparison.pruned += 1;
            continue;
        } else {
            let known = [ChainEnd::NONE, pruned, end].into_iter().find(|known| known.seq == seq);
            let hash = match known {
                Some(known) => Some(known.hash),
                None => compare::find_hash(connection, seq)?,
            };
            match hash {
                Some(hash) if hex(&hash) == head.hash => Ok(()),
                None if seq > end.seq => {
                    Err(Disagreement::Short { end: end.seq, noted: seq }.into())
                }
                _ => Err(Disagreement::Replaced(seq).into()),
            }
        };
        match found {
            Ok(()) => comparison.found += 1,
            Err(what) => comparison.faults.push(HeadFault { at, seq, what }),
        }
    }
    Ok(comparison)
}

fn signer(keys: &Keys) -> Result<HeadSigner, StoreError> {
    HeadSigner::derive(&keys.master)
        .ok_or_else(|| StoreError::Failed("the key in `keys/master` cannot be used".into()))
}
