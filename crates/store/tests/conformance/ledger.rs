//! Reservations: all or none, once, and never one more than the limit.

use std::{collections::BTreeMap, sync::atomic::Ordering};

use sluice_policy::{Amount, Decimal, Scope, Timestamp, Window};
use sluice_store::{
    Charge, CounterKey, Kind, Outcome, Record, Reserved, Store, StoreError, new_id,
};

use crate::fixture::{Fixture, charge, is_made, later, readings, record, reservation, retention};

pub(crate) async fn a_limit_of_n_admits_exactly_n(fixture: Fixture) {
    let store = &fixture.store;
    for _ in 0..10 {
        assert!(is_made(store, vec![charge("eval", 1, 10)]).await);
    }
    assert_eq!(readings(store, vec![charge("eval", 1, 10)]).await, [10]);
    // Nothing fits a full counter but nothing.
    assert!(is_made(store, vec![charge("eval", 0, 10)]).await);
}

pub(crate) async fn charges_are_made_all_or_none(fixture: Fixture) {
    let store = &fixture.store;
    let both = || vec![charge("calls", 1, 100), charge("money", 60, 100)];
    assert!(is_made(store, both()).await);
    assert_eq!(readings(store, both()).await, [1, 60]);
    assert_eq!(readings(store, both()).await, [1, 60]);
}

pub(crate) async fn two_charges_to_one_counter_are_both_counted(fixture: Fixture) {
    let store = &fixture.store;
    assert_eq!(readings(store, vec![charge("eval", 6, 10), charge("eval", 5, 10)]).await, [0, 0]);
    assert!(is_made(store, vec![charge("eval", 3, 10), charge("eval", 5, 10)]).await);
    assert_eq!(readings(store, vec![charge("eval", 3, 10)]).await, [8]);
}

/// How many of so many calls at once are admitted by a limit of 100.
async fn admitted(stores: &[Store], calls: usize) -> usize {
    let tasks: Vec<_> = (0..calls)
        .map(|number| {
            let store = stores[number % stores.len()].clone();
            tokio::spawn(async move { is_made(&store, vec![charge("eval", 1, 100)]).await })
        })
        .collect();
    let mut made = 0;
    for task in tasks {
        made += usize::from(task.await.unwrap());
    }
    made
}

pub(crate) async fn concurrent_reservations_never_exceed_the_limit(fixture: Fixture) {
    assert_eq!(admitted(std::slice::from_ref(&fixture.store), 500).await, 100);
    assert_eq!(fixture.verify().await, 100);
}

pub(crate) async fn processes_share_one_limit(fixture: Fixture) {
    let Some(other) = fixture.other_process() else { return };
    assert_eq!(admitted(&[fixture.store.clone(), other], 300).await, 100);
    assert_eq!(fixture.verify().await, 100);
}

pub(crate) async fn a_reservation_is_made_once(fixture: Fixture) {
    let store = &fixture.store;
    let once = reservation(vec![charge("eval", 1, 10)]);
    let made = store.reserve(once.clone()).await.unwrap();
    assert_eq!(made, Reserved::Made { windows: vec![later(0)] });
    // Also if it is repeated later, or many times at once.
    fixture.advance(60);
    let again = (0..20).map(|_| {
        let (store, once) = (store.clone(), once.clone());
        tokio::spawn(async move { store.reserve(once).await.unwrap() })
    });
    for again in again.collect::<Vec<_>>() {
        assert_eq!(again.await.unwrap(), made);
    }
    assert_eq!(fixture.entries().await.len(), 1);
    assert_eq!(readings(store, vec![charge("eval", 11, 10)]).await, [0]);
}

pub(crate) async fn a_reservation_is_made_once_across_a_restart(mut fixture: Fixture) {
    let charges = vec![charge("eval", 1, 10), charge("mo\"ney", 3, 10)];
    let (once, free) = (reservation(charges), reservation(Vec::new()));
    let made = fixture.store.reserve(once.clone()).await.unwrap();
    fixture.store.reserve(free.clone()).await.unwrap();
    fixture.restart().await;
    fixture.advance(60);
    for _ in 0..2 {
        assert_eq!(fixture.store.reserve(once.clone()).await.unwrap(), made);
    }
    let nothing = Reserved::Made { windows: Vec::new() };
    assert_eq!(fixture.store.reserve(free).await.unwrap(), nothing);
    assert_eq!(fixture.entries().await.len(), 2);
    assert_eq!(readings(&fixture.store, vec![charge("eval", 11, 10)]).await, [0]);
    fixture.advance(-60);
    let both = vec![charge("eval", 1, 10), charge("mo\"ney", 10, 10)];
    assert_eq!(readings(&fixture.store, both).await, [1, 3]);
    // A request that was not reserved is.
    assert!(is_made(&fixture.store, vec![charge("eval", 1, 10)]).await);
}

pub(crate) async fn a_reservation_is_given_back_once_across_a_restart(mut fixture: Fixture) {
    let made = reservation(vec![charge("eval", 4, 10), charge("calls", 1, 10)]);
    let id = made.id;
    fixture.store.reserve(made).await.unwrap();
    assert!(is_made(&fixture.store, vec![charge("eval", 1, 10)]).await);
    fixture.restart().await;
    fixture.advance(60);
    assert!(fixture.store.release(id, record(Outcome::Error)).await.unwrap());
    assert!(!fixture.store.release(id, record(Outcome::Error)).await.unwrap());
    fixture.restart().await;
    assert!(!fixture.store.release(id, record(Outcome::Error)).await.unwrap());
    fixture.advance(-60);
    let both = vec![charge("eval", 10, 10), charge("calls", 1, 10)];
    assert_eq!(readings(&fixture.store, both).await, [1, 0]);
}

pub(crate) async fn a_released_reservation_gives_back_to_its_window(fixture: Fixture) {
    let store = &fixture.store;
    let first = reservation(vec![charge("eval", 1, 1), charge("calls", 2, 9)]);
    let id = first.id;
    store.reserve(first).await.unwrap();
    fixture.advance(60);
    assert!(is_made(store, vec![charge("eval", 1, 1)]).await);
    assert!(store.release(id, record(Outcome::Error)).await.unwrap());
    // The window that runs now is still full; the one before is not.
    assert_eq!(readings(store, vec![charge("eval", 1, 1)]).await, [1]);
    fixture.advance(-60);
    assert_eq!(readings(store, vec![charge("calls", 10, 9)]).await, [0]);
    assert!(is_made(store, vec![charge("eval", 1, 1)]).await);
    // What was given back is not given back again.
    assert!(!store.release(id, record(Outcome::Error)).await.unwrap());
    assert_eq!(readings(store, vec![charge("eval", 1, 1)]).await, [1]);
    assert_eq!(fixture.verify().await, 5);
}

/// Also when all releases share one commit.
pub(crate) async fn concurrent_releases_give_back_once(fixture: Fixture) {
    let store = &fixture.store;
    for _ in 0..5 {
        assert!(is_made(store, vec![charge("eval", 1, 10)]).await);
    }
    let made = reservation(vec![charge("eval", 1, 10)]);
    let id = made.id;
    store.reserve(made).await.unwrap();
    let releases = (0..20).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { store.release(id, record(Outcome::Error)).await.unwrap() })
    });
    let mut given_back = 0;
    for release in releases.collect::<Vec<_>>() {
        given_back += usize::from(release.await.unwrap());
    }
    assert_eq!(given_back, 1);
    assert_eq!(readings(store, vec![charge("eval", 10, 10)]).await, [5]);
}

pub(crate) async fn a_settled_reservation_cannot_be_released(mut fixture: Fixture) {
    let made = reservation(vec![charge("eval", 1, 1)]);
    let id = made.id;
    fixture.store.reserve(made).await.unwrap();
    let outcome = Record::new(new_id(later(1)), later(1), Kind::Outcome);
    fixture.store.append_deferred(Record { request: Some(id), ..outcome });
    fixture.store.flush().await.unwrap();
    assert!(!fixture.store.release(id, record(Outcome::Error)).await.unwrap());
    fixture.restart().await;
    assert!(!fixture.store.release(id, record(Outcome::Error)).await.unwrap());
    assert_eq!(readings(&fixture.store, vec![charge("eval", 1, 1)]).await, [1]);
}

/// Also if the process that released it, or recorded its outcome, has ended.
pub(crate) async fn a_settled_reservation_is_charged_again(mut fixture: Fixture) {
    let released = reservation(vec![charge("eval", 1, 10)]);
    let finished = reservation(vec![charge("calls", 1, 10)]);
    let both = || vec![charge("eval", 11, 10), charge("calls", 11, 10)];
    let made = fixture.store.reserve(released.clone()).await.unwrap();
    fixture.store.reserve(finished.clone()).await.unwrap();
    assert!(fixture.store.release(released.id, record(Outcome::Error)).await.unwrap());
    let outcome = Record::new(new_id(later(1)), later(1), Kind::Outcome);
    fixture.store.append_deferred(Record { request: Some(finished.id), ..outcome });
    fixture.store.flush().await.unwrap();
    assert_eq!(readings(&fixture.store, both()).await, [0, 1]);
    fixture.restart().await;
    for _ in 0..2 {
        assert_eq!(fixture.store.reserve(released.clone()).await.unwrap(), made);
        assert_eq!(fixture.store.reserve(finished.clone()).await.unwrap(), made);
        assert_eq!(readings(&fixture.store, both()).await, [1, 2]);
    }
    // The second reservation is open, so it is not made a third time.
    fixture.restart().await;
    assert_eq!(fixture.store.reserve(released.clone()).await.unwrap(), made);
    assert_eq!(readings(&fixture.store, both()).await, [1, 2]);
    assert!(fixture.store.release(released.id, record(Outcome::Error)).await.unwrap());
    assert_eq!(readings(&fixture.store, both()).await, [0, 2]);
}

pub(crate) async fn the_store_decides_which_window_is_charged(fixture: Fixture) {
    let store = &fixture.store;
    let windows = [Window::Minute, Window::Hour, Window::Day, Window::Month, Window::Seconds(7)];
    let charges = || windows.map(|window| Charge { window, ..charge("eval", 1, 10) }).to_vec();
    for seconds in [0, 59, 1, 3_600] {
        fixture.advance(seconds);
        let now = Timestamp::from_millis(fixture.clock.load(Ordering::Relaxed));
        let made = store.reserve(reservation(charges())).await.unwrap();
        let expected = windows.map(|window| window.start(now)).to_vec();
        assert_eq!(made, Reserved::Made { windows: expected });
    }
    // Windows of different lengths that begin together are one counter.
    let day = Charge { window: Window::Day, ..charge("eval", 11, 10) };
    assert_eq!(readings(store, vec![day]).await, [4]);
}

pub(crate) async fn budgets_add_exact_amounts(fixture: Fixture) {
    let store = &fixture.store;
    let amount = |text| Amount::exactly(Decimal::read(text)).unwrap();
    let spend = |text| Charge {
        window: Window::Day,
        amount: amount(text),
        max: amount("0.3"),
        ..charge("money", 0, 0)
    };
    for text in ["0.1", "0.1", "0.1"] {
        assert!(is_made(store, vec![spend(text)]).await);
    }
    let refused = store.reserve(reservation(vec![spend("0.0000001")])).await.unwrap();
    assert_eq!(
        refused,
        Reserved::Refused { readings: vec![amount("0.3")], in_progress: Vec::new() }
    );
}

pub(crate) async fn scopes_and_owners_have_counters_of_their_own(fixture: Fixture) {
    let keys = [
        CounterKey::new("demo", Scope::Grant, "alice", "eval"),
        CounterKey::new("demo", Scope::Session, "alice", "eval"),
        CounterKey::new("demo", Scope::Grant, "bob", "eval"),
        CounterKey::new("notes", Scope::Grant, "alice", "eval"),
        CounterKey::new("demo", Scope::Server, "", "eval"),
    ];
    for key in keys {
        assert!(is_made(&fixture.store, vec![Charge { key, ..charge("", 1, 1) }]).await);
    }
}

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// One or two processes charge, release, are refused, and prune what the others
/// have not looked at yet.
pub(crate) async fn readings_match_a_model_through_random_operations(fixture: Fixture) {
    const MAX: u64 = 1_000_000;
    let mut stores = vec![fixture.store.clone()];
    stores.extend(fixture.other_process());
    let mut numbers = Numbers(7);
    let (mut sums, mut open) = (BTreeMap::new(), Vec::new());
    for step in 0..1_000 {
        let which = usize::try_from(numbers.below(4)).unwrap() % stores.len();
        let (counter, amount) = (numbers.below(20).to_string(), numbers.below(3) + 1);
        let store = &stores[which];
        match numbers.below(100) {
            0..10 if !open.is_empty() => {
                let last = usize::try_from(numbers.below(open.len() as u64)).unwrap();
                let (of, id, counter, amount) = open.swap_remove(last);
                let store: &Store = &stores[of];
                assert!(store.release(id, record(Outcome::Error)).await.unwrap());
                *sums.get_mut(&counter).unwrap() -= amount;
            }
            10..20 => {
                let both = vec![charge(&counter, 1, MAX), charge(&counter, MAX, MAX)];
                let sum = sums.get(&counter).copied().unwrap_or(0);
                assert_eq!(readings(store, both).await, [sum, sum], "{step}");
            }
            20 => {
                fixture.advance(1);
                store.prune(retention(std::time::Duration::ZERO, u64::MAX)).await.unwrap();
            }
            _ => {
                let made = reservation(vec![charge(&counter, amount, MAX)]);
                open.push((which, made.id, counter.clone(), amount));
                store.reserve(made).await.unwrap();
                *sums.entry(counter).or_insert(0) += amount;
            }
        }
    }
    for store in &stores {
        for (counter, sum) in &sums {
            assert_eq!(readings(store, vec![charge(counter, MAX + 1, MAX)]).await, [*sum]);
        }
    }
    fixture.verify().await;
}

pub(crate) async fn a_refused_reservation_records_nothing(fixture: Fixture) {
    assert_eq!(readings(&fixture.store, vec![charge("eval", 2, 1)]).await, [0]);
    assert!(fixture.entries().await.is_empty());
}

pub(crate) async fn a_reservation_that_cannot_be_recorded_charges_nothing(fixture: Fixture) {
    let store = &fixture.store;
    assert!(is_made(store, vec![charge("eval", 1, 10)]).await);
    let Some(broken) = fixture.break_writes() else { return };
    let one = reservation(vec![charge("eval", 1, 10)]);
    let failed = store.reserve(one.clone()).await.unwrap_err();
    assert!(matches!(failed, StoreError::Failed(_)), "{failed}");
    assert!(!store.health().ok);
    broken.mend();
    assert_eq!(readings(store, vec![charge("eval", 10, 10)]).await, [1]);
    // The same reservation can be tried again.
    assert!(matches!(store.reserve(one).await, Ok(Reserved::Made { .. })));
    assert!(store.health().ok);
    assert_eq!(fixture.verify().await, 2);
}

pub(crate) async fn a_closed_store_refuses(fixture: Fixture) {
    let store = fixture.store.clone();
    store.append(record(Outcome::Deny)).await.unwrap();
    store.clone().close().await.unwrap();
    let refused = store.reserve(reservation(vec![charge("eval", 1, 10)])).await;
    assert_eq!(refused, Err(StoreError::Stopped));
    assert_eq!(store.append(record(Outcome::Deny)).await, Err(StoreError::Stopped));
    assert!(!store.health().ok);
}

pub(crate) async fn a_clock_that_jumps_gives_no_other_window(mut fixture: Fixture) {
    let move_clock = fixture.jumping().await;
    let one = || vec![charge("calls", 1, 2)];
    assert!(is_made(&fixture.store, one()).await);
    for (jump, ahead) in [(5 * 86_400, 5 * 86_400), (-7_200, 5 * 86_400 - 7_200)] {
        move_clock(jump, 1);
        assert_eq!(readings(&fixture.store, vec![charge("calls", 2, 2)]).await, [1]);
        assert_eq!(fixture.store.health().clock_ahead, Some(ahead * 1000));
    }
    // Time goes on as it passes.
    move_clock(0, 60);
    assert!(is_made(&fixture.store, one()).await);
    // The clock is set right, and nothing is spent again.
    move_clock(7_200 - 5 * 86_400, 1);
    assert_eq!(readings(&fixture.store, vec![charge("calls", 2, 2)]).await, [1]);
    assert_eq!(fixture.store.health().clock_ahead, None);
    move_clock(-30, 1);
    assert_eq!(readings(&fixture.store, vec![charge("calls", 2, 2)]).await, [1]);
    let told = fixture.entries().await;
    let told = told.iter().filter_map(|entry| entry.record.message.as_deref());
    let told: Vec<_> = told.filter(|text| text.starts_with("the system clock")).collect();
    assert_eq!(told.len(), 3, "{told:?}");
}
