//! A store of any back-end, with a clock that stands still, and the values
//! that cases are made of.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use sluice_policy::{Amount, Scope, Timestamp, Window};
use sluice_store::{
    Actor, Charge, Clock, CounterKey, Durability, Edit, Entry, Filter, Key, Kind, Outcome, Record,
    Reservation, Reserved, Retention, Store, StoreConfig, new_id,
};

/// How the address of an SQLite store begins.
const SQLITE: &str = "sqlite:";

/// The beginning of a minute.
pub(crate) const NOW: i64 = 1_700_000_040_000;

pub(crate) struct Fixture {
    pub(crate) store: Store,
    pub(crate) clock: Arc<AtomicI64>,
    data: Data,
}

/// Where a back-end keeps its data.
enum Data {
    /// In this process. There is no other process on the same data, and no restart.
    Memory,
    /// In a file of this directory.
    Sqlite(PathBuf),
}

impl Fixture {
    pub(crate) fn memory() -> Fixture {
        let clock = Arc::new(AtomicI64::new(NOW));
        let store = Store::memory(Clock::Fixed(Arc::clone(&clock)));
        Fixture { store, clock, data: Data::Memory }
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
        let store = open_sqlite(&directory, &clock);
        Fixture { store, clock, data: Data::Sqlite(directory) }
    }

    /// The same data as another process has it, where several can.
    pub(crate) fn other_process(&self) -> Option<Store> {
        match &self.data {
            Data::Memory => None,
            Data::Sqlite(directory) => Some(open_sqlite(directory, &self.clock)),
        }
    }

    /// Gives the store another retention, as a restart with other settings does.
    pub(crate) async fn retain(&mut self, retention: Retention) {
        let clock = Clock::Fixed(Arc::clone(&self.clock));
        self.store.clone().close().await.unwrap();
        self.store = match &self.data {
            Data::Memory => Store::memory_for(clock, retention),
            Data::Sqlite(directory) => open_with(directory, &self.clock, Some(retention)),
        };
    }

    /// The store with a system clock that can be set; moves that clock, and lets time pass.
    pub(crate) async fn jumping(&mut self) -> impl Fn(i64, i64) + use<> {
        let (wall, passed) = (Arc::new(AtomicI64::new(NOW)), Arc::new(AtomicI64::new(0)));
        let clock = Clock::Jumping { wall: Arc::clone(&wall), passed: Arc::clone(&passed) };
        self.store.clone().close().await.unwrap();
        self.store = match &self.data {
            Data::Memory => Store::memory(clock),
            Data::Sqlite(directory) => {
                // It has been used with another clock.
                fs::remove_file(directory.join("sluice.db")).unwrap();
                open_with_clock(directory, clock, None)
            }
        };
        move |jump, seconds| {
            wall.fetch_add((jump + seconds) * 1000, Ordering::Relaxed);
            passed.fetch_add(seconds * 1000, Ordering::Relaxed);
        }
    }

    /// Ends the process that has the store, and starts another, where data outlives one.
    pub(crate) async fn restart(&mut self) {
        if !matches!(self.data, Data::Memory) {
            self.store.clone().close().await.unwrap();
        }
        if let Some(store) = self.other_process() {
            self.store = store;
        }
    }

    /// The data as [`open_address`] takes it in a process that is killed, where data
    /// outlives one.
    pub(crate) fn address(&self) -> Option<String> {
        match &self.data {
            Data::Memory => None,
            Data::Sqlite(directory) => Some(format!("{SQLITE}{}", directory.display())),
        }
    }

    /// Makes every write fail, where that can be done, until it is mended.
    pub(crate) fn break_writes(&self) -> Option<Broken> {
        match &self.data {
            Data::Memory => None,
            Data::Sqlite(directory) => {
                let connection = rusqlite::Connection::open(directory.join("sluice.db")).unwrap();
                connection.execute_batch("ALTER TABLE records RENAME TO gone").unwrap();
                Some(Broken::Sqlite(connection))
            }
        }
    }

    /// The key that the store was opened with; the back-end in memory has one of zeros.
    pub(crate) fn key(&self) -> Key {
        match &self.data {
            Data::Memory => Key::from_bytes([0; 32]),
            Data::Sqlite(_) => Key::from_bytes([7; 32]),
        }
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
        match &self.data {
            Data::Memory => {}
            Data::Sqlite(directory) => drop(fs::remove_dir_all(directory)),
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

pub(crate) enum Broken {
    Sqlite(rusqlite::Connection),
}

impl Broken {
    pub(crate) fn mend(self) {
        let Broken::Sqlite(connection) = self;
        connection.execute_batch("ALTER TABLE gone RENAME TO records").unwrap();
    }
}

/// Opens the store that [`Fixture::address`] names.
pub(crate) fn open_address(address: &str) -> Store {
    let directory = address.strip_prefix(SQLITE).expect("an address of a known back-end");
    open_sqlite(Path::new(directory), &Arc::new(AtomicI64::new(NOW)))
}

fn open_sqlite(directory: &Path, clock: &Arc<AtomicI64>) -> Store {
    open_with(directory, clock, None)
}

fn open_with(directory: &Path, clock: &Arc<AtomicI64>, retention: Option<Retention>) -> Store {
    open_with_clock(directory, Clock::Fixed(Arc::clone(clock)), retention)
}

fn open_with_clock(directory: &Path, clock: Clock, retention: Option<Retention>) -> Store {
    let config = StoreConfig {
        directory: directory.to_owned(),
        durability: Durability::Process,
        key: Key::from_bytes([7; 32]),
        clock,
        retention,
        accept_loss: false,
    };
    Store::open(config).unwrap()
}

/// Records are kept for this long, as far as the size allows.
pub(crate) fn retention(keep: Duration, max_size: u64) -> Retention {
    Retention { keep, keep_at_least: Duration::ZERO, max_size }
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
    Reservation {
        id: record.id,
        charges,
        leases: Vec::new(),
        record: Record { request: Some(record.id), ..record }.into(),
    }
}

/// Whether charges could be made.
pub(crate) async fn is_made(store: &Store, charges: Vec<Charge>) -> bool {
    matches!(store.reserve(reservation(charges)).await.unwrap(), Reserved::Made { .. })
}

/// What counters read, told by a reservation that does not fit.
pub(crate) async fn readings(store: &Store, charges: Vec<Charge>) -> Vec<u64> {
    match store.reserve(reservation(charges)).await.unwrap() {
        Reserved::Refused { readings, .. } => {
            let whole = |reading: &Amount| reading.to_string().parse().unwrap();
            readings.iter().map(whole).collect()
        }
        Reserved::Made { .. } => panic!("the charges fit"),
    }
}

pub(crate) fn edit(message: &str) -> Edit {
    Edit { actor: Actor::local("t1", "ada"), message: message.to_owned() }
}
