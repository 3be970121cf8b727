//! Checkpoints: copying SQLite's write-ahead log (WAL) into the database, on a thread
//! of its own, so that no call waits for a disk to sync.
//!
//! SQLite reuses the WAL from its start only when it is fully checkpointed and has no
//! readers, and the next write then has to sync the WAL's new header. To keep that off
//! the path of a call, the store's thread makes a small write after each full
//! checkpoint. Under sustained load the WAL grows; above a size limit the store's
//! thread completes the checkpoint while calls wait.

use std::{
    io,
    sync::{
        Weak,
        mpsc::{self, Receiver, SyncSender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rusqlite::Connection;

use super::group_commit::GroupCommit;

/// Pages that are checkpointed even under load.
const MANY: i64 = 4_000;
/// Pages that may stay in the write-ahead log when the store is idle.
const SOME: i64 = 1_000;
/// The size in pages at which the write-ahead log is made to start over.
const LARGE: i64 = 40_000;
/// How many pages must be added before that is retried, if a reader prevented it.
const AGAIN: i64 = 10_000;
/// How long to wait for readers then.
const BUSY_TIMEOUT: Duration = Duration::from_millis(100);
/// How many idle periods are used to try to checkpoint the same pages.
const MOST_TRIES: u32 = 8;
/// Iterations of the store's thread between checks of the size.
const LOOK_EVERY: u32 = 16;

/// The size of the write-ahead log in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    all: i64,
    /// Pages that are not yet copied into the database.
    left: i64,
}

/// The handle to the checkpoint thread.
pub(super) struct Checkpoints {
    /// Dropped to end the thread.
    nudge: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Iterations since the size was last checked.
    unseen: u32,
    /// Idle periods in which a reader prevented a complete checkpoint.
    tries: u32,
    /// The size at which the write-ahead log is made to start over.
    restart_at: i64,
    large: i64,
}

impl Checkpoints {
    /// Starts the thread, with a connection of its own.
    pub(super) fn start(
        connection: Connection,
        commits: Weak<GroupCommit>,
    ) -> io::Result<Checkpoints> {
        // One nudge may be queued, for pages written while a checkpoint runs.
        let (nudge, nudges) = mpsc::sync_channel(1);
        let run = move || run(&connection, &nudges, &commits);
        let thread = thread::Builder::new().name("checkpoints".into()).spawn(run)?;
        Ok(Checkpoints { nudge: Some(nudge), thread: Some(thread), ..Checkpoints::alone(LARGE) })
    }

    fn alone(large: i64) -> Checkpoints {
        Checkpoints { nudge: None, thread: None, unseen: 0, tries: 0, restart_at: large, large }
    }

    /// Requests a checkpoint if it is worthwhile; called by the thread that holds the
    /// writer.
    pub(super) fn keep_up(&mut self, writer: &Connection, is_idle: bool) {
        self.unseen += 1;
        if self.unseen < LOOK_EVERY && !is_idle {
            return;
        }
        self.unseen = 0;
        if let Err(error) = self.look(writer, is_idle) {
            tracing::warn!(%error, "the write-ahead log cannot be checkpointed");
        }
    }

    fn look(&mut self, writer: &Connection, is_idle: bool) -> rusqlite::Result<()> {
        let size = size(writer)?;
        if size.all < self.large {
            self.restart_at = self.large;
        }
        let beyond = size.all - self.restart_at;
        // Calls wait while this runs, so it is postponed until little is left to do, but
        // not for ever.
        if beyond >= 0 && (size.left <= beyond / 2 || beyond >= self.restart_at) {
            return self.restart(writer, size);
        }
        let is_worthwhile = is_idle && size.all >= SOME && self.tries < MOST_TRIES;
        self.tries = if size.all < SOME { 0 } else { self.tries + u32::from(is_idle) };
        if size.left >= MANY || is_worthwhile || beyond >= 0 {
            // If a nudge is already queued, that is enough.
            let _ = self.nudge.as_ref().map(|nudge| nudge.try_send(()));
        }
        Ok(())
    }

    /// Completes the checkpoint and makes the write-ahead log start over, unless a reader
    /// takes too long. No process can write meanwhile.
    fn restart(&mut self, writer: &Connection, before: Size) -> rusqlite::Result<()> {
        writer.busy_timeout(BUSY_TIMEOUT)?;
        let (is_busy, _) = checkpoint(writer, "PRAGMA wal_checkpoint(RESTART)")?;
        if is_busy {
            self.restart_at = before.all + AGAIN;
            return Ok(());
        }
        let sql = "REPLACE INTO meta (name, value) VALUES ('probe', randomblob(8))";
        writer.prepare_cached(sql)?.execute([])?;
        self.restart_at = self.large;
        Ok(())
    }
}

impl Drop for Checkpoints {
    /// Waits for the thread, so that its connection closes before the writer's.
    fn drop(&mut self) {
        self.nudge = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn run(connection: &Connection, nudges: &Receiver<()>, commits: &Weak<GroupCommit>) {
    while nudges.recv().is_ok() {
        match checkpoint(connection, "PRAGMA wal_checkpoint(PASSIVE)") {
            Ok((false, Size { left: 0, .. })) => {
                if let Some(commits) = commits.upgrade() {
                    commits.touch();
                }
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "the write-ahead log cannot be checkpointed"),
        }
    }
}

fn size(connection: &Connection) -> rusqlite::Result<Size> {
    checkpoint(connection, "PRAGMA wal_checkpoint(NOOP)").map(|(_, size)| size)
}

/// Runs a checkpoint; returns whether a reader prevented it, and the size.
fn checkpoint(connection: &Connection, sql: &str) -> rusqlite::Result<(bool, Size)> {
    connection.prepare_cached(sql)?.query_row([], |row| {
        let all: i64 = row.get(1)?;
        Ok((row.get(0)?, Size { all, left: all - row.get::<_, i64>(2)? }))
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rusqlite::Connection;

    use super::{AGAIN, Checkpoints, size};

    /// The page count that counts as large in these tests.
    const SMALL: i64 = 200;

    struct File(PathBuf);

    impl File {
        fn new(name: &str) -> File {
            let name = format!("sluice-checkpoint-{}-{name}.db", std::process::id());
            File(std::env::temp_dir().join(name))
        }

        fn connect(&self) -> Connection {
            let connection = Connection::open(&self.0).unwrap();
            let sql = "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;
                CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value BLOB NOT NULL);
                CREATE TABLE IF NOT EXISTS log (text TEXT)";
            connection.execute_batch(sql).unwrap();
            connection
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            for end in ["db", "db-wal", "db-shm"] {
                let _ = std::fs::remove_file(self.0.with_extension(end));
            }
        }
    }

    /// Writes without a pause; returns the highest page count.
    fn write(connection: &Connection, checkpoints: &mut Checkpoints) -> i64 {
        let mut most = 0;
        for _ in 0..2_000 {
            connection.execute("INSERT INTO log VALUES (hex(zeroblob(1000)))", []).unwrap();
            checkpoints.keep_up(connection, false);
            most = most.max(size(connection).unwrap().all);
        }
        most
    }

    #[test]
    fn the_write_ahead_log_stays_bounded_without_the_checkpoint_thread() {
        let file = File::new("bounded");
        let most = write(&file.connect(), &mut Checkpoints::alone(SMALL));
        assert!((2 * SMALL..2 * SMALL + 100).contains(&most), "{most}");
    }

    #[test]
    fn a_long_lived_reader_is_not_waited_for_repeatedly() {
        let file = File::new("read");
        let (connection, reader) = (file.connect(), file.connect());
        reader.execute_batch("BEGIN; SELECT * FROM log").unwrap();
        let mut checkpoints = Checkpoints::alone(SMALL);
        let most = write(&connection, &mut checkpoints);
        assert!(most > 2 * SMALL, "{most}");
        assert!(checkpoints.restart_at > AGAIN, "{}", checkpoints.restart_at);
        reader.execute_batch("COMMIT").unwrap();
    }
}
