//! A system clock that jumps empties no log and gives no limit twice.
//!
//! To a gateway, a store that was last written 100 days ago is the same as a system clock that is
//! 100 days ahead after a restart of the machine. So the tests write the store as of then.

use std::{
    fs::{DirBuilder, OpenOptions},
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    sync::{Arc, atomic::AtomicI64},
};

use sluice_policy::{Amount, Scope, Timestamp, Window};
use sluice_store::{
    Charge, Clock, CounterKey, Durability, Key, Kind, Outcome, Record, Reservation, Reserved,
    Retention, Store, StoreConfig, new_id,
};

use crate::{sluice::Folder, up::Up};

const TOKEN: &str = "sg_a_token_for_clock_tests_only";
const KEY: [u8; 32] = [7; 32];
const DAY: i64 = 24 * 3_600_000;
const POLICY: &str = r#"{"version":"1","default":"deny","tools":{"list_notes":{"limits":[{"counter":"daily","window":"day","max":3}]}}}"#;

/// A data directory with keys, and without a database.
fn folder() -> Folder {
    let folder = Folder::with("policy.json", POLICY);
    folder.write(
        "sluice.toml",
        &format!(
            "[audit]\nkeep = \"30d\"\n[servers.notes]\nbuiltin = \"demo\"\n\
             [policies.p]\nserver = \"notes\"\nfile = \"policy.json\"\n\
             [grants.g]\nservers = [\"notes\"]\npolicy = \"p\"\ntoken = \"{TOKEN}\"\n",
        ),
    );
    let keys = folder.path().join("data/keys");
    DirBuilder::new().recursive(true).mode(0o700).create(&keys).unwrap();
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(keys.join("master"));
    file.as_mut().unwrap().write_all(data_encoding::HEXLOWER.encode(&KEY).as_bytes()).unwrap();
    folder
}

/// The store as a process has it whose system clock says this.
fn open(folder: &Folder, now: i64) -> Store {
    Store::open(StoreConfig {
        directory: folder.path().join("data"),
        durability: Durability::Process,
        key: Key::from_bytes(KEY),
        clock: Clock::Fixed(Arc::new(AtomicI64::new(now))),
        retention: Some(Retention::default()),
        accept_loss: false,
    })
    .unwrap()
}

/// A call of the grant that is counted, as the gateway makes it.
async fn reserve(store: &Store, now: i64) -> bool {
    let at = Timestamp::from_millis(now);
    let record = Record {
        outcome: Some(Outcome::Allow),
        message: Some("old".into()),
        ..Record::new(new_id(at), at, Kind::Decision)
    };
    let charge = Charge {
        key: CounterKey::new("notes", Scope::Grant, "file:g", "daily"),
        window: Window::Day,
        amount: Amount::whole(1),
        max: Amount::whole(3),
    };
    let reservation = Reservation {
        id: record.id,
        charges: vec![charge],
        leases: Vec::new(),
        record: record.into(),
    };
    matches!(store.reserve(reservation).await.unwrap(), Reserved::Made { .. })
}

fn call(up: &Up) -> i32 {
    up.run(&["call", "notes", "list_notes", "--token", TOKEN]).code
}

fn admin_messages(folder: &Folder) -> Vec<String> {
    let query = ["--data", "data", "log", "--json", "--kind", "admin", "--limit", "1000"];
    let log = folder.run(&query).exits(0).json();
    let records = log["records"].as_array().unwrap().iter();
    records.map(|record| record["message"].as_str().unwrap_or_default().to_owned()).collect()
}

fn count_old(folder: &Folder) -> usize {
    let query = ["--data", "data", "log", "--json", "--kind", "decision", "--limit", "1000"];
    let log = folder.run(&query).exits(0).json();
    let records = log["records"].as_array().unwrap().iter();
    records.filter(|record| record["message"] == "old").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_is_not_spent_again_with_a_clock_that_jumps_ahead_and_back() {
    let folder = folder();
    // At noon, so that the day does not end before the test.
    let past = Clock::System.now().as_millis().div_euclid(DAY) * DAY + DAY / 2 - 5 * DAY;
    let store = open(&folder, past);
    for expected in [true, true, true, false] {
        assert_eq!(reserve(&store, past).await, expected);
    }
    store.close().await.unwrap();
    for _ in 0..2 {
        let up = folder.up(&[]);
        assert_eq!(call(&up), 1, "the limit of the day is spent");
        let status = up.run(&["status", "--json"]).exits(1).json();
        let ahead = status["store"]["clock_ahead_ms"].as_i64().unwrap();
        assert!((4 * DAY..6 * DAY).contains(&ahead), "{ahead}");
        assert_eq!(up.end(), 0);
    }
    let told = admin_messages(&folder);
    let jumps = told.iter().filter(|text| text.starts_with("the system clock is ")).count();
    assert_eq!(jumps, 1, "{told:?}");
    // The clock is set right again.
    let store = open(&folder, past + 60_000);
    assert!(!reserve(&store, past + 60_000).await, "the limit of the day is spent");
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_is_not_pruned_by_a_clock_that_nobody_has_confirmed() {
    let folder = folder();
    let past = Clock::System.now().as_millis() - 100 * DAY;
    let store = open(&folder, past);
    for _ in 0..3 {
        assert!(reserve(&store, past).await);
    }
    store.close().await.unwrap();
    let up = folder.up(&[]);
    let doctor = |code: i32| folder.run(&["--data", "data", "doctor", "--json"]).exits(code).json();
    assert_eq!(doctor(1)["clock"]["trusted"], false);
    assert_eq!(count_old(&folder), 3);
    folder.run(&["--data", "data", "doctor", "--trust-clock"]).exits(0);
    assert_eq!(doctor(0)["clock"]["trusted"], true);
    // The running gateway notices at its next call.
    assert_eq!(call(&up), 0);
    up.run(&["status"]).exits(0);
    assert_eq!(up.end(), 0);
    let up = folder.up(&[]);
    up.wait_until("old records are removed", || count_old(&folder) == 0);
    assert_eq!(up.end(), 0);
    let told = admin_messages(&folder);
    let confirmed = told.iter().any(|text| text.starts_with("the system clock was confirmed"));
    assert!(confirmed, "{told:?}");
    folder.run(&["--data", "data", "log", "verify"]).exits(0);
}
