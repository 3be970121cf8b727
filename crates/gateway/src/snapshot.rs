//! Servers and policies in force: an immutable value, swapped whole.

use std::{collections::HashMap, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use sluice_bridge::{Bridge, Caller, Offer};
use sluice_builtin::{Builtin, Endpoint};
use sluice_http::{AnswerBody, HttpUpstream, SendError, address::Reach};
use sluice_policy::Policy;
use sluice_stdio::StdioServer;
use sluice_store::{
    AttachedPolicy, Grant, Instances, Name, PolicyRef, Secret, Server, Source, Start, TokenHash,
    Transport,
};
use sluice_upstream::Upstream;
use sluice_wire::mcp::Era;

use crate::{assess::Tools, grants::Holder, settings::Settings, subscriptions::Hub};

/// Everything that may be called and by whom, as the file and the store have it.
#[derive(Debug, Clone, Default)]
pub struct Configuration {
    pub servers: Vec<Server>,
    pub policies: Vec<AttachedPolicy>,
    pub grants: Vec<(TokenHash, Grant)>,
}

/// Something in a configuration that cannot be put in force. Nothing of it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    #[error("server `{server}`: {reason}")]
    Server { server: String, reason: String },
    #[error("policy `{policy}` on server `{server}`: {reason}")]
    Policy { server: String, policy: String, reason: String },
}

/// The servers of our own, by name.
pub type Builtins = HashMap<&'static str, MakeBuiltin>;

/// Makes a server of our own from its options, a JSON object.
pub type MakeBuiltin = fn(&str) -> Result<Arc<dyn Builtin>, String>;

/// One state of all servers.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    servers: HashMap<Box<str>, Arc<ServerState>>,
}

/// One server with the policies attached to it.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) link: Arc<Link>,
    pub(crate) policies: HashMap<Name, Arc<InForce>>,
    pub(crate) anonymous: Option<Arc<Holder>>,
}

/// What lives as long as a server's definition does not change.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) server: Server,
    pub(crate) name: Arc<str>,
    pub(crate) upstream: Upstream,
    /// For clients of an era that the server does not speak. Servers of our own
    /// speak both.
    pub(crate) bridge: Option<Bridge>,
    /// The server's own credential and the like.
    pub(crate) headers: HeaderMap,
    pub(crate) timeout: Duration,
    pub(crate) tools: Tools,
    pub(crate) hub: Hub,
}

/// A policy, compiled.
#[derive(Debug)]
pub(crate) struct InForce {
    pub(crate) reference: PolicyRef,
    pub(crate) policy: Policy,
    pub(crate) needs_definitions: bool,
}

impl Snapshot {
    /// The server of that name.
    pub(crate) fn server(&self, name: &str) -> Option<&Arc<ServerState>> {
        self.servers.get(name)
    }

    /// Builds the state for a configuration; what has not changed is taken over.
    pub(crate) fn build(
        configuration: &Configuration,
        before: &Snapshot,
        settings: &Settings,
        builtins: &Builtins,
    ) -> Result<Snapshot, ApplyError> {
        let mut servers = HashMap::new();
        for server in &configuration.servers {
            let old = before.server(server.name.as_str());
            let link = match old.filter(|old| old.link.server == *server) {
                Some(old) => Arc::clone(&old.link),
                None => Arc::new(Link::new(server, settings, builtins)?),
            };
            let attached =
                configuration.policies.iter().filter(|policy| policy.server == server.name);
            let policies = attached
                .map(|policy| {
                    let same = old.and_then(|old| old.policies.get(&policy.name));
                    let same = same.filter(|same| *same.reference.version == *policy.version);
                    let in_force = same.map_or_else(
                        || InForce::load(policy).map(Arc::new),
                        |same| Ok(Arc::clone(same)),
                    );
                    Ok((policy.name.clone(), in_force?))
                })
                .collect::<Result<_, _>>()?;
            let anonymous = server.anonymous_policy.as_ref();
            let anonymous =
                anonymous.map(|policy| Arc::new(Holder::anonymous(&server.name, policy)));
            let state = ServerState { link, policies, anonymous };
            servers.insert(server.name.as_str().into(), Arc::new(state));
        }
        Ok(Snapshot { servers })
    }
}

impl Snapshot {
    /// The state in which there is one server with one policy.
    pub(crate) fn of_one(
        server: &Server,
        upstream: Upstream,
        policy: &AttachedPolicy,
    ) -> Result<(Snapshot, Arc<ServerState>), ApplyError> {
        let link = Arc::new(Link::over(server, upstream)?);
        let policies = HashMap::from([(policy.name.clone(), Arc::new(InForce::load(policy)?))]);
        let state = Arc::new(ServerState { link, policies, anonymous: None });
        let servers = HashMap::from([(server.name.as_str().into(), Arc::clone(&state))]);
        Ok((Snapshot { servers }, state))
    }
}

impl ServerState {
    /// The policy a grant is judged by here, if there is one of that name.
    pub(crate) fn policy_of(&self, holder: &Holder) -> Option<Arc<InForce>> {
        self.policies.get(&holder.policy).cloned()
    }
}

impl Link {
    fn new(server: &Server, settings: &Settings, builtins: &Builtins) -> Result<Link, ApplyError> {
        let failed =
            |reason: String| ApplyError::Server { server: server.name.as_str().into(), reason };
        let upstream = match &server.transport {
            Transport::Http { url, .. } => {
                // Only the file of whoever runs this machine may name the machine itself.
                let reach = &settings.reach;
                let loopback = reach.loopback || server.source == Source::File;
                let reach = Reach { loopback, ..reach.clone() };
                let server = HttpUpstream::new(url, reach);
                Upstream::Http(server.map_err(|error| failed(error.to_string()))?)
            }
            Transport::Builtin { name, options } => {
                let make = builtins.get(name.as_str());
                let make =
                    make.ok_or_else(|| failed(format!("there is no built-in server `{name}`")))?;
                Upstream::Builtin(Endpoint::new(make(options).map_err(failed)?))
            }
            Transport::Command { command, env, instances, start } => {
                let child = child(server, settings, command, env, *instances);
                if *start == Start::Up {
                    let child = Arc::clone(&child);
                    tokio::spawn(async move { child.begin().await });
                }
                Upstream::Stdio(child)
            }
        };
        Link::over(server, upstream)
    }

    /// A server that is reached in this way.
    fn over(server: &Server, upstream: Upstream) -> Result<Link, ApplyError> {
        let failed = |reason| ApplyError::Server { server: server.name.as_str().into(), reason };
        let headers = credentials(&server.transport).map_err(failed)?;
        let offer = match server.bridge {
            sluice_store::Bridge::OwnEra => Offer::OwnEra,
            sluice_store::Bridge::Modern => Offer::Modern,
        };
        let speaks_both = matches!(upstream, Upstream::Builtin(_));
        Ok(Link {
            bridge: (!speaks_both).then(|| Bridge::new(upstream.clone(), offer)),
            server: server.clone(),
            name: server.name.as_str().into(),
            upstream,
            headers,
            timeout: server.timeout,
            tools: Tools::default(),
            hub: Hub::default(),
        })
    }
}

impl Link {
    /// Sends a request of this era, to a server of whichever.
    pub(crate) async fn send(
        &self,
        era: Era,
        request: Box<Request<Bytes>>,
        caller: impl FnOnce() -> Caller,
    ) -> Result<Response<AnswerBody>, SendError> {
        // Pinned where they are, because what is awaited is moved first.
        match &self.bridge {
            Some(bridge) => pin!(bridge.send(era, request, caller)).await,
            None => pin!(self.upstream.send(request)).await,
        }
    }
}

/// A server that is a command; nothing is started yet.
fn child(
    server: &Server,
    settings: &Settings,
    command: &[String],
    env: &[(String, Secret)],
    instances: Instances,
) -> Arc<StdioServer> {
    let env = env.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect();
    let program = sluice_stdio::Program { command: command.to_vec(), env };
    let instances = match instances {
        Instances::Shared => sluice_stdio::Instances::Shared,
        Instances::Session => sluice_stdio::Instances::Session,
    };
    let launch = settings.launch.clone();
    let limits = sluice_stdio::Limits { message: settings.answer, patience: Some(server.timeout) };
    Arc::new(StdioServer::new(server.name.as_str(), launch, program, instances, limits))
}

fn credentials(transport: &Transport) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let Transport::Http { headers: declared, .. } = transport else { return Ok(headers) };
    for (name, value) in declared {
        let parsed = HeaderName::try_from(name.as_str())
            .map_err(|_| format!("`{name}` is no header name"))?;
        let mut value = HeaderValue::try_from(value.expose()).map_err(|_| {
            format!("the value of header `{name}` has characters that no header can carry")
        })?;
        value.set_sensitive(true);
        headers.insert(parsed, value);
    }
    Ok(headers)
}

impl InForce {
    fn load(attached: &AttachedPolicy) -> Result<InForce, ApplyError> {
        let policy =
            sluice_policy::load(attached.text.as_bytes(), attached.format).map_err(|problems| {
                let reason =
                    problems.first().map_or_else(String::new, |problem| problem.message.clone());
                ApplyError::Policy {
                    server: attached.server.as_str().into(),
                    policy: attached.name.as_str().into(),
                    reason,
                }
            })?;
        let reference = PolicyRef {
            name: attached.name.as_str().into(),
            version: attached.version.as_str().into(),
        };
        let needs_definitions = policy.depends_on_definitions();
        Ok(InForce { reference, policy, needs_definitions })
    }
}
