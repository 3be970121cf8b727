//! The embedded back-end: one SQLite file, which several processes may share.
//!
//! Writes go through `group_commit`, reads through `read`. What a transaction
//! does is in `writer`, and the tables are in `schema`.

mod approvals;
mod blocks;
mod checkpoint;
mod counters;
mod grants;
mod group_commit;
mod open;
mod past_reservations;
mod policies;
mod prune;
mod read;
mod records;
mod schema;
mod servers;
mod steady;
mod writer;

use std::{path::Path, sync::Arc};

use rusqlite::{Connection, types::Type};

use crate::{
    Durability, Health, StoreError,
    chain::Verified,
    changes::Announcer,
    clock::Clock,
    id::Id,
    key::Key,
    ledger::{Reservation, Reserved},
    log::{Filter, Page},
    name::Name,
    record::Record,
    registry::Snapshot,
};

use group_commit::GroupCommit;
pub use group_commit::commit_on_this_thread;
pub use open::OpenError;
use read::Readers;
use records::Prepared;
use writer::Writer;

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        StoreError::Failed(error.to_string())
    }
}

/// An open database.
#[derive(Debug)]
pub(crate) struct Sqlite {
    /// The key that header values are sealed with.
    key: Key,
    clock: Clock,
    /// `None` if it was opened read-only.
    commits: Option<Arc<GroupCommit>>,
    readers: Arc<Readers>,
    announcer: Arc<Announcer>,
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        if let Some(commits) = &self.commits {
            commits.close();
        }
    }
}

impl Sqlite {
    pub(crate) fn open(
        path: &Path,
        durability: Durability,
        key: &Key,
        clock: Clock,
    ) -> Result<Sqlite, OpenError> {
        let key = key.derive("sluicegate store");
        let connection = open::open(path, durability, &key)?;
        let epoch = read_epoch(&connection).unwrap_or_default();
        let announcer = Arc::new(Announcer::new(epoch));
        let own = Arc::clone(&announcer);
        let announce = move |epoch| own.announce_own(epoch);
        let writer = Writer::new(connection, clock.clone(), announce);
        let readers = Arc::new(Readers::new(path));
        let commits = GroupCommit::start(
            writer,
            open::open_again(path)?,
            Arc::clone(&readers),
            durability == Durability::Process,
        )?;
        Ok(Sqlite { key, clock, commits: Some(commits), readers, announcer })
    }

    pub(crate) fn open_read_only(path: &Path) -> Result<Sqlite, OpenError> {
        open::check(path)?;
        Ok(Sqlite {
            key: Key::from_bytes([0; 32]),
            clock: Clock::System,
            commits: None,
            readers: Arc::new(Readers::new(path)),
            announcer: Arc::new(Announcer::new(0)),
        })
    }

    pub(crate) fn announcer(&self) -> &Arc<Announcer> {
        &self.announcer
    }

    pub(crate) async fn reserve(&self, reservation: Reservation) -> Result<Reserved, StoreError> {
        let Reservation { id, charges, record } = reservation;
        self.commits()?.write(Some(id), charges, Prepared::new(record)).await
    }

    pub(crate) async fn release(&self, id: Id, record: Record) -> Result<bool, StoreError> {
        self.run(move |writer| writer.release(id, record)).await
    }

    pub(crate) async fn append(&self, record: Record) -> Result<(), StoreError> {
        self.commits()?.write(None, Vec::new(), Prepared::new(record)).await.map(|_| ())
    }

    pub(crate) fn append_deferred(&self, record: Record) {
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
        self.readers.read(|connection| Ok(read::verify(connection)?)).await
    }

    pub(crate) async fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let key = self.key.clone();
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

    pub(crate) fn health(&self) -> Health {
        match &self.commits {
            Some(commits) => commits.health(),
            None => Health { ok: true, last_error: None, queued: 0, deferred: 0, dropped: 0 },
        }
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
        self.commits()?.run(work).await
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
