//! What a store refuses to open, and how it says so.

use std::{fs, os::unix::fs::PermissionsExt as _};

use rusqlite::Connection;
use sluice_store::{Durability, Key, OpenError, Store};

use crate::folder::{Folder, key, record};

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
    let other = Connection::open(folder.database()).unwrap();
    other.execute("UPDATE audit SET body = replace(body, 'allow', 'deny')", []).unwrap();
    drop(other);
    assert!(refusal(&folder).contains("was changed"), "{}", refusal(&folder));
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
