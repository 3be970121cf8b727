//! The write-ahead log: brought into the database behind the writer, unseen by
//! those who call.

use std::{fs::File, io::Read as _, path::Path};

use sluice_policy::Amount;
use sluice_store::{Record, Reservation, Store};

use crate::folder::{Folder, charge, open, record, wait_until};

/// A record of about fifty pages.
fn large() -> Record {
    let mut record = record("allow");
    record.message = Some("x".repeat(200_000));
    record
}

/// How the write-ahead log begins, which changes when it starts over. Whoever
/// asks SQLite instead keeps it from doing so for a moment.
fn beginning(path: &Path) -> [u8; 32] {
    let mut bytes = [0; 32];
    let mut file = File::open(path.with_extension("db-wal")).unwrap();
    file.read_exact(&mut bytes).unwrap();
    bytes
}

/// Has so much written that it is worth a checkpoint, and waits for that.
async fn fill(store: &Store, path: &Path) {
    let before = beginning(path);
    for _ in 0..30 {
        store.append(large()).await.unwrap();
    }
    wait_until(|| beginning(path) != before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_left_alone_starts_its_write_ahead_log_over() {
    let folder = Folder::new();
    let store = folder.store();
    fill(&store, &folder.database()).await;
    fill(&store, &folder.database()).await;
    let verified = store.verify().unwrap();
    assert_eq!((verified.records, verified.faults), (60, vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_other_processes_charge_is_seen_across_a_checkpoint() {
    let folder = Folder::new();
    let stores = [folder.store(), open(&folder.database())];
    let reserve = |store: usize, amount| {
        stores[store].reserve(vec![charge("eval", amount, 10)], record("allow"))
    };
    assert_eq!(reserve(0, 2).await, Ok(Reservation::Made));
    assert_eq!(reserve(1, 2).await, Ok(Reservation::Made));
    fill(&stores[0], &folder.database()).await;
    assert_eq!(reserve(1, 3).await, Ok(Reservation::Made));
    let refused = Ok(Reservation::Refused(vec![Amount::whole(7)]));
    assert_eq!(reserve(0, 4).await, refused);
    fill(&stores[1], &folder.database()).await;
    assert_eq!(reserve(0, 4).await, refused);
    assert_eq!(reserve(0, 3).await, Ok(Reservation::Made));
    assert_eq!(reserve(1, 0).await, Ok(Reservation::Made));
}

#[tokio::test]
async fn closing_leaves_one_file_with_all_in_it() {
    let folder = Folder::new();
    let store = folder.store();
    for _ in 0..30 {
        store.append_later(&large());
    }
    store.close().await.unwrap();
    assert!(!folder.database().with_extension("db-wal").exists());
    let verified = folder.store().verify().unwrap();
    assert_eq!((verified.records, verified.faults), (30, vec![]));
}
