//! Servers in the database. The values of their headers are sealed.

use std::time::Duration;

use rusqlite::{Connection, Row, params};

use super::{Sqlite, parse_name, policies};
use crate::{
    StoreError,
    actor::Edit,
    key::Key,
    name::Name,
    registry::edit_record,
    server::{Bridge, Secret, Server, Source, Transport},
};

/// A header with its value sealed.
type Sealed = (String, Vec<u8>);

impl Sqlite {
    pub(crate) async fn put_server(&self, server: Server, edit: Edit) -> Result<(), StoreError> {
        let Transport::Http { url, headers } = &server.transport else {
            return Err(StoreError::NotStorable(server.name.to_string()));
        };
        let (url, headers) = (url.clone(), seal_headers(&self.key, &server.name, headers)?);
        self.run(move |writer| {
            write_server(writer.connection(), &server, &url, &headers)?;
            let now = writer.clock().now();
            writer.change_registry(edit_record(edit, now).about_server(&server.name))
        })
        .await
    }

    pub(crate) async fn remove_server(&self, name: &Name, edit: Edit) -> Result<bool, StoreError> {
        let name = name.clone();
        self.run(move |writer| {
            let connection = writer.connection();
            connection.execute("DELETE FROM headers WHERE server = ?1", [name.as_str()])?;
            policies::detach_all(connection, &name)?;
            let sql = "DELETE FROM servers WHERE name = ?1";
            if connection.execute(sql, [name.as_str()])? == 0 {
                return Ok(false);
            }
            let now = writer.clock().now();
            writer.change_registry(edit_record(edit, now).about_server(&name))?;
            Ok(true)
        })
        .await
    }

    pub(crate) async fn servers(&self) -> Result<Vec<Server>, StoreError> {
        let key = self.key.clone();
        self.readers.read(move |connection| read_all(connection, &key)).await
    }
}

/// All servers, by name.
pub(super) fn read_all(connection: &Connection, key: &Key) -> Result<Vec<Server>, StoreError> {
    let mut statement = connection
        .prepare("SELECT name, url, timeout_ms, anonymous_policy FROM servers ORDER BY name")?;
    let rows = statement.query_map([], read_server)?;
    let mut servers = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    for server in &mut servers {
        if let Transport::Http { headers, .. } = &mut server.transport {
            *headers = open_headers(key, connection, &server.name)?;
        }
    }
    Ok(servers)
}

/// The context that a header's value is bound to. Neither name can contain the separator.
fn seal_context(server: &Name, header: &str) -> String {
    format!("{server}\0{header}")
}

fn seal_headers(
    key: &Key,
    server: &Name,
    headers: &[(String, Secret)],
) -> Result<Vec<Sealed>, StoreError> {
    let seal = |(header, secret): &(String, Secret)| {
        let sealed = key.seal(&seal_context(server, header), secret.expose())?;
        Some((header.clone(), sealed))
    };
    headers.iter().map(seal).collect::<Option<_>>().ok_or_else(StoreError::no_randomness)
}

fn open_headers(
    key: &Key,
    connection: &Connection,
    server: &Name,
) -> Result<Vec<(String, Secret)>, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT name, sealed FROM headers WHERE server = ?1 ORDER BY place")?;
    let rows = statement.query_map([server.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.map(|row| {
        let (header, sealed): Sealed = row?;
        let text = key.open(&seal_context(server, &header), &sealed).ok_or_else(|| {
            StoreError::Unsealable { server: server.to_string(), header: header.clone() }
        })?;
        Ok((header, Secret::new(text)))
    })
    .collect()
}

fn write_server(
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
fn read_server(row: &Row<'_>) -> rusqlite::Result<Server> {
    let policy: Option<String> = row.get(3)?;
    Ok(Server {
        name: parse_name(&row.get::<_, String>(0)?)?,
        transport: Transport::Http { url: row.get(1)?, headers: Vec::new() },
        timeout: Duration::from_millis(row.get::<_, i64>(2)?.unsigned_abs()),
        anonymous_policy: policy.as_deref().map(parse_name).transpose()?,
        bridge: Bridge::default(),
        source: Source::Stored,
    })
}
