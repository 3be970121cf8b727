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
    let other = Connection::open(folder.database()).unwrap();
    let change = "UPDATE audit SET body = replace(body, 'deny', 'allow') WHERE seq = 2";
    other.execute(change, []).unwrap();
    assert_eq!(store.verify().unwrap().faults, [Fault::Changed(2)]);
    other.execute("DELETE FROM audit WHERE seq = 2", []).unwrap();
    assert_eq!(store.verify().unwrap().faults, [Fault::Missing(3)]);
}
