//! Grants: creating, rotating and revoking them.

use sluice_config::span;
use sluice_policy::Timestamp;
use sluice_store::{Actor, Grant, Name, NewGrant, Rotated, Token};

use super::{Ops, Refused, build_edit, parse_name};
use crate::clock;

/// A requested grant, not yet validated.
pub(crate) struct WantedGrant {
    pub(crate) servers: Vec<String>,
    pub(crate) label: String,
    pub(crate) policy: String,
    pub(crate) principal: Option<String>,
    /// A span such as `30d`, or a time.
    pub(crate) expires: Option<String>,
}

/// A grant and its token, which is shown only once.
#[derive(Debug)]
pub(crate) struct IssuedToken {
    pub(crate) grant: Grant,
    pub(crate) token: Token,
}

/// A page of grants, in the order of their ids.
#[derive(Debug)]
pub(crate) struct GrantPage {
    pub(crate) grants: Vec<Grant>,
    /// The id of the last one, if more follow.
    pub(crate) next: Option<String>,
}

impl Ops {
    /// Grants of the store and of the file, after an id.
    pub(crate) async fn grants(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<GrantPage, Refused> {
        let mut grants = self.all_grants().await?;
        grants.retain(|grant| after.is_none_or(|after| grant.id.as_str() > after));
        let has_more = grants.len() > limit;
        grants.truncate(limit);
        let next = grants.last().filter(|_| has_more).map(|grant| grant.id.clone());
        Ok(GrantPage { grants, next })
    }

    /// The grant with this id.
    pub(crate) async fn grant(&self, id: &str) -> Result<Grant, Refused> {
        let in_force = self.live.in_force();
        if let Some(declared) = in_force.file_grants.iter().find(|grant| grant.id == id) {
            return Ok(declared.clone());
        }
        let found = self.store.grant(id).await?;
        found.ok_or_else(|| Refused::Missing(format!("grant `{id}`")))
    }

    /// How many grants can be used now.
    pub(crate) async fn count_grants(&self) -> Result<usize, Refused> {
        let now = clock::now();
        let is_valid = |grant: &&Grant| {
            grant.revoked_at.is_none() && grant.expires_at.is_none_or(|end| now < end)
        };
        Ok(self.all_grants().await?.iter().filter(is_valid).count())
    }

    async fn all_grants(&self) -> Result<Vec<Grant>, Refused> {
        let mut grants = self.store.grants().await?;
        grants.extend(self.live.in_force().file_grants.iter().cloned());
        grants.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(grants)
    }

    /// Creates a grant; its token can be used from then on.
    pub(crate) async fn create_grant(
        &self,
        wanted: WantedGrant,
        actor: &Actor,
    ) -> Result<IssuedToken, Refused> {
        let now = clock::now();
        let new = check_grant(wanted, now)?;
        let _writing = self.writing.lock().await;
        for server in &new.servers {
            if self.server(server).is_err() {
                return Err(Refused::Invalid(format!("there is no server `{server}`")));
            }
        }
        if self.live.in_force().file_grants.iter().any(|grant| grant.label == new.label) {
            return Err(Refused::Declared(format!("grant `{}`", new.label)));
        }
        let created = build_edit(actor, format!("grant `{}` created", new.label));
        let (grant, token) = self.store.create_grant(new, created).await?;
        self.live.set_grant(&token.hash(), Some(&grant));
        Ok(IssuedToken { grant, token })
    }

    /// Replaces the token of a grant.
    pub(crate) async fn rotate_grant(
        &self,
        id: &str,
        actor: &Actor,
    ) -> Result<IssuedToken, Refused> {
        let _writing = self.writing.lock().await;
        let grant = self.changeable_grant(id).await?;
        let rotated = build_edit(actor, format!("grant `{}` rotated", grant.label));
        let rotated = self.store.rotate_grant(id, rotated).await?;
        let Some(Rotated { grant, token, old }) = rotated else {
            let message = format!("grant `{id}` was revoked\nhint: create another one");
            return Err(Refused::Conflict(message));
        };
        self.live.set_grant(&token.hash(), Some(&grant));
        self.live.set_grant(&old, None);
        Ok(IssuedToken { grant, token })
    }

    /// Revokes a grant permanently.
    pub(crate) async fn revoke_grant(&self, id: &str, actor: &Actor) -> Result<(), Refused> {
        let _writing = self.writing.lock().await;
        let grant = self.changeable_grant(id).await?;
        if grant.revoked_at.is_some() {
            return Ok(());
        }
        let revoked = build_edit(actor, format!("grant `{}` revoked", grant.label));
        let revoked = self.store.revoke_grant(id, revoked).await?;
        if let Some((token, grant)) = revoked {
            self.live.set_grant(&token, Some(&grant));
        }
        Ok(())
    }

    /// The grant with this id; refused if the file declares it.
    async fn changeable_grant(&self, id: &str) -> Result<Grant, Refused> {
        let grant = self.grant(id).await?;
        if self.live.in_force().file_grants.iter().any(|declared| declared.id == id) {
            return Err(Refused::Declared(format!("grant `{}`", grant.label)));
        }
        Ok(grant)
    }
}

fn check_grant(wanted: WantedGrant, now: Timestamp) -> Result<NewGrant, Refused> {
    let mut servers: Vec<Name> = Vec::new();
    for text in &wanted.servers {
        let server = parse_name(text)?;
        if !servers.contains(&server) {
            servers.push(server);
        }
    }
    if servers.is_empty() {
        return Err(Refused::Invalid("a grant needs at least one server".into()));
    }
    Ok(NewGrant {
        label: parse_name(&wanted.label)?,
        servers,
        policy: parse_name(&wanted.policy)?,
        principal: wanted.principal.map(check_principal).transpose()?,
        expires_at: wanted.expires.map(|text| parse_expiry(&text, now)).transpose()?,
    })
}

fn check_principal(text: String) -> Result<String, Refused> {
    if text.is_empty() || text.chars().count() > 256 || text.chars().any(char::is_control) {
        let message = "`principal` must be 1 to 256 characters, none of them control characters";
        return Err(Refused::Invalid(message.into()));
    }
    Ok(text)
}

/// Parses the expiry of a grant, which must be in the future.
fn parse_expiry(text: &str, now: Timestamp) -> Result<Timestamp, Refused> {
    let end = match span::read(text) {
        Some(span) => span::after(now, span),
        None => Timestamp::from_rfc3339(text).ok_or_else(|| {
            let forms = "or a time such as `2027-01-31T12:00:00Z`";
            Refused::Invalid(format!("`expires` must be {}, {forms}", span::EXPECTED))
        })?,
    };
    if end <= now {
        return Err(Refused::Invalid(format!("`expires` is over already: {end}")));
    }
    Ok(end)
}
