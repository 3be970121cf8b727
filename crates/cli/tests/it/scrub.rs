//! The check of the store in the background, by a real gateway.

use std::{fs, path::Path};

use sluice_store::{Clock, Durability, Key, Kind, Outcome, Record, Store, StoreConfig, new_id};

use crate::sluice::Folder;

/// Adds records to the log of a data directory on which no gateway runs.
async fn append(data: &Path, count: usize) {
    let key = fs::read(data.join("keys/master")).unwrap();
    let key = String::from_utf8(key).unwrap();
    let key = data_encoding::HEXLOWER_PERMISSIVE.decode(key.trim().as_bytes()).unwrap();
    let store = Store::open(StoreConfig {
        directory: data.to_owned(),
        durability: Durability::Process,
        key: Key::from_bytes(key.try_into().unwrap()),
        clock: Clock::System,
        retention: None,
        accept_loss: false,
    });
    let store = store.unwrap();
    for _ in 0..count {
        let now = Clock::System.now();
        let outcome = Some(Outcome::Deny);
        store.append_deferred(Record { outcome, ..Record::new(new_id(now), now, Kind::Decision) });
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_fault_in_old_records_is_found_shown_and_stops_no_call() {
    let folder = Folder::new();
    let data = folder.path().join("data");
    assert_eq!(folder.up(&["--demo"]).end(), 0);
    append(&data, 1_500).await;
    let up = folder.up(&["--demo"]);
    let scrub = |up: &crate::up::Up| up.run(&["status", "--json"]).json()["store"]["scrub"].clone();
    up.wait_until("the whole store is checked", || scrub(&up)["finished_at"].is_string());
    assert_eq!((&scrub(&up)["faults"], &scrub(&up)["first_fault"]), (&0.into(), &().into()));
    let shown = up.run(&["status"]).exits(0).out;
    assert!(shown.contains("ok, the whole store at 20"), "{shown}");
    assert!(up.metrics().contains("sluice_scrub_faults 0"));
    assert_eq!(up.end(), 0);

    // Beyond the records that are checked at start.
    let connection = rusqlite::Connection::open(data.join("sluice.db")).unwrap();
    let sql = "UPDATE records SET message = 'forged' WHERE seq = 20";
    assert_eq!(connection.execute(sql, []), Ok(1));
    drop(connection);
    let up = folder.up(&["--demo"]);
    up.wait_until("it is found", || scrub(&up)["faults"] == 1);
    let shown = up.run(&["status"]).exits(1).out;
    assert!(shown.contains("1 faults in the store, the first: record 20 was changed"), "{shown}");
    up.wait_until("it is logged", || up.log().contains("record 20 was changed"));
    assert!(up.metrics().contains("sluice_scrub_faults 1"));
    up.run(&["call", "demo", "list_notes"]).exits(0);
    up.run(&["log", "verify"]).exits(1);
    assert_eq!(up.end(), 0);
}
