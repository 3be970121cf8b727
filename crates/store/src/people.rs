//! People with accounts: their roles, passwords, sessions and API tokens.
//!
//! The types and the rules that do not depend on storage. Back-ends apply a change and write its
//! record in one transaction. Passwords arrive as hashes, and only hashes of tokens are stored.

mod accounts;
mod role;
mod session;
mod token;

use sluice_policy::Timestamp;

use crate::{
    StoreError,
    actor::{Actor, Edit},
    grant::TokenHash,
    id,
    record::{Kind, Outcome, Record},
    server::Secret,
};

pub use role::{Access, Role};
pub(crate) use session::MOST_OF_PERSON;
pub use session::{NewSession, Session};
pub use token::{ApiToken, NewApiToken};

/// The longest login and name of a person, in characters.
const LONGEST_NAME: usize = 128;

/// A person who may sign in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    pub id: String,
    /// The name to sign in with: lower case, unique.
    pub login: String,
    /// The name that is shown.
    pub name: String,
    pub access: Access,
    /// Why the person has this access, in words.
    pub reason: String,
    /// The account at an identity provider that signs the person in.
    pub identity: Option<Identity>,
    pub has_password: bool,
    /// Until when an invitation that was not accepted is valid.
    pub invited_until: Option<Timestamp>,
    pub created_at: Timestamp,
    /// The label of the creator.
    pub created_by: String,
    pub disabled_at: Option<Timestamp>,
    pub last_sign_in: Option<Timestamp>,
}

/// An account at an identity provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub issuer: String,
    /// What the provider calls the account; it never changes.
    pub subject: String,
}

/// The properties of a new person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPerson {
    pub login: String,
    pub name: String,
    pub access: Access,
    pub reason: String,
    pub identity: Option<Identity>,
    /// The hash of the password, in the PHC format.
    pub password: Option<Secret>,
    pub invitation: Option<Invitation>,
}

/// A link by which a person sets a first or a new password, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    pub token: TokenHash,
    pub until: Timestamp,
}

/// A person with what proves their identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub person: Person,
    /// The hash of the password, in the PHC format.
    pub password: Option<Secret>,
    pub invitation: Option<Invitation>,
}

/// A change of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountChange {
    Edit(PersonEdit),
    /// A new password ends all sessions of the person, and an invitation.
    SetPassword(Secret),
    Invite(Invitation),
}

/// New values for the properties of a person; `None` keeps the old value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PersonEdit {
    pub name: Option<String>,
    pub access: Option<Access>,
    pub reason: Option<String>,
    /// A disabled person cannot sign in, and has no sessions.
    pub is_disabled: Option<bool>,
}

/// Why a login is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not valid to sign in with: use 1 to 128 letters, digits and `.`, `_`, `-`, `+`, `@`, such as `alice` or `alice@example.com`"
)]
pub struct LoginError(String);

impl Person {
    /// Reads a login: lower case, and without what could make two look alike.
    pub fn parse_login(text: &str) -> Result<String, LoginError> {
        let login = text.trim().to_lowercase();
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-+@".contains(c);
        let is_valid = (1..=LONGEST_NAME).contains(&login.len()) && login.chars().all(is_allowed);
        if is_valid { Ok(login) } else { Err(LoginError(text.to_owned())) }
    }

    /// Whether a name can be shown: 1 to 128 characters, none of them control characters.
    pub fn is_name(text: &str) -> bool {
        (1..=LONGEST_NAME).contains(&text.chars().count())
            && !text.trim().is_empty()
            && !text.chars().any(char::is_control)
    }

    /// The person as records name an actor.
    pub fn actor(&self, address: Option<&str>) -> Actor {
        Actor { address: address.map(Into::into), ..Actor::local(&self.id, &self.login) }
    }

    /// Whether the person can sign in and change everything.
    pub(crate) fn is_able_admin(&self) -> bool {
        self.access == Access::to_all(Role::Admin)
            && self.disabled_at.is_none()
            && (self.has_password || self.identity.is_some())
    }
}

impl NewPerson {
    pub(crate) fn into_account(self, now: Timestamp, creator: &Actor) -> Account {
        let NewPerson { login, name, access, reason, identity, password, invitation } = self;
        let person = Person {
            id: id::new_id(now).to_string(),
            login,
            name,
            access,
            reason,
            identity,
            has_password: password.is_some(),
            invited_until: invitation.as_ref().map(|invitation| invitation.until),
            created_at: now,
            created_by: creator.label.to_string(),
            disabled_at: None,
            last_sign_in: None,
        };
        Account { person, password, invitation }
    }
}

impl AccountChange {
    /// Whether the sessions of the person end with it.
    pub(crate) fn ends_sessions(&self) -> bool {
        match self {
            AccountChange::Edit(edit) => edit.is_disabled == Some(true),
            AccountChange::SetPassword(_) => true,
            AccountChange::Invite(_) => false,
        }
    }

    pub(crate) fn apply(self, account: Account, now: Timestamp) -> Account {
        let Account { mut person, mut password, mut invitation } = account;
        match self {
            AccountChange::Edit(edit) => {
                person.name = edit.name.unwrap_or(person.name);
                person.access = edit.access.unwrap_or(person.access);
                person.reason = edit.reason.unwrap_or(person.reason);
                match edit.is_disabled {
                    Some(true) => person.disabled_at = person.disabled_at.or(Some(now)),
                    Some(false) => person.disabled_at = None,
                    None => {}
                }
            }
            AccountChange::SetPassword(hash) => {
                (password, invitation) = (Some(hash), None);
            }
            AccountChange::Invite(new) => invitation = Some(new),
        }
        person.has_password = password.is_some();
        person.invited_until = invitation.as_ref().map(|invitation| invitation.until);
        Account { person, password, invitation }
    }
}

impl Account {
    /// Whether a token is that of its invitation, and still valid.
    pub(crate) fn admits(&self, token: &TokenHash, now: Timestamp) -> bool {
        let is_it = |invitation: &Invitation| invitation.token == *token && now < invitation.until;
        self.person.disabled_at.is_none() && self.invitation.as_ref().is_some_and(is_it)
    }
}

/// Fails if no admin is left who can sign in, where there was one.
pub(crate) fn check_admins(
    before: &Person,
    after: Option<&Person>,
    has_other_admin: bool,
) -> Result<(), StoreError> {
    let loses_admin = before.is_able_admin() && !after.is_some_and(Person::is_able_admin);
    if loses_admin && !has_other_admin { Err(StoreError::LastAdmin) } else { Ok(()) }
}

/// The record of a sign-in or of its end.
pub(crate) fn sign_in_record(edit: Edit, now: Timestamp) -> Record {
    Record {
        actor: Some(edit.actor),
        outcome: Some(Outcome::Allow),
        message: Some(edit.message),
        ..Record::new(id::new_id(now), now, Kind::Auth)
    }
}

#[cfg(test)]
mod tests {
    use super::Person;

    #[test]
    fn logins_are_lower_case_and_cannot_look_alike() {
        for (text, login) in [("Alice", "alice"), (" bob@Example.com ", "bob@example.com")] {
            assert_eq!(Person::parse_login(text).as_deref(), Ok(login));
        }
        for wrong in ["", " ", "a b", "аlice", "a\u{0}", &"a".repeat(129)] {
            assert!(Person::parse_login(wrong).is_err(), "{wrong:?}");
        }
    }
}
