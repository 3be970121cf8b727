//! People: inviting, changing and removing them, and what they do with their own account.

use std::time::Duration;

use sluice_config::span;
use sluice_store::{
    Access, Account, AccountChange, Actor, Invitation, Name, NewPerson, Patch, Person, PersonEdit,
    Role, Secret, Token, TokenHash,
};

use super::{Expected, Ops, Refused, build_edit, parse_name, refuse_missing};
use crate::clock;

/// How long an invitation may be accepted.
const INVITATION_LIFETIME: Duration = Duration::from_hours(72);

/// A person to invite, not yet validated.
pub(crate) struct WantedPerson {
    pub(crate) login: String,
    pub(crate) name: Option<String>,
    pub(crate) role: String,
    pub(crate) servers: Option<Vec<String>>,
}

/// Changes to a person, not yet validated; `None` keeps the old value.
#[derive(Default)]
pub(crate) struct PersonChanges {
    pub(crate) name: Option<String>,
    pub(crate) role: Option<String>,
    /// Without any: all servers.
    pub(crate) servers: Patch<Vec<String>>,
    pub(crate) is_disabled: Option<bool>,
}

/// A person with the token of an invitation, which is shown only once.
#[derive(Debug)]
pub(crate) struct Invited {
    pub(crate) person: Person,
    pub(crate) token: Token,
}

impl Ops {
    pub(crate) async fn people(&self) -> Result<Vec<Person>, Refused> {
        Ok(self.store.people().await?)
    }

    /// The person with this id or login.
    pub(crate) async fn person(&self, text: &str) -> Result<Person, Refused> {
        let people = self.store.people().await?;
        let login = text.to_lowercase();
        let found = people.iter().find(|one| one.id == text || one.login == login);
        let logins = people.iter().map(|one| one.login.as_str());
        found.cloned().ok_or_else(|| refuse_missing(&format!("person `{text}`"), text, logins))
    }

    /// Creates a person, who sets a password by an invitation.
    pub(crate) async fn invite_person(
        &self,
        wanted: WantedPerson,
        actor: &Actor,
    ) -> Result<Invited, Refused> {
        let login = parse_login(&wanted.login)?;
        let name = wanted.name.map_or_else(|| Ok(login.clone()), check_name)?;
        let access = parse_access(&wanted.role, wanted.servers.as_deref())?;
        let (token, invitation) = issue_invitation()?;
        let message =
            format!("person `{login}` invited as {}, by {}", describe(&access), actor.label);
        let new = NewPerson {
            login,
            name,
            access,
            reason: format!("given by {}", actor.label),
            identity: None,
            password: None,
            invitation: Some(invitation),
        };
        let person = self.store.create_person(new, build_edit(actor, message)).await?;
        Ok(Invited { person, token })
    }

    /// Makes a new invitation for a person, such as one who has forgotten the password. The
    /// password until now still works until it is accepted.
    pub(crate) async fn invite_again(&self, text: &str, actor: &Actor) -> Result<Invited, Refused> {
        let person = self.person(text).await?;
        if person.identity.is_some() {
            let message = format!(
                "`{}` signs in with an identity provider, and needs no password here",
                person.login
            );
            return Err(Refused::Conflict(message));
        }
        let (token, invitation) = issue_invitation()?;
        let edit = build_edit(actor, format!("person `{}` invited again", person.login));
        let change = AccountChange::Invite(invitation);
        let changed = self.store.change_account(&person.id, change, edit).await?;
        let person = changed.ok_or_else(|| missing(&person))?;
        Ok(Invited { person, token })
    }

    pub(crate) async fn edit_person(
        &self,
        text: &str,
        changes: PersonChanges,
        expected: &Expected,
        actor: &Actor,
    ) -> Result<Person, Refused> {
        let _writing = self.writing.lock().await;
        let before = self.person(text).await?;
        if !expected.admits(Some(&person_version(&before))) {
            return Err(Refused::Stale(format!("person `{}`", before.login)));
        }
        let access = merge_access(&before.access, &changes)?;
        let edit = PersonEdit {
            name: changes.name.map(check_name).transpose()?,
            reason: access.is_some().then(|| format!("given by {}", actor.label)),
            access,
            is_disabled: changes.is_disabled,
        };
        let message = describe_edit(&before, &edit);
        let change = AccountChange::Edit(edit);
        let after =
            self.store.change_account(&before.id, change, build_edit(actor, message)).await?;
        after.ok_or_else(|| missing(&before))
    }

    pub(crate) async fn remove_person(
        &self,
        text: &str,
        expected: &Expected,
        actor: &Actor,
    ) -> Result<(), Refused> {
        let _writing = self.writing.lock().await;
        let before = self.person(text).await?;
        if !expected.admits(Some(&person_version(&before))) {
            return Err(Refused::Stale(format!("person `{}`", before.login)));
        }
        let message =
            format!("person `{}` removed, who was {}", before.login, describe(&before.access));
        self.store.remove_person(&before.id, build_edit(actor, message)).await?;
        Ok(())
    }

    /// The person that an invitation is for.
    pub(crate) async fn find_invited(&self, token: &TokenHash) -> Result<Person, Refused> {
        let found = self.store.person_of_invitation(token).await?;
        found.ok_or_else(|| Refused::Missing(NO_INVITATION.into()))
    }

    /// Accepts an invitation with the hash of a password.
    pub(crate) async fn accept_invitation(
        &self,
        token: &TokenHash,
        password: Secret,
        actor: &Actor,
    ) -> Result<Person, Refused> {
        let edit = build_edit(actor, format!("`{}` accepted the invitation", actor.label));
        let accepted = self.store.accept_invitation(token, password, edit).await?;
        accepted.ok_or_else(|| Refused::Missing(NO_INVITATION.into()))
    }

    /// Creates the first admin, who has a password at once. Refused if there is an admin who
    /// can sign in already.
    pub(crate) async fn create_first_admin(
        &self,
        login: &str,
        password: Secret,
        actor: &Actor,
    ) -> Result<Person, Refused> {
        let _writing = self.writing.lock().await;
        if !self.store.people().await?.is_empty() {
            let message = "there are accounts already\nhint: add people with `sluice people add`";
            return Err(Refused::Conflict(message.into()));
        }
        let login = parse_login(login)?;
        let new = NewPerson {
            name: login.clone(),
            access: Access::to_all(Role::Admin),
            reason: "the first admin, made by the owner of the data directory".into(),
            identity: None,
            password: Some(password),
            invitation: None,
            login: login.clone(),
        };
        let message = format!("first admin `{login}` created");
        Ok(self.store.create_person(new, build_edit(actor, message)).await?)
    }

    /// Sets the password of a person, which ends all their sessions.
    pub(crate) async fn set_password(
        &self,
        person: &Person,
        password: Secret,
        actor: &Actor,
    ) -> Result<(), Refused> {
        let edit = build_edit(actor, format!("password of `{}` changed", person.login));
        let change = AccountChange::SetPassword(password);
        self.store.change_account(&person.id, change, edit).await?;
        Ok(())
    }

    /// The account of a login that may sign in with a password.
    pub(crate) async fn account(&self, login: &str) -> Result<Option<Account>, Refused> {
        let found = self.store.account_of_login(login).await?;
        Ok(found.filter(|account| account.person.disabled_at.is_none()))
    }
}

const NO_INVITATION: &str = "invitation like this: it was used, is over, or was replaced\nhint: ask the person who invited you for a new one";

fn missing(person: &Person) -> Refused {
    Refused::Missing(format!("person `{}` any more", person.login))
}

/// The version of a person's properties, which changes with each edit.
pub(crate) fn person_version(person: &Person) -> String {
    let properties = (&person.name, &person.access, person.disabled_at, person.has_password);
    sluice_store::AttachedPolicy::version_of(&format!("{properties:?}"))
}

fn issue_invitation() -> Result<(Token, Invitation), Refused> {
    let token = Token::random().ok_or_else(|| {
        Refused::Store(sluice_store::StoreError::Failed("the system gives no randomness".into()))
    })?;
    let until = span::after(clock::now(), INVITATION_LIFETIME);
    let invitation = Invitation { token: token.hash(), until };
    Ok((token, invitation))
}

fn parse_login(text: &str) -> Result<String, Refused> {
    Person::parse_login(text).map_err(|error| Refused::Invalid(error.to_string()))
}

fn check_name(text: String) -> Result<String, Refused> {
    if Person::is_name(&text) {
        return Ok(text);
    }
    let message = "`name` must be 1 to 128 characters, none of them control characters";
    Err(Refused::Invalid(message.into()))
}

/// Reads a role and the servers that it is limited to; `None` for all.
pub(crate) fn parse_access(role: &str, servers: Option<&[String]>) -> Result<Access, Refused> {
    let names: Vec<_> = Role::ALL.iter().map(|role| role.name()).collect();
    let role = Role::from_name(role).ok_or_else(|| {
        Refused::Invalid(format!("`{role}` is no role\nhint: there are: {}", names.join(", ")))
    })?;
    Ok(Access { role, servers: servers.map(parse_servers).transpose()? })
}

fn parse_servers(names: &[String]) -> Result<Vec<Name>, Refused> {
    let mut servers = names.iter().map(|name| parse_name(name)).collect::<Result<Vec<_>, _>>()?;
    servers.sort();
    servers.dedup();
    if servers.is_empty() {
        let message = "a role needs at least one server\nhint: leave out `servers` for all";
        return Err(Refused::Invalid(message.into()));
    }
    Ok(servers)
}

fn merge_access(before: &Access, changes: &PersonChanges) -> Result<Option<Access>, Refused> {
    if changes.role.is_none() && changes.servers == Patch::Keep {
        return Ok(None);
    }
    let role = changes.role.as_deref().unwrap_or(before.role.name());
    let access = parse_access(role, None)?;
    let servers = match &changes.servers {
        Patch::Keep => before.servers.clone(),
        Patch::Remove => None,
        Patch::Set(names) => Some(parse_servers(names)?),
    };
    Ok(Some(Access { servers, ..access }))
}

/// A role and its servers, in words.
pub(crate) fn describe(access: &Access) -> String {
    match &access.servers {
        None => access.role.name().to_owned(),
        Some(servers) => {
            let servers: Vec<_> = servers.iter().map(Name::as_str).collect();
            format!("{} of {}", access.role.name(), servers.join(", "))
        }
    }
}

/// The message of the record of an edit: each changed property before and after.
fn describe_edit(before: &Person, edit: &PersonEdit) -> String {
    let mut parts = Vec::new();
    if let Some(name) = edit.name.as_ref().filter(|name| **name != before.name) {
        parts.push(format!("name from `{}` to `{name}`", before.name));
    }
    if let Some(access) = edit.access.as_ref().filter(|access| **access != before.access) {
        parts.push(format!("role from `{}` to `{}`", describe(&before.access), describe(access)));
    }
    match (edit.is_disabled, before.disabled_at) {
        (Some(true), None) => parts.push("disabled".into()),
        (Some(false), Some(_)) => parts.push("enabled again".into()),
        _ => {}
    }
    if parts.is_empty() {
        return format!("person `{}` edited without a change", before.login);
    }
    format!("person `{}` edited: {}", before.login, parts.join(", "))
}
