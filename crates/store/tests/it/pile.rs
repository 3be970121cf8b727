//! Records that nobody waits for.

use sluice_store::{Filter, StoreError};

use crate::folder::{Folder, open, record, wait_until};

fn count(folder: &Folder) -> usize {
    open(&folder.database()).records(&Filter::default()).unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn they_are_written_without_being_asked_for() {
    let folder = Folder::new();
    let store = folder.store();
    for _ in 0..10 {
        store.append_later(&record("allow"));
    }
    wait_until(|| store.records(&Filter::default()).unwrap().len() == 10).await;
    assert_eq!(store.verify().unwrap().faults, []);
}

#[tokio::test]
async fn they_go_along_with_whatever_else_is_written() {
    let folder = Folder::new();
    let store = folder.store();
    store.append_later(&record("allow"));
    store.append(record("deny")).await.unwrap();
    assert_eq!(count(&folder), 2);
    store.append_later(&record("allow"));
    store.flush().await.unwrap();
    assert_eq!((count(&folder), store.health().piled), (3, 0));
}

#[tokio::test]
async fn closing_loses_none() {
    let folder = Folder::new();
    let store = folder.store();
    let other = store.clone();
    for _ in 0..1000 {
        store.append_later(&record("allow"));
    }
    store.close().await.unwrap();
    assert_eq!(count(&folder), 1000);
    assert_eq!(other.append(record("allow")).await, Err(StoreError::Stopped));
    other.append_later(&record("allow"));
    assert_eq!(other.health().dropped, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_handle_writes_them_as_it_goes() {
    let folder = Folder::new();
    folder.store().append_later(&record("allow"));
    wait_until(|| count(&folder) == 1).await;
}

#[tokio::test]
async fn a_failed_transaction_loses_none() {
    let folder = Folder::new();
    let store = folder.store();
    let other = rusqlite::Connection::open(folder.database()).unwrap();
    other.execute_batch("ALTER TABLE log RENAME TO gone").unwrap();
    store.append_later(&record("allow"));
    store.append_later(&record("allow"));
    store.flush().await.unwrap_err();
    store.append_later(&record("allow"));
    store.flush().await.unwrap_err();
    assert_eq!(store.health().piled, 3);
    other.execute_batch("ALTER TABLE gone RENAME TO log").unwrap();
    store.flush().await.unwrap();
    assert_eq!(count(&folder), 3);
    assert_eq!(store.verify().unwrap().faults, []);
}

#[tokio::test]
async fn a_full_pile_drops_and_counts() {
    let folder = Folder::new();
    let store = folder.store();
    let other = rusqlite::Connection::open(folder.database()).unwrap();
    other.execute_batch("ALTER TABLE log RENAME TO gone").unwrap();
    let one = record("allow");
    while store.health().dropped == 0 {
        (0..1000).for_each(|_| store.append_later(&one));
    }
    other.execute_batch("ALTER TABLE gone RENAME TO log").unwrap();
    store.flush().await.unwrap();
    assert!(count(&folder) >= 100_000, "{}", count(&folder));
}
