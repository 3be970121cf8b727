//! A store of any back-end, with a clock that stands still, and the values
//! that cases are made of.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
};

use sluice_policy::{Amount, Scope, Timestamp, Window};
use sluice_store::{
    Actor, Charge, Clock, CounterKey, Durability, Edit, Entry, Filter, Key, Kind, Outcome, Record,
    Reservation, Reserved, Store, StoreConfig, new_id,
};

/// The beginning of a minute.
pub(crate) const NOW: i64 = 1_700_000_040_000;

pub(crate) struct Fixture {
    pub(crate) store: Store,
    pub(crate) clock: Arc<AtomicI64>,
    directory: Option<PathBuf>,
}

impl Fixture {
    pub(crate) fn memory() -> Fixture {
        let clock = Arc::new(AtomicI64::new(NOW));
        let store = Store::memory(Clock::Fixed(Arc::clone(&clock)));
        Fixture { store, clock, directory: None }
    }

    pub(crate) fn sqlite() -> Fixture {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sluice-conformance-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        // A test that was killed may have left one, under a process id used again.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        let clock = Arc::new(AtomicI64::new(NOW));
        let store = open(&directory, &clock);
        Fixture { store, clock, directory: Some(directory) }
    }

    /// The same data as another process has it, where several can.
    pub(crate) fn other_process(&self) -> Option<Store> {
        self.directory.as_ref().map(|directory| open(directory, &self.clock))
    }

    /// Ends the process that has the store, and starts another, where data outlives one.
    pub(crate) async fn restart(&mut self) {
        if let Some(directory) = &self.directory {
            self.store.clone().close().await.unwrap();
            self.store = open(directory, &self.clock);
        }
    }

    /// Makes every write fail, where that can be done, until it is mended.
    pub(crate) fn break_writes(&self) -> Option<Broken> {
        let database = self.directory.as_ref()?.join("sluice.db");
        let connection = rusqlite::Connection::open(database).unwrap();
        connection.execute_batch("ALTER TABLE records RENAME TO gone").unwrap();
        Some(Broken(connection))
    }

    /// Moves the clock on.
    pub(crate) fn advance(&self, seconds: i64) {
        self.clock.fetch_add(seconds * 1000, Ordering::Relaxed);
    }

    /// All records, the oldest first.
    pub(crate) async fn entries(&self) -> Vec<Entry> {
        self.store.flush().await.unwrap();
        self.store.page(&Filter::default(), usize::MAX).await.unwrap().entries
    }

    /// Checks the chain; how many records there are.
    pub(crate) async fn verify(&self) -> u64 {
        let verified = self.store.verify().await.unwrap();
        assert_eq!(verified.faults, []);
        verified.records
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            let _ = fs::remove_dir_all(directory);
        }
    }
}

/// Runs a case on threads that may commit.
pub(crate) fn run_on_committing_threads(case: impl Future<Output = ()> + Send + 'static) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .on_thread_start(sluice_store::commit_on_this_thread)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { tokio::spawn(case).await.unwrap() });
}

pub(crate) struct Broken(rusqlite::Connection);

impl Broken {
    pub(crate) fn mend(self) {
        self.0.execute_batch("ALTER TABLE gone RENAME TO records").unwrap();
    }
}

fn open(directory: &std::path::Path, clock: &Arc<AtomicI64>) -> Store {
    let config = StoreConfig {
        directory: directory.to_owned(),
        durability: Durability::Process,
        key: Key::from_bytes([7; 32]),
        clock: Clock::Fixed(Arc::clone(clock)),
    };
    Store::open(config).unwrap()
}

/// [`NOW`], so many seconds later.
pub(crate) fn later(seconds: i64) -> Timestamp {
    Timestamp::from_millis(NOW + seconds * 1000)
}

/// A charge to alice's counter in the current minute.
pub(crate) fn charge(counter: &str, amount: u64, max: u64) -> Charge {
    Charge {
        key: CounterKey::new("demo", Scope::Grant, "alice", counter),
        window: Window::Minute,
        amount: Amount::whole(amount),
        max: Amount::whole(max),
    }
}

pub(crate) fn record(outcome: Outcome) -> Record {
    Record { outcome: Some(outcome), ..Record::new(new_id(later(0)), later(0), Kind::Decision) }
}

pub(crate) fn reservation(charges: Vec<Charge>) -> Reservation {
    let record = record(Outcome::Allow);
    Reservation { id: record.id, charges, record: Record { request: Some(record.id), ..record } }
}

/// Whether charges could be made.
pub(crate) async fn is_made(store: &Store, charges: Vec<Charge>) -> bool {
    matches!(store.reserve(reservation(charges)).await.unwrap(), Reserved::Made { .. })
}

/// What counters read, told by a reservation that does not fit.
pub(crate) async fn readings(store: &Store, charges: Vec<Charge>) -> Vec<u64> {
    match store.reserve(reservation(charges)).await.unwrap() {
        Reserved::Refused { readings } => {
            let whole = |reading: &Amount| reading.to_string().parse().unwrap();
            readings.iter().map(whole).collect()
        }
        Reserved::Made { .. } => panic!("the charges fit"),
    }
}

pub(crate) fn edit(message: &str) -> Edit {
    Edit { actor: Actor::local("t1", "ada"), message: message.to_owned() }
}
