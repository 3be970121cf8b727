//! A folder for one test, and the values tests are made of.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use sluice_policy::{Amount, Scope, Timestamp, Window};
use sluice_store::{
    Charge, Clock, CounterKey, Durability, Entry, Filter, Key, Kind, Outcome, Record, Reservation,
    Reserved, Retention, Store, StoreConfig, StoreError, new_id,
};

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

    /// The database as another program has it.
    pub(crate) fn connect(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.database()).unwrap()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A copy of the database and its head; nothing may have it open.
    pub(crate) fn copy(&self) -> Folder {
        let copy = Folder::new();
        fs::create_dir(copy.0.join("keys")).unwrap();
        for file in ["sluice.db", "keys/head"] {
            fs::copy(self.0.join(file), copy.0.join(file)).unwrap();
        }
        copy
    }

    /// The store as an auditor opens it.
    pub(crate) fn reader(&self) -> Store {
        Store::open_read_only(&self.0, Some(&key())).unwrap()
    }

    pub(crate) fn store(&self) -> Store {
        open(&self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn open(directory: &Path) -> Store {
    Store::open(config(directory)).unwrap()
}

pub(crate) fn config(directory: &Path) -> StoreConfig {
    StoreConfig {
        retention: None,
        directory: directory.to_owned(),
        durability: Durability::Process,
        key: key(),
        clock: Clock::System,
        accept_loss: false,
    }
}

pub(crate) fn key() -> Key {
    Key::from_bytes([7; 32])
}

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_700_000_040_000);

/// A charge of `amount` in this century.
pub(crate) fn charge(counter: &str, amount: u64, max: u64) -> Charge {
    Charge {
        key: CounterKey::new("demo", Scope::Grant, "alice", counter),
        window: Window::Seconds(u32::MAX),
        amount: Amount::whole(amount),
        max: Amount::whole(max),
    }
}

pub(crate) fn record(outcome: Outcome) -> Record {
    let mut record = Record::new(new_id(NOW), NOW, Kind::Decision);
    record.outcome = Some(outcome);
    record
}

/// Makes a reservation of one's own.
pub(crate) async fn reserve(store: &Store, charge: Charge) -> Result<Reserved, StoreError> {
    let record = record(Outcome::Allow);
    store
        .reserve(Reservation {
            id: record.id,
            charges: vec![charge],
            leases: Vec::new(),
            record: record.into(),
        })
        .await
}

/// What a counter reads, told by a charge that never fits.
pub(crate) async fn reading(store: &Store, counter: &str) -> Amount {
    match reserve(store, charge(counter, 1, 0)).await.unwrap() {
        Reserved::Refused { readings, .. } => readings[0],
        Reserved::Made { .. } => panic!("more than the most was admitted"),
    }
}

/// All records, the oldest first.
pub(crate) async fn entries(store: &Store) -> Result<Vec<Entry>, StoreError> {
    Ok(store.page(&Filter::default(), usize::MAX).await?.entries)
}

/// Waits for something that another thread does, for as long as the test may run.
pub(crate) async fn wait_until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::task::yield_now().await;
    }
}

/// Records are kept for this long, as far as the size allows.
pub(crate) fn retention(keep: Duration, max_size: u64) -> Retention {
    Retention { keep, keep_at_least: Duration::ZERO, max_size }
}
