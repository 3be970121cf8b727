//! Records that nobody waits for.

use sluice_store::{Outcome, Store, StoreError};

use crate::folder::{Folder, entries, open, record, wait_until};

async fn count(folder: &Folder) -> usize {
    entries(&open(folder.path())).await.unwrap().len()
}

fn defer(store: &Store, count: usize) {
    (0..count).for_each(|_| store.append_deferred(record(Outcome::Allow)));
}

#[tokio::test]
async fn deferred_records_are_stored_with_the_next_write() {
    let folder = Folder::new();
    let store = folder.store();
    defer(&store, 1);
    store.append(record(Outcome::Deny)).await.unwrap();
    assert_eq!(count(&folder).await, 2);
    defer(&store, 1);
    store.flush().await.unwrap();
    assert_eq!((count(&folder).await, store.health().deferred), (3, 0));
}

#[tokio::test]
async fn closing_loses_none() {
    let folder = Folder::new();
    let store = folder.store();
    let other = store.clone();
    defer(&store, 1000);
    store.close().await.unwrap();
    assert_eq!(count(&folder).await, 1000);
    assert_eq!(other.append(record(Outcome::Allow)).await, Err(StoreError::Stopped));
    defer(&other, 1);
    assert_eq!(other.health().dropped, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_handle_writes_them_as_it_goes() {
    let folder = Folder::new();
    defer(&folder.store(), 1);
    while count(&folder).await == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_failed_transaction_loses_none() {
    let folder = Folder::new();
    let store = folder.store();
    let other = folder.connect();
    other.execute_batch("ALTER TABLE records RENAME TO gone").unwrap();
    defer(&store, 2);
    store.flush().await.unwrap_err();
    defer(&store, 1);
    store.flush().await.unwrap_err();
    assert_eq!(store.health().deferred, 3);
    other.execute_batch("ALTER TABLE gone RENAME TO records").unwrap();
    store.flush().await.unwrap();
    assert_eq!(count(&folder).await, 3);
    assert_eq!(store.verify().await.unwrap().faults, []);
}

/// A store that fails finds out by itself that it is well again.
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_store_recovers_without_being_asked_to_write() {
    let folder = Folder::new();
    let store = folder.store();
    let other = folder.connect();
    other.execute_batch("ALTER TABLE records RENAME TO gone").unwrap();
    store.append(record(Outcome::Allow)).await.unwrap_err();
    assert!(store.health().last_error.unwrap().contains("schema was changed"));
    other.execute_batch("ALTER TABLE gone RENAME TO records").unwrap();
    wait_until(|| store.health().ok).await;
    assert_eq!(count(&folder).await, 0);
}

#[tokio::test]
async fn too_many_are_dropped_and_counted() {
    let folder = Folder::new();
    let store = folder.store();
    let other = folder.connect();
    other.execute_batch("ALTER TABLE records RENAME TO gone").unwrap();
    while store.health().dropped == 0 {
        defer(&store, 1000);
    }
    other.execute_batch("ALTER TABLE gone RENAME TO records").unwrap();
    store.flush().await.unwrap();
    assert!(count(&folder).await >= 100_000);
}
