//! Sessions and API tokens of people in the database.

use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};
use sluice_policy::Timestamp;

use super::{
    Sqlite,
    people::{find_by_id, join_servers, note_sign_in, read_access, read_time},
};
use crate::{
    StoreError,
    actor::Edit,
    grant::{Token, TokenHash},
    people::{ApiToken, MOST_OF_PERSON, NewApiToken, NewSession, Person, Session, sign_in_record},
    registry::edit_record,
};

/// The columns that [`read_session`] reads.
const SESSIONS: &str =
    "SELECT token_sha256, person, address, created_at, used_at, expires_at FROM sessions";
/// The columns that [`read_token`] reads.
const TOKENS: &str = "SELECT id, person, label, role, servers, created_at, created_by, expires_at,
    revoked_at, last_used FROM api_tokens";

impl Sqlite {
    pub(crate) async fn begin_session(
        &self,
        new: NewSession,
        edit: Edit,
    ) -> Result<(), StoreError> {
        self.run_synced(move |writer| {
            let (connection, now) = (writer.connection(), writer.clock().now());
            let session = new.begin(now);
            make_room(connection, session.person.as_deref(), now)?;
            if let Some(person) = &session.person {
                note_sign_in(connection, person, now)?;
            }
            connection.execute(
                "INSERT INTO sessions (token_sha256, person, address, created_at, used_at, expires_at)
                 VALUES (?1, ?2, ?3, ?4, ?4, ?5)",
                params![
                    session.token.as_bytes(),
                    session.person,
                    session.address,
                    now.as_millis(),
                    session.expires_at.as_millis(),
                ],
            )?;
            writer.append_record(sign_in_record(edit, now)).map(|_| ())
        })
        .await
    }

    pub(crate) async fn session(
        &self,
        token: &TokenHash,
    ) -> Result<Option<(Session, Option<Person>)>, StoreError> {
        let token = *token;
        self.readers
            .read(move |connection| {
                let sql = format!("{SESSIONS} WHERE token_sha256 = ?1");
                let found = connection.query_row(&sql, [token.as_bytes()], read_session);
                let Some(session) = found.optional()? else { return Ok(None) };
                let person = match &session.person {
                    Some(id) => find_by_id(connection, id)?,
                    None => None,
                };
                Ok(Some((session, person)))
            })
            .await
    }

    pub(crate) async fn sessions_of(
        &self,
        person: Option<&str>,
    ) -> Result<Vec<Session>, StoreError> {
        let person = person.map(str::to_owned);
        self.readers
            .read(move |connection| {
                let sql = format!(
                    "{SESSIONS} WHERE person IS ?1 ORDER BY created_at DESC, token_sha256 DESC"
                );
                let mut statement = connection.prepare(&sql)?;
                let rows = statement.query_map([person], read_session)?;
                Ok(rows.collect::<Result<_, _>>()?)
            })
            .await
    }

    pub(crate) async fn note_session_use(
        &self,
        token: &TokenHash,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let token = *token;
        self.run(move |writer| {
            let sql = "UPDATE sessions SET used_at = max(used_at, ?2) WHERE token_sha256 = ?1";
            writer.connection().execute(sql, params![token.as_bytes(), at.as_millis()])?;
            Ok(())
        })
        .await
    }

    pub(crate) async fn end_session(
        &self,
        token: &TokenHash,
        edit: Edit,
    ) -> Result<bool, StoreError> {
        let token = *token;
        self.run_synced(move |writer| {
            let now = writer.clock().now();
            let sql = "DELETE FROM sessions WHERE token_sha256 = ?1";
            let ended = writer.connection().execute(sql, [token.as_bytes()])? > 0;
            if ended {
                writer.append_record(sign_in_record(edit, now))?;
            }
            Ok(ended)
        })
        .await
    }

    pub(crate) async fn end_sessions_of(
        &self,
        person: Option<&str>,
        edit: Edit,
    ) -> Result<usize, StoreError> {
        let person = person.map(str::to_owned);
        self.run_synced(move |writer| {
            let now = writer.clock().now();
            let ended = end_all(writer.connection(), person.as_deref())?;
            writer.append_record(sign_in_record(edit, now))?;
            Ok(ended)
        })
        .await
    }

    pub(crate) async fn create_api_token(
        &self,
        new: NewApiToken,
        edit: Edit,
    ) -> Result<Option<(ApiToken, Token)>, StoreError> {
        let text = Token::for_person().ok_or_else(StoreError::no_randomness)?;
        let hash = text.hash();
        let created = self.run_synced(move |writer| {
            let (connection, now) = (writer.connection(), writer.clock().now());
            if find_by_id(connection, &new.person)?.is_none() {
                return Ok(None);
            }
            let token = new.into_token(now, &edit.actor);
            insert_token(connection, &token, &hash)?;
            writer.change_registry(edit_record(edit, now))?;
            Ok(Some(token))
        });
        Ok(created.await?.map(|token| (token, text)))
    }

    pub(crate) async fn api_tokens(&self) -> Result<Vec<ApiToken>, StoreError> {
        self.readers
            .read(|connection| {
                let mut statement = connection.prepare(&format!("{TOKENS} ORDER BY id"))?;
                let rows = statement.query_map([], read_token)?;
                Ok(rows.collect::<Result<_, _>>()?)
            })
            .await
    }

    pub(crate) async fn api_token_of(
        &self,
        token: &TokenHash,
    ) -> Result<Option<(ApiToken, Person)>, StoreError> {
        let token = *token;
        self.readers
            .read(move |connection| {
                let found = find_token(connection, "token_sha256 = ?1", [token.as_bytes()])?;
                let Some(found) = found else { return Ok(None) };
                Ok(find_by_id(connection, &found.person)?.map(|person| (found, person)))
            })
            .await
    }

    pub(crate) async fn note_api_token_use(
        &self,
        id: &str,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let id = id.to_owned();
        self.run(move |writer| {
            let sql =
                "UPDATE api_tokens SET last_used = max(coalesce(last_used, 0), ?2) WHERE id = ?1";
            writer.connection().execute(sql, params![id, at.as_millis()])?;
            Ok(())
        })
        .await
    }

    pub(crate) async fn revoke_api_token(
        &self,
        id: &str,
        edit: Edit,
    ) -> Result<Option<ApiToken>, StoreError> {
        let id = id.to_owned();
        self.run_synced(move |writer| {
            let (connection, now) = (writer.connection(), writer.clock().now());
            let sql = "UPDATE api_tokens SET revoked_at = coalesce(revoked_at, ?2) WHERE id = ?1";
            connection.execute(sql, params![id, now.as_millis()])?;
            let Some(revoked) = find_token(connection, "id = ?1", [&id])? else { return Ok(None) };
            writer.change_registry(edit_record(edit, now))?;
            Ok(Some(revoked))
        })
        .await
    }
}

/// Ends all sessions of a person; returns how many.
pub(super) fn end_all(connection: &Connection, person: Option<&str>) -> rusqlite::Result<usize> {
    connection.execute("DELETE FROM sessions WHERE person IS ?1", [person])
}

/// Removes sessions that are over, and the oldest of this person if there are too many.
fn make_room(
    connection: &Connection,
    person: Option<&str>,
    now: Timestamp,
) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM sessions WHERE expires_at <= ?1", [now.as_millis()])?;
    let newest = i64::try_from(MOST_OF_PERSON).unwrap_or(i64::MAX) - 1;
    connection.execute(
        "DELETE FROM sessions WHERE person IS ?1 AND token_sha256 NOT IN (
            SELECT token_sha256 FROM sessions WHERE person IS ?1
            ORDER BY created_at DESC, token_sha256 DESC LIMIT ?2)",
        params![person, newest],
    )?;
    Ok(())
}

fn insert_token(
    connection: &Connection,
    token: &ApiToken,
    hash: &TokenHash,
) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO api_tokens (id, person, label, role, servers, token_sha256, created_at,
            created_by, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            token.id,
            token.person,
            token.label,
            token.access.role.name(),
            join_servers(&token.access),
            hash.as_bytes(),
            token.created_at.as_millis(),
            token.created_by,
            token.expires_at.map(Timestamp::as_millis),
        ],
    )?;
    Ok(())
}

fn find_token(
    connection: &Connection,
    condition: &str,
    values: impl Params,
) -> rusqlite::Result<Option<ApiToken>> {
    connection.query_row(&format!("{TOKENS} WHERE {condition}"), values, read_token).optional()
}

/// Reads a row of [`SESSIONS`].
fn read_session(row: &Row<'_>) -> rusqlite::Result<Session> {
    Ok(Session {
        token: TokenHash::from_bytes(row.get(0)?),
        person: row.get(1)?,
        address: row.get(2)?,
        created_at: Timestamp::from_millis(row.get(3)?),
        used_at: Timestamp::from_millis(row.get(4)?),
        expires_at: Timestamp::from_millis(row.get(5)?),
    })
}

/// Reads a row of [`TOKENS`].
fn read_token(row: &Row<'_>) -> rusqlite::Result<ApiToken> {
    Ok(ApiToken {
        id: row.get(0)?,
        person: row.get(1)?,
        label: row.get(2)?,
        access: read_access(row, 3, 4)?,
        created_at: Timestamp::from_millis(row.get(5)?),
        created_by: row.get(6)?,
        expires_at: read_time(row, 7)?,
        revoked_at: read_time(row, 8)?,
        last_used: read_time(row, 9)?,
    })
}
