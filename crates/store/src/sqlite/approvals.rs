//! Held calls in the database.

use rusqlite::{Connection, OptionalExtension as _, Row, params, types::Type};
use sluice_policy::Timestamp;

use super::{Store, StoreError, read};
use crate::{
    approval::{Approval, Pending},
    id,
    record::{GrantRef, PolicyRef, Record},
};

pub(super) const TABLES: &str = "
    CREATE TABLE approvals (
        id TEXT PRIMARY KEY, state TEXT NOT NULL, digest TEXT NOT NULL,
        server TEXT NOT NULL, grant_id TEXT NOT NULL, grant_label TEXT NOT NULL, principal TEXT,
        tool TEXT NOT NULL, rule TEXT NOT NULL, approvers INTEGER NOT NULL, message TEXT NOT NULL,
        policy_name TEXT NOT NULL, policy_version TEXT NOT NULL, arg_keys TEXT NOT NULL,
        requested_at INTEGER NOT NULL, expires_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX approvals_pending ON approvals (digest) WHERE state = 'pending';
    CREATE INDEX approvals_by_end ON approvals (expires_at);
";

impl Store {
    /// Keeps a held call for people to decide on. The same call joins the one that
    /// waits, for as long as that has not expired. `record` is told which.
    pub async fn hold(
        &self,
        approval: Approval,
        record: impl FnOnce(&Pending) -> Record + Send + 'static,
    ) -> Result<Pending, StoreError> {
        self.write(move |writer| {
            let pending = hold(&writer.connection, &approval)?;
            writer.append(&mut record(&pending).line())?;
            Ok(pending)
        })
        .await
    }

    /// The calls that wait at a moment, each with its id, the oldest first.
    /// Blocks the thread it runs on.
    pub fn pending_approvals(&self, at: Timestamp) -> Result<Vec<(String, Approval)>, StoreError> {
        let connection = read::reader(&self.path)?;
        let mut statement = connection.prepare(
            "SELECT id, digest, server, grant_id, grant_label, principal, tool, rule, approvers, message,
                policy_name, policy_version, arg_keys, requested_at, expires_at
             FROM approvals WHERE state = 'pending' AND expires_at > ?1 ORDER BY requested_at, id",
        )?;
        let rows =
            statement.query_map([at.as_millis()], |row| Ok((row.get(0)?, approval(row)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

fn hold(connection: &Connection, approval: &Approval) -> rusqlite::Result<Pending> {
    let waiting = connection
        .query_row(
            "SELECT id, expires_at FROM approvals
             WHERE digest = ?1 AND state = 'pending' AND expires_at > ?2 ORDER BY expires_at DESC",
            params![approval.digest, approval.requested_at.as_millis()],
            |row| Ok((row.get(0)?, Timestamp::from_millis(row.get(1)?))),
        )
        .optional()?;
    if let Some((id, expires_at)) = waiting {
        return Ok(Pending { id, expires_at, joined: true });
    }
    let id = id::new_id(approval.requested_at).to_string();
    insert(connection, &id, approval)?;
    Ok(Pending { id, expires_at: approval.expires_at, joined: false })
}

fn insert(connection: &Connection, id: &str, approval: &Approval) -> rusqlite::Result<()> {
    let arg_keys = serde_json::to_string(&approval.arg_keys)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    connection.execute(
        "INSERT INTO approvals VALUES (?1, 'pending', ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        params![
            id,
            approval.digest,
            approval.server,
            approval.grant.id,
            approval.grant.label,
            approval.principal,
            approval.tool,
            approval.rule,
            approval.approvers,
            approval.message,
            approval.policy.name,
            approval.policy.version,
            arg_keys,
            approval.requested_at.as_millis(),
            approval.expires_at.as_millis(),
        ],
    )?;
    Ok(())
}

fn approval(row: &Row<'_>) -> rusqlite::Result<Approval> {
    let text = |column: usize| row.get::<_, String>(column);
    let arg_keys = serde_json::from_str(&text(12)?)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(12, Type::Text, error.into()))?;
    Ok(Approval {
        digest: text(1)?,
        server: text(2)?,
        grant: GrantRef { id: text(3)?.into(), label: text(4)?.into() },
        principal: row.get(5)?,
        tool: text(6)?,
        rule: text(7)?,
        approvers: row.get(8)?,
        message: text(9)?,
        policy: PolicyRef { name: text(10)?.into(), version: text(11)?.into() },
        arg_keys,
        requested_at: Timestamp::from_millis(row.get(13)?),
        expires_at: Timestamp::from_millis(row.get(14)?),
    })
}
