//! Grants in the database.

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use sluice_policy::Timestamp;

use super::{Store, StoreError, name, no_randomness, read};
use crate::{
    grant::{Grant, NewGrant, Rotated, Token, TokenHash},
    id,
    name::Name,
    record::{GrantRef, Record},
};

pub(super) const TABLES: &str = "
    CREATE TABLE grants (
        id TEXT PRIMARY KEY, label TEXT NOT NULL, servers TEXT NOT NULL, policy TEXT NOT NULL, principal TEXT,
        token_sha256 BLOB NOT NULL UNIQUE,
        created_at INTEGER NOT NULL, expires_at INTEGER, revoked_at INTEGER
    ) STRICT, WITHOUT ROWID;
";

const COLUMNS: &str = "id, label, servers, policy, principal, created_at, expires_at, revoked_at";

impl Store {
    /// Makes a grant. The token is in the answer and nowhere else. The record is
    /// told which grant it is about.
    pub async fn create_grant(
        &self,
        new: NewGrant,
        at: Timestamp,
        mut record: Record,
    ) -> Result<(Grant, Token), StoreError> {
        let token = Token::new().ok_or_else(no_randomness)?;
        let NewGrant { label, servers, policy, principal, expires_at } = new;
        let grant = Grant {
            id: id::new_id(at).to_string(),
            label,
            servers,
            policy,
            principal,
            created_at: at,
            expires_at,
            revoked_at: None,
        };
        record.grant =
            Some(GrantRef { id: grant.id.as_str().into(), label: grant.label.as_str().into() });
        let (kept, hash) = (grant.clone(), token.hash());
        self.write(move |writer| {
            writer.change(&record, |connection| insert(connection, &kept, &hash).map(Some))
        })
        .await?;
        Ok((grant, token))
    }

    /// Gives a grant another token; the old one is worth nothing from then on.
    /// `None` if there is no such grant, or it was revoked.
    pub async fn rotate_grant(
        &self,
        id: &str,
        record: Record,
    ) -> Result<Option<Rotated>, StoreError> {
        let token = Token::new().ok_or_else(no_randomness)?;
        let (id, hash) = (id.to_owned(), token.hash());
        let rotate = move |connection: &Connection| {
            let Some((old, grant)) = find(connection, &id)? else { return Ok(None) };
            let sql = "UPDATE grants SET token_sha256 = ?2 WHERE id = ?1 AND revoked_at IS NULL";
            let changed = connection.execute(sql, params![id, hash.as_bytes()])?;
            Ok((changed > 0).then_some((old, grant)))
        };
        let rotated = self.write(move |writer| writer.change(&record, rotate)).await?;
        Ok(rotated.map(|(old, grant)| Rotated { grant, token, old }))
    }

    /// Revokes a grant for good; the grant, and what its token was. `None` if there
    /// is no such grant.
    pub async fn revoke_grant(
        &self,
        id: &str,
        at: Timestamp,
        record: Record,
    ) -> Result<Option<(TokenHash, Grant)>, StoreError> {
        let id = id.to_owned();
        let revoke = move |connection: &Connection| {
            let sql = "UPDATE grants SET revoked_at = coalesce(revoked_at, ?2) WHERE id = ?1";
            connection.execute(sql, params![id, at.as_millis()])?;
            find(connection, &id)
        };
        self.write(move |writer| writer.change(&record, revoke)).await
    }

    /// All grants, the oldest first. Blocks the thread it runs on.
    pub fn grants(&self) -> Result<Vec<Grant>, StoreError> {
        let connection = read::reader(&self.path)?;
        let mut statement =
            connection.prepare(&format!("SELECT {COLUMNS} FROM grants ORDER BY id"))?;
        let rows = statement.query_map([], grant)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// All grants by the hashes of their tokens. Blocks the thread it runs on.
    pub fn grants_by_token(&self) -> Result<Vec<(TokenHash, Grant)>, StoreError> {
        let connection = read::reader(&self.path)?;
        let sql = format!("SELECT {COLUMNS}, token_sha256 FROM grants ORDER BY id");
        let mut statement = connection.prepare(&sql)?;
        let rows = statement.query_map([], by_token)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// A grant by its id. Blocks the thread it runs on.
    pub fn grant(&self, id: &str) -> Result<Option<Grant>, StoreError> {
        let found = find(&read::reader(&self.path)?, id)?;
        Ok(found.map(|(_, grant)| grant))
    }

    /// The grant a token belongs to, valid or not. Blocks the thread it runs on.
    pub fn grant_of(&self, token: &TokenHash) -> Result<Option<Grant>, StoreError> {
        let connection = read::reader(&self.path)?;
        let sql = format!("SELECT {COLUMNS} FROM grants WHERE token_sha256 = ?1");
        Ok(connection.query_row(&sql, [token.as_bytes()], grant).optional()?)
    }
}

/// A grant by its id, with what is kept of its token.
fn find(connection: &Connection, id: &str) -> rusqlite::Result<Option<(TokenHash, Grant)>> {
    let sql = format!("SELECT {COLUMNS}, token_sha256 FROM grants WHERE id = ?1");
    connection.query_row(&sql, [id], by_token).optional()
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

/// A grant whose row ends with the hash of its token.
fn by_token(row: &Row<'_>) -> rusqlite::Result<(TokenHash, Grant)> {
    Ok((TokenHash::from_bytes(row.get(8)?), grant(row)?))
}

fn grant(row: &Row<'_>) -> rusqlite::Result<Grant> {
    let time = |column| -> rusqlite::Result<Option<Timestamp>> {
        Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_millis))
    };
    let servers: String = row.get(2)?;
    Ok(Grant {
        id: row.get(0)?,
        label: name(&row.get::<_, String>(1)?)?,
        servers: servers.split_whitespace().map(name).collect::<Result<_, _>>()?,
        policy: name(&row.get::<_, String>(3)?)?,
        principal: row.get(4)?,
        created_at: Timestamp::from_millis(row.get(5)?),
        expires_at: time(6)?,
        revoked_at: time(7)?,
    })
}
