//! API tokens of people.

use std::time::Duration;

use sluice_config::span;
use sluice_policy::Timestamp;
use sluice_store::{Actor, ApiToken, NewApiToken, Person, Token};

use super::{
    Ops, Refused, build_edit,
    grants::parse_expiry,
    people::{describe, parse_access},
};
use crate::clock;

/// How long an API token is valid, unless its creator says otherwise; and at most.
const LIFETIME: Duration = Duration::from_hours(2_160);
const LONGEST_LIFETIME: Duration = Duration::from_hours(8_784);
/// The longest label, in characters.
const LONGEST_LABEL: usize = 64;
/// Valid tokens that one person may have.
const MOST: usize = 50;

/// A requested API token, not yet validated.
pub(crate) struct WantedToken {
    pub(crate) label: String,
    /// The role of its person, unless it is given.
    pub(crate) role: Option<String>,
    pub(crate) servers: Option<Vec<String>>,
    /// A span such as `30d`, or a time.
    pub(crate) expires: Option<String>,
}

impl Ops {
    /// The API tokens of a person, or of all.
    pub(crate) async fn tokens(&self, person: Option<&str>) -> Result<Vec<ApiToken>, Refused> {
        let mut tokens = self.store.api_tokens().await?;
        tokens.retain(|token| person.is_none_or(|person| token.person == person));
        Ok(tokens)
    }

    pub(crate) async fn create_token(
        &self,
        person: &Person,
        wanted: WantedToken,
        actor: &Actor,
    ) -> Result<(ApiToken, Token), Refused> {
        let _writing = self.writing.lock().await;
        let now = clock::now();
        let own = self.tokens(Some(&person.id)).await?;
        let valid: Vec<_> = own.iter().filter(|token| token.is_valid(now)).collect();
        if valid.len() >= MOST {
            let message = format!("`{}` has {MOST} tokens\nhint: revoke one first", person.login);
            return Err(Refused::Conflict(message));
        }
        let label = check_label(wanted.label)?;
        if valid.iter().any(|token| token.label == label) {
            let message = format!(
                "`{}` has a token `{label}` already\nhint: choose another label, or revoke that token",
                person.login
            );
            return Err(Refused::Conflict(message));
        }
        let role = wanted.role.as_deref().unwrap_or(person.access.role.name());
        let access = parse_access(role, wanted.servers.as_deref())?;
        let expires_at = check_expiry(wanted.expires.as_deref(), now)?;
        let message = format!(
            "API token `{label}` of `{}` created: {}, until {expires_at}",
            person.login,
            describe(&access)
        );
        let new =
            NewApiToken { person: person.id.clone(), label, access, expires_at: Some(expires_at) };
        let created = self.store.create_api_token(new, build_edit(actor, message)).await?;
        created.ok_or_else(|| Refused::Missing(format!("person `{}` any more", person.login)))
    }

    /// Revokes a token, by its id; only one of this person if there is one.
    pub(crate) async fn revoke_token(
        &self,
        id: &str,
        person: Option<&str>,
        actor: &Actor,
    ) -> Result<(), Refused> {
        let tokens = self.tokens(person).await?;
        let missing = || Refused::Missing(format!("API token `{id}`"));
        let token = tokens.iter().find(|token| token.id == id).ok_or_else(missing)?;
        if token.revoked_at.is_some() {
            return Ok(());
        }
        let people = self.store.people().await?;
        let login = people.iter().find(|one| one.id == token.person).map(|one| one.login.as_str());
        let message =
            format!("API token `{}` of `{}` revoked", token.label, login.unwrap_or("nobody"));
        self.store.revoke_api_token(id, build_edit(actor, message)).await?;
        Ok(())
    }
}

fn check_label(label: String) -> Result<String, Refused> {
    let is_valid = (1..=LONGEST_LABEL).contains(&label.chars().count())
        && !label.trim().is_empty()
        && !label.chars().any(char::is_control);
    if is_valid {
        return Ok(label);
    }
    let message = "`label` must be 1 to 64 characters, none of them control characters";
    Err(Refused::Invalid(message.into()))
}

fn check_expiry(text: Option<&str>, now: Timestamp) -> Result<Timestamp, Refused> {
    let expires_at = match text {
        Some(text) => parse_expiry(text, now)?,
        None => span::after(now, LIFETIME),
    };
    if expires_at > span::after(now, LONGEST_LIFETIME) {
        return Err(Refused::Invalid("an API token is valid for a year at most".into()));
    }
    Ok(expires_at)
}
