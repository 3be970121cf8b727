//! What counters read, whoever charges them and whatever comes between: compared
//! with sums kept by the test.

use std::{collections::BTreeMap, time::Duration};

use rusqlite::Connection;
use sluice_policy::{Amount, Timestamp};
use sluice_store::{Charge, Kind, Record, Reservation, Store, new_id};

use crate::folder::{Folder, NOW, charge, later, record};

const MAX: u64 = 1_000_000;

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// One of so many counters, in one of two windows.
fn charge_to(counter: u64, window: u64, amount: u64) -> Charge {
    let start = NOW.as_millis() + i64::try_from(window).unwrap() * 60_000;
    let window_start = Timestamp::from_millis(start);
    Charge { window_start, ..charge(&counter.to_string(), amount, MAX) }
}

/// What a counter reads, asked for by a charge that never fits.
async fn reading(store: &Store, (counter, window): (u64, u64)) -> Amount {
    let never = vec![charge_to(counter, window, MAX + 1)];
    match store.reserve(never, record("limit")).await.unwrap() {
        Reservation::Refused(readings) => readings[0],
        Reservation::Made => panic!("more than the most was admitted"),
    }
}

/// What each counter reads through each store is what was charged to it.
async fn check(stores: &[Store], sums: &BTreeMap<(u64, u64), u64>) {
    for store in stores {
        for (place, sum) in sums {
            assert_eq!(reading(store, *place).await, Amount::whole(*sum), "{place:?}");
        }
    }
}

/// How many rows of the log may say something of counters that is not in their table.
fn rows_ahead(folder: &Folder) -> i64 {
    let database = Connection::open(folder.database()).unwrap();
    let entered = "SELECT value FROM meta WHERE name = 'entered'";
    let entered = database.query_row(entered, [], |row| row.get(0)).map_or(0, i64::from_be_bytes);
    let sql = "SELECT count(*) FROM log WHERE seq > ?1";
    database.query_row(sql, [entered], |row| row.get(0)).unwrap()
}

/// Two processes charge, refund, are refused, end and begin again, and prune what
/// the others have not looked at yet.
#[tokio::test]
async fn all_see_what_anybody_has_charged() {
    let folder = Folder::new();
    let mut stores = [folder.store(), folder.store()];
    let mut numbers = Numbers(7);
    let (mut sums, mut prunes) = (BTreeMap::new(), 0);
    for step in 0..4_000_u64 {
        let which = usize::from(numbers.below(5) == 0);
        let place = (numbers.below(40).min(numbers.below(40)), numbers.below(2));
        let amount = numbers.below(3) + 1;
        let charges = vec![charge_to(place.0, place.1, amount)];
        let store = &stores[which];
        let sum = sums.entry(place).or_insert(0);
        match numbers.below(100) {
            0..6 if *sum >= amount => {
                store.refund(charges, record("error")).await.unwrap();
                *sum -= amount;
            }
            6..12 => {
                let both = [charges, vec![charge_to(place.0, place.1, MAX)]].concat();
                let refused = store.reserve(both, record("limit")).await.unwrap();
                assert_eq!(refused, Reservation::Refused(vec![Amount::whole(*sum); 2]), "{step}");
            }
            12..14 => stores[which] = folder.store(),
            14 => {
                prunes += 1;
                store.prune(Duration::ZERO, u64::MAX, later(prunes)).await.unwrap();
                assert_eq!(rows_ahead(&folder), 0);
            }
            _ => {
                let made = store.reserve(charges, record("allow")).await.unwrap();
                assert_eq!(made, Reservation::Made, "{step}");
                *sum += amount;
            }
        }
        if step % 500 == 0 {
            check(&stores, &sums).await;
        }
    }
    assert!(prunes > 20, "{prunes}");
    check(&stores, &sums).await;
    check(&[folder.store()], &sums).await;
    assert_eq!(stores[0].verify().unwrap().faults, []);
}

/// Whoever opens the database reads what was not entered, so there is never much of it.
#[tokio::test]
async fn what_the_log_says_is_entered_now_and_then() {
    let folder = Folder::new();
    let store = folder.store();
    let mut most = 0;
    for step in 0..1_300 {
        store.reserve(vec![charge_to(0, 0, 1)], record("allow")).await.unwrap();
        if step % 50 == 0 {
            most = most.max(rows_ahead(&folder));
        }
    }
    assert!((400..=512).contains(&most), "{most}");
    // Also where nothing is charged, because others have to look.
    for _ in 0..600 {
        store.append(record("deny")).await.unwrap();
        most = most.max(rows_ahead(&folder));
    }
    assert!(most <= 512, "{most}");
    // Many counters are entered sooner.
    for step in 0..100 {
        let many = (0..100).map(|counter| charge_to(100 * step + counter, 1, 1)).collect();
        store.reserve(many, record("allow")).await.unwrap();
        assert!(step < 11 || rows_ahead(&folder) <= 11, "{step}");
    }
    check(&[store, folder.store()], &BTreeMap::from([((0, 0), 1_300), ((77, 1), 1)])).await;
}

#[tokio::test]
async fn a_log_that_is_damaged_there_refuses() {
    let folder = Folder::new();
    let store = folder.store();
    // The first that a process writes is entered.
    for _ in 0..2 {
        store.reserve(vec![charge_to(0, 0, 1)], record("allow")).await.unwrap();
    }
    let database = Connection::open(folder.database()).unwrap();
    database.execute("UPDATE log SET counts = x'07'", []).unwrap();
    let again = folder.store();
    let refused = again.reserve(vec![charge_to(0, 0, 1)], record("allow")).await.unwrap_err();
    assert!(refused.to_string().contains("record 2 says of counters"), "{refused}");
    // Whoever knew better does not have to read it.
    assert_eq!(reading(&store, (0, 0)).await, Amount::whole(2));
}

/// A minute's window, in a policy that then says a day, which begins with it.
#[tokio::test]
async fn a_window_that_is_made_longer_is_not_forgotten_with_the_shorter_one() {
    let day = || Charge { window_seconds: 86_400, ..charge("eval", 1, 2) };
    let full = Ok(Reservation::Refused(vec![Amount::whole(2)]));
    for is_opened_again in [false, true] {
        let folder = Folder::new();
        let mut store = folder.store();
        store.reserve(vec![charge("eval", 2, 2)], record("allow")).await.unwrap();
        if is_opened_again {
            store = folder.store();
        }
        assert_eq!(store.reserve(vec![day()], record("limit")).await, full);
        store.append(record("limit")).await.unwrap();
        // A process that begins hours later forgets what is over.
        let at = later(4 * 3_600);
        let hours_later = folder.store();
        hours_later.append(Record::new(new_id(at), at, Kind::Decision)).await.unwrap();
        assert_eq!(hours_later.reserve(vec![day()], record("limit")).await, full);
    }
}
