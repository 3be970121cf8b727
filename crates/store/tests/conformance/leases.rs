//! Leases: never more calls at a time than there are places, and no place is lost.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use sluice_policy::{Amount, Scope};
use sluice_store::{CounterKey, Id, Lease, Reservation, Reserved, Store};

use crate::fixture::{Fixture, charge, open_address, readings, reservation};

fn lease(max: u64) -> Lease {
    lease_of(Scope::Grant, "alice", max)
}

fn lease_of(scope: Scope, owner: &str, max: u64) -> Lease {
    Lease { key: CounterKey::new("demo", scope, owner, "/tools/eval/concurrent"), max }
}

fn call(leases: Vec<Lease>) -> Reservation {
    Reservation { leases, ..reservation(Vec::new()) }
}

/// Takes a place; the call's id, or how many calls are in progress.
async fn take(store: &Store, lease: Lease) -> Result<Id, Vec<u64>> {
    let call = call(vec![lease]);
    let id = call.id;
    match store.reserve(call).await.unwrap() {
        Reserved::Made { .. } => Ok(id),
        Reserved::Refused { in_progress, .. } => Err(in_progress),
    }
}

pub(crate) async fn n_calls_at_a_time_fit(fixture: Fixture) {
    let store = &fixture.store;
    let first = take(store, lease(2)).await.unwrap();
    let second = take(store, lease(2)).await.unwrap();
    assert_eq!(take(store, lease(2)).await, Err(vec![2]));
    store.give_back(first);
    // Giving back twice frees one place.
    store.give_back(first);
    let third = take(store, lease(2)).await.unwrap();
    assert_eq!(take(store, lease(2)).await, Err(vec![2]));
    // Each call keeps to its own maximum.
    assert_eq!(take(store, lease(0)).await, Err(vec![2]));
    assert!(take(store, lease(3)).await.is_ok());
    store.give_back(second);
    store.give_back(third);
    assert!(take(store, lease(2)).await.is_ok());
    assert_eq!(take(store, lease(2)).await, Err(vec![2]));
    // Refused calls are not recorded.
    assert_eq!(fixture.verify().await, 5);
}

pub(crate) async fn leases_and_charges_are_made_all_or_none(fixture: Fixture) {
    let store = &fixture.store;
    let both = |max, charged| Reservation { leases: vec![lease(max)], ..reservation(charged) };
    let first = both(1, vec![charge("eval", 1, 10)]);
    store.reserve(first.clone()).await.unwrap();
    // There is no place, so nothing is charged.
    let refused = store.reserve(both(1, vec![charge("eval", 1, 10)])).await.unwrap();
    let readings_of_one = vec![Amount::ONE];
    assert_eq!(refused, Reserved::Refused { readings: readings_of_one, in_progress: vec![1] });
    assert_eq!(readings(store, vec![charge("eval", 10, 10)]).await, [1]);
    // The charge does not fit, so no place is taken.
    let refused = store.reserve(both(2, vec![charge("eval", 10, 10)])).await.unwrap();
    let readings_of_one = vec![Amount::ONE];
    assert_eq!(refused, Reserved::Refused { readings: readings_of_one, in_progress: vec![1] });
    assert!(take(store, lease(2)).await.is_ok());
    // One of two places is not free.
    let two = call(vec![lease_of(Scope::Server, "", 5), lease(2)]);
    let refused = store.reserve(two).await.unwrap();
    assert_eq!(refused, Reserved::Refused { readings: Vec::new(), in_progress: vec![0, 2] });
    assert!(take(store, lease_of(Scope::Server, "", 1)).await.is_ok());
    // What is reserved once takes one place, however often that is asked for.
    store.reserve(first).await.unwrap();
    assert_eq!(take(store, lease(2)).await, Err(vec![2]));
}

pub(crate) async fn scopes_and_owners_have_places_of_their_own(fixture: Fixture) {
    let store = &fixture.store;
    let leases = [
        lease(1),
        lease_of(Scope::Grant, "bob", 1),
        lease_of(Scope::Session, "alice", 1),
        lease_of(Scope::Principal, "alice", 1),
        lease_of(Scope::Server, "", 1),
    ];
    for lease in leases.clone() {
        assert!(take(store, lease).await.is_ok());
    }
    for lease in leases {
        assert_eq!(take(store, lease).await, Err(vec![1]));
    }
}

pub(crate) async fn places_are_never_given_twice(fixture: Fixture) {
    const PLACES: usize = 5;
    let stores: Vec<_> =
        fixture.other_process().into_iter().chain([fixture.store.clone()]).collect();
    let (running, served) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let tasks = (0..24).map(|number| {
        let (store, running, served) =
            (stores[number % stores.len()].clone(), Arc::clone(&running), Arc::clone(&served));
        tokio::spawn(async move {
            for _ in 0..20 {
                let Ok(id) = take(&store, lease(PLACES as u64)).await else {
                    tokio::task::yield_now().await;
                    continue;
                };
                let others = running.fetch_add(1, Ordering::SeqCst);
                assert!(others < PLACES, "{others} others");
                tokio::task::yield_now().await;
                running.fetch_sub(1, Ordering::SeqCst);
                served.fetch_add(1, Ordering::SeqCst);
                store.give_back(id);
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert!(served.load(Ordering::SeqCst) >= PLACES);
    // All places are free again, for any process.
    for store in &stores {
        store.flush().await.unwrap();
    }
    for number in 0..PLACES {
        let store = &stores[number % stores.len()];
        assert!(take(store, lease(PLACES as u64)).await.is_ok(), "{number}");
    }
    assert_eq!(take(&fixture.store, lease(PLACES as u64)).await, Err(vec![PLACES as u64]));
}

/// A call that follows another one never finds its place taken.
pub(crate) async fn a_place_is_free_at_once(fixture: Fixture) {
    for number in 0..500 {
        let id = take(&fixture.store, lease(1)).await;
        let id = id.unwrap_or_else(|taken| panic!("call {number}: {taken:?}"));
        fixture.store.give_back(id);
    }
}

pub(crate) async fn a_caller_that_goes_away_keeps_no_place(fixture: Fixture) {
    let store = &fixture.store;
    for number in 0..200 {
        let call = call(vec![lease(1)]);
        let id = call.id;
        let mut calling = Box::pin(store.reserve(call));
        let polled = std::future::poll_fn(|context| Poll::Ready(calling.as_mut().poll(context)));
        let is_answered = polled.await.is_ready();
        // At any point of the commit, and before and after it.
        std::thread::sleep(Duration::from_micros(number * 5));
        drop(calling);
        if is_answered {
            store.give_back(id);
        }
        let id = take(store, lease(1)).await.expect("the place is free");
        store.give_back(id);
    }
}

pub(crate) async fn a_failing_store_frees_places_when_it_recovers(fixture: Fixture) {
    let id = take(&fixture.store, lease(1)).await.unwrap();
    let Some(broken) = fixture.break_writes() else { return };
    fixture.store.give_back(id);
    assert!(fixture.store.flush().await.is_err());
    assert!(fixture.store.reserve(call(vec![lease(1)])).await.is_err());
    broken.mend();
    while !fixture.store.health().ok {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(take(&fixture.store, lease(1)).await.is_ok());
}

pub(crate) async fn a_process_that_ends_frees_its_places(mut fixture: Fixture) {
    let Some(other) = fixture.other_process() else { return };
    assert!(take(&other, lease(1)).await.is_ok());
    assert_eq!(take(&fixture.store, lease(1)).await, Err(vec![1]));
    other.close().await.unwrap();
    assert!(take(&fixture.store, lease(1)).await.is_ok());
    fixture.restart().await;
    assert!(take(&fixture.store, lease(1)).await.is_ok());
    fixture.verify().await;
}

const ADDRESS: &str = "SLUICE_STORE_LEASES";

/// Not a test of its own: the process that the case below kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "how the parent tells the child what to do")]
async fn child() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let store = open_address(&address);
    for _ in 0..3 {
        assert!(take(&store, lease(5)).await.is_ok());
    }
    writeln!(std::io::stdout(), "taken").unwrap();
    std::future::pending::<()>().await;
}

pub(crate) async fn a_killed_process_frees_its_places(fixture: Fixture) {
    let Some(address) = fixture.address() else { return };
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["leases::child", "--exact", "--nocapture"])
        .env(ADDRESS, &address)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while !lines.next().unwrap().unwrap().ends_with("taken") {}
    // The places of a process that lives are its own, also if it does nothing.
    let own = take(&fixture.store, lease(5)).await.unwrap();
    assert!(take(&fixture.store, lease(5)).await.is_ok());
    assert_eq!(take(&fixture.store, lease(5)).await, Err(vec![5]));
    child.kill().unwrap();
    child.wait().unwrap();
    for _ in 0..3 {
        assert!(take(&fixture.store, lease(5)).await.is_ok());
    }
    assert_eq!(take(&fixture.store, lease(5)).await, Err(vec![5]));
    fixture.store.give_back(own);
    assert!(take(&fixture.store, lease(5)).await.is_ok());
    fixture.verify().await;
}
