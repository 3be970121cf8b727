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
    time::Duration,
};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{
    open,
    queue::{Command, Queue},
    work::Task,
    writer::Writer,
};

/// Pages that are brought in even in busy times.
const MANY: i64 = 4_000;
/// Pages it must have grown by to be brought in when nothing else is to be done.
const SOME: i64 = 1_000;
/// Pages the write-ahead log may have before the writer makes it start over.
const LARGE: i64 = 40_000;
/// How many more there must be before it tries again, if it could not.
const AGAIN: i64 = 10_000;
/// How long it waits for others who read.
const PATIENCE: Duration = Duration::from_millis(100);
/// Turns of the writer's thread between looks at the size.
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
    /// Turns since the size was last looked at.
    unseen: u32,
    /// How large it was then.
    seen: i64,
    /// The size when it was last checkpointed because nothing else was to be done;
    /// zero if it has started over since.
    tidied: i64,
    /// The size at which the writer makes the write-ahead log start over, if
    /// nothing is in the way.
    large: i64,
    /// The size at which it tries to next.
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
        Ok(Checkpoints {
            nudge,
            thread,
            unseen: 0,
            seen: 0,
            tidied: 0,
            large: LARGE,
            finish_at: LARGE,
        })
    }

    /// Has the log checkpointed if much was written; called in each turn of the thread.
    pub(super) fn keep_up(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.unseen += 1;
        if self.unseen < LOOK_EVERY {
            return Ok(());
        }
        let size = self.look(connection)?;
        if self.is_time_to_finish(size) {
            return self.finish(connection, size);
        }
        if size.left >= MANY || size.all >= self.finish_at {
            self.nudge();
        }
        Ok(())
    }

    /// Has the size looked at in the next turn.
    fn look_soon(&mut self) {
        self.unseen = LOOK_EVERY;
    }

    fn look(&mut self, connection: &Connection) -> rusqlite::Result<Size> {
        let size = size(connection)?;
        (self.unseen, self.seen) = (0, size.all);
        if size.all < self.tidied {
            self.tidied = 0;
        }
        Ok(size)
    }

    /// Whether it will soon have to start over, which it cannot while somebody reads.
    pub(super) fn is_nearly_large(&self) -> bool {
        self.seen >= self.large - self.large / 10
    }

    /// Calls wait for as long as finishing takes, so it is put off until there is
    /// little left to do, but not for good.
    fn is_time_to_finish(&self, size: Size) -> bool {
        let beyond = size.all - self.finish_at;
        beyond >= 0 && (size.left <= beyond / 2 || beyond >= self.finish_at)
    }

    /// Has the log checkpointed if that is worth it; called when nothing else is to be done.
    pub(super) fn tidy(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let all = self.look(connection)?.all;
        // If somebody reads, it is not tried again and again.
        if all - self.tidied >= SOME {
            self.tidied = all;
            self.nudge();
        }
        Ok(())
    }

    /// Brings in what is left and makes the write-ahead log start over, unless
    /// somebody reads it for longer. No process writes meanwhile.
    fn finish(&mut self, connection: &Connection, before: Size) -> rusqlite::Result<()> {
        connection.busy_timeout(PATIENCE)?;
        let finished = ask(connection, "PRAGMA wal_checkpoint(RESTART)");
        connection.busy_timeout(open::PATIENCE)?;
        let (is_busy, found) = finished?;
        if is_busy && found.all < 0 {
            // Somebody else is at a checkpoint, so it was not even looked at.
            return Ok(());
        }
        if !is_busy {
            touch(connection)?;
        }
        let is_shorter = self.look(connection)?.all < before.all;
        self.finish_at = if is_shorter { self.large } else { before.all + AGAIN };
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
            Ok(Some(Size { left: 0, .. })) => start_over(queue),
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "the write-ahead log cannot be checkpointed"),
        }
    }
}

/// Has the writer write something, which starts the write-ahead log over.
fn start_over(queue: &Queue) {
    let work = |writer: &mut Writer| {
        writer.checkpoints.look_soon();
        Ok(touch(&writer.connection)?)
    };
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
    ask(connection, "PRAGMA wal_checkpoint(NOOP)").map(|(_, size)| size)
}

/// Brings in what can be without waiting for anybody, and says what is left;
/// `None` if somebody else is doing so.
fn checkpoint(connection: &Connection) -> rusqlite::Result<Option<Size>> {
    let (is_busy, size) = ask(connection, "PRAGMA wal_checkpoint(PASSIVE)")?;
    Ok((!is_busy).then_some(size))
}

fn ask(connection: &Connection, sql: &str) -> rusqlite::Result<(bool, Size)> {
    connection.prepare_cached(sql)?.query_row([], |row| {
        let all: i64 = row.get(1)?;
        Ok((row.get(0)?, Size { all, left: all - row.get::<_, i64>(2)? }))
    })
}

#[cfg(test)]
mod tests {
    use std::{
        path::PathBuf,
        sync::{
            atomic::{AtomicBool, Ordering},
            mpsc,
        },
        thread,
        time::Duration,
    };

    use rusqlite::Connection;

    use super::{AGAIN, Checkpoints, SOME, ask, checkpoint, size, touch};

    /// A write-ahead log of this many pages is large here.
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
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// The writer's end, with nobody at the other.
    fn alone() -> Checkpoints {
        Checkpoints {
            nudge: None,
            thread: None,
            unseen: 0,
            seen: 0,
            tidied: 0,
            large: SMALL,
            finish_at: SMALL,
        }
    }

    /// Writes without a pause; the most pages there ever were.
    fn write(connection: &Connection, checkpoints: &mut Checkpoints) -> i64 {
        let mut most = 0;
        for _ in 0..2_000 {
            connection.execute("INSERT INTO log VALUES (hex(zeroblob(1000)))", []).unwrap();
            checkpoints.keep_up(connection).unwrap();
            most = most.max(size(connection).unwrap().all);
        }
        most
    }

    #[test]
    fn the_write_ahead_log_stays_bounded_even_if_nobody_else_checkpoints() {
        let file = File::new("bounded");
        let connection = file.connect();
        let mut checkpoints = alone();
        let most = write(&connection, &mut checkpoints);
        assert!((2 * SMALL..2 * SMALL + 100).contains(&most), "{most}");
    }

    #[test]
    fn it_stays_bounded_while_another_process_writes_too() {
        let file = File::new("shared");
        let connection = file.connect();
        let is_done = AtomicBool::new(false);
        let most = thread::scope(|scope| {
            scope.spawn(|| {
                let other = file.connect();
                other.busy_timeout(Duration::from_secs(10)).unwrap();
                for _ in 0..50_000 {
                    if is_done.load(Ordering::Relaxed) {
                        break;
                    }
                    other.execute("INSERT INTO log VALUES ('other')", []).unwrap();
                    // SQLite's locks are not fair: it may not always be at it.
                    thread::sleep(Duration::from_micros(50));
                }
            });
            connection.busy_timeout(Duration::from_secs(10)).unwrap();
            let most = write(&connection, &mut alone());
            is_done.store(true, Ordering::Relaxed);
            most
        });
        assert!((SMALL..5 * SMALL).contains(&most), "{most}");
    }

    #[test]
    fn what_has_started_over_is_brought_in_again_when_it_has_grown_a_little_larger() {
        let file = File::new("tidied");
        let connection = file.connect();
        let (nudge, nudges) = mpsc::sync_channel(1);
        let mut checkpoints = alone();
        checkpoints.nudge = Some(nudge);
        for pages in [SOME + 100, SOME + 200] {
            while size(&connection).unwrap().all < pages {
                connection.execute("INSERT INTO log VALUES ('text')", []).unwrap();
            }
            checkpoints.tidy(&connection).unwrap();
            assert_eq!(nudges.try_recv(), Ok(()), "at {pages} pages");
            // What the thread does then, and what it has the writer do.
            assert_eq!(checkpoint(&connection).unwrap().map(|size| size.left), Some(0));
            checkpoints.look_soon();
            touch(&connection).unwrap();
            checkpoints.keep_up(&connection).unwrap();
        }
        assert!(size(&connection).unwrap().all < 10);
    }

    #[test]
    fn what_somebody_else_is_at_is_tried_again_soon() {
        let file = File::new("engaged");
        let (connection, reader, other) = (file.connect(), file.connect(), file.connect());
        connection.execute("INSERT INTO log VALUES ('first')", []).unwrap();
        // Somebody reads, so that the other's checkpoint lasts.
        reader.execute_batch("BEGIN; SELECT count(*) FROM log").unwrap();
        connection.execute("INSERT INTO log VALUES ('second')", []).unwrap();
        other.busy_timeout(Duration::from_secs(20)).unwrap();
        thread::scope(|scope| {
            let restart = "PRAGMA wal_checkpoint(RESTART)";
            scope.spawn(move || while ask(&other, restart).unwrap().1.all < 0 {});
            while checkpoint(&connection).unwrap().is_some() {
                thread::yield_now();
            }
            let mut checkpoints = alone();
            let before = size(&connection).unwrap();
            checkpoints.finish(&connection, before).unwrap();
            assert_eq!(checkpoints.finish_at, SMALL);
            reader.execute_batch("COMMIT").unwrap();
        });
    }

    #[test]
    fn whoever_reads_is_not_disturbed_and_not_tried_again_at_once() {
        let file = File::new("read");
        let (connection, reader) = (file.connect(), file.connect());
        connection.execute("INSERT INTO log VALUES ('first')", []).unwrap();
        let count = || reader.query_row("SELECT count(*) FROM log", [], |row| row.get::<_, i64>(0));
        reader.execute_batch("BEGIN").unwrap();
        assert_eq!(count(), Ok(1));
        let mut checkpoints = alone();
        let most = write(&connection, &mut checkpoints);
        assert!(most > 2_000, "{most}");
        assert!(checkpoints.finish_at > AGAIN, "{}", checkpoints.finish_at);
        assert_eq!(count(), Ok(1));
    }
}
