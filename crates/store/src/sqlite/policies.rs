//! Policies in the database: every version that was ever put, and which of them
//! is in force.

use rusqlite::{Connection, OptionalExtension as _, Row, params, types::Type};
use sluice_policy::{Format, Timestamp};

use super::{Store, StoreError, name, read};
use crate::{
    name::Name,
    record::Record,
    server::{AttachedPolicy, PolicyVersion, Source},
};

pub(super) const TABLES: &str = "
    CREATE TABLE policy_versions (
        id INTEGER PRIMARY KEY, server TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL,
        format TEXT NOT NULL, text TEXT NOT NULL, at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX policy_versions_by_name ON policy_versions (server, name);
    CREATE TABLE policies (
        server TEXT NOT NULL, name TEXT NOT NULL, current INTEGER NOT NULL REFERENCES policy_versions (id),
        PRIMARY KEY (server, name)
    ) STRICT, WITHOUT ROWID;
";

const COLUMNS: &str = "v.server, v.name, v.version, v.format, v.text, v.at";

impl Store {
    /// Puts a policy into force on its server. Its version is that of its text.
    pub async fn put_policy(
        &self,
        policy: AttachedPolicy,
        at: Timestamp,
        record: Record,
    ) -> Result<(), StoreError> {
        let put = move |connection: &Connection| put(connection, &policy, at).map(Some);
        self.write(move |writer| writer.change(&record, put)).await.map(|_| ())
    }

    /// Takes a policy out of force; whether it was. Its versions are kept.
    pub async fn remove_policy(
        &self,
        server: &Name,
        name: &Name,
        record: Record,
    ) -> Result<bool, StoreError> {
        let (server, name) = (server.clone(), name.clone());
        let remove = move |connection: &Connection| {
            let sql = "DELETE FROM policies WHERE server = ?1 AND name = ?2";
            let removed = connection.execute(sql, [server.as_str(), name.as_str()])?;
            Ok((removed > 0).then_some(()))
        };
        let removed = self.write(move |writer| writer.change(&record, remove)).await?;
        Ok(removed.is_some())
    }

    /// The policies in force, by server and name. Blocks the thread it runs on.
    pub fn policies(&self) -> Result<Vec<AttachedPolicy>, StoreError> {
        let connection = read::reader(&self.path)?;
        let mut statement = connection.prepare(&format!(
            "SELECT {COLUMNS} FROM policies p JOIN policy_versions v ON v.id = p.current ORDER BY 1, 2"
        ))?;
        let rows = statement.query_map([], |row| version(row).map(|version| version.policy))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Every version of a policy, the newest first, whether it is in force or not.
    /// Blocks the thread it runs on.
    pub fn policy_versions(
        &self,
        server: &Name,
        name: &Name,
    ) -> Result<Vec<PolicyVersion>, StoreError> {
        let connection = read::reader(&self.path)?;
        let mut statement = connection.prepare(&format!(
            "SELECT {COLUMNS} FROM policy_versions v WHERE v.server = ?1 AND v.name = ?2 ORDER BY v.id DESC"
        ))?;
        let rows = statement.query_map([server.as_str(), name.as_str()], version)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// Takes all policies of a server out of force.
pub(super) fn detach_all(connection: &Connection, server: &Name) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM policies WHERE server = ?1", [server.as_str()]).map(|_| ())
}

fn put(connection: &Connection, policy: &AttachedPolicy, at: Timestamp) -> rusqlite::Result<()> {
    let (server, name) = (policy.server.as_str(), policy.name.as_str());
    let format = format_name(policy.format);
    // Putting what is in force already makes no new version.
    let current = "SELECT 1 FROM policies p JOIN policy_versions v ON v.id = p.current
        WHERE p.server = ?1 AND p.name = ?2 AND v.text = ?3 AND v.format = ?4";
    let is_same = connection
        .query_row(current, params![server, name, policy.text, format], |_| Ok(()))
        .optional()?;
    if is_same.is_some() {
        return Ok(());
    }
    connection.execute(
        "INSERT INTO policy_versions (server, name, version, format, text, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            server,
            name,
            AttachedPolicy::version_of(&policy.text),
            format,
            policy.text,
            at.as_millis(),
        ],
    )?;
    let sql = "REPLACE INTO policies (server, name, current) VALUES (?1, ?2, ?3)";
    connection.execute(sql, params![server, name, connection.last_insert_rowid()]).map(|_| ())
}

fn version(row: &Row<'_>) -> rusqlite::Result<PolicyVersion> {
    let format: String = row.get(3)?;
    let policy = AttachedPolicy {
        server: name(&row.get::<_, String>(0)?)?,
        name: name(&row.get::<_, String>(1)?)?,
        version: row.get(2)?,
        format: read_format(&format)?,
        text: row.get(4)?,
        source: Source::Stored,
    };
    Ok(PolicyVersion { policy, at: Timestamp::from_millis(row.get(5)?) })
}

fn format_name(format: Format) -> &'static str {
    match format {
        Format::Json => "json",
        Format::Yaml => "yaml",
    }
}

fn read_format(text: &str) -> rusqlite::Result<Format> {
    match text {
        "json" => Ok(Format::Json),
        "yaml" => Ok(Format::Yaml),
        other => {
            let error = format!("`{other}` is no format of policies").into();
            Err(rusqlite::Error::FromSqlConversionFailure(3, Type::Text, error))
        }
    }
}
