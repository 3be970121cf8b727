//! [`Store`], the handle that gateway and admin listener hold: opening it, its configuration,
//! its errors and health, and closing it.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    actor::Actor,
    chain::Verified,
    changes::Announcer,
    clock::Clock,
    key::Key,
    ledger::Ledger,
    log::Log,
    log_space::{LogSpace, Retention},
    memory::Memory,
    registry::Registry,
    scrub::ScrubReport,
    sqlite::{
        Sqlite,
        backup::{self, DatabaseLock},
    },
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

impl Durability {
    /// The word for it in settings.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Process => "process",
            Durability::Power => "power",
        }
    }
}

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// The data directory.
    pub directory: PathBuf,
    /// Without `retention`, at least what the process has set that last set both.
    pub durability: Durability,
    /// The master key. Secrets in the store are encrypted with a key derived from it.
    pub key: Key,
    /// The clock for windows and expiry.
    pub clock: Clock,
    /// How long records are kept. `None`: as the process that last set it.
    pub retention: Option<Retention>,
    /// Go on if records that were written are missing, and record that.
    pub accept_loss: bool,
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("`{path}` cannot be opened: {source}")]
    File { path: String, source: io::Error },
    #[error("`{path}` can be read by others (mode {mode:o})\nhint: chmod 600 {path}")]
    Mode { path: String, mode: u32 },
    #[error("`{path}` is a database of another program")]
    Foreign { path: String },
    #[error(
        "`{path}` was written by a newer version of this program\nhint: use that version, or another data directory"
    )]
    Newer { path: String },
    #[error(
        "`{path}` is damaged: {what}\nhint: restore it from a backup, or move it away to start anew"
    )]
    Damaged { path: String, what: String },
    #[error(
        "`{path}` is not what was written last: {what}\nhint: put back its missing files (`sluice.db`, `sluice.db-wal`, `keys/head`), or a backup with `sluice restore FILE`\nhint: to go on with what is there, without the records that are missing and with the counters as they are: `sluice up --accept-loss`, which is recorded in the log"
    )]
    Lost { path: String, what: String },
    #[error(
        "`{path}` was created with another key\nhint: put back the `keys/master` that belongs to it, or a backup of everything with `sluice restore FILE`"
    )]
    Key { path: String },
    #[error("`{path}` cannot be written\nhint: see who owns it, and whether its disk is read-only")]
    ReadOnly { path: String },
    #[error("`{path}` is kept locked by another program\nhint: end that program, or try again")]
    Locked { path: String },
    #[error("the disk of `{path}` is full")]
    Full { path: String },
    #[error("the system gives no randomness")]
    Randomness,
    #[error("the store's thread cannot be started: {0}")]
    Thread(#[from] io::Error),
}

/// Why an operation failed. A failed operation has no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("the store failed: {0}")]
    Failed(String),
    #[error("the store is overloaded: its write queue is full")]
    Overloaded,
    #[error(
        "the audit log is full: its newest records, which `audit.keep_at_least` keeps, take all of `audit.max_size`\nhint: raise `audit.max_size`, or lower `audit.keep_at_least`"
    )]
    LogFull,
    #[error(
        "the records of this grant have used up its share of `audit.max_size`\nhint: raise `audit.max_size`, or lower `audit.keep_at_least`"
    )]
    ShareUsed,
    #[error("{whose} {most} calls that wait for approval, and may not have more")]
    TooManyHeld { most: usize, whose: &'static str },
    #[error("the store has stopped")]
    Stopped,
    #[error("the store was opened for reading only")]
    ReadOnly,
    #[error("somebody signs in as `{0}` already\nhint: choose another login")]
    LoginTaken(String),
    #[error(
        "no admin would be left who can sign in\nhint: make somebody else admin first, and have them sign in once"
    )]
    LastAdmin,
    #[error("there is already a grant `{0}`\nhint: choose another label, or revoke that grant")]
    LabelTaken(String),
    #[error("server `{0}` is built in: it can only be declared in the configuration file")]
    NotStorable(String),
    #[error(
        "header `{header}` of server `{server}` cannot be unsealed: it was changed, or sealed with another key\nhint: set the header again"
    )]
    Unsealable { server: String, header: String },
    #[error(
        "the URL of server `{0}` cannot be unsealed: it was changed, or sealed with another key\nhint: remove the server and add it again"
    )]
    UnsealableUrl(String),
}

impl StoreError {
    /// Whether the store works, and refuses only what was asked. Other writes of the same
    /// transaction are not affected, so a refusal must come before any change.
    pub fn is_refusal(&self) -> bool {
        match self {
            StoreError::LogFull
            | StoreError::ShareUsed
            | StoreError::TooManyHeld { .. }
            | StoreError::LabelTaken(_)
            | StoreError::LoginTaken(_)
            | StoreError::LastAdmin
            | StoreError::NotStorable(_) => true,
            StoreError::Failed(_)
            | StoreError::Overloaded
            | StoreError::Stopped
            | StoreError::ReadOnly
            | StoreError::Unsealable { .. }
            | StoreError::UnsealableUrl(_) => false,
        }
    }

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
    /// The space of the log.
    pub log: LogSpace,
    /// How far the system clock is ahead of the time, in milliseconds, if it has jumped and is
    /// not trusted.
    pub clock_ahead: Option<i64>,
    /// What the check in the background has found.
    pub scrub: ScrubReport,
}

impl Health {
    /// A store that works and is idle.
    pub(crate) fn well() -> Health {
        let log = LogSpace::default();
        Health {
            ok: true,
            last_error: None,
            queued: 0,
            deferred: 0,
            dropped: 0,
            log,
            clock_ahead: None,
            scrub: ScrubReport::default(),
        }
    }
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
        Ok(Store::over(Sqlite::open(&path, config)?))
    }

    /// Opens the log of a data directory for reading, while other processes may write
    /// to it. Without the master key, it cannot be verified, nor secrets be decrypted.
    pub fn open_read_only(directory: &Path, key: Option<&Key>) -> Result<Store, OpenError> {
        Ok(Store::over(Sqlite::open_read_only(&directory.join(FILE), directory, key)?))
    }

    /// Copies the store as of one moment into another directory, with the head that belongs to
    /// the copy, while other processes may write; the copy is verified. A store in memory has
    /// nothing to copy.
    pub async fn copy_to(&self, directory: &Path) -> Result<Verified, StoreError> {
        match &self.log {
            Log::Memory(_) => Err(StoreError::ReadOnly),
            Log::Sqlite(sqlite) => sqlite.copy_to(directory, FILE).await,
        }
    }

    /// Keeps every process from using the store of a directory; `None` if one uses it.
    pub fn lock(directory: &Path) -> Result<Option<DatabaseLock>, StoreError> {
        backup::lock(&directory.join(FILE))
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
        Store::memory_for(clock, Retention::default())
    }

    /// The same, with another retention.
    pub fn memory_for(clock: Clock, retention: Retention) -> Store {
        let announcer = Arc::new(Announcer::new(0));
        let memory = Arc::new(Memory::new(clock, retention, Arc::clone(&announcer)));
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

    /// How far the system clock is ahead of the time, in milliseconds, if it has jumped and is not
    /// trusted. For a process that does not write.
    pub async fn clock_ahead(&self) -> Result<Option<i64>, StoreError> {
        match &self.ledger {
            Ledger::Memory(memory) => Ok(memory.health().clock_ahead),
            Ledger::Sqlite(sqlite) => sqlite.clock_ahead().await,
        }
    }

    /// Confirms that the system clock is right, for all processes that use the store. Returns
    /// how far it was ahead, if it was not trusted.
    pub async fn trust_clock(&self, actor: Actor) -> Result<Option<i64>, StoreError> {
        match &self.ledger {
            Ledger::Memory(memory) => memory.trust_clock(actor),
            Ledger::Sqlite(sqlite) => sqlite.trust_clock(actor).await,
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
