//! Opening a database: what it must be, and what is checked before it is used.

use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};

use super::{Durability, read};

/// Marks a file as ours: "Slui" in ASCII.
const APPLICATION: i32 = 0x536c_7569;
/// The layout of the tables below.
const VERSION: i32 = 1;
/// Records checked against their chain at start; the rest are checked on demand.
const CHECKED_AT_START: u32 = 1_000;

const TABLES: &str = "
    CREATE TABLE audit (seq INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
    CREATE TABLE counters (
        key TEXT NOT NULL, window_start INTEGER NOT NULL, window_end INTEGER NOT NULL, used TEXT NOT NULL,
        PRIMARY KEY (key, window_start)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE grants (
        id TEXT PRIMARY KEY, label TEXT NOT NULL, servers TEXT NOT NULL, policy TEXT NOT NULL, principal TEXT,
        token_sha256 TEXT NOT NULL UNIQUE,
        created_at INTEGER NOT NULL, expires_at INTEGER, revoked_at INTEGER
    ) STRICT, WITHOUT ROWID;
";

/// Why a database cannot be used.
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
    #[error("the store's thread cannot be started: {0}")]
    Thread(#[from] io::Error),
}

/// Opens `path` for writing, creating it if it is not there.
pub(super) fn open(path: &Path, durability: Durability) -> Result<Connection, OpenError> {
    make_private(path)?;
    let damaged =
        |error: rusqlite::Error| OpenError::Damaged { path: shown(path), what: error.to_string() };
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
    .map_err(damaged)?;
    settle(&connection, durability).map_err(damaged)?;
    prepare(&connection, path)?;
    let verified = read::verify_last(&connection, CHECKED_AT_START)
        .map_err(|error| OpenError::Damaged { path: shown(path), what: error.to_string() })?;
    match verified.faults.first() {
        Some(fault) => Err(OpenError::Damaged { path: shown(path), what: fault.to_string() }),
        None => Ok(connection),
    }
}

/// Makes sure the file is there and is its owner's alone.
fn make_private(path: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::File { path: shown(path), source };
    let created = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
    match created {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    let mode = fs::metadata(path).map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(OpenError::Mode { path: shown(path), mode });
    }
    Ok(())
}

fn settle(connection: &Connection, durability: Durability) -> rusqlite::Result<()> {
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    let synchronous = match durability {
        Durability::Process => "NORMAL",
        Durability::Power => "FULL",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "cache_size", -2_000)?;
    connection.pragma_update(None, "trusted_schema", false)
}

/// Creates the tables of a new database, or checks that an old one is ours.
fn prepare(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let damaged =
        |error: rusqlite::Error| OpenError::Damaged { path: shown(path), what: error.to_string() };
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let application = number("application_id").map_err(damaged)?;
    let version = number("user_version").map_err(damaged)?;
    let tables: i32 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(damaged)?;
    match (application, version) {
        (0, 0) if tables == 0 => create(connection).map_err(damaged),
        (APPLICATION, VERSION) => Ok(()),
        (APPLICATION, version) if version > VERSION => Err(OpenError::Newer { path: shown(path) }),
        _ => Err(OpenError::Foreign { path: shown(path) }),
    }
}

fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE; {TABLES} PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}; COMMIT;"
    ))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
