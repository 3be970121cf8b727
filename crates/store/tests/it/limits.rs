//! Reservations: all or none, and never one more than the limit.

use std::cell::Cell;

use sluice_policy::{Amount, Timestamp};
use sluice_store::{Charge, Reservation, Store};

use crate::folder::{Folder, NOW, charge, open, record, wait_until};

async fn reserve(store: &Store, charges: Vec<Charge>) -> Reservation {
    store.reserve(charges, record("allow")).await.unwrap()
}

#[tokio::test]
async fn a_limit_of_n_admits_exactly_n() {
    let folder = Folder::new();
    let store = folder.store();
    for _ in 0..10 {
        assert_eq!(reserve(&store, vec![charge("eval", 1, 10)]).await, Reservation::Made);
    }
    let refused = reserve(&store, vec![charge("eval", 1, 10)]).await;
    assert_eq!(refused, Reservation::Refused(vec![Amount::whole(10)]));
    // Nothing fits a full counter but nothing.
    assert_eq!(reserve(&store, vec![charge("eval", 0, 10)]).await, Reservation::Made);
}

#[tokio::test]
async fn charges_are_made_together_or_not_at_all() {
    let folder = Folder::new();
    let store = folder.store();
    let both = || vec![charge("calls", 1, 100), charge("money", 60, 100)];
    assert_eq!(reserve(&store, both()).await, Reservation::Made);
    let refused = Reservation::Refused(vec![Amount::whole(1), Amount::whole(60)]);
    assert_eq!(reserve(&store, both()).await, refused);
    assert_eq!(reserve(&store, both()).await, refused);
}

#[tokio::test]
async fn two_charges_to_one_counter_are_counted_both() {
    let folder = Folder::new();
    let store = folder.store();
    let both = || vec![charge("eval", 6, 10), charge("eval", 5, 10)];
    let refused = Reservation::Refused(vec![Amount::ZERO, Amount::ZERO]);
    assert_eq!(reserve(&store, both()).await, refused);
    let both = || vec![charge("eval", 3, 10), charge("eval", 5, 10)];
    assert_eq!(reserve(&store, both()).await, Reservation::Made);
    let refused = Reservation::Refused(vec![Amount::whole(8)]);
    assert_eq!(reserve(&store, vec![charge("eval", 3, 10)]).await, refused);
}

/// How many of so many calls at once are admitted by a limit of 100.
async fn admitted(stores: &[Store], calls: usize) -> usize {
    let tasks: Vec<_> = (0..calls)
        .map(|number| {
            let store = stores[number % stores.len()].clone();
            tokio::spawn(async move { reserve(&store, vec![charge("eval", 1, 100)]).await })
        })
        .collect();
    let mut made = 0;
    for task in tasks {
        made += usize::from(task.await.unwrap() == Reservation::Made);
    }
    made
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_at_once_get_no_more() {
    let folder = Folder::new();
    let store = folder.store();
    assert_eq!(admitted(std::slice::from_ref(&store), 500).await, 100);
    // A refusal writes nothing.
    assert_eq!(store.verify().unwrap().records, 100);
}

/// Two processes on one data directory are two stores on one file.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_writers_share_one_limit() {
    let folder = Folder::new();
    let stores = [folder.store(), open(&folder.database())];
    assert_eq!(admitted(&stores, 300).await, 100);
    let verified = stores[0].verify().unwrap();
    assert_eq!((verified.records, verified.faults.len()), (100, 0));
}

#[tokio::test]
async fn windows_are_counted_apart_and_refunds_go_back_to_theirs() {
    let folder = Folder::new();
    let store = folder.store();
    let later = || Charge {
        window_start: Timestamp::from_millis(NOW.as_millis() + 60_000),
        ..charge("eval", 1, 1)
    };
    assert_eq!(reserve(&store, vec![charge("eval", 1, 1)]).await, Reservation::Made);
    assert_eq!(reserve(&store, vec![later()]).await, Reservation::Made);
    // A call judged just before the edge may arrive after one judged behind it.
    assert_ne!(reserve(&store, vec![charge("eval", 1, 1)]).await, Reservation::Made);
    store.refund(vec![charge("eval", 1, 1)], record("error")).await.unwrap();
    assert_ne!(reserve(&store, vec![later()]).await, Reservation::Made);
    assert_eq!(reserve(&store, vec![charge("eval", 1, 1)]).await, Reservation::Made);
}

#[tokio::test]
async fn readings_outlive_the_process() {
    let folder = Folder::new();
    assert_eq!(reserve(&folder.store(), vec![charge("eval", 7, 10)]).await, Reservation::Made);
    let refused = reserve(&folder.store(), vec![charge("eval", 7, 10)]).await;
    assert_eq!(refused, Reservation::Refused(vec![Amount::whole(7)]));
}

#[tokio::test]
async fn a_store_that_fails_refuses_and_says_why() {
    let folder = Folder::new();
    let store = folder.store();
    let other = rusqlite::Connection::open(folder.database()).unwrap();
    other.execute_batch("ALTER TABLE log RENAME TO gone").unwrap();
    let failed = store.reserve(vec![charge("eval", 1, 1)], record("allow")).await.unwrap_err();
    assert!(failed.to_string().contains("no such table"), "{failed}");
    assert!(store.health().last_error.unwrap().contains("no such table"));
    // Nothing was charged, and once the store is well it goes on.
    other.execute_batch("ALTER TABLE gone RENAME TO log").unwrap();
    assert_eq!(reserve(&store, vec![charge("eval", 1, 1)]).await, Reservation::Made);
    assert!(store.health().ok);
}

/// A store that fails says it is well again without being asked to write.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_finds_out_by_itself_that_it_is_well_again() {
    let folder = Folder::new();
    let store = folder.store();
    let other = rusqlite::Connection::open(folder.database()).unwrap();
    other.execute_batch("ALTER TABLE log RENAME TO gone").unwrap();
    store.append(record("allow")).await.unwrap_err();
    assert!(!store.health().ok);
    other.execute_batch("ALTER TABLE gone RENAME TO log").unwrap();
    wait_until(|| store.health().ok).await;
}

#[tokio::test]
async fn a_locked_database_refuses_in_good_time() {
    let folder = Folder::new();
    let store = folder.store();
    let other = rusqlite::Connection::open(folder.database()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let failed = store.append(record("allow")).await.unwrap_err();
    assert!(failed.to_string().contains("locked"), "{failed}");
    other.execute_batch("ROLLBACK").unwrap();
    store.append(record("allow")).await.unwrap();
}

/// While another process writes, whoever calls waits, and the thread it runs on
/// does not: here it is what lets the other one go on.
#[tokio::test]
async fn waiting_for_another_process_holds_no_thread_up() {
    let folder = Folder::new();
    let store = folder.store();
    store.append(record("allow")).await.unwrap();
    let other = rusqlite::Connection::open(folder.database()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let has_begun = Cell::new(false);
    let second = async {
        // The first is with the store's thread by then, which waits for the lock.
        wait_until(|| store.health().queued == 0).await;
        has_begun.set(true);
        store.append(record("allow")).await
    };
    let release = async {
        wait_until(|| has_begun.get()).await;
        tokio::task::yield_now().await;
        other.execute_batch("COMMIT").unwrap();
    };
    let (first, second, ()) = tokio::join!(store.append(record("allow")), second, release);
    assert_eq!((first, second), (Ok(()), Ok(())));
}
