//! Held calls in the database.

use rusqlite::{Connection, OptionalExtension as _, Row, params, types::Type};
use sluice_policy::Timestamp;

use super::Sqlite;
use crate::{
    StoreError,
    actor::Actor,
    approval::{
        Approval, ApprovalState, Decided, Held, MOST_OVER, Pending, Verdict, Vote, check_held,
    },
    name::Name,
    record::{GrantRef, PolicyRef, Record},
};

const COLUMNS: &str = "id, state, digest, server, grant_id, grant_label, principal, tool, rule, \
    approvers, message, policy, policy_version, arg_keys, requested_at, expires_at";

impl Sqlite {
    pub(crate) async fn hold(
        &self,
        approval: Approval,
        mut record: Record,
    ) -> Result<Pending, StoreError> {
        self.run(move |writer| {
            let now = writer.clock().now();
            writer.check_space(&record)?;
            let held = find_joinable(writer.connection(), &approval.digest, now)?;
            let joined = held.is_some();
            let held = held.unwrap_or_else(|| Held::new(approval));
            if !joined {
                make_room(writer.connection(), &held.approval.grant, now)?;
                insert(writer.connection(), &held)?;
            }
            record.approval = Some(held.id.as_str().into());
            writer.append_record(record)?;
            Ok(held.pending(joined))
        })
        .await
    }

    pub(crate) async fn decide(&self, id: &str, vote: Vote) -> Result<Option<Decided>, StoreError> {
        let id = id.to_owned();
        self.run(move |writer| {
            let now = writer.clock().now();
            let Some(mut held) = find(writer.connection(), &id)? else { return Ok(None) };
            let decided = held.decide(&vote, now);
            if matches!(decided, Decided::TooLate(_) | Decided::Repeated) {
                return Ok(Some(decided));
            }
            insert_vote(writer.connection(), &held, &vote)?;
            set_state(writer.connection(), &held)?;
            writer.append_record(held.vote_record(&vote, decided, now))?;
            Ok(Some(decided))
        })
        .await
    }

    pub(crate) async fn consume(&self, id: &str, mut record: Record) -> Result<bool, StoreError> {
        let id = id.to_owned();
        self.run(move |writer| {
            let now = writer.clock().now();
            let found = find(writer.connection(), &id)?;
            let Some(mut held) = found else { return Ok(false) };
            if !held.consume(now) {
                return Ok(false);
            }
            set_state(writer.connection(), &held)?;
            record.approval = Some(id.into());
            writer.append_record(record)?;
            Ok(true)
        })
        .await
    }

    pub(crate) async fn expire(&self) -> Result<u64, StoreError> {
        // Checked with a read first, so that nothing is written if nothing has expired.
        let now = self.clock.now().as_millis();
        let sql = "SELECT count(*) FROM approvals
            WHERE expires_at <= ?1 AND state IN ('pending', 'approved')";
        let is_over = move |connection: &Connection| {
            Ok(connection.query_row(sql, [now], |row| row.get::<_, i64>(0))?)
        };
        if self.readers.read(is_over).await? == 0 {
            return Ok(0);
        }
        self.run(|writer| {
            let now = writer.clock().now();
            let condition = "expires_at <= ?1 AND state IN ('pending', 'approved')";
            let over = select(writer.connection(), condition, now)?;
            let mut count = 0;
            for mut held in over {
                if held.expire(now) {
                    set_state(writer.connection(), &held)?;
                    writer.append_record(held.expiry_record(now))?;
                    count += 1;
                }
            }
            Ok(count)
        })
        .await
    }

    pub(crate) async fn pending_approvals(&self) -> Result<Vec<Held>, StoreError> {
        let now = self.clock.now();
        let condition = "expires_at > ?1 AND state = 'pending'";
        self.readers.read(move |connection| Ok(select(connection, condition, now)?)).await
    }

    pub(crate) async fn approval(&self, id: &str) -> Result<Option<Held>, StoreError> {
        let id = id.to_owned();
        self.readers.read(move |connection| Ok(find(connection, &id)?)).await
    }
}

/// Lets the held calls of a server expire; returns how many.
pub(super) fn end_all(
    connection: &Connection,
    server: &Name,
    now: Timestamp,
) -> rusqlite::Result<usize> {
    let sql = "UPDATE approvals SET expires_at = ?2
        WHERE server = ?1 AND expires_at > ?2 AND state IN ('pending', 'approved')";
    connection.execute(sql, params![server.as_str(), now.as_millis()])
}

/// Checks that one more call of this grant can be held, and removes the oldest of its held calls
/// that are over.
fn make_room(connection: &Connection, grant: &GrantRef, now: Timestamp) -> Result<(), StoreError> {
    let sql = "SELECT coalesce(sum(grant_id = ?1), 0), count(*) FROM approvals
        WHERE expires_at > ?2 AND state IN ('pending', 'approved')";
    let values = params![grant.id, now.as_millis()];
    let (own, all): (i64, i64) =
        connection.prepare_cached(sql)?.query_row(values, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let count = |count| usize::try_from(count).unwrap_or_default();
    check_held(count(own), count(all))?;
    let over =
        "SELECT id FROM approvals WHERE grant_id = ?1 AND state NOT IN ('pending', 'approved')
        ORDER BY requested_at DESC, id DESC LIMIT -1 OFFSET ?2";
    let values = params![grant.id, i64::try_from(MOST_OVER - 1).unwrap_or_default()];
    let votes = format!("DELETE FROM approval_votes WHERE approval IN ({over})");
    connection.prepare_cached(&votes)?.execute(values)?;
    let calls = format!("DELETE FROM approvals WHERE id IN ({over})");
    connection.prepare_cached(&calls)?.execute(values)?;
    Ok(())
}

fn find_joinable(
    connection: &Connection,
    digest: &str,
    now: Timestamp,
) -> rusqlite::Result<Option<Held>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM approvals WHERE digest = ?1 AND state = 'pending' ORDER BY expires_at DESC LIMIT 1"
    );
    let held = connection.prepare_cached(&sql)?.query_row([digest], read_held).optional()?;
    Ok(held.filter(|held| held.can_be_joined(digest, now)))
}

fn find(connection: &Connection, id: &str) -> rusqlite::Result<Option<Held>> {
    let sql = format!("SELECT {COLUMNS} FROM approvals WHERE id = ?1");
    let held = connection.prepare_cached(&sql)?.query_row([id], read_held).optional()?;
    held.map(|held| with_votes(connection, held)).transpose()
}

/// The held calls that meet a condition with a time parameter, the oldest first.
fn select(connection: &Connection, condition: &str, at: Timestamp) -> rusqlite::Result<Vec<Held>> {
    let sql =
        format!("SELECT {COLUMNS} FROM approvals WHERE {condition} ORDER BY requested_at, id");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([at.as_millis()], read_held)?;
    let found = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    found.into_iter().map(|held| with_votes(connection, held)).collect()
}

fn with_votes(connection: &Connection, mut held: Held) -> rusqlite::Result<Held> {
    let mut statement = connection.prepare_cached(
        "SELECT actor_id, actor_label, actor_address, verdict, reason FROM approval_votes
         WHERE approval = ?1 ORDER BY position",
    )?;
    let rows = statement.query_map([&held.id], |row| {
        let verdict: String = row.get(3)?;
        Ok(Vote {
            actor: Actor { id: row.get(0)?, label: row.get(1)?, address: row.get(2)? },
            verdict: if verdict == "approve" { Verdict::Approve } else { Verdict::Deny },
            reason: row.get(4)?,
        })
    })?;
    held.votes = rows.collect::<rusqlite::Result<_>>()?;
    Ok(held)
}

fn set_state(connection: &Connection, held: &Held) -> rusqlite::Result<()> {
    let sql = "UPDATE approvals SET state = ?2 WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![held.id, held.state.as_str()]).map(|_| ())
}

fn insert_vote(connection: &Connection, held: &Held, vote: &Vote) -> rusqlite::Result<()> {
    let Vote { actor, verdict, reason } = vote;
    connection.execute(
        "INSERT INTO approval_votes (approval, actor_id, actor_label, actor_address, verdict, reason, position)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            held.id,
            actor.id,
            actor.label,
            actor.address,
            verdict.as_str(),
            reason,
            i64::try_from(held.votes.len()).unwrap_or(i64::MAX),
        ],
    )?;
    Ok(())
}

fn insert(connection: &Connection, held: &Held) -> rusqlite::Result<()> {
    let approval = &held.approval;
    let arg_keys = serde_json::to_string(&approval.arg_keys)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let sql = format!(
        "INSERT INTO approvals ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)"
    );
    connection.prepare_cached(&sql)?.execute(params![
        held.id,
        held.state.as_str(),
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
    ])?;
    Ok(())
}

/// A held call without its votes.
fn read_held(row: &Row<'_>) -> rusqlite::Result<Held> {
    let text = |column: usize| row.get::<_, String>(column);
    let unreadable = |column, error: Box<dyn std::error::Error + Send + Sync>| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error)
    };
    let arg_keys =
        serde_json::from_str(&text(13)?).map_err(|error| unreadable(13, error.into()))?;
    let state = ApprovalState::from_name(&text(1)?)
        .ok_or_else(|| unreadable(1, "this is not a state of approvals".into()))?;
    let approval = Approval {
        digest: text(2)?,
        server: text(3)?,
        grant: GrantRef { id: row.get(4)?, label: row.get(5)? },
        principal: row.get(6)?,
        tool: text(7)?,
        rule: text(8)?,
        approvers: row.get(9)?,
        message: text(10)?,
        policy: PolicyRef { name: row.get(11)?, version: row.get(12)? },
        arg_keys,
        requested_at: Timestamp::from_millis(row.get(14)?),
        expires_at: Timestamp::from_millis(row.get(15)?),
    };
    Ok(Held { id: text(0)?, approval, state, votes: Vec::new() })
}
