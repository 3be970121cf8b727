//! Tampering with the database file is detected.

use sluice_store::{Disagreement, Fault, Outcome, Record, Store};

use crate::folder::{Folder, config, entries, record, retention};

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
    assert_eq!(faults, [Fault::Form(2)]);
}

/// Otherwise an anchor would vouch for the absence of a record that was changed
/// so as to look old.
#[tokio::test]
async fn a_changed_record_is_pruned_no_sooner_than_what_follows_it() {
    let folder = Folder::new();
    let store = filled(&folder).await;
    folder.connect().execute("UPDATE records SET at = 0 WHERE seq = 1", []).unwrap();
    let keep = std::time::Duration::from_hours(10 * 365 * 24);
    assert_eq!(store.prune(retention(keep, u64::MAX)).await.unwrap(), 0);
    assert_eq!(store.verify().await.unwrap().faults, [Fault::Changed(1)]);
    assert_eq!(store.prune(retention(std::time::Duration::ZERO, u64::MAX)).await.unwrap(), 4);
    assert_eq!(store.verify().await.unwrap().faults, []);
}

/// Columns that the exported text would not show.
#[tokio::test]
async fn a_column_in_another_form_shows() {
    let columns = [
        "records SET actor_id = 'x'",
        "records SET actor_address = 'x'",
        "records SET upstream_status = 200",
        "records SET upstream_is_error = 1",
        "records SET micros = -7",
        "facets SET grant_id = 'x'",
        "facets SET policy_version = 'x'",
        "facets SET arg_keys = '[ ]'",
        "facets SET arg_keys = NULL",
    ];
    for column in columns {
        let folder = Folder::new();
        let store = folder.store();
        let record = sluice_store::Record { micros: Some(7), ..record(Outcome::Deny) };
        store.append(record).await.unwrap();
        assert_eq!(folder.connect().execute(&format!("UPDATE {column}"), []), Ok(1));
        let faults = store.verify().await.unwrap().faults;
        assert_eq!(faults.first(), Some(&Fault::Form(1)), "{column}: {faults:?}");
    }
}

#[tokio::test]
async fn records_removed_at_the_end_show() {
    let folder = Folder::new();
    filled(&folder).await.close().await.unwrap();
    folder.connect().execute("DELETE FROM records WHERE seq > 2", []).unwrap();
    let store = folder.reader();
    let short = |end| [Fault::Head(Disagreement::Short { end, noted: 4 })];
    assert_eq!(store.verify().await.unwrap().faults, short(2));
    // Going on would hide it.
    let refused = Store::open(config(folder.path())).unwrap_err().to_string();
    assert!(
        refused.contains("2 records are missing") && refused.contains("--accept-loss"),
        "{refused}"
    );
    folder.connect().execute("DELETE FROM records", []).unwrap();
    assert_eq!(store.verify().await.unwrap().faults, short(0));
}

/// A store that runs must not write on, or its head would vouch for what is left.
#[tokio::test]
async fn a_running_store_does_not_write_on_what_was_changed() {
    let changes = [
        "DELETE FROM records WHERE seq > 2",
        "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END",
    ];
    for change in changes {
        let folder = Folder::new();
        let store = filled(&folder).await;
        folder.connect().execute_batch(change).unwrap();
        let failed = store.append(record(Outcome::Allow)).await.unwrap_err().to_string();
        assert!(failed.contains("changed"), "{failed}");
        assert!(!store.verify().await.unwrap().faults.is_empty(), "{change}");
    }
}

/// Otherwise a search would not read the block, and show nothing.
#[tokio::test]
async fn a_changed_summary_shows() {
    let changes = [
        "DELETE FROM blocks WHERE block = 1",
        "DELETE FROM block_facets WHERE block = 1",
        "DELETE FROM block_chains WHERE block = 1",
        "DELETE FROM block_requests WHERE block = 1",
        "UPDATE block_requests SET filter = zeroblob(2048) WHERE block = 1",
        "UPDATE blocks SET last_at = 0 WHERE block = 1",
        "UPDATE blocks SET first_at = last_at + 1 WHERE block = 1",
        "INSERT INTO blocks VALUES (1000, 0, 0)",
    ];
    let folder = Folder::new();
    let store = folder.store();
    for _ in 0..4_000 {
        let record = record(Outcome::Deny);
        store.append_deferred(Record { request: Some(record.id), ..record });
    }
    store.flush().await.unwrap();
    assert_eq!(store.verify().await.unwrap().faults, []);
    store.close().await.unwrap();
    for change in changes {
        let copy = folder.copy();
        assert!(copy.connect().execute(change, []).unwrap() > 0);
        let faults = copy.reader().verify().await.unwrap().faults;
        let first = if change.starts_with("INSERT") { 3_072 } else { 1_024 };
        let index = Fault::Head(Disagreement::Changed("the index of the log"));
        assert_eq!(faults, [Fault::Summary(first), index], "{change}");
    }
}
