//! A view of the database that stays open between transactions.
//!
//! To begin to read costs SQLite four locks of a file, and asking whether anybody
//! else has written costs some more. Both are saved by whoever never ends reading:
//! what they commit they see, and if anybody else has written they cannot begin to
//! write with the view they have. But what comes after a view cannot be checkpointed,
//! so it must be closed now and then.

use std::mem;

use rusqlite::{Connection, DEFAULT_NAME, TransactionState};

/// Reads something that there always is.
const READ: &str = "SELECT 1 FROM meta";

/// Opens a view, within a transaction, that stays open beyond its end.
pub(super) fn open(connection: &Connection) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(READ)?;
    let mut rows = statement.query([])?;
    rows.next()?;
    // What is not dropped goes on reading. The statement itself is kept by the
    // connection, to be found again by its text.
    mem::forget(rows);
    Ok(())
}

/// Closes the view, if one is open.
pub(super) fn close(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached(READ)?.query([]).map(drop)
}

/// Whether one is open. Only for outside of transactions.
pub(super) fn is_open(connection: &Connection) -> bool {
    let state = connection.transaction_state(DEFAULT_NAME);
    state.is_ok_and(|state| state == TransactionState::Read)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::{close, is_open, open};

    #[test]
    fn it_outlasts_transactions_and_notices_what_others_write() {
        let name = format!("sluice-view-{}.db", std::process::id());
        let path = std::env::temp_dir().join(name);
        let connect = || Connection::open(&path).unwrap();
        let (one, other) = (connect(), connect());
        let set_up =
            "PRAGMA journal_mode = WAL; CREATE TABLE meta (name); INSERT INTO meta VALUES (1)";
        one.execute_batch(set_up).unwrap();
        let write =
            |connection: &Connection| connection.execute_batch("INSERT INTO meta VALUES (2)");
        assert!(!is_open(&one));
        one.execute_batch("BEGIN IMMEDIATE").unwrap();
        open(&one).unwrap();
        write(&one).unwrap();
        one.execute_batch("COMMIT").unwrap();
        // What it has written itself does not matter.
        assert!(is_open(&one));
        write(&one).unwrap();
        assert!(is_open(&one));
        write(&other).unwrap();
        assert!(one.execute_batch("BEGIN IMMEDIATE").is_err());
        assert!(is_open(&one));
        close(&one).unwrap();
        assert!(!is_open(&one));
        one.execute_batch("BEGIN IMMEDIATE; COMMIT").unwrap();
        // If there is none there is nothing to close.
        close(&one).unwrap();
        drop((one, other));
        std::fs::remove_file(&path).unwrap();
    }
}
