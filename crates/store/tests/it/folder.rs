//! A folder for one test, and the values tests are made of.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use rusqlite::{Connection, params};
use sluice_policy::{Amount, Scope, Timestamp};
use sluice_store::{Charge, CounterKey, Durability, Key, Kind, Record, Store, new_id};

/// A folder that goes away with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sluice-store-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // A test that was killed may have left one, under a process id used again.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.0.join("sluice.db")
    }

    /// Everything the database's files hold.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let log = fs::read(self.database().with_extension("db-wal")).unwrap_or_default();
        [fs::read(self.database()).unwrap(), log].concat()
    }

    /// Changes a row of the log behind the store's back, by another text as long.
    pub(crate) fn tamper(&self, row: i64, text: &str, other: &str) {
        let connection = Connection::open(self.database()).unwrap();
        let sql = "SELECT body FROM log WHERE seq = ?1";
        let mut body: Vec<u8> = connection.query_row(sql, [row], |row| row.get(0)).unwrap();
        let place = body.windows(text.len()).position(|part| part == text.as_bytes()).unwrap();
        body[place..place + text.len()].copy_from_slice(other.as_bytes());
        let sql = "UPDATE log SET body = ?2 WHERE seq = ?1";
        assert_eq!(connection.execute(sql, params![row, body]), Ok(1));
    }

    pub(crate) fn store(&self) -> Store {
        open(&self.database())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn open(path: &Path) -> Store {
    Store::open(path, Durability::Process, &key()).unwrap()
}

pub(crate) fn key() -> Key {
    Key::from_bytes([7; 32])
}

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_700_000_040_000);

/// A charge of `amount` to the minute of [`NOW`].
pub(crate) fn charge(counter: &str, amount: u64, max: u64) -> Charge {
    Charge {
        key: CounterKey::new("demo", Scope::Grant, "alice", counter),
        window_start: NOW,
        window_seconds: 60,
        amount: Amount::whole(amount),
        max: Amount::whole(max),
    }
}

pub(crate) fn record(outcome: &'static str) -> Record {
    let mut record = Record::new(new_id(NOW), NOW, Kind::Decision);
    record.outcome = Some(outcome);
    record
}

/// A record of what somebody has set up.
pub(crate) fn admin() -> Record {
    Record::new(new_id(NOW), NOW, Kind::Admin)
}

/// [`NOW`], so many seconds later.
pub(crate) fn later(seconds: i64) -> Timestamp {
    Timestamp::from_millis(NOW.as_millis() + seconds * 1000)
}

/// Waits for something that another thread does, for as long as the test may run.
pub(crate) async fn wait_until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::task::yield_now().await;
    }
}
