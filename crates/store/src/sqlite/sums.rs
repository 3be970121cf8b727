//! Keyed sums over the rows of the tables that the hash chain does not cover: counters,
//! leases, held calls, the registry and the index of the log. The head holds them, so that a row that
//! another program has changed, added or removed is noticed.
//!
//! A sum is the XOR of a keyed hash of each row. Temporary triggers of the writer's connection
//! keep it up to date, so no statement has to be written with it in mind.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::hmac;
use rusqlite::{
    Connection, Row,
    functions::{Context, FunctionFlags},
    types::{Null, ValueRef},
};

use crate::{head::Sums, key::Key};

/// Tables whose rows the hash chain proves.
const CHAINED: [&str; 3] = ["records", "facets", "chains"];
/// What the function of the triggers is called.
const FUNCTION: &str = "add_to_sum";

/// Bytes that nearly every row fits into.
const USUAL_ROW: usize = 256;

/// The parts that are compared each time a store is opened. The index is large.
pub(super) const SMALL: [usize; 3] = [0, 1, 2];
pub(super) const ALL: [usize; 4] = [0, 1, 2, 3];

/// The key of the rows' hashes.
#[derive(Debug, Clone)]
pub(super) struct SumKey(hmac::Key);

impl SumKey {
    pub(super) fn derive(master: &Key) -> SumKey {
        let key = master.derive("sluicegate table sums");
        SumKey(hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()))
    }

    /// The hash of one row.
    fn hash<'v>(&self, table: &str, values: impl Iterator<Item = ValueRef<'v>>) -> u128 {
        // One text, because many small updates of a hash take longer than the hash.
        let mut row = Vec::with_capacity(USUAL_ROW);
        row.extend_from_slice(table.as_bytes());
        for value in values {
            let number;
            let (kind, bytes): (u8, &[u8]) = match value {
                ValueRef::Null => (0, &[]),
                ValueRef::Integer(integer) => {
                    number = integer.to_le_bytes();
                    (1, &number)
                }
                ValueRef::Real(real) => {
                    number = real.to_le_bytes();
                    (2, &number)
                }
                ValueRef::Text(text) => (3, text),
                ValueRef::Blob(blob) => (4, blob),
            };
            // Lengths keep the values apart.
            row.push(kind);
            row.extend_from_slice(&bytes.len().to_le_bytes());
            row.extend_from_slice(bytes);
        }
        let tag = hmac::sign(&self.0, &row);
        let first = tag.as_ref().first_chunk::<16>().copied().unwrap_or_default();
        u128::from_le_bytes(first)
    }
}

/// The sums of the rows as the current transaction has them.
#[derive(Debug, Clone, Default)]
pub(super) struct RunningSums(Arc<Mutex<Sums>>);

impl RunningSums {
    /// Has the triggers of this connection keep the sums, from now on.
    pub(super) fn install(connection: &Connection, key: &SumKey) -> rusqlite::Result<RunningSums> {
        let sums = RunningSums::default();
        let (own, key) = (sums.clone(), key.clone());
        let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
        connection.create_scalar_function(FUNCTION, -1, flags, move |context| {
            own.add(&key, context).map(|()| Null)
        })?;
        // Rows that `REPLACE` removes are deleted with their triggers only so.
        connection.pragma_update(None, "recursive_triggers", true)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        let triggers = list_tables(connection, &ALL)?.into_iter().map(|table| {
            let columns = list_columns(connection, &table)?;
            Ok(draw_triggers(&table, &columns))
        });
        connection.execute_batch(&triggers.collect::<rusqlite::Result<String>>()?)?;
        Ok(sums)
    }

    fn add(&self, key: &SumKey, context: &Context<'_>) -> rusqlite::Result<()> {
        let table = context.get_raw(0).as_str()?;
        let values = (1..context.len()).map(|index| context.get_raw(index));
        let hash = key.hash(table, values);
        if let Some(sum) = self.lock().get_mut(part_of(table)) {
            *sum ^= hash;
        }
        Ok(())
    }

    pub(super) fn get(&self) -> Sums {
        *self.lock()
    }

    pub(super) fn set(&self, sums: Sums) {
        *self.lock() = sums;
    }

    fn lock(&self) -> MutexGuard<'_, Sums> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The triggers of one table.
fn draw_triggers(table: &str, columns: &[String]) -> String {
    let add = |row: &str| {
        let values: Vec<_> = columns.iter().map(|column| format!("{row}.\"{column}\"")).collect();
        format!("SELECT {FUNCTION}('{table}', {});", values.join(", "))
    };
    let trigger = |event: &str, row: &str, steps: &str| {
        // This row is noise.
        let but =
            if table == "meta" { format!("WHEN {row}.name <> 'probe'") } else { String::new() };
        format!(
            "CREATE TEMP TRIGGER sum_{event}_{table} AFTER {event} ON main.\"{table}\" {but} BEGIN {steps} END;\n"
        )
    };
    let (old, new) = (add("OLD"), add("NEW"));
    trigger("INSERT", "NEW", &new)
        + &trigger("UPDATE", "NEW", &(old.clone() + &new))
        + &trigger("DELETE", "OLD", &old)
}

/// The sums of the rows as they are; those of other parts are 0.
pub(super) fn compute(
    connection: &Connection,
    key: &SumKey,
    parts: &[usize],
) -> rusqlite::Result<Sums> {
    let mut sums = Sums::default();
    for table in list_tables(connection, parts)? {
        let but = if table == "meta" { " WHERE name <> 'probe'" } else { "" };
        let mut statement = connection.prepare(&format!("SELECT * FROM main.\"{table}\"{but}"))?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let hash = hash_row(key, &table, row, columns);
            if let Some(sum) = sums.get_mut(part_of(&table)) {
                *sum ^= hash;
            }
        }
    }
    Ok(sums)
}

fn hash_row(key: &SumKey, table: &str, row: &Row<'_>, columns: usize) -> u128 {
    let value = |index| row.get_ref(index).unwrap_or(ValueRef::Null);
    key.hash(table, (0..columns).map(value))
}

/// The part that a table belongs to.
fn part_of(table: &str) -> usize {
    match table {
        "counters" | "leases" => 0,
        "approvals" | "approval_votes" => 1,
        "blocks" | "block_facets" | "block_chains" | "block_requests" | "block_grants" => 3,
        _ => 2,
    }
}

fn list_tables(connection: &Connection, parts: &[usize]) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT name FROM main.sqlite_schema
        WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
    let mut statement = connection.prepare(sql)?;
    let tables = statement.query_map([], |row| row.get(0))?;
    let mut tables = tables.collect::<rusqlite::Result<Vec<String>>>()?;
    tables.retain(|table| !CHAINED.contains(&&**table) && parts.contains(&part_of(table)));
    Ok(tables)
}

fn list_columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
    statement.query_map([table], |row| row.get(0))?.collect()
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::{ALL, RunningSums, SumKey, compute};
    use crate::{key::Key, sqlite::schema::PARTS};

    /// Every way in which a row comes, changes or goes.
    #[test]
    fn triggers_keep_what_computing_finds() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(&PARTS.concat()).unwrap();
        let key = SumKey::derive(&Key::from_bytes([7; 32]));
        let sums = RunningSums::install(&connection, &key).unwrap();
        sums.set(compute(&connection, &key, &ALL).unwrap());
        let counter = |used: &str| {
            format!(
                "INSERT INTO counters VALUES ('s', 'grant', 'o', 'n', 1, 2, '{used}')
                 ON CONFLICT DO UPDATE SET used = excluded.used"
            )
        };
        let mut seen = vec![sums.get()];
        for sql in [
            &*counter("1"),
            &counter("2"),
            "REPLACE INTO counters VALUES ('s', 'grant', 'o', 'n', 1, 2, '3')",
            "INSERT INTO blocks VALUES (1, 2, 3), (2, 3, 4)",
            "DELETE FROM blocks WHERE block = 1",
            "REPLACE INTO meta VALUES ('x', x'00')",
            "UPDATE meta SET value = value + 1 WHERE name = 'epoch'",
            "INSERT INTO approval_votes VALUES ('a', 'i', 'l', NULL, 'deny', NULL, 1)",
            "INSERT INTO policy_versions VALUES (NULL, 's', 'n', 'v', 'json', '{}', 1)",
            "DELETE FROM counters",
        ] {
            connection.execute(sql, []).unwrap();
            assert_eq!(sums.get(), compute(&connection, &key, &ALL).unwrap(), "{sql}");
            assert!(!seen.contains(&sums.get()), "{sql}");
            seen.push(sums.get());
        }
        // Noise does not count.
        connection.execute("REPLACE INTO meta VALUES ('probe', 7)", []).unwrap();
        assert_eq!(seen.last(), Some(&sums.get()));
    }
}
