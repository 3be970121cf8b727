//! Checkpoints of the write-ahead log run beside the writer and delay no caller.

use std::{fs::File, io::Read as _, path::Path};

use sluice_policy::Amount;
use sluice_store::{Outcome, Record, Reserved, Store};

use crate::folder::{Folder, charge, open, reading, record, reserve, wait_until};

/// A record of about fifty pages.
fn large() -> Record {
    let mut record = record(Outcome::Allow);
    record.message = Some("x".repeat(200_000));
    record
}

/// The header of the write-ahead log, which changes when the log starts over. Asking SQLite
/// instead would prevent that for a moment.
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
    let verified = store.verify().await.unwrap();
    assert_eq!((verified.records, verified.faults), (60, vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn charges_of_other_processes_are_seen_across_a_checkpoint() {
    let folder = Folder::new();
    let stores = [folder.store(), open(folder.path())];
    let charged = async |store: usize, amount| {
        let reserved = reserve(&stores[store], charge("eval", amount, 10)).await.unwrap();
        matches!(reserved, Reserved::Made { .. })
    };
    assert!(charged(0, 2).await);
    assert!(charged(1, 2).await);
    fill(&stores[0], &folder.database()).await;
    assert!(charged(1, 3).await);
    assert!(!charged(0, 4).await);
    fill(&stores[1], &folder.database()).await;
    assert!(!charged(0, 4).await);
    assert!(charged(0, 3).await);
    assert_eq!(reading(&stores[1], "eval").await, Amount::whole(10));
}

#[tokio::test]
async fn closing_leaves_one_file_with_all_in_it() {
    let folder = Folder::new();
    let store = folder.store();
    for _ in 0..30 {
        store.append_deferred(large());
    }
    store.close().await.unwrap();
    assert!(!folder.database().with_extension("db-wal").exists());
    let verified = folder.store().verify().await.unwrap();
    assert_eq!((verified.records, verified.faults), (30, vec![]));
}
