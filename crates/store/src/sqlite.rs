//! The embedded store: one SQLite file, and one writer at a time.

mod approvals;
mod checkpoint;
mod counters;
mod forms;
mod grants;
mod index;
mod open;
mod pace;
mod policies;
mod prune;
mod queue;
mod read;
mod servers;
mod shared;
mod steady;
mod turn;
mod view;
mod wait;
mod work;
mod writer;

use std::{
    borrow::Borrow,
    fmt, mem,
    path::{Path, PathBuf},
    sync::Arc,
};

use rusqlite::types::Type;
use sluice_policy::Amount;
use tokio::sync::oneshot;

use crate::{chain::Verified, counter::Charge, key::Key, name::Name, record::Record};

use checkpoint::Checkpoints;
pub use open::OpenError;
pub use queue::Health;
use queue::{Command, CrewId, Place, Queue, Reserve};
pub use read::Filter;
use shared::Shared;
use work::Task;
use writer::Writer;

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
    #[error("the store cannot keep up with what it is asked to write")]
    Overloaded,
    #[error("the store has stopped")]
    Stopped,
    #[error("server `{0}` is built in: it can only be declared in the configuration file")]
    NotStorable(String),
    #[error(
        "header `{header}` of server `{server}` cannot be unsealed: it was changed, or sealed with another key\nhint: set the header again"
    )]
    Unsealable { server: String, header: String },
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        StoreError::Failed(error.to_string())
    }
}

/// How a reservation came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reservation {
    /// All charges were made, and the record is on disk.
    Made,
    /// At least one did not fit; none was made, and nothing was written. What each
    /// counter reads, in the order of the charges.
    Refused(Vec<Amount>),
}

/// A handle to the store; clones share it. The writer ends with the last one.
#[derive(Debug, Clone)]
pub struct Store {
    path: PathBuf,
    /// What headers are sealed with.
    key: Key,
    queue: Arc<Handle>,
    /// The writer, where callers may write by themselves: a commit that syncs
    /// takes too long for that.
    writer: Option<Arc<Shared<Writer>>>,
    is_read_only: bool,
}

/// Looks how many more come this many times before it writes.
const LOOKS: u8 = 3;

/// One who has promised to carry out what a crew has waiting. If the caller goes
/// away before that is done, the thread does it.
struct Lead<'q> {
    queue: &'q Queue,
    crew: CrewId,
}

impl Lead<'_> {
    /// Lets everybody who is ready now share the transaction.
    async fn gather(&self) {
        let mut waiting = 1;
        for _ in 0..LOOKS {
            turn::give_way().await;
            let now = self.queue.waiting(self.crew);
            if now <= waiting {
                return;
            }
            waiting = now;
        }
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.queue.hand_over(self.crew);
    }
}

/// Closes the queue when nobody is left to fill it.
struct Handle(Arc<Queue>);

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Queue").field(&self.0.health()).finish()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Store {
    /// Opens or creates the database and starts its writer. The key is the one the
    /// database was created with; what is secret in it is sealed with a key
    /// derived from that.
    pub fn open(path: &Path, durability: Durability, key: &Key) -> Result<Store, OpenError> {
        let key = key.derive("sluicegate store");
        let connection = open::open(path, durability, &key)?;
        let queue = Arc::new(Queue::default());
        let checkpoints = Checkpoints::start(open::open_again(path)?, Arc::clone(&queue))?;
        let writer = writer::start(connection, checkpoints, Arc::clone(&queue))?;
        let writer = (durability == Durability::Process).then_some(writer);
        Ok(Store {
            path: path.to_owned(),
            key,
            queue: Arc::new(Handle(queue)),
            writer,
            is_read_only: false,
        })
    }

    /// A handle for reading the log of a database that is there, whoever writes to
    /// it. Nothing can be written by it, and nothing sealed can be opened.
    pub fn read_only(path: &Path) -> Result<Store, OpenError> {
        open::check(path)?;
        let queue = Arc::new(Queue::default());
        queue.end();
        let (key, queue) = (Key::from_bytes([0; 32]), Arc::new(Handle(queue)));
        Ok(Store { path: path.to_owned(), key, queue, writer: None, is_read_only: true })
    }

    /// Makes all charges and writes the record, in one transaction; when this
    /// returns, both are on disk. If the charges do not fit, nothing is written.
    pub async fn reserve(
        &self,
        charges: Vec<Charge>,
        record: impl Borrow<Record>,
    ) -> Result<Reservation, StoreError> {
        let (reply, answer) = oneshot::channel();
        let line = record.borrow().line_on(self.queue.0.blank());
        let command = Command::Reserve(Reserve { charges, line, reply });
        let Some(writer) = &self.writer else {
            self.push(command)?;
            return answer.await.map_err(|_| StoreError::Stopped)?;
        };
        if let Place::Leads { crew, is_busy } = self.queue.0.put(command)? {
            let lead = Lead { queue: &self.queue.0, crew };
            if is_busy {
                lead.gather().await;
            }
            writer::write_now(writer, &self.queue.0, crew);
            mem::forget(lead);
        }
        answer.await.map_err(|_| StoreError::Stopped)?
    }

    /// Writes a record; when this returns, it is on disk.
    pub async fn append(&self, record: impl Borrow<Record>) -> Result<(), StoreError> {
        self.reserve(Vec::new(), record).await.map(|_| ())
    }

    /// Writes a record soon: with the next transaction, or within a few hundredths
    /// of a second. For outcomes, which nobody waits for: such a record is lost if
    /// the process is killed before, and dropped if very many wait already.
    pub fn append_later(&self, record: &Record) {
        self.queue.0.pile(record.line_on(self.queue.0.blank()));
    }

    /// Waits until everything that was to be written later is on disk.
    pub async fn flush(&self) -> Result<(), StoreError> {
        if self.is_read_only {
            return Ok(());
        }
        // Whatever is on the pile goes along with this transaction.
        self.write(|_| Ok(())).await
    }

    /// Writes what is left and stops, for every clone of the handle; when this
    /// returns, the database is closed.
    pub async fn close(self) -> Result<(), StoreError> {
        let flushed = self.flush().await;
        self.queue.0.close();
        self.queue.0.ended().await;
        flushed
    }

    /// Gives charges back to the windows they came from, and writes the record
    /// that says so. Only for calls of which nothing was sent.
    pub async fn refund(&self, charges: Vec<Charge>, record: Record) -> Result<(), StoreError> {
        self.write(move |writer| writer.refund(&charges, &record)).await
    }

    /// Records that pass a filter, as JSON text, each with its place in the log.
    /// Blocks the thread it runs on.
    pub fn records(&self, filter: &Filter) -> Result<Vec<(i64, String)>, StoreError> {
        read::records(&self.path, filter)
    }

    /// Checks every record against its chain. Blocks the thread it runs on.
    pub fn verify(&self) -> Result<Verified, StoreError> {
        read::verify(&self.path)
    }

    /// How the store is doing. Cheap.
    pub fn health(&self) -> Health {
        self.queue.0.health()
    }

    /// Does a part of the next transaction; answers when that is on disk.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.push(Command::Task(Box::new(Task { work, reply })))?;
        answer.await.map_err(|_| StoreError::Stopped)?
    }

    fn push(&self, command: Command) -> Result<(), StoreError> {
        self.queue.0.push(command)
    }
}

fn no_randomness() -> StoreError {
    StoreError::Failed("the system gives no randomness".into())
}

/// A name that was checked before it was written.
fn name(text: &str) -> rusqlite::Result<Name> {
    Name::new(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, error.into()))
}
