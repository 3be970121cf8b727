//! The database tables of a catalogue, and the settings of its connections.
//!
//! The tools of a server have consecutive row ids, so that no index is needed to find
//! them. Imported servers come before shipped ones: the full-text tables return rows
//! in order, and a search takes the first matches.

use std::{thread, time::Duration};

use rusqlite::{Connection, ErrorCode, TransactionBehavior};

/// Marks a file as ours: "Slug" in ASCII.
pub(crate) const APPLICATION: i32 = 0x536c_7567;
/// The version of the tables' layout, and of the words in the index.
pub(crate) const VERSION: i32 = 1;
/// The first row of the shipped index.
pub(crate) const SHIPPED: i64 = 1 << 40;
/// How long to wait for another process that has locked the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of attempts, and the delay between them, for statements that ignore the busy timeout.
const MOST_TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// `words` splits the text before it is indexed, so the simplest tokenizer will do: ASCII letters
/// and digits, and all characters beyond ASCII.
const TABLES: &str = "
    CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE phrase (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT;
    CREATE TABLE server (
        id INTEGER PRIMARY KEY, slug TEXT NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE,
        source TEXT NOT NULL, own INTEGER NOT NULL, version TEXT, description TEXT, about TEXT,
        first INTEGER NOT NULL, counts TEXT, findings INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE tool (
        id INTEGER PRIMARY KEY, server INTEGER NOT NULL, name TEXT NOT NULL, category INTEGER NOT NULL,
        confidence INTEGER NOT NULL, signals INTEGER NOT NULL, findings INTEGER NOT NULL,
        digest INTEGER, description TEXT, evidence TEXT NOT NULL
    ) STRICT;
    CREATE VIRTUAL TABLE tool_words USING fts5
        (text, content='', columnsize=0, detail=none, tokenize='porter ascii');
    CREATE VIRTUAL TABLE server_words USING fts5
        (text, content='', columnsize=0, detail=none, tokenize='porter ascii');
    INSERT INTO tool_words (tool_words, rank) VALUES ('hashsize', 33554432);
";

/// Creates the tables if there are none, and returns the file's previous kind.
pub(crate) fn prepare(connection: &mut Connection) -> rusqlite::Result<Kind> {
    // One transaction, so that a layout that another process is creating is not seen halfway.
    let kind = kind(&*connection.transaction()?)?;
    if kind != Kind::Empty {
        return Ok(kind);
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have created the tables meanwhile.
    let now = self::kind(&transaction)?;
    if now == Kind::Empty {
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()?;
    Ok(if now == Kind::Empty { Kind::Ours } else { now })
}

/// The kind of a database file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Empty,
    Ours,
    /// Written by a newer version with another layout.
    Newer,
    /// Written by another program.
    Foreign,
}

/// Detects the kind of a file; within a transaction, if others may be writing it.
pub(crate) fn kind(connection: &Connection) -> rusqlite::Result<Kind> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match (number("application_id")?, number("user_version")?) {
        (APPLICATION, VERSION) => Kind::Ours,
        (APPLICATION, _) => Kind::Newer,
        (0, 0) if tables == 0 => Kind::Empty,
        _ => Kind::Foreign,
    })
}

/// Sets the memory limits and the busy timeout of every connection.
pub(crate) fn settle(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(32);
    connection.execute_batch("PRAGMA cache_size = -16384; PRAGMA temp_store = MEMORY;")
}

/// Additional settings of a connection that writes a file.
pub(crate) fn settle_writer(connection: &Connection) -> rusqlite::Result<()> {
    let is_set = || {
        let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
        Ok::<bool, rusqlite::Error>(mode == "wal")
    };
    // Changing the journal mode ignores the busy timeout.
    for _ in 0..MOST_TRIES {
        if is_set()? {
            break;
        }
        match connection.execute_batch("PRAGMA journal_mode = WAL;") {
            Err(error) if error.sqlite_error_code() != Some(ErrorCode::DatabaseBusy) => {
                return Err(error);
            }
            Err(_) => thread::sleep(PAUSE),
            Ok(()) => {}
        }
    }
    connection.execute_batch("PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 67108864;")
}
