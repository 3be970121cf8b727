//! What a store refuses to open, and how it says so.

use std::{fs, os::unix::fs::PermissionsExt as _};

use rusqlite::{Connection, params};
use sluice_policy::Amount;
use sluice_store::{Durability, Filter, Key, OpenError, Reservation, Store};

use crate::folder::{Folder, charge, key, record};

fn refusal(folder: &Folder) -> String {
    Store::open(&folder.database(), Durability::Power, &key()).unwrap_err().to_string()
}

#[test]
fn a_new_database_is_its_owners_alone() {
    let folder = Folder::new();
    drop(folder.store());
    let mode = fs::metadata(folder.database()).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    fs::set_permissions(folder.database(), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(refusal(&folder).contains("chmod 600"), "{}", refusal(&folder));
}

#[test]
fn other_and_newer_databases_are_left_alone() {
    let folder = Folder::new();
    drop(folder.store());
    let set =
        |pragma: &str| Connection::open(folder.database()).unwrap().execute_batch(pragma).unwrap();
    set("PRAGMA user_version = 99");
    assert!(refusal(&folder).contains("newer version"), "{}", refusal(&folder));
    set("PRAGMA application_id = 7");
    assert!(refusal(&folder).contains("another program"), "{}", refusal(&folder));
}

#[tokio::test]
async fn a_damaged_log_is_not_written_on() {
    let folder = Folder::new();
    folder.store().append(record("allow")).await.unwrap();
    folder.tamper(1, "allow", "other");
    assert!(refusal(&folder).contains("was changed"), "{}", refusal(&folder));
}

/// A database as the first version left it: a row for each record, as text, and
/// nothing in it of counters.
#[tokio::test]
async fn an_older_database_is_read_and_written_on() {
    let folder = Folder::new();
    let store = folder.store();
    store.reserve(vec![charge("eval", 7, 10)], record("allow")).await.unwrap();
    store.append(record("deny")).await.unwrap();
    let records = store.records(&Filter::default()).unwrap();
    store.close().await.unwrap();
    let other = Connection::open(folder.database()).unwrap();
    other
        .execute_batch(
            "PRAGMA user_version = 1; DROP TABLE log; DELETE FROM meta WHERE name = 'entered';
             ALTER TABLE readings RENAME TO counters; DROP TABLE forms;
             CREATE TABLE audit (seq INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;",
        )
        .unwrap();
    for (number, text) in &records {
        other.execute("INSERT INTO audit VALUES (?1, ?2)", params![number, text]).unwrap();
    }
    let read_only = Store::read_only(&folder.database()).unwrap();
    assert_eq!(read_only.records(&Filter::default()).unwrap(), records);
    // Several may come upon it at once.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| drop(folder.store()));
        }
    });
    let store = folder.store();
    let refused = store.reserve(vec![charge("eval", 7, 10)], record("limit")).await;
    assert_eq!(refused, Ok(Reservation::Refused(vec![Amount::whole(7)])));
    store.append(record("hide")).await.unwrap();
    let found = store.records(&Filter::default()).unwrap();
    assert_eq!((found.len(), &found[..2]), (3, &records[..]));
    assert_eq!(store.verify().unwrap().faults, []);
    let version = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
    assert_eq!(other.pragma_query_value(None, "user_version", version), Ok(3));
    let check = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
    assert_eq!(other.pragma_query_value(None, "integrity_check", check), Ok("ok".into()));
}

/// One as the second version left it, while a process of that version still runs.
#[tokio::test]
async fn an_older_process_does_not_count_by_itself() {
    let folder = Folder::new();
    let store = folder.store();
    store.reserve(vec![charge("eval", 7, 10)], record("allow")).await.unwrap();
    store.close().await.unwrap();
    let old = Connection::open(folder.database()).unwrap();
    old.execute_batch(
        "PRAGMA user_version = 2; ALTER TABLE readings RENAME TO counters;
         ALTER TABLE log DROP COLUMN counts; ALTER TABLE log RENAME TO audit; DROP TABLE forms; DELETE FROM meta WHERE name = 'entered'",
    )
    .unwrap();
    let mut write = old
        .prepare("INSERT INTO counters VALUES ('k', 1, 2, '3') ON CONFLICT DO UPDATE SET used = 4")
        .unwrap();
    write.execute([]).unwrap();
    let store = folder.store();
    let refused = store.reserve(vec![charge("eval", 7, 10)], record("limit")).await;
    assert_eq!(refused, Ok(Reservation::Refused(vec![Amount::whole(7)])));
    let failed = write.execute([]).unwrap_err();
    assert!(failed.to_string().contains("no such table"), "{failed}");
    let failed = old.execute("INSERT INTO audit VALUES (9, 'text')", []).unwrap_err();
    assert!(failed.to_string().contains("no such table"), "{failed}");
    for _ in 0..3 {
        store.reserve(vec![charge("eval", 1, 10)], record("allow")).await.unwrap();
    }
    let refused = folder.store().reserve(vec![charge("eval", 1, 10)], record("limit")).await;
    assert_eq!(refused, Ok(Reservation::Refused(vec![Amount::whole(10)])));
}

#[test]
fn what_is_no_database_is_said_to_be_damaged() {
    let folder = Folder::new();
    fs::write(folder.database(), vec![b'x'; 8192]).unwrap();
    fs::set_permissions(folder.database(), fs::Permissions::from_mode(0o600)).unwrap();
    assert!(refusal(&folder).contains("damaged"), "{}", refusal(&folder));
    let missing = Store::open(&folder.database().join("x/y.db"), Durability::Process, &key());
    assert!(matches!(missing, Err(OpenError::File { .. })));
}

#[test]
fn another_key_does_not_open_it() {
    let folder = Folder::new();
    drop(folder.store());
    let other = Key::from_bytes([8; 32]);
    let refused = Store::open(&folder.database(), Durability::Process, &other).unwrap_err();
    assert!(refused.to_string().contains("another key"), "{refused}");
    drop(folder.store());
}

#[test]
fn a_locked_database_is_said_to_be_locked() {
    let folder = Folder::new();
    let other = Connection::open(folder.database()).unwrap();
    fs::set_permissions(folder.database(), fs::Permissions::from_mode(0o600)).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    assert!(refusal(&folder).contains("locked"), "{}", refusal(&folder));
}

/// Processes that start together must not trip over each other.
#[test]
fn many_may_create_it_at_once() {
    let folder = Folder::new();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| drop(folder.store()));
        }
    });
}
