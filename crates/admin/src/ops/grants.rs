//! Grants: creating, editing, rotating and revoking them.

use std::{collections::HashMap, time::Duration};

use sluice_config::span;
use sluice_policy::Timestamp;
use sluice_store::{
    Actor, AttachedPolicy, ChangedGrant, Grant, GrantEdit, GrantTokens, Name, NewGrant, Patch,
    Rotated, Token,
};

use super::{Expected, Ops, Refused, build_edit, parse_name, refuse_missing};
use crate::clock;

/// How long an old token may work after a rotation at most.
const LONGEST_OVERLAP: Duration = Duration::from_hours(30 * 24);

/// A requested grant, not yet validated.
pub(crate) struct WantedGrant {
    pub(crate) servers: Vec<String>,
    pub(crate) label: String,
    pub(crate) policy: String,
    pub(crate) principal: Option<String>,
    /// A span such as `30d`, or a time.
    pub(crate) expires: Option<String>,
}

/// Changes to a grant, not yet validated; `None` keeps the old value.
#[derive(Default)]
pub(crate) struct GrantChanges {
    pub(crate) label: Option<String>,
    pub(crate) servers: Option<Vec<String>>,
    pub(crate) policy: Option<String>,
    pub(crate) principal: Patch<String>,
    pub(crate) expires: Patch<String>,
}

/// A grant and its token, which is shown only once.
#[derive(Debug)]
pub(crate) struct IssuedToken {
    pub(crate) grant: Grant,
    pub(crate) token: Token,
}

/// A grant, and when it was last used.
#[derive(Debug)]
pub(crate) struct SeenGrant {
    pub(crate) grant: Grant,
    pub(crate) last_used: Option<Timestamp>,
}

/// A page of grants, in the order of their ids.
#[derive(Debug)]
pub(crate) struct GrantPage {
    pub(crate) grants: Vec<SeenGrant>,
    /// The id of the last one, if more follow.
    pub(crate) next: Option<String>,
}

/// Which grants to list. A field that is `None` matches every grant.
#[derive(Default)]
pub(crate) struct GrantFilter {
    /// One of its servers.
    pub(crate) server: Option<String>,
    pub(crate) policy: Option<String>,
    pub(crate) principal: Option<String>,
}

impl GrantFilter {
    fn admits(&self, grant: &Grant) -> bool {
        let is_of = |server: &String| grant.servers.iter().any(|one| one.as_str() == server);
        self.server.as_ref().is_none_or(is_of)
            && self.policy.as_ref().is_none_or(|policy| policy == grant.policy.as_str())
            && (self.principal.is_none() || self.principal == grant.principal)
    }
}

impl SeenGrant {
    /// The version of its properties, which changes with each edit.
    pub(crate) fn version(&self) -> String {
        let properties = (list_properties(&self.grant), self.grant.revoked_at);
        AttachedPolicy::version_of(&format!("{properties:?}"))
    }
}

impl Ops {
    /// Grants of the store and of the file that pass a filter, after an id.
    pub(crate) async fn grants(
        &self,
        filter: &GrantFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<GrantPage, Refused> {
        let mut grants = self.all_grants().await?;
        grants.retain(|grant| {
            after.is_none_or(|after| grant.id.as_str() > after) && filter.admits(grant)
        });
        let has_more = grants.len() > limit;
        grants.truncate(limit);
        let next = grants.last().filter(|_| has_more).map(|grant| grant.id.clone());
        let uses = self.last_uses().await?;
        let see = |grant: Grant| SeenGrant { last_used: uses.get(&grant.id).copied(), grant };
        Ok(GrantPage { grants: grants.into_iter().map(see).collect(), next })
    }

    /// The grant with this id or label, and when it was last used.
    pub(crate) async fn seen_grant(&self, text: &str) -> Result<SeenGrant, Refused> {
        let grant = self.grant(text).await?;
        let last_used = self.last_uses().await?.get(&grant.id).copied();
        Ok(SeenGrant { grant, last_used })
    }

    async fn last_uses(&self) -> Result<HashMap<String, Timestamp>, Refused> {
        self.live.store_uses().await;
        Ok(self.store.last_uses().await?)
    }

    /// The grant with this id or label. If several had the label, it is the one that is not
    /// revoked, else the newest.
    pub(super) async fn grant(&self, text: &str) -> Result<Grant, Refused> {
        if let Some(grant) = self.store.grant(text).await? {
            return Ok(grant);
        }
        let all = self.all_grants().await?;
        let mut grants = all.clone();
        grants.retain(|grant| grant.id == text || grant.label.as_str() == text);
        let rank = |grant: &Grant| (grant.revoked_at.is_none(), grant.created_at);
        let found = grants.into_iter().max_by_key(rank);
        found.ok_or_else(|| {
            let valid = all.iter().filter(|grant| grant.revoked_at.is_none());
            let labels = valid.map(|grant| grant.label.as_str());
            refuse_missing(&format!("grant `{text}`"), text, labels)
        })
    }

    /// How many grants can be used now.
    pub(crate) async fn count_grants(&self) -> Result<usize, Refused> {
        Ok(self.valid_grants(clock::now()).await?.len())
    }

    /// The grants that can be used now, in the order of their ids.
    pub(super) async fn valid_grants(&self, now: Timestamp) -> Result<Vec<Grant>, Refused> {
        let mut grants = self.all_grants().await?;
        grants.retain(|grant| {
            grant.revoked_at.is_none() && grant.expires_at.is_none_or(|end| now < end)
        });
        Ok(grants)
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
        self.check_servers(&new.servers)?;
        self.check_declared_label(&new.label)?;
        let created = build_edit(actor, format!("grant `{}` created", new.label));
        let (grant, token) = self.store.create_grant(new, created).await?;
        self.live.set_grant(&token.hash(), Some(&grant));
        Ok(IssuedToken { grant, token })
    }

    fn check_servers(&self, servers: &[Name]) -> Result<(), Refused> {
        for server in servers {
            self.server(server).map_err(|missing| Refused::Invalid(missing.to_string()))?;
        }
        Ok(())
    }

    /// Refuses a label that a grant of the file has.
    fn check_declared_label(&self, label: &Name) -> Result<(), Refused> {
        if self.live.in_force().file_grants.iter().any(|grant| grant.label == *label) {
            return Err(Refused::Declared(format!("grant `{label}`")));
        }
        Ok(())
    }

    /// Changes a grant; its tokens stay the same.
    pub(crate) async fn edit_grant(
        &self,
        text: &str,
        changes: GrantChanges,
        expected: &Expected,
        actor: &Actor,
    ) -> Result<SeenGrant, Refused> {
        let changes = check_changes(changes, clock::now())?;
        let _writing = self.writing.lock().await;
        let grant = self.changeable_grant(text).await?;
        let before = SeenGrant { grant, last_used: None };
        if !expected.admits(Some(&before.version())) {
            return Err(Refused::Stale(format!("grant `{}`", before.grant.label)));
        }
        self.check_servers(changes.servers.as_deref().unwrap_or_default())?;
        if let Some(label) = &changes.label {
            self.check_declared_label(label)?;
        }
        let message = describe_edit(&before.grant, &changes);
        let id = &before.grant.id;
        let edited = self.store.edit_grant(id, changes, build_edit(actor, message)).await?;
        let edited = edited.ok_or_else(|| refuse_revoked(&before.grant))?;
        self.take_effect(&edited, None);
        let last_used = self.last_uses().await?.get(id).copied();
        Ok(SeenGrant { grant: edited.grant, last_used })
    }

    /// Replaces the token of a grant. The old one works for `overlap`, a span, longer.
    pub(crate) async fn rotate_grant(
        &self,
        text: &str,
        overlap: Option<&str>,
        actor: &Actor,
    ) -> Result<IssuedToken, Refused> {
        let overlap = overlap.map(|text| {
            let span = span::read(text).filter(|span| *span <= LONGEST_OVERLAP);
            span.ok_or_else(|| {
                let message = format!("`overlap` must be {}, at most 30d", span::EXPECTED);
                Refused::Invalid(message)
            })
        });
        let overlap = overlap.transpose()?.unwrap_or_default();
        let _writing = self.writing.lock().await;
        let grant = self.changeable_grant(text).await?;
        let rotated = build_edit(actor, format!("grant `{}` rotated", grant.label));
        let rotated = self.store.rotate_grant(&grant.id, overlap, rotated).await?;
        let Rotated { changed, token, before } = rotated.ok_or_else(|| refuse_revoked(&grant))?;
        self.take_effect(&changed, Some(before));
        Ok(IssuedToken { grant: changed.grant, token })
    }

    /// Revokes a grant permanently.
    pub(crate) async fn revoke_grant(&self, text: &str, actor: &Actor) -> Result<(), Refused> {
        let _writing = self.writing.lock().await;
        let grant = self.changeable_grant(text).await?;
        if grant.revoked_at.is_some() {
            return Ok(());
        }
        let revoked = build_edit(actor, format!("grant `{}` revoked", grant.label));
        if let Some(revoked) = self.store.revoke_grant(&grant.id, revoked).await? {
            self.take_effect(&revoked, None);
        }
        Ok(())
    }

    /// Applies a changed grant to the running gateway. Tokens from before that it does not
    /// have any more become unknown.
    fn take_effect(&self, changed: &ChangedGrant, before: Option<GrantTokens>) {
        let grants = changed.tokens.grants(&changed.grant);
        for (token, grant) in &grants {
            self.live.set_grant(token, Some(grant));
        }
        for (old, _) in before.iter().flat_map(|before| before.grants(&changed.grant)) {
            if grants.iter().all(|(token, _)| *token != old) {
                self.live.set_grant(&old, None);
            }
        }
    }

    /// The grant with this id or label; refused if the file declares it.
    async fn changeable_grant(&self, text: &str) -> Result<Grant, Refused> {
        let grant = self.grant(text).await?;
        if self.live.in_force().file_grants.iter().any(|declared| declared.id == grant.id) {
            return Err(Refused::Declared(format!("grant `{}`", grant.label)));
        }
        Ok(grant)
    }
}

fn refuse_revoked(grant: &Grant) -> Refused {
    let message = format!("grant `{}` was revoked\nhint: create another one", grant.label);
    Refused::Conflict(message)
}

/// The message of the record of an edit: each changed property before and after.
fn describe_edit(before: &Grant, changes: &GrantEdit) -> String {
    let after = changes.clone().apply(before.clone());
    let parts = list_properties(before).into_iter().zip(list_properties(&after));
    let parts = parts.filter(|((_, old), (_, new))| old != new);
    let parts: Vec<_> =
        parts.map(|((name, old), (_, new))| format!("{name} from `{old}` to `{new}`")).collect();
    if parts.is_empty() {
        return format!("grant `{}` edited without a change", before.label);
    }
    format!("grant `{}` edited: {}", before.label, parts.join(", "))
}

/// The properties that can be changed, by name.
fn list_properties(grant: &Grant) -> [(&'static str, String); 5] {
    let servers: Vec<_> = grant.servers.iter().map(Name::as_str).collect();
    let expiry = grant.expires_at.map_or_else(|| "never".into(), |at| at.to_string());
    [
        ("label", grant.label.to_string()),
        ("servers", servers.join(", ")),
        ("policy", grant.policy.to_string()),
        ("principal", grant.principal.clone().unwrap_or_else(|| "nobody".into())),
        ("expiry", expiry),
    ]
}

fn check_grant(wanted: WantedGrant, now: Timestamp) -> Result<NewGrant, Refused> {
    Ok(NewGrant {
        label: parse_name(&wanted.label)?,
        servers: check_server_names(&wanted.servers)?,
        policy: parse_name(&wanted.policy)?,
        principal: wanted.principal.map(check_principal).transpose()?,
        expires_at: wanted.expires.map(|text| parse_expiry(&text, now)).transpose()?,
    })
}

fn check_changes(wanted: GrantChanges, now: Timestamp) -> Result<GrantEdit, Refused> {
    let GrantChanges { label, servers, policy, principal, expires } = wanted;
    Ok(GrantEdit {
        label: label.as_deref().map(parse_name).transpose()?,
        servers: servers.as_deref().map(check_server_names).transpose()?,
        policy: policy.as_deref().map(parse_name).transpose()?,
        principal: principal.try_map(check_principal)?,
        expires_at: expires.try_map(|text| parse_expiry(&text, now))?,
    })
}

/// The names without repetitions; at least one.
fn check_server_names(names: &[String]) -> Result<Vec<Name>, Refused> {
    let mut servers: Vec<Name> = Vec::new();
    for text in names {
        let server = parse_name(text)?;
        if !servers.contains(&server) {
            servers.push(server);
        }
    }
    if servers.is_empty() {
        return Err(Refused::Invalid("a grant needs at least one server".into()));
    }
    Ok(servers)
}

fn check_principal(text: String) -> Result<String, Refused> {
    if text.is_empty() || text.chars().count() > 256 || text.chars().any(char::is_control) {
        let message = "`principal` must be 1 to 256 characters, none of them control characters";
        return Err(Refused::Invalid(message.into()));
    }
    Ok(text)
}

/// Parses the expiry of a grant, which must be in the future.
pub(super) fn parse_expiry(text: &str, now: Timestamp) -> Result<Timestamp, Refused> {
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
