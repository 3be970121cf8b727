//! Opening a database: creating it, or checking that it is ours and undamaged.

use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
    thread,
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, params};

use super::{
    Keys, read,
    schema::{LAYOUT, PARTS},
    sums,
};
use crate::{
    Durability, OpenError, StoreConfig,
    chain::ChainEnd,
    head::{Extent, Head, HeadFile, Incarnation},
    key::Key,
};

/// Marks a file as ours: "Slui" in ASCII.
const APPLICATION: i32 = 0x536c_7569;
/// How long to wait for another process's write lock. A caller may also wait for the
/// transaction before its own, so for up to twice as long.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// Retries of an operation for which SQLite does not wait by itself, and the pause
/// between.
const MOST_TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);
/// A text that is sealed when a database is created, to recognise its key later.
const KEY_CHECK: &str = "the key of this database";

/// Opens `path` for writing, creating the file if necessary. What is in it is not checked
/// yet.
pub(super) fn open(
    path: &Path,
    config: &StoreConfig,
    keys: &Keys,
) -> Result<Connection, OpenError> {
    let noted = read_noted(&config.directory, keys)?;
    let is_lost = noted > 0 && !config.accept_loss;
    if is_lost && !path.exists() {
        return Err(OpenError::Lost { path: display(path), what: describe_empty(noted) });
    }
    make_private(path)?;
    let failed = |error| open_error(path, &error);
    let connection = connect(path).map_err(failed)?;
    check_writable(&connection, path)?;
    if is_new(&connection).map_err(failed)? {
        if is_lost {
            return Err(OpenError::Lost { path: display(path), what: describe_empty(noted) });
        }
        create(&connection, &config.directory, keys, noted > 0)?.map_err(failed)?;
    }
    recognise(&connection, path)?;
    check_key(&connection, path, &keys.seal)?;
    configure(&connection, config.durability).map_err(failed)?;
    Ok(connection)
}

fn check_writable(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    match connection.is_readonly("main") {
        Ok(false) => Ok(()),
        Ok(true) => Err(OpenError::ReadOnly { path: display(path) }),
        Err(error) => Err(open_error(path, &error)),
    }
}

/// How many records the head of a data directory vouches for; 0 if there is no head, or none
/// that can be read.
fn read_noted(directory: &Path, keys: &Keys) -> Result<i64, OpenError> {
    let failed = |source| head_error(directory, source);
    let file = HeadFile::open(directory, &keys.master, false).map_err(failed)?;
    let head = file.map(|file| file.read()).transpose().map_err(failed)?.flatten();
    Ok(head.map_or(0, |head| head.before.end.seq))
}

fn describe_empty(noted: i64) -> String {
    format!("it is missing or empty, and had reached record {noted}")
}

pub(super) fn head_error(directory: &Path, source: io::Error) -> OpenError {
    OpenError::File { path: display(&HeadFile::path(directory)), source }
}

/// Opens a second connection, for checkpoints.
pub(super) fn open_again(path: &Path) -> Result<Connection, OpenError> {
    connect(path)
        .and_then(|connection| configure(&connection, Durability::Process).map(|()| connection))
        .map_err(|error| open_error(path, &error))
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(connection)
}

/// Converts an error of SQLite into one about opening the database.
pub(super) fn open_error(path: &Path, error: &rusqlite::Error) -> OpenError {
    let path = display(path);
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OpenError::Locked { path },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            OpenError::ReadOnly { path }
        }
        Some(ErrorCode::DiskFull) => OpenError::Full { path },
        _ => OpenError::Damaged { path, what: error.to_string() },
    }
}

/// Makes sure that the file exists and only its owner can access it.
fn make_private(path: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::File { path: display(path), source };
    let created = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
    match created {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    check_private(path)
}

fn check_private(path: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::File { path: display(path), source };
    let mode = fs::metadata(path).map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(OpenError::Mode { path: display(path), mode });
    }
    Ok(())
}

/// Checks that a database exists and is ours, without changing it.
pub(super) fn check(path: &Path) -> Result<(), OpenError> {
    check_private(path)?;
    let connection = read::connect(path).map_err(|error| open_error(path, &error))?;
    recognise(&connection, path)
}

fn configure(connection: &Connection, durability: Durability) -> rusqlite::Result<()> {
    use_wal(connection)?;
    sync_as(connection, durability)?;
    // Checkpoints sync, so they run on a thread of their own.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    // Only the end of the log and some counters are read repeatedly.
    connection.pragma_update(None, "cache_size", -500)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.pragma_update(None, "trusted_schema", false)
}

/// Sets what a commit survives.
pub(super) fn sync_as(connection: &Connection, durability: Durability) -> rusqlite::Result<()> {
    let synchronous = match durability {
        Durability::Process => "NORMAL",
        Durability::Power => "FULL",
    };
    connection.pragma_update(None, "synchronous", synchronous)
}

/// Checks that a database is ours, and not from a newer version.
fn recognise(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let failed = |error| open_error(path, &error);
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let application = number("application_id").map_err(failed)?;
    match (application, number("user_version").map_err(failed)?) {
        (APPLICATION, LAYOUT) => Ok(()),
        (APPLICATION, layout) if layout > LAYOUT => Err(OpenError::Newer { path: display(path) }),
        _ => Err(OpenError::Foreign { path: display(path) }),
    }
}

/// Switches to write-ahead logging. If several processes do so at once, SQLite reports a
/// lock without waiting for it.
fn use_wal(connection: &Connection) -> rusqlite::Result<()> {
    let mut tries = 0;
    loop {
        let changed = connection.pragma_update(None, "journal_mode", "WAL");
        let is_busy = changed.as_ref().is_err_and(|error| {
            matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
            )
        });
        if !is_busy || tries >= MOST_TRIES {
            return changed;
        }
        tries += 1;
        thread::sleep(PAUSE);
    }
}

/// Whether the database is empty and unused.
fn is_new(connection: &Connection) -> rusqlite::Result<bool> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let tables: i32 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(tables == 0 && number("application_id")? == 0 && number("user_version")? == 0)
}

/// Creates the tables, and the head unless an old one is still to be compared. The inner
/// error is that of the database.
fn create(
    connection: &Connection,
    directory: &Path,
    keys: &Keys,
    has_old_head: bool,
) -> Result<rusqlite::Result<()>, OpenError> {
    let check = keys.seal.seal(KEY_CHECK, KEY_CHECK).ok_or(OpenError::Randomness)?;
    let mut incarnation = Incarnation::default();
    getrandom::fill(&mut incarnation).map_err(|_| OpenError::Randomness)?;
    let begin = || {
        // Switching later, while another process does the same, could fail with a lock.
        use_wal(connection)?;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        // Another process may have been faster.
        let is_new = is_new(connection)?;
        if is_new {
            connection.execute_batch(&PARTS.concat())?;
            let sql = "INSERT INTO meta (name, value) VALUES ('key', ?1), ('incarnation', ?2)";
            connection.execute(sql, params![check, incarnation])?;
            connection.pragma_update(None, "application_id", APPLICATION)?;
            connection.pragma_update(None, "user_version", LAYOUT)?;
        }
        let extent = Extent {
            end: ChainEnd::NONE,
            sums: sums::compute(connection, &keys.sums, &sums::ALL)?,
        };
        Ok((is_new, extent))
    };
    let finish = |(is_new, extent): (bool, Extent)| {
        if is_new && !has_old_head {
            let head = Head::of_new(incarnation, extent);
            HeadFile::create(directory, &keys.master, &head)
                .map_err(|source| head_error(directory, source))?;
        }
        Ok(connection.execute_batch("COMMIT"))
    };
    let created = begin().map_or_else(|error| Ok(Err(error)), finish);
    if !connection.is_autocommit() {
        let _ = connection.execute_batch("ROLLBACK");
    }
    created
}

fn check_key(connection: &Connection, path: &Path, key: &Key) -> Result<(), OpenError> {
    let check: Option<Vec<u8>> = connection
        .query_row("SELECT value FROM meta WHERE name = ?1", params!["key"], |row| row.get(0))
        .optional()
        .map_err(|error| open_error(path, &error))?;
    match check.and_then(|check| key.open(KEY_CHECK, &check)) {
        Some(_) => Ok(()),
        None => Err(OpenError::Key { path: display(path) }),
    }
}

pub(super) fn display(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rusqlite::{Connection, OpenFlags};

    use super::{Durability, OpenError, check_writable, configure};

    #[test]
    fn a_database_that_cannot_be_written_is_refused() {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let connection = Connection::open_with_flags(":memory:", flags).unwrap();
        let refused = check_writable(&connection, Path::new("x.db"));
        assert!(matches!(refused, Err(OpenError::ReadOnly { .. })), "{refused:?}");
    }

    /// SQLite syncs each commit if this is 2 (`FULL`), and only checkpoints if it is 1.
    #[test]
    fn only_power_loss_durability_syncs_each_commit() {
        let path = std::env::temp_dir().join(format!("sluice-durable-{}.db", std::process::id()));
        for (durability, expected) in [(Durability::Process, 1), (Durability::Power, 2)] {
            let connection = Connection::open(&path).unwrap();
            configure(&connection, durability).unwrap();
            let found: i64 =
                connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
            assert_eq!(found, expected, "{durability:?}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    /// Older versions of SQLite can damage a log that several processes write.
    #[test]
    fn the_sqlite_library_is_new_enough() {
        assert!(rusqlite::version_number() >= 3_051_003, "{}", rusqlite::version());
    }
}
