//! People in the database.

use rusqlite::{Connection, OptionalExtension as _, Params, Row, params, types::Type};
use sluice_policy::Timestamp;

use super::{Sqlite, parse_name, sessions, writer::Writer};
use crate::{
    StoreError,
    actor::Edit,
    grant::TokenHash,
    name::Name,
    people::{
        Access, Account, AccountChange, Identity, Invitation, NewPerson, Person, Role, check_admins,
    },
    registry::edit_record,
    server::Secret,
};

/// The columns that [`read_row`] reads.
const SELECT: &str = "SELECT id, login, name, role, servers, reason, issuer, subject, password,
    invitation_sha256, invited_until, created_at, created_by, disabled_at, last_sign_in FROM people";

impl Sqlite {
    pub(crate) async fn create_person(
        &self,
        new: NewPerson,
        edit: Edit,
    ) -> Result<Person, StoreError> {
        self.run_synced(move |writer| {
            let now = writer.clock().now();
            let account = new.into_account(now, &edit.actor);
            check_unique(writer.connection(), &account.person)?;
            put(writer.connection(), &account)?;
            writer.change_registry(edit_record(edit, now))?;
            Ok(account.person)
        })
        .await
    }

    pub(crate) async fn change_account(
        &self,
        id: &str,
        change: AccountChange,
        edit: Edit,
    ) -> Result<Option<Person>, StoreError> {
        let id = id.to_owned();
        self.run_synced(move |writer| {
            let found = find(writer.connection(), "id = ?1", [&id])?;
            found.map(|before| apply(writer, &before, change, edit)).transpose()
        })
        .await
    }

    pub(crate) async fn accept_invitation(
        &self,
        token: &TokenHash,
        password: Secret,
        edit: Edit,
    ) -> Result<Option<Person>, StoreError> {
        let token = *token;
        self.run_synced(move |writer| {
            let now = writer.clock().now();
            let found = find_invited(writer.connection(), &token)?;
            let found = found.filter(|account| account.admits(&token, now));
            let change = AccountChange::SetPassword(password);
            found.map(|before| apply(writer, &before, change, edit)).transpose()
        })
        .await
    }

    pub(crate) async fn remove_person(
        &self,
        id: &str,
        edit: Edit,
    ) -> Result<Option<Person>, StoreError> {
        let id = id.to_owned();
        self.run_synced(move |writer| {
            let (connection, now) = (writer.connection(), writer.clock().now());
            let Some(account) = find(connection, "id = ?1", [&id])? else { return Ok(None) };
            check_admins(&account.person, None, has_other_admin(connection, &id)?)?;
            sessions::end_all(connection, Some(&id))?;
            connection.execute("DELETE FROM api_tokens WHERE person = ?1", [&id])?;
            connection.execute("DELETE FROM people WHERE id = ?1", [&id])?;
            writer.change_registry(edit_record(edit, now))?;
            Ok(Some(account.person))
        })
        .await
    }

    pub(crate) async fn people(&self) -> Result<Vec<Person>, StoreError> {
        self.readers.read(|connection| Ok(read_all(connection)?)).await
    }

    pub(crate) async fn person(&self, id: &str) -> Result<Option<Person>, StoreError> {
        let id = id.to_owned();
        let found = self.readers.read(move |connection| Ok(find(connection, "id = ?1", [&id])?));
        Ok(found.await?.map(|account| account.person))
    }

    pub(crate) async fn account_of_login(
        &self,
        login: &str,
    ) -> Result<Option<Account>, StoreError> {
        let login = login.to_owned();
        self.readers.read(move |connection| Ok(find(connection, "login = ?1", [&login])?)).await
    }

    pub(crate) async fn person_of_identity(
        &self,
        identity: &Identity,
    ) -> Result<Option<Person>, StoreError> {
        let Identity { issuer, subject } = identity.clone();
        let found = self.readers.read(move |connection| {
            Ok(find(connection, "issuer = ?1 AND subject = ?2", [&issuer, &subject])?)
        });
        Ok(found.await?.map(|account| account.person))
    }

    pub(crate) async fn person_of_invitation(
        &self,
        token: &TokenHash,
    ) -> Result<Option<Person>, StoreError> {
        let (token, now) = (*token, self.clock.now());
        let found =
            self.readers.read(move |connection| Ok(find_invited(connection, &token)?)).await?;
        Ok(found.filter(|account| account.admits(&token, now)).map(|account| account.person))
    }
}

/// Changes an account and records that.
fn apply(
    writer: &mut Writer,
    before: &Account,
    change: AccountChange,
    edit: Edit,
) -> Result<Person, StoreError> {
    let (connection, now) = (writer.connection(), writer.clock().now());
    let ends_sessions = change.ends_sessions();
    let after = change.apply(before.clone(), now);
    let id = &after.person.id;
    check_admins(&before.person, Some(&after.person), has_other_admin(connection, id)?)?;
    put(connection, &after)?;
    if ends_sessions {
        sessions::end_all(connection, Some(id))?;
    }
    writer.change_registry(edit_record(edit, now))?;
    Ok(after.person)
}

/// Notes a sign-in.
pub(super) fn note_sign_in(
    connection: &Connection,
    id: &str,
    at: Timestamp,
) -> rusqlite::Result<()> {
    let sql = "UPDATE people SET last_sign_in = ?2 WHERE id = ?1";
    connection.execute(sql, params![id, at.as_millis()]).map(|_| ())
}

pub(super) fn find_by_id(connection: &Connection, id: &str) -> rusqlite::Result<Option<Person>> {
    Ok(find(connection, "id = ?1", [id])?.map(|account| account.person))
}

fn find_invited(connection: &Connection, token: &TokenHash) -> rusqlite::Result<Option<Account>> {
    find(connection, "invitation_sha256 = ?1", [token.as_bytes()])
}

fn find(
    connection: &Connection,
    condition: &str,
    values: impl Params,
) -> rusqlite::Result<Option<Account>> {
    connection.query_row(&format!("{SELECT} WHERE {condition}"), values, read_row).optional()
}

fn read_all(connection: &Connection) -> rusqlite::Result<Vec<Person>> {
    let mut statement = connection.prepare(&format!("{SELECT} ORDER BY id"))?;
    let rows = statement.query_map([], read_row)?;
    rows.map(|row| row.map(|account| account.person)).collect()
}

fn has_other_admin(connection: &Connection, id: &str) -> rusqlite::Result<bool> {
    let people = read_all(connection)?;
    Ok(people.iter().any(|other| other.id != id && other.is_able_admin()))
}

fn check_unique(connection: &Connection, new: &Person) -> Result<(), StoreError> {
    let taken = "SELECT 1 FROM people WHERE login = ?1 OR issuer = ?2 AND subject = ?3";
    let identity = new.identity.as_ref();
    let values = params![
        new.login,
        identity.map(|identity| &identity.issuer),
        identity.map(|identity| &identity.subject)
    ];
    if connection.prepare(taken)?.exists(values)? {
        return Err(StoreError::LoginTaken(new.login.clone()));
    }
    Ok(())
}

fn put(connection: &Connection, account: &Account) -> rusqlite::Result<()> {
    let Account { person, password, invitation } = account;
    let identity = person.identity.as_ref();
    connection.execute(
        "REPLACE INTO people (id, login, name, role, servers, reason, issuer, subject, password,
            invitation_sha256, invited_until, created_at, created_by, disabled_at, last_sign_in)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        params![
            person.id,
            person.login,
            person.name,
            person.access.role.name(),
            join_servers(&person.access),
            person.reason,
            identity.map(|identity| &identity.issuer),
            identity.map(|identity| &identity.subject),
            password.as_ref().map(Secret::expose),
            invitation.as_ref().map(|invitation| invitation.token.as_bytes()),
            invitation.as_ref().map(|invitation| invitation.until.as_millis()),
            person.created_at.as_millis(),
            person.created_by,
            person.disabled_at.map(Timestamp::as_millis),
            person.last_sign_in.map(Timestamp::as_millis),
        ],
    )?;
    Ok(())
}

/// The servers of an access, separated by blanks; `None` for all.
pub(super) fn join_servers(access: &Access) -> Option<String> {
    let servers = access.servers.as_ref()?;
    Some(servers.iter().map(Name::as_str).collect::<Vec<_>>().join(" "))
}

/// Reads the columns of an access: role and servers.
pub(super) fn read_access(row: &Row<'_>, role: usize, servers: usize) -> rusqlite::Result<Access> {
    let name: String = row.get(role)?;
    let unknown = || rusqlite::Error::InvalidColumnType(role, "role".into(), Type::Text);
    let role = Role::from_name(&name).ok_or_else(unknown)?;
    let servers: Option<String> = row.get(servers)?;
    let servers = servers
        .map(|servers| servers.split_whitespace().map(parse_name).collect::<Result<_, _>>())
        .transpose()?;
    Ok(Access { role, servers })
}

/// Reads a time that may be absent.
pub(super) fn read_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_millis))
}

/// Reads a row of [`SELECT`].
fn read_row(row: &Row<'_>) -> rusqlite::Result<Account> {
    let issuer: Option<String> = row.get(6)?;
    let subject: Option<String> = row.get(7)?;
    let password: Option<String> = row.get(8)?;
    let token: Option<[u8; 32]> = row.get(9)?;
    let invitation = token
        .zip(read_time(row, 10)?)
        .map(|(token, until)| Invitation { token: TokenHash::from_bytes(token), until });
    let person = Person {
        id: row.get(0)?,
        login: row.get(1)?,
        name: row.get(2)?,
        access: read_access(row, 3, 4)?,
        reason: row.get(5)?,
        identity: issuer.zip(subject).map(|(issuer, subject)| Identity { issuer, subject }),
        has_password: password.is_some(),
        invited_until: invitation.as_ref().map(|invitation| invitation.until),
        created_at: Timestamp::from_millis(row.get(11)?),
        created_by: row.get(12)?,
        disabled_at: read_time(row, 13)?,
        last_sign_in: read_time(row, 14)?,
    };
    Ok(Account { person, password: password.map(Secret::new), invitation })
}
