//! The table of forms that rows of the log name by number; see `sheet/forms.rs`.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::sheet::{KEPT_FOR, Sheet};

/// `noted` is the last record known to use a form.
pub(super) const TABLES: &str = "
    CREATE TABLE forms (number INTEGER PRIMARY KEY, form TEXT NOT NULL UNIQUE, noted INTEGER NOT NULL) STRICT;
";

/// Keeps the forms that are worth it, as ones that the newest record uses.
pub(super) fn keep(
    connection: &Connection,
    sheet: &mut Sheet,
    newest: i64,
) -> rusqlite::Result<()> {
    sheet.keep_forms(newest, |form| {
        let sql = "INSERT INTO forms (form, noted) VALUES (?1, ?2)
            ON CONFLICT DO UPDATE SET noted = excluded.noted RETURNING number";
        connection.prepare_cached(sql)?.query_row(params![form, newest], |row| row.get(0))
    })
}

/// Drops forms that no record behind this one has.
pub(super) fn drop_before(connection: &Connection, through: i64) -> rusqlite::Result<()> {
    let noted = through.saturating_sub(KEPT_FOR);
    connection.execute("DELETE FROM forms WHERE noted <= ?1", [noted]).map(|_| ())
}

/// Forms that were read.
pub(super) struct Kept<'c> {
    connection: &'c Connection,
    known: BTreeMap<i64, Option<String>>,
    /// Why one could not be read, if that was so.
    pub(super) failed: rusqlite::Result<()>,
}

impl Kept<'_> {
    pub(super) fn new(connection: &Connection) -> Kept<'_> {
        Kept { connection, known: BTreeMap::new(), failed: Ok(()) }
    }

    /// The form of a number, if there is one.
    pub(super) fn form(&mut self, number: i64) -> Option<String> {
        if let Some(known) = self.known.get(&number) {
            return known.clone();
        }
        let sql = "SELECT form FROM forms WHERE number = ?1";
        let found = self.connection.query_row(sql, [number], |row| row.get(0)).optional();
        let form: Option<String> = found.unwrap_or_else(|error| {
            self.failed = Err(error);
            None
        });
        self.known.insert(number, form.clone());
        form
    }
}
