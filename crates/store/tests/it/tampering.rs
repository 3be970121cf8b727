//! Tampering with the database file is detected.

use sluice_store::{Fault, Outcome, Store};

use crate::folder::{Folder, entries, record};

async fn filled(folder: &Folder) -> Store {
    let store = folder.store();
    for _ in 0..4 {
        store.append(record(Outcome::Deny)).await.unwrap();
    }
    store
}

#[tokio::test]
async fn a_changed_column_shows() {
    let set = [
        "at = at + 1",
        "id = '01ARYZ6S41TSV4RRFFQ69G5FAV'",
        "message = ''",
        "micros = 1",
        "hash = zeroblob(32)",
        "session = 'x'",
    ];
    for set in set {
        let folder = Folder::new();
        let store = filled(&folder).await;
        let sql = format!("UPDATE records SET {set} WHERE seq = 2");
        assert_eq!(folder.connect().execute(&sql, []), Ok(1));
        let faults = store.verify().await.unwrap().faults;
        assert_eq!(faults.first(), Some(&Fault::Changed(2)), "{set}: {faults:?}");
    }
}

#[tokio::test]
async fn a_changed_or_missing_facet_shows() {
    let folder = Folder::new();
    let store = filled(&folder).await;
    let other = folder.connect();
    assert_eq!(other.execute("UPDATE facets SET outcome = 'hide'", []), Ok(1));
    let faults = store.verify().await.unwrap().faults;
    assert_eq!(faults, [1, 2, 3, 4].map(Fault::Changed));
    // It is shown all the same: it still has the hash it was given.
    assert_eq!(entries(&store).await.unwrap()[0].record.outcome, Some(Outcome::Hide));
    other.execute("DELETE FROM facets", []).unwrap();
    assert_eq!(store.verify().await.unwrap().faults, [1, 2, 3, 4].map(Fault::Form));
}

#[tokio::test]
async fn a_removed_record_shows() {
    let folder = Folder::new();
    let store = filled(&folder).await;
    folder.connect().execute("DELETE FROM records WHERE seq = 2", []).unwrap();
    assert_eq!(store.verify().await.unwrap().faults, [Fault::Missing(3)]);
}

/// A gap in a list could be taken for nothing having happened.
#[tokio::test]
async fn an_unreadable_record_is_not_passed_over() {
    let folder = Folder::new();
    let store = filled(&folder).await;
    folder.connect().execute("UPDATE records SET id = 'x' WHERE seq = 2", []).unwrap();
    let failed = entries(&store).await.unwrap_err().to_string();
    assert!(failed.contains("record 2") && failed.contains("sluice log verify"), "{failed}");
    let faults = store.verify().await.unwrap().faults;
    assert_eq!(faults, [Fault::Form(2), Fault::Missing(3)]);
}

/// Otherwise an anchor would vouch for the absence of a record that was changed
/// so as to look old.
#[tokio::test]
async fn a_changed_record_is_pruned_no_sooner_than_what_follows_it() {
    let folder = Folder::new();
    let store = filled(&folder).await;
    folder.connect().execute("UPDATE records SET at = 0 WHERE seq = 1", []).unwrap();
    let keep = std::time::Duration::from_hours(10 * 365 * 24);
    assert_eq!(store.prune(keep, u64::MAX).await.unwrap(), 0);
    assert_eq!(store.verify().await.unwrap().faults, [Fault::Changed(1)]);
    assert_eq!(store.prune(std::time::Duration::ZERO, u64::MAX).await.unwrap(), 4);
    assert_eq!(store.verify().await.unwrap().faults, []);
}
