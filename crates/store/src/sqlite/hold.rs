//! Holding on to what was last seen of the database.
//!
//! To begin to read costs SQLite four locks of a file, and asking whether anybody
//! else has written costs some more. Both are saved by whoever never ends reading:
//! what they commit they see, and if anybody else has written, they cannot begin to
//! write until they have let go. But what they hold on to cannot be checkpointed,
//! so they must let go now and then.

use std::mem;

use rusqlite::{Connection, DEFAULT_NAME, TransactionState};

/// Something that there always is.
const READ: &str = "SELECT 1 FROM meta";

/// Holds on, from within a transaction to beyond its end.
pub(super) fn hold_on(connection: &Connection) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(READ)?;
    let mut rows = statement.query([])?;
    rows.next()?;
    // What is not dropped goes on reading. The statement itself is kept by the
    // connection, to be found again by its text.
    mem::forget(rows);
    Ok(())
}

/// Lets go; harmless if nothing is held.
pub(super) fn let_go(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached(READ)?.query([]).map(drop)
}

/// Whether the database is seen as it was, outside of transactions.
pub(super) fn is_holding(connection: &Connection) -> bool {
    let state = connection.transaction_state(DEFAULT_NAME);
    state.is_ok_and(|state| state == TransactionState::Read)
}
