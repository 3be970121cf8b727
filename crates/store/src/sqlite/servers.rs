//! Servers in the database. What their headers hold is sealed.

use std::time::Duration;

use rusqlite::{Connection, Row, params};

use super::{Store, StoreError, name, no_randomness, policies, read};
use crate::{
    key::Key,
    name::Name,
    record::Record,
    server::{Bridge, Secret, Server, Source, Transport},
};

pub(super) const TABLES: &str = "
    CREATE TABLE servers (
        name TEXT PRIMARY KEY, url TEXT NOT NULL, timeout_ms INTEGER NOT NULL, anonymous_policy TEXT
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE headers (
        server TEXT NOT NULL, place INTEGER NOT NULL, name TEXT NOT NULL, sealed BLOB NOT NULL,
        PRIMARY KEY (server, place)
    ) STRICT, WITHOUT ROWID;
";

/// A header with its value sealed.
type Sealed = (String, Vec<u8>);

impl Store {
    /// Keeps a server, in place of one of the same name if there is one.
    pub async fn put_server(&self, server: Server, record: Record) -> Result<(), StoreError> {
        let Transport::Http { url, headers } = &server.transport else {
            return Err(StoreError::NotStorable(server.name.to_string()));
        };
        let (url, headers) = (url.clone(), sealed(&self.key, &server.name, headers)?);
        let put = move |connection: &Connection| put(connection, &server, &url, &headers).map(Some);
        self.write(move |writer| writer.change(&record, put)).await.map(|_| ())
    }

    /// Removes a server and the policies attached to it; whether it was there.
    pub async fn remove_server(&self, name: &Name, record: Record) -> Result<bool, StoreError> {
        let name = name.clone();
        let remove = move |connection: &Connection| {
            connection.execute("DELETE FROM headers WHERE server = ?1", [name.as_str()])?;
            policies::detach_all(connection, &name)?;
            let sql = "DELETE FROM servers WHERE name = ?1";
            Ok((connection.execute(sql, [name.as_str()])? > 0).then_some(()))
        };
        let removed = self.write(move |writer| writer.change(&record, remove)).await?;
        Ok(removed.is_some())
    }

    /// All servers, by name. Blocks the thread it runs on.
    pub fn servers(&self) -> Result<Vec<Server>, StoreError> {
        let mut connection = read::reader(&self.path)?;
        let moment = connection.transaction()?;
        let mut statement = moment
            .prepare("SELECT name, url, timeout_ms, anonymous_policy FROM servers ORDER BY name")?;
        let rows = statement.query_map([], server)?;
        let mut servers = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        for server in &mut servers {
            if let Transport::Http { headers, .. } = &mut server.transport {
                *headers = opened(&self.key, &moment, &server.name)?;
            }
        }
        Ok(servers)
    }
}

/// What a header's value is bound to. Neither name can hold the character between.
fn place(server: &Name, header: &str) -> String {
    format!("{server}\0{header}")
}

fn sealed(
    key: &Key,
    server: &Name,
    headers: &[(String, Secret)],
) -> Result<Vec<Sealed>, StoreError> {
    let seal = |(header, secret): &(String, Secret)| {
        let sealed = key.seal(&place(server, header), secret.expose())?;
        Some((header.clone(), sealed))
    };
    headers.iter().map(seal).collect::<Option<_>>().ok_or_else(no_randomness)
}

fn opened(
    key: &Key,
    connection: &Connection,
    server: &Name,
) -> Result<Vec<(String, Secret)>, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT name, sealed FROM headers WHERE server = ?1 ORDER BY place")?;
    let rows = statement.query_map([server.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.map(|row| {
        let (header, sealed): Sealed = row?;
        let text = key.open(&place(server, &header), &sealed).ok_or_else(|| {
            StoreError::Unsealable { server: server.to_string(), header: header.clone() }
        })?;
        Ok((header, Secret::new(text)))
    })
    .collect()
}

fn put(
    connection: &Connection,
    server: &Server,
    url: &str,
    headers: &[Sealed],
) -> rusqlite::Result<()> {
    let name = server.name.as_str();
    connection.execute(
        "REPLACE INTO servers (name, url, timeout_ms, anonymous_policy) VALUES (?1, ?2, ?3, ?4)",
        params![
            name,
            url,
            i64::try_from(server.timeout.as_millis()).unwrap_or(i64::MAX),
            server.anonymous_policy.as_ref().map(Name::as_str),
        ],
    )?;
    connection.execute("DELETE FROM headers WHERE server = ?1", [name])?;
    for (place, (header, sealed)) in (0_i64..).zip(headers) {
        connection.execute(
            "INSERT INTO headers (server, place, name, sealed) VALUES (?1, ?2, ?3, ?4)",
            params![name, place, header, sealed],
        )?;
    }
    Ok(())
}

/// A server without its headers.
fn server(row: &Row<'_>) -> rusqlite::Result<Server> {
    let policy: Option<String> = row.get(3)?;
    Ok(Server {
        name: name(&row.get::<_, String>(0)?)?,
        transport: Transport::Http { url: row.get(1)?, headers: Vec::new() },
        timeout: Duration::from_millis(row.get::<_, i64>(2)?.unsigned_abs()),
        anonymous_policy: policy.as_deref().map(name).transpose()?,
        bridge: Bridge::default(),
        source: Source::Stored,
    })
}
