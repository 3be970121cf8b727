//! Grants in the database.

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use sluice_policy::Timestamp;

use super::{Sqlite, parse_name};
use crate::{
    StoreError,
    actor::Edit,
    grant::{Grant, NewGrant, Rotated, Token, TokenHash},
    name::Name,
    registry::edit_record,
};

const COLUMNS: &str = "id, label, servers, policy, principal, created_at, expires_at, revoked_at";

impl Sqlite {
    pub(crate) async fn create_grant(
        &self,
        new: NewGrant,
        edit: Edit,
    ) -> Result<(Grant, Token), StoreError> {
        let token = Token::new().ok_or_else(StoreError::no_randomness)?;
        let hash = token.hash();
        let created = self.run(move |writer| {
            let now = writer.clock().now();
            let grant = new.into_grant(now);
            insert(writer.connection(), &grant, &hash)?;
            writer.change_registry(edit_record(edit, now).about_grant(&grant))?;
            Ok(grant)
        });
        Ok((created.await?, token))
    }

    pub(crate) async fn rotate_grant(
        &self,
        id: &str,
        edit: Edit,
    ) -> Result<Option<Rotated>, StoreError> {
        let token = Token::new().ok_or_else(StoreError::no_randomness)?;
        let (id, hash) = (id.to_owned(), token.hash());
        let rotated = self.run(move |writer| {
            let connection = writer.connection();
            let Some((old, grant)) = find(connection, &id)? else { return Ok(None) };
            let sql = "UPDATE grants SET token_sha256 = ?2 WHERE id = ?1 AND revoked_at IS NULL";
            if connection.execute(sql, params![id, hash.as_bytes()])? == 0 {
                return Ok(None);
            }
            let now = writer.clock().now();
            writer.change_registry(edit_record(edit, now).about_grant(&grant))?;
            Ok(Some((old, grant)))
        });
        Ok(rotated.await?.map(|(old, grant)| Rotated { grant, token, old }))
    }

    pub(crate) async fn revoke_grant(
        &self,
        id: &str,
        edit: Edit,
    ) -> Result<Option<(TokenHash, Grant)>, StoreError> {
        let id = id.to_owned();
        self.run(move |writer| {
            let (connection, now) = (writer.connection(), writer.clock().now());
            let sql = "UPDATE grants SET revoked_at = coalesce(revoked_at, ?2) WHERE id = ?1";
            connection.execute(sql, params![id, now.as_millis()])?;
            let Some((hash, grant)) = find(connection, &id)? else { return Ok(None) };
            writer.change_registry(edit_record(edit, now).about_grant(&grant))?;
            Ok(Some((hash, grant)))
        })
        .await
    }

    pub(crate) async fn grants(&self) -> Result<Vec<Grant>, StoreError> {
        let all = |connection: &Connection| Ok(read_all(connection)?);
        let grants = self.readers.read(all).await?;
        Ok(grants.into_iter().map(|(_, grant)| grant).collect())
    }

    pub(crate) async fn grant(&self, id: &str) -> Result<Option<Grant>, StoreError> {
        let id = id.to_owned();
        let found = self.readers.read(move |connection| Ok(find(connection, &id)?)).await?;
        Ok(found.map(|(_, grant)| grant))
    }

    pub(crate) async fn grant_of(&self, token: &TokenHash) -> Result<Option<Grant>, StoreError> {
        let token = *token;
        self.readers
            .read(move |connection| {
                let sql = format!("SELECT {COLUMNS} FROM grants WHERE token_sha256 = ?1");
                Ok(connection.query_row(&sql, [token.as_bytes()], read_grant).optional()?)
            })
            .await
    }
}

/// All grants by the hashes of their tokens, the oldest first.
pub(super) fn read_all(connection: &Connection) -> rusqlite::Result<Vec<(TokenHash, Grant)>> {
    let sql = format!("SELECT {COLUMNS}, token_sha256 FROM grants ORDER BY id");
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map([], read_with_hash)?;
    rows.collect()
}

/// A grant by its id, with the hash of its token.
fn find(connection: &Connection, id: &str) -> rusqlite::Result<Option<(TokenHash, Grant)>> {
    let sql = format!("SELECT {COLUMNS}, token_sha256 FROM grants WHERE id = ?1");
    connection.query_row(&sql, [id], read_with_hash).optional()
}

fn insert(connection: &Connection, grant: &Grant, hash: &TokenHash) -> rusqlite::Result<()> {
    let servers: Vec<_> = grant.servers.iter().map(Name::as_str).collect();
    connection.execute(
        "INSERT INTO grants (id, label, servers, policy, principal, token_sha256, created_at, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            grant.id,
            grant.label.as_str(),
            servers.join(" "),
            grant.policy.as_str(),
            grant.principal,
            hash.as_bytes(),
            grant.created_at.as_millis(),
            grant.expires_at.map(Timestamp::as_millis),
        ],
    )?;
    Ok(())
}

/// Reads a grant from a row that ends with the hash of its token.
fn read_with_hash(row: &Row<'_>) -> rusqlite::Result<(TokenHash, Grant)> {
    Ok((TokenHash::from_bytes(row.get(8)?), read_grant(row)?))
}

fn read_grant(row: &Row<'_>) -> rusqlite::Result<Grant> {
    let time = |column| -> rusqlite::Result<Option<Timestamp>> {
        Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_millis))
    };
    let servers: String = row.get(2)?;
    Ok(Grant {
        id: row.get(0)?,
        label: parse_name(&row.get::<_, String>(1)?)?,
        servers: servers.split_whitespace().map(parse_name).collect::<Result<_, _>>()?,
        policy: parse_name(&row.get::<_, String>(3)?)?,
        principal: row.get(4)?,
        created_at: Timestamp::from_millis(row.get(5)?),
        expires_at: time(6)?,
        revoked_at: time(7)?,
    })
}
