//! The embedded back-end: one SQLite file, which several processes may share.
//!
//! Writes go through `group_commit`, reads through `read`. What a transaction
//! does is in `writer`, and the tables are in `schema`.

mod approvals;
pub(crate) mod backup;
mod blocks;
mod checkpoint;
mod compare;
mod counters;
mod exported_heads;
mod grants;
mod group_commit;
mod leases;
mod open;
mod past_reservations;
mod people;
mod policies;
mod prune;
mod read;
mod records;
mod requests;
mod schema;
mod scrub;
mod servers;
mod sessions;
mod space;
mod start;
mod sums;
mod time;
mod wal_size;
mod writer;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use rusqlite::{Connection, types::Type};

use crate::{
    Actor, Durability, Health, OpenError, StoreConfig, StoreError,
    chain::{ChainKey, Fault, Verified},
    changes::Announcer,
    clock::Clock,
    head::{Disagreement, HeadFile},
    id::Id,
    key::Key,
    ledger::{Reservation, Reserved},
    log::{Filter, Page},
    name::Name,
    record::Record,
    registry::Snapshot,
    scrub::ScrubProgress,
    signed_head::{HeadComparison, SignedHead},
};

use group_commit::GroupCommit;
pub use group_commit::commit_on_this_thread;
use read::Readers;
use records::Prepared;
use sums::SumKey;
use writer::Writer;

/// The keys of a store, all derived from the master key.
pub(super) struct Keys {
    master: Key,
    /// The key that header values are sealed with.
    seal: Key,
    chain: ChainKey,
    sums: SumKey,
}

impl Keys {
    fn derive(master: &Key) -> Keys {
        Keys {
            master: master.clone(),
            seal: master.derive("sluicegate store"),
            chain: ChainKey::derive(master),
            sums: SumKey::derive(master),
        }
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(…)")
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        StoreError::Failed(error.to_string())
    }
}

/// An open database.
#[derive(Debug)]
pub(crate) struct Sqlite {
    directory: PathBuf,
    /// `None` if it was opened read-only without its key.
    keys: Option<Arc<Keys>>,
    clock: Clock,
    /// `None` if it was opened read-only.
    commits: Option<Arc<GroupCommit>>,
    readers: Arc<Readers>,
    announcer: Arc<Announcer>,
    scrubbing: Mutex<ScrubProgress>,
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        if let Some(commits) = &self.commits {
            commits.close();
        }
    }
}

impl Sqlite {
    pub(crate) fn open(path: &Path, config: StoreConfig) -> Result<Sqlite, OpenError> {
        let keys = Arc::new(Keys::derive(&config.key));
        let mut writer = start::start(path, &config, &keys)?;
        let epoch = read_epoch(writer.connection()).unwrap_or_default();
        let announcer = Arc::new(Announcer::new(epoch));
        let own = Arc::clone(&announcer);
        writer.announce_with(move |epoch| own.announce_own(epoch));
        let readers = Arc::new(Readers::new(path));
        let callers_commit = writer.durability() == Durability::Process;
        let commits = GroupCommit::start(
            writer,
            open::open_again(path)?,
            Arc::clone(&readers),
            &[
                path.to_owned(),
                path.with_extension("db-wal"),
                path.with_extension("db-shm"),
                HeadFile::path(&config.directory),
            ],
            callers_commit,
        )?;
        let StoreConfig { directory, clock, .. } = config;
        Ok(Sqlite {
            directory,
            keys: Some(keys),
            clock,
            commits: Some(commits),
            readers,
            announcer,
            scrubbing: Mutex::default(),
        })
    }

    pub(crate) fn open_read_only(
        path: &Path,
        directory: &Path,
        key: Option<&Key>,
    ) -> Result<Sqlite, OpenError> {
        open::check(path)?;
        Ok(Sqlite {
            directory: directory.to_owned(),
            keys: key.map(|key| Arc::new(Keys::derive(key))),
            clock: Clock::System,
            commits: None,
            readers: Arc::new(Readers::new(path)),
            announcer: Arc::new(Announcer::new(0)),
            scrubbing: Mutex::default(),
        })
    }

    pub(crate) fn announcer(&self) -> &Arc<Announcer> {
        &self.announcer
    }

    pub(crate) async fn reserve(&self, reservation: Reservation) -> Result<Reserved, StoreError> {
        let Reservation { id, charges, leases, record } = reservation;
        self.commits()?.write(Some(id), charges, leases, Prepared::new(record)).await
    }

    pub(crate) async fn release(&self, id: Id, record: Record) -> Result<bool, StoreError> {
        self.run(move |writer| writer.release(id, record)).await
    }

    pub(crate) fn give_back(&self, id: Id) {
        if let Some(commits) = &self.commits {
            commits.give_back(id);
        }
    }

    pub(crate) async fn append(&self, record: Box<Record>) -> Result<(), StoreError> {
        self.commits()?.write(None, Vec::new(), Vec::new(), Prepared::new(record)).await.map(|_| ())
    }

    pub(crate) fn append_deferred(&self, record: Box<Record>) {
        if let Some(commits) = &self.commits {
            commits.defer(Prepared::new(record));
        }
    }

    pub(crate) async fn flush(&self) -> Result<(), StoreError> {
        if self.commits.is_none() {
            return Ok(());
        }
        // Deferred records are written with this transaction.
        self.run(|_| Ok(())).await
    }

    pub(crate) async fn page(&self, filter: &Filter, limit: usize) -> Result<Page, StoreError> {
        let filter = filter.clone();
        // One extra record tells whether there are more.
        let search = move |connection: &Connection| {
            read::search(connection, &filter, limit.saturating_add(1))
        };
        Ok(Page::of(self.readers.read(search).await?, limit))
    }

    pub(crate) async fn verify(&self) -> Result<Verified, StoreError> {
        let Some(keys) = self.keys.clone() else {
            let faults = vec![Fault::Head(Disagreement::NoKey)];
            return Ok(Verified { records: 0, faults, pruned_through: None, head: None });
        };
        let (directory, now) = (self.directory.clone(), self.clock.now());
        self.readers.read(move |connection| read::verify(connection, &keys, &directory, now)).await
    }

    pub(crate) async fn sign_head(&self) -> Result<SignedHead, StoreError> {
        let (keys, directory, now) = (self.keys()?, self.directory.clone(), self.clock.now());
        let sign =
            move |connection: &Connection| exported_heads::sign(connection, &keys, &directory, now);
        self.readers.read(sign).await
    }

    pub(crate) async fn compare_heads(
        &self,
        heads: Vec<SignedHead>,
    ) -> Result<HeadComparison, StoreError> {
        let keys = self.keys()?;
        let compare =
            move |connection: &Connection| exported_heads::compare(connection, &keys, &heads);
        self.readers.read(compare).await
    }

    pub(crate) async fn copy_to(
        &self,
        target: &Path,
        file: &'static str,
    ) -> Result<Verified, StoreError> {
        let keys = self.keys()?;
        let (directory, target) = (self.directory.clone(), target.to_owned());
        let now = self.clock.now();
        self.readers
            .read(move |connection| backup::copy(connection, &keys, &directory, &target, file, now))
            .await
    }

    pub(crate) async fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let key = self.seal_key()?;
        self.readers
            .read(move |connection| {
                Ok(Snapshot {
                    epoch: read_epoch(connection)?,
                    servers: servers::read_all(connection, &key)?,
                    policies: policies::read_all(connection)?,
                    grants: grants::read_all(connection)?,
                })
            })
            .await
    }

    pub(crate) async fn epoch(&self) -> Result<u64, StoreError> {
        self.readers.read(|connection| Ok(read_epoch(connection)?)).await
    }

    pub(crate) async fn trust_clock(&self, actor: Actor) -> Result<Option<i64>, StoreError> {
        self.run(move |writer| writer.confirm_clock(actor)).await
    }

    pub(crate) async fn clock_ahead(&self) -> Result<Option<i64>, StoreError> {
        let clock = self.clock.clone();
        let read =
            move |connection: &Connection| Ok(time::resume(connection, &clock)?.time.distrust());
        self.readers.read(read).await
    }

    pub(crate) fn health(&self) -> Health {
        let health = self.commits.as_ref().map_or_else(Health::well, |commits| commits.health());
        Health { scrub: self.scrub_report(), ..health }
    }

    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        let flushed = self.flush().await;
        if let Some(commits) = &self.commits {
            commits.close();
            commits.wait_for_end().await;
        }
        flushed
    }

    /// Runs `work` in the next transaction; returns when that is committed.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.commits()?.run(work, false).await
    }

    /// The same, and synced to disk whatever the durability. For what takes away access: it
    /// must not come back after a power loss.
    async fn run_synced<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.commits()?.run(work, true).await
    }

    /// The key that header values are sealed with.
    fn seal_key(&self) -> Result<Key, StoreError> {
        self.keys().map(|keys| keys.seal.clone())
    }

    fn keys(&self) -> Result<Arc<Keys>, StoreError> {
        let no_key = || StoreError::Failed(Disagreement::NoKey.to_string());
        self.keys.clone().ok_or_else(no_key)
    }

    fn commits(&self) -> Result<&GroupCommit, StoreError> {
        self.commits.as_deref().ok_or(StoreError::ReadOnly)
    }
}

fn read_epoch(connection: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT value FROM meta WHERE name = 'epoch'";
    let epoch: i64 = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    Ok(epoch.unsigned_abs())
}

/// Parses a name that was checked before it was stored.
fn parse_name(text: &str) -> rusqlite::Result<Name> {
    Name::new(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, error.into()))
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::{Sqlite, Writer};
    use crate::{Clock, Durability, Key, StoreConfig, StoreError};

    /// SQLite syncs a commit if this is 2 (`FULL`).
    fn level(writer: &mut Writer) -> Result<i64, StoreError> {
        let pragma = |connection: &Connection| {
            connection.pragma_query_value(None, "synchronous", |row| row.get(0))
        };
        Ok(pragma(writer.connection())?)
    }

    /// As `sluice wrap` opens it, which knows no settings.
    #[tokio::test]
    async fn a_process_without_settings_keeps_the_durability_of_the_gateway() {
        let name = format!("sluice-kept-durability-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).unwrap();
        let retention = Some(crate::Retention::default());
        for (retention, durability, expected) in [
            (None, Durability::Process, 1),
            (retention, Durability::Power, 2),
            (None, Durability::Process, 2),
            (None, Durability::Power, 2),
            (retention, Durability::Process, 1),
            (None, Durability::Process, 1),
            (None, Durability::Power, 2),
        ] {
            let config = StoreConfig {
                directory: directory.clone(),
                durability,
                key: Key::from_bytes([7; 32]),
                clock: Clock::System,
                retention,
                accept_loss: false,
            };
            let store = Sqlite::open(&directory.join("sluice.db"), config).unwrap();
            assert_eq!(store.run(level).await, Ok(expected), "{retention:?} {durability:?}");
            store.close().await.unwrap();
        }
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[tokio::test]
    async fn changes_of_the_registry_are_synced_whatever_the_durability() {
        let name = format!("sluice-synced-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).unwrap();
        for (durability, usual) in [(Durability::Process, 1), (Durability::Power, 2)] {
            let config = StoreConfig {
                directory: directory.clone(),
                durability,
                key: Key::from_bytes([7; 32]),
                clock: Clock::System,
                retention: None,
                accept_loss: false,
            };
            let store = Sqlite::open(&directory.join("sluice.db"), config).unwrap();
            assert_eq!(store.run(level).await, Ok(usual), "{durability:?}");
            assert_eq!(store.run_synced(level).await, Ok(2), "{durability:?}");
            assert_eq!(store.run(level).await, Ok(usual), "{durability:?}");
            store.close().await.unwrap();
        }
        std::fs::remove_dir_all(directory).unwrap();
    }
}
