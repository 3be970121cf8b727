//! The embedded store: one SQLite file, one thread that writes it.

mod grants;
mod open;
mod read;
mod writer;

use std::path::{Path, PathBuf};

use sluice_policy::Amount;
use tokio::sync::{mpsc, oneshot};

use crate::{chain::Verified, counter::Charge, record::Record};

pub use open::OpenError;
pub use read::Filter;
use writer::{Task, Work, Writer};

/// Commands that may wait for the writer; past that, callers wait.
const QUEUE: usize = 4096;

/// What an answered write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process, also by `kill -9`.
    Process,
    /// Power loss too.
    Power,
}

/// The store could not do what was asked; nothing of it was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("the store failed: {0}")]
    Failed(String),
    #[error("the store has stopped")]
    Stopped,
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        StoreError::Failed(error.to_string())
    }
}

/// How a reservation came out. Either way its record is on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reservation {
    /// All charges were made.
    Made,
    /// At least one did not fit, and none was made. What each counter reads, in
    /// the order of the charges.
    Refused(Vec<Amount>),
}

/// A handle to the store; clones share it.
#[derive(Debug, Clone)]
pub struct Store {
    path: PathBuf,
    queue: mpsc::Sender<Box<dyn Work>>,
}

impl Store {
    /// Opens or creates the database and starts its writer.
    pub fn open(path: &Path, durability: Durability) -> Result<Store, OpenError> {
        let connection = open::open(path, durability)?;
        let (queue, work) = mpsc::channel(QUEUE);
        writer::start(connection, work)?;
        Ok(Store { path: path.to_owned(), queue })
    }

    /// Makes all charges or none, and writes the record that goes with it, in
    /// one transaction. When this returns, both are on disk.
    ///
    /// `record` is given what the counters read if the charges do not fit.
    pub async fn reserve(
        &self,
        charges: Vec<Charge>,
        record: impl FnOnce(Option<&[Amount]>) -> Record + Send + 'static,
    ) -> Result<Reservation, StoreError> {
        self.write(move |writer| writer.reserve(&charges, record)).await
    }

    /// Writes a record; when this returns, it is on disk.
    pub async fn append(&self, record: Record) -> Result<(), StoreError> {
        self.reserve(Vec::new(), |_| record).await.map(|_| ())
    }

    /// Gives charges back to the windows they came from, and writes the record
    /// that says so. Only for calls of which nothing was sent.
    pub async fn refund(&self, charges: Vec<Charge>, record: Record) -> Result<(), StoreError> {
        self.write(move |writer| writer.refund(&charges, &record)).await
    }

    /// Records from the newest on, as JSON text. Blocks the thread it runs on.
    pub fn records(&self, filter: &Filter) -> Result<Vec<String>, StoreError> {
        read::records(&self.path, filter)
    }

    /// Checks every record against its chain. Blocks the thread it runs on.
    pub fn verify(&self) -> Result<Verified, StoreError> {
        read::verify(&self.path)
    }

    /// Does a part of the next transaction; answers when that is on disk.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(Box::new(Task { work, reply })).await.map_err(|_| StoreError::Stopped)?;
        answer.await.map_err(|_| StoreError::Stopped)?
    }
}
