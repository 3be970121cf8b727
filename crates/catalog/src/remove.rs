//! Removes servers from the tables and the full-text index.
//!
//! The index does not store the indexed text, so a row is removed with the same
//! words that were added, which are generated again from the tables.

use rusqlite::{Connection, OptionalExtension as _, Row, TransactionBehavior, params};

use crate::{
    catalog::Catalog,
    entry::Server,
    look::{self, traits},
    shipped::{self, ShippedError},
    words,
};

/// Servers could not be removed; nothing was changed.
#[derive(Debug, thiserror::Error)]
#[error("the servers cannot be removed")]
pub struct RemoveError(#[from] ShippedError);

impl Catalog {
    /// Removes imported servers. Shipped servers of the same names become visible again.
    pub fn remove(&mut self, servers: &[Server]) -> Result<(), RemoveError> {
        let mut removed = || {
            let transaction =
                self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for one in servers {
                // Looked up by name, because another process may have imported it again.
                let id = "SELECT id FROM server WHERE name = ?1 AND own = 1";
                let id = transaction.query_row(id, [&one.name], |row| row.get(0)).optional()?;
                id.map_or(Ok(()), |id| server(&transaction, id))?;
            }
            shipped::put_missing(&transaction)?;
            transaction.commit()?;
            Ok::<(), ShippedError>(())
        };
        Ok(removed()?)
    }
}

/// Removes a server with its tools.
pub(crate) fn server(connection: &Connection, id: i64) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(look::SERVER_BY_ID)?;
    let server = statement.query_row([id], look::read_server)?;
    let span = params![server.first, server.first + i64::from(server.tools().unwrap_or_default())];
    let mut tools = connection.prepare_cached(
        "SELECT category, confidence, signals, findings, id, name, description FROM tool
         WHERE id >= ?1 AND id < ?2",
    )?;
    let mut delete = connection.prepare_cached(
        "INSERT INTO tool_words (tool_words, rowid, text) VALUES ('delete', ?1, ?2)",
    )?;
    let mut rows = tools.query(span)?;
    while let Some(row) = rows.next()? {
        delete.execute(params![row.get::<_, i64>(4)?, words_of(&server.name, row)?])?;
    }
    let text = words::of_server(&server.name, server.description.as_deref());
    connection
        .prepare_cached(
            "INSERT INTO server_words (server_words, rowid, text) VALUES ('delete', ?1, ?2)",
        )?
        .execute(params![id, text])?;
    connection.prepare_cached("DELETE FROM tool WHERE id >= ?1 AND id < ?2")?.execute(span)?;
    connection.prepare_cached("DELETE FROM server WHERE id = ?1")?.execute([id])?;
    Ok(())
}

fn words_of(server: &str, row: &Row<'_>) -> rusqlite::Result<String> {
    let traits = traits(row)?;
    let (name, description): (String, Option<String>) = (row.get(5)?, row.get(6)?);
    let description = description.as_deref();
    Ok(words::of_tool(server, &name, description, traits.category, traits.signals))
}

/// Removes all shipped servers.
pub(crate) fn remove_shipped(connection: &Connection) -> rusqlite::Result<()> {
    let mut statement = connection.prepare("SELECT id FROM server WHERE own = 0")?;
    let ids: Vec<i64> =
        statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    ids.into_iter().try_for_each(|id| server(connection, id))
}
