//! Pruning: what goes, and how the rest still proves itself.

use std::time::Duration;

use rusqlite::Connection;
use sluice_store::{Fault, Filter, Kind, Record, Store, new_id};

use crate::folder::{Folder, later};

const COUNT: i64 = 2_500;

/// A store to which two writers have written, one record a second each.
async fn filled(folder: &Folder) -> Store {
    let stores = [folder.store(), folder.store()];
    for number in 1..=COUNT {
        let mut record = Record::new(new_id(later(number)), later(number), Kind::Decision);
        record.message = Some(format!("{number:0200}"));
        let store = &stores[usize::from(number % 2 == 0)];
        store.append_later(&record);
        if number % 100 == 0 {
            for store in &stores {
                store.flush().await.unwrap();
            }
        }
    }
    let [store, _] = stores;
    store
}

fn places(store: &Store) -> Vec<i64> {
    store.records(&Filter::default()).unwrap().into_iter().map(|(place, _)| place).collect()
}

#[tokio::test]
async fn what_is_too_old_goes_and_the_rest_verifies() {
    let folder = Folder::new();
    let store = filled(&folder).await;
    let keep = Duration::from_secs(700);
    let pruned = store.prune(keep, u64::MAX, later(COUNT)).await.unwrap();
    assert!((1_700..=1_800).contains(&pruned), "{pruned}");
    let verified = store.verify().unwrap();
    assert_eq!(verified.faults, []);
    assert_eq!(verified.pruned_through, i64::try_from(pruned).ok());
    assert_eq!(places(&store).first().copied(), i64::try_from(pruned).ok().map(|last| last + 1));
    // A second time there is nothing to do, and nothing is said.
    let before = places(&store);
    assert_eq!(store.prune(keep, u64::MAX, later(COUNT)).await.unwrap(), 0);
    assert_eq!(places(&store), before);
    // Later there is, and the anchors themselves grow old.
    store.prune(keep, u64::MAX, later(COUNT + 10_000)).await.unwrap();
    assert_eq!(store.verify().unwrap().faults, []);
    assert!(places(&store).len() < 5, "{:?}", places(&store));
    drop(store);
    assert_eq!(folder.store().verify().unwrap().faults, []);
}

#[tokio::test]
async fn what_is_taken_out_after_pruning_shows() {
    let folder = Folder::new();
    let store = filled(&folder).await;
    store.prune(Duration::from_secs(700), u64::MAX, later(COUNT)).await.unwrap();
    let other = Connection::open(folder.database()).unwrap();
    let sql = "DELETE FROM log WHERE seq = (SELECT min(seq) FROM log) RETURNING seq";
    let gone: i64 = other.query_row(sql, [], |row| row.get(0)).unwrap();
    let faults = store.verify().unwrap().faults;
    assert!(faults.contains(&Fault::Missing(gone + 1)), "{faults:?}");
}

#[tokio::test]
async fn a_log_that_is_too_large_loses_its_oldest() {
    let folder = Folder::new();
    let store = filled(&folder).await;
    let other = Connection::open(folder.database()).unwrap();
    let size = || {
        let sql = "SELECT (page_count - freelist_count) * page_size
            FROM pragma_page_count, pragma_freelist_count, pragma_page_size";
        other.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap().unsigned_abs()
    };
    let (whole, forever) = (size(), Duration::from_secs(1 << 40));
    // Some of it is not the log.
    let most = whole * 3 / 4;
    let pruned = store.prune(forever, most, later(COUNT)).await.unwrap();
    assert!(pruned > 0 && size() <= most, "{pruned} {whole} {}", size());
    assert!(places(&store).len() > 100, "{}", places(&store).len());
    assert_eq!(store.verify().unwrap().faults, []);
    // What can never fit leaves the newest, and comes to an end.
    store.prune(forever, 0, later(COUNT)).await.unwrap();
    assert_eq!(store.verify().unwrap().faults, []);
}

/// Filters go on finding what is left.
#[tokio::test]
async fn the_index_is_pruned_along() {
    let folder = Folder::new();
    let store = filled(&folder).await;
    store.prune(Duration::from_mins(5), u64::MAX, later(COUNT)).await.unwrap();
    let decisions = Filter { kind: Some(Kind::Decision), ..Filter::default() };
    let found = store.records(&decisions).unwrap();
    assert_eq!(found.first().map(|(place, _)| *place), places(&store).first().copied());
    let admin = Filter { kind: Some(Kind::Admin), ..Filter::default() };
    assert_eq!(store.records(&admin).unwrap().len(), 3);
}

/// A process whose records were all pruned by another goes on, and so does its proof.
#[tokio::test]
async fn a_writer_that_was_pruned_to_its_end_begins_a_new_chain() {
    let folder = Folder::new();
    let store = filled(&folder).await;
    let other = folder.store();
    let record = |at| Record::new(new_id(at), at, Kind::Decision);
    other.append(record(later(COUNT))).await.unwrap();
    store.prune(Duration::ZERO, u64::MAX, later(2 * COUNT)).await.unwrap();
    other.append(record(later(2 * COUNT))).await.unwrap();
    store.append(record(later(2 * COUNT))).await.unwrap();
    assert_eq!(store.verify().unwrap().faults, []);
}

/// Else whoever makes a record unreadable has it vouched for by an anchor.
#[tokio::test]
async fn what_cannot_be_read_goes_no_sooner_than_what_follows_it() {
    let folder = Folder::new();
    let store = filled(&folder).await;
    let other = Connection::open(folder.database()).unwrap();
    let sql = "UPDATE log SET body = x'01' WHERE seq = (SELECT min(seq) FROM log)";
    assert_eq!(other.execute(sql, []), Ok(1));
    let keep = Duration::from_secs(10_000);
    assert_eq!(store.prune(keep, u64::MAX, later(COUNT)).await.unwrap(), 0);
    assert!(matches!(store.verify().unwrap().faults[..], [Fault::Form(_), ..]));
    assert!(store.prune(keep, u64::MAX, later(COUNT + 9_000)).await.unwrap() > 500);
    assert_eq!(store.verify().unwrap().faults, []);
}

/// How many forms that the database keeps say this.
fn forms(folder: &Folder, text: &str) -> i64 {
    let database = Connection::open(folder.database()).unwrap();
    let sql = "SELECT count(*) FROM forms WHERE instr(form, ?1) > 0";
    database.query_row(sql, [text], |row| row.get(0)).unwrap()
}

/// Writes records one by one, each a second after the one before.
async fn write(store: &Store, outcome: &'static str, seconds: std::ops::Range<i64>) {
    for second in seconds {
        let mut record = Record::new(new_id(later(second)), later(second), Kind::Decision);
        record.outcome = Some(outcome);
        store.append(record).await.unwrap();
    }
}

#[tokio::test]
async fn what_records_had_in_common_goes_with_the_last_of_them() {
    let folder = Folder::new();
    let (store, other) = (folder.store(), folder.store());
    write(&other, "first", 0..10).await;
    write(&store, "second", 10..2_500).await;
    assert_eq!((forms(&folder, "first"), forms(&folder, "second")), (1, 1));
    let row = "SELECT max(length(body)) FROM log WHERE seq > 100";
    let database = Connection::open(folder.database()).unwrap();
    let longest: i64 = database.query_row(row, [], |row| row.get(0)).unwrap();
    assert!(longest < 200, "{longest}");
    // Not yet: a form is kept for somewhat longer.
    store.prune(Duration::from_secs(1_700), u64::MAX, later(2_500)).await.unwrap();
    assert_eq!(forms(&folder, "first"), 1);
    store.prune(Duration::from_secs(500), u64::MAX, later(2_500)).await.unwrap();
    assert_eq!((forms(&folder, "first"), forms(&folder, "second")), (0, 1));
    // One who knew it does not name it any more, until it is there again.
    write(&other, "first", 2_500..2_504).await;
    assert_eq!(forms(&folder, "first"), 1);
    assert_eq!(store.verify().unwrap().faults, []);
    let records = folder.store().records(&Filter::default()).unwrap();
    let count = |text| records.iter().filter(|(_, record)| record.contains(text)).count();
    assert_eq!((count(r#""second""#), count(r#""first""#)), (500, 4));
}

#[tokio::test]
async fn what_records_have_in_common_cannot_be_changed_unseen() {
    let folder = Folder::new();
    let store = folder.store();
    write(&store, "deny", 0..10).await;
    let database = Connection::open(folder.database()).unwrap();
    let changed = database.execute("UPDATE forms SET form = replace(form, 'deny', 'evil')", []);
    assert_eq!(changed, Ok(1));
    assert_eq!(store.verify().unwrap().faults.first(), Some(&Fault::Changed(3)));
    database.execute("DELETE FROM forms", []).unwrap();
    assert_ne!(store.verify().unwrap().faults, []);
    assert!(store.records(&Filter::default()).is_err());
}
