//! Finding records: by what they say, across the index and what is too new for it.

use rusqlite::Connection;
use sluice_store::{Filter, GrantRef, Kind, Record, Store, new_id};

use crate::folder::{Folder, later, wait_until};

const COUNT: i64 = 2_500;

/// The record with this number: one a second, with something different in each.
fn numbered(number: i64) -> Record {
    let mut record = Record::new(new_id(later(number)), later(number), Kind::Decision);
    record.request = Some(record.id);
    record.server = Some(format!("server{}", number % 3).into());
    let label = format!("label{}", number % 5).into();
    record.grant = Some(GrantRef { id: format!("g{}", number % 7).into(), label });
    record.tool = Some(if number % 1_000 == 1 { "rare" } else { "common" }.into());
    record.outcome = Some(if number % 4 == 0 { "deny" } else { "allow" });
    if number % 10 == 0 {
        record.kind = Kind::Outcome;
    }
    record
}

fn indexed(folder: &Folder) -> i64 {
    let other = Connection::open(folder.database()).unwrap();
    other.query_row("SELECT count(*) FROM blocks", [], |row| row.get(0)).unwrap()
}

/// A store with so many records, and as much of an index as there can be.
async fn filled(folder: &Folder) -> Store {
    let store = folder.store();
    (1..=COUNT).for_each(|number| store.append_later(&numbered(number)));
    store.flush().await.unwrap();
    wait_until(|| indexed(folder) == 2).await;
    store
}

/// Whether a filter finds exactly the records with these numbers, either way round.
#[track_caller]
fn check(store: &Store, filter: &Filter, expected: impl Fn(i64) -> bool) {
    let numbers = |filter: &Filter| -> Vec<i64> {
        store.records(filter).unwrap().into_iter().map(|(number, _)| number).collect()
    };
    let mut all: Vec<i64> = (1..=COUNT).filter(|number| expected(*number)).collect();
    assert_eq!(numbers(filter), all, "{filter:?}");
    let first: Vec<_> = all.iter().copied().take(3).collect();
    assert_eq!(numbers(&Filter { limit: Some(3), ..filter.clone() }), first, "{filter:?}");
    all.reverse();
    let newest_first = Filter { newest_first: true, ..filter.clone() };
    assert_eq!(numbers(&newest_first), all, "{filter:?}");
    all.truncate(3);
    assert_eq!(numbers(&Filter { limit: Some(3), ..newest_first }), all, "{filter:?}");
}

fn text(text: &str) -> String {
    text.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_filter_finds_all_that_fits_and_nothing_else() {
    let folder = Folder::new();
    let store = filled(&folder).await;
    let any = Filter::default;
    check(&store, &any(), |_| true);
    check(&store, &Filter { server: Some(text("server1")), ..any() }, |n| n % 3 == 1);
    check(&store, &Filter { grant: Some(text("g3")), ..any() }, |n| n % 7 == 3);
    check(&store, &Filter { grant: Some(text("label3")), ..any() }, |n| n % 5 == 3);
    check(&store, &Filter { tool: Some(text("rare")), ..any() }, |n| n % 1_000 == 1);
    check(&store, &Filter { outcome: Some(text("deny")), ..any() }, |n| n % 4 == 0);
    check(&store, &Filter { kind: Some(Kind::Outcome), ..any() }, |n| n % 10 == 0);
    check(&store, &Filter { tool: Some(text("none")), ..any() }, |_| false);
    let both = Filter { tool: Some(text("rare")), server: Some(text("server2")), ..any() };
    check(&store, &both, |n| n % 1_000 == 1 && n % 3 == 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn time_and_place_narrow_a_search() {
    let folder = Folder::new();
    let store = filled(&folder).await;
    let any = Filter::default;
    check(&store, &Filter { since: Some(later(1_000)), ..any() }, |n| n >= 1_000);
    check(&store, &Filter { until: Some(later(1_500)), ..any() }, |n| n < 1_500);
    check(&store, &Filter { after: Some(1_023), ..any() }, |n| n > 1_023);
    check(&store, &Filter { before: Some(2_049), ..any() }, |n| n < 2_049);
    let all = Filter {
        since: Some(later(900)),
        until: Some(later(2_200)),
        after: Some(1_000),
        before: Some(2_100),
        outcome: Some(text("deny")),
        ..any()
    };
    check(&store, &all, |n| n > 1_000 && n < 2_100 && n % 4 == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_finds_its_records() {
    let folder = Folder::new();
    let store = filled(&folder).await;
    let decision = numbered(3_000);
    store.append(decision.clone()).await.unwrap();
    let mut outcome = numbered(3_010);
    outcome.request = decision.request;
    store.append(outcome).await.unwrap();
    let found = store.records(&Filter { request: decision.request, ..Filter::default() }).unwrap();
    let places: Vec<_> = found.iter().map(|(place, _)| *place).collect();
    assert_eq!(places, [COUNT + 1, COUNT + 2]);
}

/// What a damaged index leaves out is not found, so it is built in order and whole.
#[tokio::test(flavor = "multi_thread")]
async fn two_processes_build_one_index() {
    let folder = Folder::new();
    let stores = [folder.store(), folder.store()];
    for number in 1..=COUNT {
        stores[usize::from(number % 2 == 0)].append_later(&numbered(number));
    }
    for store in &stores {
        store.flush().await.unwrap();
    }
    wait_until(|| indexed(&folder) == 2).await;
    let found =
        stores[0].records(&Filter { tool: Some(text("rare")), ..Filter::default() }).unwrap();
    assert_eq!(found.len(), 3);
    assert_eq!(stores[0].verify().unwrap().faults, []);
}
