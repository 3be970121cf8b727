//! The audit log.

use rusqlite::Connection;
use sluice_store::{Fault, Filter};

use crate::folder::{Folder, record};

#[tokio::test]
async fn records_come_back_newest_first_with_their_chain() {
    let folder = Folder::new();
    let store = folder.store();
    store.append(record("allow")).await.unwrap();
    store.append(record("deny")).await.unwrap();
    let filter = Filter { limit: Some(1), newest_first: true, ..Filter::default() };
    let records = store.records(&filter).unwrap();
    let newest: serde_json::Value = serde_json::from_str(&records[0].1).unwrap();
    assert_eq!(newest["outcome"], "deny");
    assert_eq!(newest["hash"].as_str().unwrap().len(), 64);
    assert_eq!(store.records(&Filter::default()).unwrap().len(), 2);
}

#[tokio::test]
async fn tampering_shows() {
    let folder = Folder::new();
    let store = folder.store();
    for _ in 0..4 {
        store.append(record("deny")).await.unwrap();
    }
    let as_written = store.records(&Filter::default()).unwrap();
    folder.tamper(2, "deny", "hide");
    assert_eq!(store.verify().unwrap().faults, [Fault::Changed(2)]);
    // Whoever has the text alone can tell too: it still has the hash it was given.
    let as_found = store.records(&Filter::default()).unwrap();
    assert_eq!(as_found[1].1, as_written[1].1.replace("deny", "hide"));
    let other = Connection::open(folder.database()).unwrap();
    other.execute("DELETE FROM log WHERE seq = 2", []).unwrap();
    assert_eq!(store.verify().unwrap().faults, [Fault::Missing(3)]);
}

/// Many records are one row, and are found one by one all the same.
#[tokio::test]
async fn records_written_together_are_found_one_by_one() {
    let folder = Folder::new();
    let store = folder.store();
    for _ in 0..2 {
        for outcome in ["allow", "deny", "hide"].repeat(100) {
            store.append_later(&record(outcome));
        }
        store.flush().await.unwrap();
    }
    let places = |filter: &Filter| {
        let found = store.records(filter).unwrap();
        found.into_iter().map(|(place, _)| place).collect::<Vec<_>>()
    };
    let outcome = Some("deny".to_owned());
    let denied = Filter { outcome, after: Some(250), before: Some(305), ..Filter::default() };
    let expected: Vec<_> = (251..305).filter(|place| place % 3 == 2).collect();
    assert_eq!(places(&denied), expected);
    let newest = Filter { newest_first: true, limit: Some(7), ..denied };
    assert_eq!(places(&newest), expected.into_iter().rev().take(7).collect::<Vec<_>>());
    let other = Connection::open(folder.database()).unwrap();
    let count = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
    let rows = other.query_row("SELECT count(*) FROM log", [], count).unwrap();
    assert!((4..100).contains(&rows), "{rows}");
    assert_eq!(store.verify().unwrap().faults, []);
}

/// A hole in a list could be taken for nothing having happened.
#[tokio::test]
async fn what_cannot_be_read_is_not_passed_over() {
    let folder = Folder::new();
    let store = folder.store();
    for _ in 0..3 {
        store.append(record("deny")).await.unwrap();
    }
    let other = Connection::open(folder.database()).unwrap();
    other.execute("UPDATE log SET body = x'01' WHERE seq = 2", []).unwrap();
    let failed = store.records(&Filter::default()).unwrap_err().to_string();
    assert!(failed.contains("up to 2") && failed.contains("sluice log verify"), "{failed}");
    let newest = Filter { newest_first: true, limit: Some(1), ..Filter::default() };
    assert_eq!(store.records(&newest).unwrap().len(), 1);
    assert_eq!(store.verify().unwrap().faults, [Fault::Form(2), Fault::Missing(3)]);
}
