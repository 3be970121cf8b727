//! Servers: adds, edits and removes them, and lists their tools.

use std::{collections::BTreeMap, time::Duration};

use sluice_config::{declare, span};
use sluice_store::{
    Actor, AttachedPolicy, Bridge, Edit, Grant, GrantEdit, HiddenText, Name, Patch, Secret, Server,
    Source, Transport,
};

use super::{Ops, Refused, build_edit, parse_name, refuse_missing};
use crate::live::Tool;

/// The default of how long a server may be silent.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A requested server, not yet validated.
pub(crate) struct WantedServer {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) timeout: Option<String>,
    pub(crate) anonymous_policy: Option<String>,
}

/// Changes to a server, not yet validated.
pub(crate) struct ServerChanges {
    pub(crate) url: Option<String>,
    /// Headers to set, or to remove.
    pub(crate) headers: BTreeMap<String, Option<String>>,
    pub(crate) timeout: Option<String>,
    pub(crate) anonymous_policy: Patch<String>,
}

impl Ops {
    /// The active servers, by name.
    pub(crate) fn servers(&self) -> Vec<Server> {
        let mut servers = self.live.in_force().servers.clone();
        servers.sort_by(|one, other| one.name.cmp(&other.name));
        servers
    }

    /// The server with this name.
    pub(crate) fn server(&self, wanted: &Name) -> Result<Server, Refused> {
        let in_force = self.live.in_force();
        let found = in_force.servers.iter().find(|server| server.name == *wanted);
        found.cloned().ok_or_else(|| {
            let names = in_force.servers.iter().map(|server| server.name.as_str());
            refuse_missing(&format!("server `{wanted}`"), wanted.as_str(), names)
        })
    }

    /// Adds a server; calls are forwarded to it from then on.
    pub(crate) async fn add_server(
        &self,
        wanted: WantedServer,
        actor: &Actor,
    ) -> Result<Server, Refused> {
        let server = check_server(wanted)?;
        self.check_address(&server).await?;
        let _writing = self.writing.lock().await;
        let named = format!("server `{}`", server.name);
        match self.server(&server.name) {
            Ok(Server { source: Source::File, .. }) => {
                let hint = "choose another name; a file declares this one";
                return Err(Refused::Conflict(format!("{named} is there already\nhint: {hint}")));
            }
            Ok(_) => {
                let hint = "remove it first, or choose another name";
                return Err(Refused::Conflict(format!("{named} is there already\nhint: {hint}")));
            }
            Err(_) => {}
        }
        self.forget_namesake(&server.name, actor).await?;
        self.store.put_server(server.clone(), edit_server(actor, &server.name, "added")).await?;
        if let Err(error) = self.live.take_stored().await {
            let back = edit_server(actor, &server.name, "taken back");
            self.store.remove_server(&server.name, back).await?;
            return Err(Refused::Conflict(error.to_string()));
        }
        Ok(server)
    }

    /// Changes a stored server; its policies stay attached.
    pub(crate) async fn edit_server(
        &self,
        wanted: &Name,
        changes: ServerChanges,
        actor: &Actor,
    ) -> Result<Server, Refused> {
        let _writing = self.writing.lock().await;
        match self.server(wanted)? {
            Server { transport: Transport::Command { .. }, .. } => return Err(Refused::Command),
            Server { source: Source::File, .. } => {
                return Err(Refused::Declared(format!("server `{wanted}`")));
            }
            _ => {}
        }
        let (before, _) = self.read_stored(wanted).await?;
        let (after, what) = check_changes(before.clone(), changes)?;
        if after.transport != before.transport {
            self.check_address(&after).await?;
        }
        let edited = edit_server(actor, wanted, &format!("edited: {what}"));
        self.store.put_server(after.clone(), edited).await?;
        if let Err(error) = self.live.take_stored().await {
            self.store.put_server(before, edit_server(actor, wanted, "put back")).await?;
            return Err(Refused::Conflict(error.to_string()));
        }
        Ok(after)
    }

    /// Removes a stored server and the policies attached to it.
    pub(crate) async fn remove_server(&self, wanted: &Name, actor: &Actor) -> Result<(), Refused> {
        let _writing = self.writing.lock().await;
        match self.server(wanted) {
            Ok(Server { transport: Transport::Command { .. }, .. }) => {
                return Err(Refused::Command);
            }
            Ok(Server { source: Source::File, .. }) => {
                return Err(Refused::Declared(format!("server `{wanted}`")));
            }
            _ => {}
        }
        let (server, policies) = match self.read_stored(wanted).await {
            Err(Refused::Missing(_)) if self.forget_undeclared(wanted, actor).await? => {
                return Ok(());
            }
            read => read?,
        };
        let grants = self.grants_of(wanted).await?;
        let what = match list_labels(&grants).as_str() {
            "" => "removed".to_owned(),
            labels => format!("removed, and taken out of the grants {labels}"),
        };
        self.store.remove_server(wanted, edit_server(actor, wanted, &what)).await?;
        if let Err(error) = self.live.take_stored().await {
            self.store.put_server(server, edit_server(actor, wanted, "put back")).await?;
            for policy in policies {
                self.store.put_policy(policy, edit_server(actor, wanted, "put back")).await?;
            }
            for Grant { id, servers, .. } in grants {
                let back = GrantEdit { servers: Some(servers), ..GrantEdit::default() };
                let edit = edit_server(actor, wanted, "put back");
                self.store.edit_grant(&id, back, edit).await?;
            }
            return Err(Refused::Conflict(error.to_string()));
        }
        Ok(())
    }

    /// Refuses a server that could never be called because of its address.
    async fn check_address(&self, server: &Server) -> Result<(), Refused> {
        let Transport::Http { url, .. } = &server.transport else { return Ok(()) };
        let allowed = self.live.check_address(url).await;
        allowed.map_err(|why| Refused::Invalid(format!("`url` is refused: {why}")))
    }

    /// The stored grants that name a server and are not revoked.
    async fn grants_of(&self, server: &Name) -> Result<Vec<Grant>, Refused> {
        let mut grants = self.store.grants().await?;
        grants.retain(|grant| grant.revoked_at.is_none() && grant.servers.contains(server));
        Ok(grants)
    }

    /// Forgets what the store holds of a server that files no longer declare; returns whether they
    /// did before.
    async fn forget_undeclared(&self, server: &Name, actor: &Actor) -> Result<bool, Refused> {
        let labels = list_labels(&self.grants_of(server).await?);
        let what = match labels.as_str() {
            "" => "is no longer declared: its policies are removed".to_owned(),
            labels => format!(
                "is no longer declared: its policies are removed, and it is taken out of the grants {labels}"
            ),
        };
        let was_known = self.store.remove_server(server, edit_server(actor, server, &what)).await?;
        if was_known && let Err(error) = self.live.take_stored().await {
            return Err(Refused::Conflict(error.to_string()));
        }
        Ok(was_known)
    }

    /// Forgets what the store holds of an earlier server, which a file declared, under the name of
    /// one that is added: its policies and the grants that name it must not come back by themselves.
    async fn forget_namesake(&self, server: &Name, actor: &Actor) -> Result<(), Refused> {
        let grants = self.grants_of(server).await?;
        let policies = self.store.policies().await?;
        if grants.is_empty() && policies.iter().all(|policy| policy.server != *server) {
            return Ok(());
        }
        let what = match list_labels(&grants).as_str() {
            "" => "before it was added: its policies are removed".to_owned(),
            labels => format!(
                "before it was added: its policies are removed, and it is taken out of the grants {labels}"
            ),
        };
        self.store.remove_server(server, edit_server(actor, server, &what)).await?;
        Ok(())
    }

    /// A server as it is stored, and its policies.
    async fn read_stored(&self, wanted: &Name) -> Result<(Server, Vec<AttachedPolicy>), Refused> {
        let stored = self.store.snapshot().await?;
        let server = stored.servers.into_iter().find(|server| server.name == *wanted);
        let server = server.ok_or_else(|| {
            let missing = || Refused::Missing(format!("server `{wanted}`"));
            self.server(wanted).err().unwrap_or_else(missing)
        })?;
        let of_server = |policy: &AttachedPolicy| policy.server == *wanted;
        let policies = stored.policies.into_iter().filter(of_server).collect();
        Ok((server, policies))
    }

    /// A server's tools, fetched again if `fresh`.
    pub(crate) async fn tools(&self, wanted: &Name, fresh: bool) -> Result<Vec<Tool>, Refused> {
        self.server(wanted)?;
        let tools = self.live.tools(wanted, fresh).await;
        tools.map_err(|why| Refused::Silent { server: wanted.clone(), why })
    }
}

/// The labels of grants, for a sentence.
fn list_labels(grants: &[Grant]) -> String {
    grants.iter().map(|grant| format!("`{}`", grant.label)).collect::<Vec<_>>().join(", ")
}

fn edit_server(actor: &Actor, server: &Name, what: &str) -> Edit {
    build_edit(actor, format!("server `{server}` {what}"))
}

fn check_server(wanted: WantedServer) -> Result<Server, Refused> {
    let url = check_url(&wanted.url)?;
    Ok(Server {
        name: parse_name(&wanted.name)?,
        transport: Transport::Http { url, headers: check_headers(wanted.headers)? },
        timeout: wanted.timeout.as_deref().map_or(Ok(TIMEOUT), check_timeout)?,
        anonymous_policy: wanted.anonymous_policy.as_deref().map(parse_name).transpose()?,
        bridge: Bridge::default(),
        hidden_text: HiddenText::default(),
        mask_secrets: true,
        source: Source::Stored,
    })
}

fn check_url(text: &str) -> Result<Secret, Refused> {
    let url = declare::server_url(text);
    url.map(|url| Secret::new(url.into()))
        .map_err(|message| Refused::Invalid(format!("`url` {message}")))
}

fn check_timeout(text: &str) -> Result<Duration, Refused> {
    let span = span::read(text);
    span.ok_or_else(|| Refused::Invalid(format!("`timeout` must be {}", span::EXPECTED)))
}

/// The server after the changes, and their names for the audit record. Values may be
/// secrets, so they are not in it.
fn check_changes(before: Server, changes: ServerChanges) -> Result<(Server, String), Refused> {
    let ServerChanges { url, headers, timeout, anonymous_policy } = changes;
    let Transport::Http { url: old_url, headers: old_headers } = before.transport else {
        return Err(Refused::Command);
    };
    let mut what = Vec::new();
    what.extend(url.is_some().then(|| "url".to_owned()));
    what.extend(headers.keys().map(|name| format!("header `{}`", name.to_ascii_lowercase())));
    what.extend(timeout.is_some().then(|| "timeout".to_owned()));
    what.extend((anonymous_policy != Patch::Keep).then(|| "anonymous policy".to_owned()));
    let url = match url {
        Some(text) => check_url(&text)?,
        None => old_url,
    };
    let after = Server {
        transport: Transport::Http { url, headers: change_headers(old_headers, &headers)? },
        timeout: timeout.as_deref().map_or(Ok(before.timeout), check_timeout)?,
        anonymous_policy: anonymous_policy
            .try_map(|text| parse_name(&text))?
            .apply(before.anonymous_policy),
        ..before
    };
    let what = if what.is_empty() { "nothing".into() } else { what.join(", ") };
    Ok((after, what))
}

/// The headers after some were set or removed.
fn change_headers(
    mut headers: Vec<(String, Secret)>,
    changes: &BTreeMap<String, Option<String>>,
) -> Result<Vec<(String, Secret)>, Refused> {
    let set = changes.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?)));
    let set = check_headers(set.collect())?;
    headers.retain(|(name, _)| !changes.keys().any(|changed| changed.eq_ignore_ascii_case(name)));
    headers.extend(set);
    Ok(headers)
}

fn check_headers(wanted: BTreeMap<String, String>) -> Result<Vec<(String, Secret)>, Refused> {
    let mut headers: Vec<(String, Secret)> = Vec::new();
    for (key, value) in wanted {
        let header = declare::header_name(&key).map_err(Refused::Invalid)?;
        if headers.iter().any(|(known, _)| known == header.as_str()) {
            return Err(Refused::Invalid(format!("header `{header}` is there twice")));
        }
        declare::check_header_value(&header, &value).map_err(Refused::Invalid)?;
        headers.push((header.to_string(), Secret::new(value)));
    }
    Ok(headers)
}
