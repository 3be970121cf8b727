//! Servers in the database. Their URLs and the values of their headers are sealed.

use std::time::Duration;

use data_encoding::BASE64;
use rusqlite::{Connection, Row, params};

use super::{Sqlite, approvals, grants, parse_name, policies};
use crate::{
    StoreError,
    actor::Edit,
    key::Key,
    name::Name,
    registry::edit_record,
    server::{Bridge, DeclaredServer, HiddenText, Secret, Server, Source, Transport},
};

/// Precedes a sealed URL in a column of texts. No URL begins like this.
const SEALED: &str = "sealed:";

/// A header with its value sealed.
type Sealed = (String, Vec<u8>);

impl Sqlite {
    pub(crate) async fn put_server(&self, server: Server, edit: Edit) -> Result<(), StoreError> {
        let Transport::Http { url, headers } = &server.transport else {
            return Err(StoreError::NotStorable(server.name.to_string()));
        };
        let key = self.seal_key()?;
        let (url, headers) =
            (seal_url(&key, &server.name, url)?, seal_headers(&key, &server.name, headers)?);
        self.run_synced(move |writer| {
            write_server(writer.connection(), &server, &url, &headers)?;
            let now = writer.clock().now();
            writer.change_registry(edit_record(edit, now).about_server(&server.name))
        })
        .await
    }

    pub(crate) async fn remove_server(&self, name: &Name, edit: Edit) -> Result<bool, StoreError> {
        let name = name.clone();
        self.run_synced(move |writer| {
            let connection = writer.connection();
            let now = writer.clock().now();
            connection.execute("DELETE FROM headers WHERE server = ?1", [name.as_str()])?;
            let policies = policies::detach_all(connection, &name)?;
            let grants = grants::leave_server(connection, &name)?;
            let calls = approvals::end_all(connection, &name, now)?;
            let sql = "DELETE FROM servers WHERE name = ?1";
            let servers = connection.execute(sql, [name.as_str()])?;
            let sql = "DELETE FROM declared_servers WHERE name = ?1";
            let declared = connection.execute(sql, [name.as_str()])?;
            if servers + declared + policies + grants + calls > 0 {
                writer.change_registry(edit_record(edit, now).about_server(&name))?;
            }
            Ok(servers + declared > 0)
        })
        .await
    }

    pub(crate) async fn declared_servers(&self) -> Result<Vec<DeclaredServer>, StoreError> {
        self.readers.read(|connection| Ok(read_declared(connection)?)).await
    }

    pub(crate) async fn note_declared(
        &self,
        servers: Vec<DeclaredServer>,
    ) -> Result<(), StoreError> {
        self.run_synced(move |writer| {
            let mut statement = writer.connection().prepare(
                "REPLACE INTO declared_servers (name, identity, is_declared) VALUES (?1, ?2, ?3)",
            )?;
            for DeclaredServer { name, identity, is_declared } in &servers {
                statement.execute(params![name.as_str(), identity, is_declared])?;
            }
            Ok(())
        })
        .await
    }

    pub(crate) async fn servers(&self) -> Result<Vec<Server>, StoreError> {
        let key = self.seal_key()?;
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
        if let Transport::Http { url, headers } = &mut server.transport {
            *url = open_url(key, &server.name, url)?;
            *headers = open_headers(key, connection, &server.name)?;
        }
    }
    Ok(servers)
}

fn read_declared(connection: &Connection) -> rusqlite::Result<Vec<DeclaredServer>> {
    let sql = "SELECT name, identity, is_declared FROM declared_servers ORDER BY name";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| {
        let name = parse_name(&row.get::<_, String>(0)?)?;
        Ok(DeclaredServer { name, identity: row.get(1)?, is_declared: row.get(2)? })
    })?;
    rows.collect()
}

/// The context that a header's value is bound to. Neither name can contain the separator.
fn seal_context(server: &Name, header: &str) -> String {
    format!("{server}\0{header}")
}

/// The context of the URL, which no header can have.
fn url_context(server: &Name) -> String {
    seal_context(server, "\0url")
}

fn seal_url(key: &Key, server: &Name, url: &Secret) -> Result<String, StoreError> {
    let sealed = key.seal(&url_context(server), url.expose());
    let sealed = sealed.ok_or_else(StoreError::no_randomness)?;
    Ok(format!("{SEALED}{}", BASE64.encode(&sealed)))
}

/// Earlier versions did not seal URLs; theirs are returned as they are.
fn open_url(key: &Key, server: &Name, stored: &Secret) -> Result<Secret, StoreError> {
    let Some(sealed) = stored.expose().strip_prefix(SEALED) else { return Ok(stored.clone()) };
    let sealed = BASE64.decode(sealed.as_bytes()).ok();
    let url = sealed.and_then(|sealed| key.open(&url_context(server), &sealed));
    url.map(Secret::new).ok_or_else(|| StoreError::UnsealableUrl(server.to_string()))
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

/// A server without its headers, its URL as it is stored.
fn read_server(row: &Row<'_>) -> rusqlite::Result<Server> {
    let policy: Option<String> = row.get(3)?;
    Ok(Server {
        name: parse_name(&row.get::<_, String>(0)?)?,
        transport: Transport::Http { url: Secret::new(row.get(1)?), headers: Vec::new() },
        timeout: Duration::from_millis(row.get::<_, i64>(2)?.unsigned_abs()),
        anonymous_policy: policy.as_deref().map(parse_name).transpose()?,
        bridge: Bridge::default(),
        hidden_text: HiddenText::default(),
        mask_secrets: true,
        source: Source::Stored,
    })
}
