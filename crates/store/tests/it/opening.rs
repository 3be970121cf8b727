//! What a store refuses to open, and how it says so.

use std::{fs, os::unix::fs::PermissionsExt as _};

use sluice_store::{
    Actor, Bridge, Durability, Edit, HiddenText, Key, Name, OpenError, Outcome, Secret, Server,
    Source, Store, StoreConfig, StoreError, Transport,
};

use crate::folder::{Folder, config, record};

fn refusal(folder: &Folder) -> String {
    let config = StoreConfig { durability: Durability::Power, ..config(folder.path()) };
    Store::open(config).unwrap_err().to_string()
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
    let set = |pragma: &str| folder.connect().execute_batch(pragma).unwrap();
    set("PRAGMA user_version = 99");
    assert!(refusal(&folder).contains("newer version"), "{}", refusal(&folder));
    set("PRAGMA application_id = 7");
    assert!(refusal(&folder).contains("another program"), "{}", refusal(&folder));
}

#[tokio::test]
async fn a_damaged_log_is_not_written_on() {
    let folder = Folder::new();
    folder.store().append(record(Outcome::Allow)).await.unwrap();
    folder.connect().execute("UPDATE facets SET outcome = 'deny'", []).unwrap();
    assert!(refusal(&folder).contains("was changed"), "{}", refusal(&folder));
}

#[test]
fn a_file_that_is_no_database_is_reported_as_damaged() {
    let folder = Folder::new();
    fs::write(folder.database(), vec![b'x'; 8192]).unwrap();
    fs::set_permissions(folder.database(), fs::Permissions::from_mode(0o600)).unwrap();
    assert!(refusal(&folder).contains("damaged"), "{}", refusal(&folder));
    let missing = Store::open(config(&folder.database().join("x")));
    assert!(matches!(missing, Err(OpenError::File { .. })));
}

#[test]
fn another_key_does_not_open_it() {
    let folder = Folder::new();
    drop(folder.store());
    let other = StoreConfig { key: Key::from_bytes([8; 32]), ..config(folder.path()) };
    let refused = Store::open(other).unwrap_err();
    assert!(refused.to_string().contains("another key"), "{refused}");
    drop(folder.store());
}

#[test]
fn a_locked_database_is_said_to_be_locked() {
    let folder = Folder::new();
    let other = folder.connect();
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

#[tokio::test]
async fn headers_are_sealed_and_bound_to_their_place() {
    let folder = Folder::new();
    let store = folder.store();
    let secret = "Bearer 0123456789abcdef";
    for (name, secret) in [("notes", secret), ("files", "other")] {
        let headers = vec![("Authorization".into(), Secret::new(secret.into()))];
        let server = Server {
            name: Name::new(name).unwrap(),
            transport: Transport::Http {
                url: Secret::new("https://mcp.example.com".into()),
                headers,
            },
            timeout: std::time::Duration::from_secs(1),
            anonymous_policy: None,
            bridge: Bridge::default(),
            hidden_text: HiddenText::default(),
            mask_secrets: true,
            source: Source::Stored,
        };
        let edit = Edit { actor: Actor::local("t", "ada"), message: "added".into() };
        store.put_server(server, edit).await.unwrap();
    }
    let kept = folder.bytes();
    assert!(!kept.windows(secret.len()).any(|window| window == secret.as_bytes()));
    let steal = "UPDATE headers SET sealed = (SELECT sealed FROM headers WHERE server = 'notes')
        WHERE server = 'files'";
    folder.connect().execute(steal, []).unwrap();
    let refused = store.servers().await.unwrap_err().to_string();
    assert!(refused.contains("`Authorization` of server `files`"), "{refused}");
}

#[tokio::test]
async fn a_store_for_reading_only_reads_and_refuses_to_write() {
    let folder = Folder::new();
    assert!(!Store::exists(folder.path()));
    folder.store().append(record(Outcome::Allow)).await.unwrap();
    assert!(Store::exists(folder.path()));
    let reader = folder.reader();
    assert_eq!(reader.verify().await.unwrap().records, 1);
    assert_eq!(reader.append(record(Outcome::Allow)).await, Err(StoreError::ReadOnly));
    assert!(reader.health().ok);
}
