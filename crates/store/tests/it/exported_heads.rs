//! Heads that are kept elsewhere show what a database and its own head, put back together, hide.

use std::time::Duration;

use sluice_store::{
    Disagreement, HeadComparison, HeadMismatch, Key, Outcome, SignedHead, Store, StoreConfig,
};

use crate::folder::{Folder, config, open, record, retention};

async fn append(store: &Store, count: usize) {
    for _ in 0..count {
        store.append(record(Outcome::Deny)).await.unwrap();
    }
}

async fn mismatches(store: &Store, heads: &[SignedHead]) -> Vec<HeadMismatch> {
    let compared = store.compare_heads(heads.to_vec()).await.unwrap();
    compared.faults.into_iter().map(|fault| fault.what).collect()
}

#[tokio::test]
async fn a_tail_that_is_cut_together_with_the_head_is_found() {
    let folder = Folder::new();
    let store = folder.store();
    append(&store, 3).await;
    let early = store.sign_head().await.unwrap();
    store.close().await.unwrap();
    let copy = folder.copy();
    let store = folder.store();
    append(&store, 4).await;
    let late = store.verify().await.unwrap().head.unwrap();
    assert_eq!((early.seq, late.seq), (3, 7));
    let found = HeadComparison { found: 2, ..HeadComparison::default() };
    let heads = [early.clone(), late.clone()];
    assert_eq!(store.compare_heads(heads.to_vec()).await.unwrap(), found);
    store.close().await.unwrap();

    // By itself the older state is whole.
    let store = open(copy.path());
    assert_eq!(store.verify().await.unwrap().faults, []);
    let short = Disagreement::Short { end: 3, noted: 7 };
    assert_eq!(mismatches(&store, &heads).await, [short.into()]);
    let said = store.compare_heads(heads.to_vec()).await.unwrap().faults[0].to_string();
    assert!(said.contains("4 records are missing at the end"), "{said}");
    // Nor does it help to go on from there.
    append(&store, 9).await;
    assert_eq!(mismatches(&store, &heads).await, [Disagreement::Replaced(7).into()]);
}

#[tokio::test]
async fn heads_of_other_databases_and_forged_ones_are_told_apart() {
    let (folder, other) = (Folder::new(), Folder::new());
    let (store, other) = (folder.store(), other.store());
    append(&store, 2).await;
    append(&other, 2).await;
    let head = store.sign_head().await.unwrap();
    let foreign = other.sign_head().await.unwrap();
    assert_eq!(mismatches(&store, &[foreign]).await, [Disagreement::Foreign(2).into()]);
    let forged = SignedHead { seq: 1, ..head };
    assert_eq!(mismatches(&store, &[forged]).await, [HeadMismatch::NotGenuine]);
    let keyed = Folder::new();
    let key = Key::from_bytes([8; 32]);
    let keyed = Store::open(StoreConfig { key, ..config(keyed.path()) }).unwrap();
    let head = keyed.sign_head().await.unwrap();
    assert_eq!(mismatches(&store, &[head]).await, [HeadMismatch::NotGenuine]);
}

#[tokio::test]
async fn heads_from_before_the_first_record_and_of_pruned_ones_are_no_faults() {
    let folder = Folder::new();
    let store = folder.store();
    let mut heads = vec![store.sign_head().await.unwrap()];
    assert_eq!(heads[0].seq, 0);
    for _ in 0..3 {
        append(&store, 1).await;
        heads.push(store.sign_head().await.unwrap());
    }
    let all = HeadComparison { found: 4, ..HeadComparison::default() };
    assert_eq!(store.compare_heads(heads.clone()).await.unwrap(), all);
    assert_eq!(store.prune(retention(Duration::ZERO, u64::MAX)).await.unwrap(), 3);
    // The last pruned record's hash is still known.
    let pruned = HeadComparison { found: 1, pruned: 3, faults: Vec::new() };
    assert_eq!(store.compare_heads(heads).await.unwrap(), pruned);
    assert_eq!(store.verify().await.unwrap().faults, []);
}

/// Otherwise a forged record would get a genuine head.
#[tokio::test]
async fn what_another_program_has_written_is_not_signed() {
    let folder = Folder::new();
    let store = folder.store();
    append(&store, 3).await;
    folder.connect().execute("DELETE FROM records WHERE seq > 1", []).unwrap();
    let refused = store.sign_head().await.unwrap_err().to_string();
    assert!(refused.contains("sluice log verify"), "{refused}");
    assert_eq!(store.verify().await.unwrap().head, None);
}
