//! Policies in the database: every version that was ever stored, and which one is active.

use rusqlite::{Connection, OptionalExtension as _, Row, params, types::Type};
use sluice_policy::{Format, Timestamp};

use super::{Sqlite, parse_name};
use crate::{
    StoreError,
    actor::Edit,
    name::Name,
    registry::edit_record,
    server::{AttachedPolicy, PolicyVersion, Source},
};

const COLUMNS: &str = "v.server, v.name, v.version, v.format, v.text, v.at";

impl Sqlite {
    pub(crate) async fn put_policy(
        &self,
        policy: AttachedPolicy,
        edit: Edit,
    ) -> Result<(), StoreError> {
        self.run_synced(move |writer| {
            let now = writer.clock().now();
            write_policy(writer.connection(), &policy, now)?;
            let version = AttachedPolicy::version_of(&policy.text);
            let record = edit_record(edit, now).about_server(&policy.server);
            writer.change_registry(record.about_policy(&policy.name, &version))
        })
        .await
    }

    pub(crate) async fn remove_policy(
        &self,
        server: &Name,
        name: &Name,
        edit: Edit,
    ) -> Result<bool, StoreError> {
        let (server, name) = (server.clone(), name.clone());
        self.run_synced(move |writer| {
            let Some(version) = detach(writer.connection(), &server, &name)? else {
                return Ok(false);
            };
            let record = edit_record(edit, writer.clock().now()).about_server(&server);
            writer.change_registry(record.about_policy(&name, &version))?;
            Ok(true)
        })
        .await
    }

    pub(crate) async fn policies(&self) -> Result<Vec<AttachedPolicy>, StoreError> {
        self.readers.read(|connection| Ok(read_all(connection)?)).await
    }

    pub(crate) async fn policy_versions(
        &self,
        server: &Name,
        name: &Name,
    ) -> Result<Vec<PolicyVersion>, StoreError> {
        let (server, name) = (server.clone(), name.clone());
        self.readers
            .read(move |connection| {
                let mut statement = connection.prepare(&format!(
                    "SELECT {COLUMNS} FROM policy_versions v WHERE v.server = ?1 AND v.name = ?2 ORDER BY v.id DESC"
                ))?;
                let rows = statement.query_map([server.as_str(), name.as_str()], read_version)?;
                Ok(rows.collect::<Result<_, _>>()?)
            })
            .await
    }
}

/// The active policies, by server and name.
pub(super) fn read_all(connection: &Connection) -> rusqlite::Result<Vec<AttachedPolicy>> {
    let mut statement = connection.prepare(&format!(
        "SELECT {COLUMNS} FROM policies p JOIN policy_versions v ON v.id = p.current ORDER BY 1, 2"
    ))?;
    let rows = statement.query_map([], |row| read_version(row).map(|version| version.policy))?;
    rows.collect()
}

/// Deactivates a policy; returns the version that was active.
fn detach(connection: &Connection, server: &Name, name: &Name) -> rusqlite::Result<Option<String>> {
    let place = [server.as_str(), name.as_str()];
    let current = "SELECT v.version FROM policies p JOIN policy_versions v ON v.id = p.current
        WHERE p.server = ?1 AND p.name = ?2";
    let version = connection.query_row(current, place, |row| row.get(0)).optional()?;
    connection.execute("DELETE FROM policies WHERE server = ?1 AND name = ?2", place)?;
    Ok(version)
}

/// Deactivates all policies of a server; returns how many.
pub(super) fn detach_all(connection: &Connection, server: &Name) -> rusqlite::Result<usize> {
    connection.execute("DELETE FROM policies WHERE server = ?1", [server.as_str()])
}

fn write_policy(
    connection: &Connection,
    policy: &AttachedPolicy,
    at: Timestamp,
) -> rusqlite::Result<()> {
    let (server, name) = (policy.server.as_str(), policy.name.as_str());
    let format = format_name(policy.format);
    // Storing the current text again makes no new version.
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

fn read_version(row: &Row<'_>) -> rusqlite::Result<PolicyVersion> {
    let format: String = row.get(3)?;
    let policy = AttachedPolicy {
        server: parse_name(&row.get::<_, String>(0)?)?,
        name: parse_name(&row.get::<_, String>(1)?)?,
        version: row.get(2)?,
        format: parse_format(&format)?,
        text: row.get(4)?,
        source: Source::Stored,
        base_files: Vec::new(),
    };
    Ok(PolicyVersion { policy, at: Timestamp::from_millis(row.get(5)?) })
}

fn format_name(format: Format) -> &'static str {
    match format {
        Format::Json => "json",
        Format::Yaml => "yaml",
    }
}

fn parse_format(text: &str) -> rusqlite::Result<Format> {
    match text {
        "json" => Ok(Format::Json),
        "yaml" => Ok(Format::Yaml),
        other => {
            let error = format!("`{other}` is not a known policy format").into();
            Err(rusqlite::Error::FromSqlConversionFailure(3, Type::Text, error))
        }
    }
}
