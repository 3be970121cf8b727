//! Checkpoints: bringing SQLite's write-ahead log into the database, in a thread
//! of its own, so that no call waits for a disk to sync.
//!
//! The write-ahead log starts over only when all of it has been brought in and
//! nobody is reading it, and whoever writes first then has to sync its new
//! beginning. So whenever the thread has caught up, it has the writer write
//! something small, lest that be left to a call. While calls come so fast that
//! it never catches up, the write-ahead log grows; once that is large, the writer
//! finishes by itself what little is left, and that is the one time calls wait.

use std::{
    io,
    sync::{
        Arc,
        mpsc::{self, Receiver, SyncSender},
    },
    thread::{self, JoinHandle},
};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{
    queue::{Command, Queue},
    writer::{Task, Writer},
};

/// Pages that are brought in even in busy times.
const MANY: i64 = 4_000;
/// Pages that are brought in when nothing else is to be done.
const SOME: i64 = 1_000;
/// Pages the write-ahead log may have before the writer makes it start over.
const LARGE: i64 = 40_000;
/// How many more there must be before it tries again, if it could not.
const AGAIN: i64 = 10_000;
/// Past that size, one more page left to bring in is put up with for so many more there are.
const SLACK: i64 = 8;
/// Transactions between looks at the size.
const LOOK_EVERY: u32 = 16;

/// How much there is in the write-ahead log, in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    all: i64,
    /// Those that are not in the database yet.
    left: i64,
}

/// The writer's end of the thread that checkpoints.
pub(super) struct Checkpoints {
    /// Gone when the thread is to end.
    nudge: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Transactions since the size was last looked at.
    unseen: u32,
    /// The size at which the writer makes the write-ahead log start over.
    finish_at: i64,
}

impl Checkpoints {
    /// Starts the thread, with a connection of its own.
    pub(super) fn start(connection: Connection, queue: Arc<Queue>) -> io::Result<Checkpoints> {
        // One nudge may wait, for what is written while a checkpoint runs.
        let (nudge, nudges) = mpsc::sync_channel(1);
        let run = move || run(&connection, &nudges, &queue);
        let thread = thread::Builder::new().name("checkpoints".into()).spawn(run)?;
        let (nudge, thread) = (Some(nudge), Some(thread));
        Ok(Checkpoints { nudge, thread, unseen: 0, finish_at: LARGE })
    }

    /// Has the log checkpointed if much was written; called after each transaction.
    pub(super) fn keep_up(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.unseen += 1;
        if self.unseen < LOOK_EVERY {
            return Ok(());
        }
        self.unseen = 0;
        let size = size(connection)?;
        if size.all >= self.finish_at && size.left <= (size.all - LARGE) / SLACK {
            return self.finish(connection, size);
        }
        if size.left >= MANY {
            self.nudge();
        }
        Ok(())
    }

    /// Has the log checkpointed if that is worth it; called when nothing else is to be done.
    pub(super) fn tidy(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if size(connection)?.left >= SOME {
            self.nudge();
        }
        Ok(())
    }

    /// Brings in what is left and makes the write-ahead log start over, unless
    /// somebody reads it.
    fn finish(&mut self, connection: &Connection, before: Size) -> rusqlite::Result<()> {
        checkpoint(connection)?;
        touch(connection)?;
        let is_shorter = size(connection)?.all < before.all;
        self.finish_at = if is_shorter { LARGE } else { before.all + AGAIN };
        Ok(())
    }

    fn nudge(&self) {
        // If one waits already, that will do.
        let _ = self.nudge.as_ref().map(|nudge| nudge.try_send(()));
    }
}

impl Drop for Checkpoints {
    /// Waits for the thread, so that it is the writer's connection that closes
    /// last: that brings in all that is left and removes the write-ahead log.
    fn drop(&mut self) {
        self.nudge = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn run(connection: &Connection, nudges: &Receiver<()>, queue: &Queue) {
    while nudges.recv().is_ok() {
        match checkpoint(connection) {
            Ok(Size { left: 0, .. }) => start_over(queue),
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "the write-ahead log cannot be checkpointed"),
        }
    }
}

/// Has the writer write something, which starts the write-ahead log over.
fn start_over(queue: &Queue) {
    let work = |writer: &mut Writer| Ok(touch(&writer.connection)?);
    // Nobody waits for it, and a writer that has ended need not do it.
    let _ = queue.push(Command::Task(Box::new(Task { work, reply: oneshot::channel().0 })));
}

/// Writes something small.
pub(super) fn touch(connection: &Connection) -> rusqlite::Result<()> {
    let sql = "REPLACE INTO meta (name, value) VALUES ('probe', randomblob(8))";
    connection.prepare_cached(sql)?.execute([]).map(|_| ())
}

/// Writes something small if the write-ahead log is empty, so that no call has to
/// begin it.
pub(super) fn begin(connection: &Connection) -> rusqlite::Result<()> {
    if size(connection)?.all > 0 { Ok(()) } else { touch(connection) }
}

fn size(connection: &Connection) -> rusqlite::Result<Size> {
    ask(connection, "PRAGMA wal_checkpoint(NOOP)")
}

/// Brings in what can be without waiting for anybody.
fn checkpoint(connection: &Connection) -> rusqlite::Result<Size> {
    ask(connection, "PRAGMA wal_checkpoint(PASSIVE)")
}

fn ask(connection: &Connection, sql: &str) -> rusqlite::Result<Size> {
    connection.prepare_cached(sql)?.query_row([], |row| {
        let all: i64 = row.get(1)?;
        Ok(Size { all, left: all - row.get::<_, i64>(2)? })
    })
}
