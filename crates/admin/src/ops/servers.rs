//! Servers: adds and removes them, and lists their tools.

use std::{collections::BTreeMap, time::Duration};

use sluice_config::{declare, span};
use sluice_store::{Actor, AttachedPolicy, Bridge, Edit, Name, Secret, Server, Source, Transport};

use super::{Ops, Refused, build_edit, parse_name};
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
        found.cloned().ok_or_else(|| Refused::Missing(format!("server `{wanted}`")))
    }

    /// Adds a server; calls are forwarded to it from then on.
    pub(crate) async fn add_server(
        &self,
        wanted: WantedServer,
        actor: &Actor,
    ) -> Result<Server, Refused> {
        let server = check_server(wanted)?;
        let _writing = self.writing.lock().await;
        let named = format!("server `{}`", server.name);
        match self.server(&server.name) {
            Ok(Server { source: Source::File, .. }) => return Err(Refused::Declared(named)),
            Ok(_) => {
                let hint = "remove it first, or choose another name";
                return Err(Refused::Conflict(format!("{named} is there already\nhint: {hint}")));
            }
            Err(_) => {}
        }
        self.store.put_server(server.clone(), edit_server(actor, &server.name, "added")).await?;
        if let Err(error) = self.live.take_stored().await {
            let back = edit_server(actor, &server.name, "taken back");
            self.store.remove_server(&server.name, back).await?;
            return Err(Refused::Conflict(error.to_string()));
        }
        Ok(server)
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
        let (server, policies) = self.read_stored(wanted).await?;
        self.store.remove_server(wanted, edit_server(actor, wanted, "removed")).await?;
        if let Err(error) = self.live.take_stored().await {
            self.store.put_server(server, edit_server(actor, wanted, "put back")).await?;
            for policy in policies {
                self.store.put_policy(policy, edit_server(actor, wanted, "put back")).await?;
            }
            return Err(Refused::Conflict(error.to_string()));
        }
        Ok(())
    }

    /// A server as it is stored, and its policies.
    async fn read_stored(&self, wanted: &Name) -> Result<(Server, Vec<AttachedPolicy>), Refused> {
        let stored = self.store.snapshot().await?;
        let server = stored.servers.into_iter().find(|server| server.name == *wanted);
        let server = server.ok_or_else(|| Refused::Missing(format!("server `{wanted}`")))?;
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

fn edit_server(actor: &Actor, server: &Name, what: &str) -> Edit {
    build_edit(actor, format!("server `{server}` {what}"))
}

fn check_server(wanted: WantedServer) -> Result<Server, Refused> {
    let url = declare::server_url(&wanted.url)
        .map_err(|message| Refused::Invalid(format!("`url` {message}")))?;
    let timeout = match &wanted.timeout {
        Some(text) => span::read(text)
            .ok_or_else(|| Refused::Invalid(format!("`timeout` must be {}", span::EXPECTED)))?,
        None => TIMEOUT,
    };
    Ok(Server {
        name: parse_name(&wanted.name)?,
        transport: Transport::Http { url: url.into(), headers: check_headers(wanted.headers)? },
        timeout,
        anonymous_policy: wanted.anonymous_policy.as_deref().map(parse_name).transpose()?,
        bridge: Bridge::default(),
        source: Source::Stored,
    })
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
