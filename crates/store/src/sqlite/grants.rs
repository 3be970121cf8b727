//! Grants in the database.

use std::{collections::HashMap, time::Duration};

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use sluice_policy::Timestamp;

use super::{Sqlite, parse_name};
use crate::{
    StoreError,
    actor::Edit,
    grant::{ChangedGrant, Grant, GrantEdit, GrantTokens, NewGrant, Rotated, Token, TokenHash},
    name::Name,
    registry::edit_record,
};

/// The columns that [`read_row`] reads.
const SELECT: &str = "SELECT id, label, servers, policy, principal, created_at, created_by,
    expires_at, revoked_at, token_sha256, previous_sha256, previous_until FROM grants";

impl Sqlite {
    pub(crate) async fn create_grant(
        &self,
        new: NewGrant,
        edit: Edit,
    ) -> Result<(Grant, Token), StoreError> {
        let token = Token::new().ok_or_else(StoreError::no_randomness)?;
        let tokens = GrantTokens { current: token.hash(), previous: None };
        let created = self.run_synced(move |writer| {
            let now = writer.clock().now();
            let grant = new.into_grant(now, &edit.actor);
            let created = ChangedGrant { grant, tokens };
            put(writer.connection(), &created)?;
            writer.change_registry(edit_record(edit, now).about_grant(&created.grant))?;
            Ok(created.grant)
        });
        Ok((created.await?, token))
    }

    pub(crate) async fn rotate_grant(
        &self,
        id: &str,
        overlap: Duration,
        edit: Edit,
    ) -> Result<Option<Rotated>, StoreError> {
        let token = Token::new().ok_or_else(StoreError::no_randomness)?;
        let new = token.hash();
        let rotated = self.change_grant(id, edit, move |before, now| {
            let tokens = before.tokens.rotate(new, overlap, now);
            (before.grant.revoked_at.is_none())
                .then_some(ChangedGrant { tokens, grant: before.grant })
        });
        let rotated = rotated.await?;
        Ok(rotated.map(|(before, changed)| Rotated { changed, token, before: before.tokens }))
    }

    pub(crate) async fn edit_grant(
        &self,
        id: &str,
        changes: GrantEdit,
        edit: Edit,
    ) -> Result<Option<ChangedGrant>, StoreError> {
        let edited = self.change_grant(id, edit, move |before, _| {
            let is_live = before.grant.revoked_at.is_none();
            is_live.then(|| ChangedGrant { grant: changes.apply(before.grant), ..before })
        });
        Ok(edited.await?.map(|(_, changed)| changed))
    }

    pub(crate) async fn revoke_grant(
        &self,
        id: &str,
        edit: Edit,
    ) -> Result<Option<ChangedGrant>, StoreError> {
        let revoked = self.change_grant(id, edit, |before, now| {
            let mut revoked = before;
            revoked.grant.revoked_at.get_or_insert(now);
            Some(revoked)
        });
        Ok(revoked.await?.map(|(_, changed)| changed))
    }

    /// Changes a grant and records that; returns the grant before and after, or `None` if
    /// there is no such grant or `change` refuses.
    async fn change_grant(
        &self,
        id: &str,
        edit: Edit,
        change: impl FnOnce(ChangedGrant, Timestamp) -> Option<ChangedGrant> + Send + 'static,
    ) -> Result<Option<(ChangedGrant, ChangedGrant)>, StoreError> {
        let id = id.to_owned();
        self.run_synced(move |writer| {
            let (connection, now) = (writer.connection(), writer.clock().now());
            let Some(before) = find(connection, &id)? else { return Ok(None) };
            let Some(after) = change(before.clone(), now) else { return Ok(None) };
            put(connection, &after)?;
            writer.change_registry(edit_record(edit, now).about_grant(&after.grant))?;
            Ok(Some((before, after)))
        })
        .await
    }

    pub(crate) async fn grants(&self) -> Result<Vec<Grant>, StoreError> {
        let all = |connection: &Connection| Ok(read_rows(connection)?);
        let grants = self.readers.read(all).await?;
        Ok(grants.into_iter().map(|found| found.grant).collect())
    }

    pub(crate) async fn grant(&self, id: &str) -> Result<Option<Grant>, StoreError> {
        let id = id.to_owned();
        let found = self.readers.read(move |connection| Ok(find(connection, &id)?)).await?;
        Ok(found.map(|found| found.grant))
    }

    pub(crate) async fn grant_of(&self, token: &TokenHash) -> Result<Option<Grant>, StoreError> {
        let token = *token;
        let found = self.readers.read(move |connection| {
            let sql = format!("{SELECT} WHERE token_sha256 = ?1 OR previous_sha256 = ?1");
            Ok(connection.query_row(&sql, [token.as_bytes()], read_row).optional()?)
        });
        let of_token = |found: ChangedGrant| {
            let grants = found.tokens.grants(&found.grant);
            grants.into_iter().find(|(hash, _)| *hash == token).map(|(_, grant)| grant)
        };
        Ok(found.await?.and_then(of_token))
    }

    pub(crate) async fn note_uses(&self, uses: Vec<(String, Timestamp)>) -> Result<(), StoreError> {
        self.run(move |writer| {
            let mut statement = writer.connection().prepare_cached(
                "INSERT INTO grant_uses (grant_id, last_used) VALUES (?1, ?2)
                 ON CONFLICT DO UPDATE SET last_used = max(last_used, excluded.last_used)",
            )?;
            for (grant, at) in &uses {
                statement.execute(params![grant, at.as_millis()])?;
            }
            Ok(())
        })
        .await
    }

    pub(crate) async fn last_uses(&self) -> Result<HashMap<String, Timestamp>, StoreError> {
        self.readers
            .read(|connection| {
                let mut statement =
                    connection.prepare_cached("SELECT grant_id, last_used FROM grant_uses")?;
                let uses = statement
                    .query_map([], |row| Ok((row.get(0)?, Timestamp::from_millis(row.get(1)?))))?;
                Ok(uses.collect::<Result<_, _>>()?)
            })
            .await
    }
}

/// What each token stands for, the oldest grant first.
pub(super) fn read_all(connection: &Connection) -> rusqlite::Result<Vec<(TokenHash, Grant)>> {
    let rows = read_rows(connection)?;
    Ok(rows.iter().flat_map(|found| found.tokens.grants(&found.grant)).collect())
}

fn read_rows(connection: &Connection) -> rusqlite::Result<Vec<ChangedGrant>> {
    let mut statement = connection.prepare(&format!("{SELECT} ORDER BY id"))?;
    let rows = statement.query_map([], read_row)?;
    rows.collect()
}

/// Takes a server out of all grants that are not revoked; returns how many.
pub(super) fn leave_server(connection: &Connection, server: &Name) -> Result<usize, StoreError> {
    let mut count = 0;
    for mut found in read_rows(connection)? {
        if found.grant.leave_server(server) {
            put(connection, &found)?;
            count += 1;
        }
    }
    Ok(count)
}

/// A grant by its id, with its tokens.
fn find(connection: &Connection, id: &str) -> rusqlite::Result<Option<ChangedGrant>> {
    connection.query_row(&format!("{SELECT} WHERE id = ?1"), [id], read_row).optional()
}

/// Inserts or replaces a grant, unless another one that is not revoked has its label.
fn put(
    connection: &Connection,
    ChangedGrant { grant, tokens }: &ChangedGrant,
) -> Result<(), StoreError> {
    let taken = "SELECT 1 FROM grants WHERE label = ?1 AND id <> ?2 AND revoked_at IS NULL";
    let label = grant.label.as_str();
    if grant.revoked_at.is_none() && connection.prepare(taken)?.exists([label, &grant.id])? {
        return Err(StoreError::LabelTaken(label.into()));
    }
    let servers: Vec<_> = grant.servers.iter().map(Name::as_str).collect();
    connection.execute(
        "REPLACE INTO grants (id, label, servers, policy, principal, created_at, created_by,
            expires_at, revoked_at, token_sha256, previous_sha256, previous_until)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        params![
            grant.id,
            label,
            servers.join(" "),
            grant.policy.as_str(),
            grant.principal,
            grant.created_at.as_millis(),
            grant.created_by,
            grant.expires_at.map(Timestamp::as_millis),
            grant.revoked_at.map(Timestamp::as_millis),
            tokens.current.as_bytes(),
            tokens.previous.as_ref().map(|(token, _)| token.as_bytes()),
            tokens.previous.map(|(_, until)| until.as_millis()),
        ],
    )?;
    Ok(())
}

/// Reads a row of [`SELECT`].
fn read_row(row: &Row<'_>) -> rusqlite::Result<ChangedGrant> {
    let time = |column| -> rusqlite::Result<Option<Timestamp>> {
        Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_millis))
    };
    let servers: String = row.get(2)?;
    let grant = Grant {
        id: row.get(0)?,
        label: parse_name(&row.get::<_, String>(1)?)?,
        servers: servers.split_whitespace().map(parse_name).collect::<Result<_, _>>()?,
        policy: parse_name(&row.get::<_, String>(3)?)?,
        principal: row.get(4)?,
        created_at: Timestamp::from_millis(row.get(5)?),
        created_by: row.get(6)?,
        expires_at: time(7)?,
        revoked_at: time(8)?,
    };
    let previous: Option<[u8; 32]> = row.get(10)?;
    let tokens = GrantTokens {
        current: TokenHash::from_bytes(row.get(9)?),
        previous: previous.map(TokenHash::from_bytes).zip(time(11)?),
    };
    Ok(ChangedGrant { grant, tokens })
}
