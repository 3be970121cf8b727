//! The store as the gateway and the admin listener hold it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    changes::Announcer,
    clock::Clock,
    key::Key,
    ledger::Ledger,
    log::Log,
    memory::Memory,
    registry::Registry,
    sqlite::{OpenError, Sqlite},
};

/// The file of the embedded database in a data directory.
const FILE: &str = "sluice.db";

/// What a committed write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process, even by `kill -9`.
    Process,
    /// Power loss too.
    Power,
}

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// The data directory.
    pub directory: PathBuf,
    pub durability: Durability,
    /// The master key. Secrets in the store are encrypted with a key derived from it.
    pub key: Key,
    /// The clock for windows and expiry.
    pub clock: Clock,
}

/// Why an operation failed. A failed operation has no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("the store failed: {0}")]
    Failed(String),
    #[error("the store is overloaded: its write queue is full")]
    Overloaded,
    #[error("the store has stopped")]
    Stopped,
    #[error("the store was opened for reading only")]
    ReadOnly,
    #[error("server `{0}` is built in: it can only be declared in the configuration file")]
    NotStorable(String),
    #[error(
        "header `{header}` of server `{server}` cannot be unsealed: it was changed, or sealed with another key\nhint: set the header again"
    )]
    Unsealable { server: String, header: String },
}

impl StoreError {
    pub(crate) fn no_randomness() -> StoreError {
        StoreError::Failed("the system gives no randomness".into())
    }
}

/// The health of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Whether the last write succeeded.
    pub ok: bool,
    /// The error, if it did not.
    pub last_error: Option<String>,
    /// Writes whose callers are waiting.
    pub queued: usize,
    /// Records that are queued for a deferred write.
    pub deferred: usize,
    /// Records that were dropped because too many were deferred.
    pub dropped: u64,
}

/// A handle to the store; clones share it. When the last one is dropped, deferred records
/// are still written, but no one waits for that; [`Store::close`] waits.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) ledger: Ledger,
    pub(crate) registry: Registry,
    pub(crate) log: Log,
    pub(crate) announcer: Arc<Announcer>,
}

impl Store {
    /// Opens or creates the embedded store of a data directory.
    pub fn open(config: StoreConfig) -> Result<Store, OpenError> {
        let path = config.directory.join(FILE);
        let sqlite = Sqlite::open(&path, config.durability, &config.key, config.clock)?;
        Ok(Store::over(sqlite))
    }

    /// Opens the log of a data directory for reading, while other processes may write
    /// to it. Secrets cannot be decrypted.
    pub fn open_read_only(directory: &Path) -> Result<Store, OpenError> {
        Ok(Store::over(Sqlite::open_read_only(&directory.join(FILE))?))
    }

    /// Whether a data directory holds a store.
    pub fn exists(directory: &Path) -> bool {
        directory.join(FILE).exists()
    }

    fn over(sqlite: Sqlite) -> Store {
        let (announcer, sqlite) = (Arc::clone(sqlite.announcer()), Arc::new(sqlite));
        Store {
            ledger: Ledger::Sqlite(Arc::clone(&sqlite)),
            registry: Registry::Sqlite(Arc::clone(&sqlite)),
            log: Log::Sqlite(sqlite),
            announcer,
        }
    }

    /// A store that is lost when the process ends.
    pub fn memory(clock: Clock) -> Store {
        let announcer = Arc::new(Announcer::new(0));
        let memory = Arc::new(Memory::new(clock, Arc::clone(&announcer)));
        Store {
            ledger: Ledger::Memory(Arc::clone(&memory)),
            registry: Registry::Memory(Arc::clone(&memory)),
            log: Log::Memory(memory),
            announcer,
        }
    }

    /// The health of the store. Cheap, and never waits for a write.
    pub fn health(&self) -> Health {
        match &self.ledger {
            Ledger::Memory(memory) => memory.health(),
            Ledger::Sqlite(sqlite) => sqlite.health(),
        }
    }

    /// Writes the deferred records and closes the store, for every clone of the handle.
    pub async fn close(self) -> Result<(), StoreError> {
        match &self.ledger {
            Ledger::Memory(memory) => memory.close(),
            Ledger::Sqlite(sqlite) => sqlite.close().await,
        }
    }
}
