//! An immutable snapshot of the servers and compiled policies in force, rebuilt and swapped
//! whole on each change.

use std::{collections::HashMap, slice, sync::Arc};

use sluice_builtin::Builtin;
use sluice_policy::Policy;
use sluice_store::{AttachedPolicy, Grant, Name, PolicyRef, Server, TokenHash};
use sluice_upstream::Upstream;

use crate::{grants::Holder, link::Link, settings::Settings};

/// All servers, policies and grants, from the file and the store.
#[derive(Debug, Clone, Default)]
pub struct Configuration {
    pub servers: Vec<Server>,
    pub policies: Vec<AttachedPolicy>,
    pub grants: Vec<(TokenHash, Grant)>,
}

/// The part of a configuration that cannot be applied. Nothing of the configuration is
/// then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    #[error("server `{server}`: {reason}")]
    Server { server: String, reason: String },
    #[error("policy `{policy}` on server `{server}`: {reason}")]
    Policy { server: String, policy: String, reason: String },
}

/// The built-in servers, by name.
pub type Builtins = HashMap<&'static str, MakeBuiltin>;

/// Makes a built-in server from its options, a JSON object.
pub type MakeBuiltin = fn(&str) -> Result<Arc<dyn Builtin>, String>;

/// The state of all servers at one time.
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

/// A compiled policy.
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

    /// All servers.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &Link> {
        self.servers.values().map(|server| &*server.link)
    }

    /// Builds the state for a configuration; unchanged parts are taken over.
    pub(crate) fn build(
        configuration: &Configuration,
        before: &Snapshot,
        settings: &Settings,
        builtins: &Builtins,
    ) -> Result<Snapshot, ApplyError> {
        let mut servers = HashMap::new();
        for server in &configuration.servers {
            let old = before.server(server.name.as_str());
            let link = Link::build(server, old.map(|old| &old.link), settings, builtins)?;
            let policies = load_policies(&configuration.policies, &server.name, old)?;
            let anonymous = server.anonymous_policy.as_ref();
            let anonymous =
                anonymous.map(|policy| Arc::new(Holder::anonymous(&server.name, policy)));
            let state = ServerState { link, policies, anonymous };
            servers.insert(server.name.as_str().into(), Arc::new(state));
        }
        Ok(Snapshot { servers })
    }

    /// Tells the links of a configuration that they are now current.
    pub(crate) fn take_effect(&self, configuration: &Configuration, before: &Snapshot) {
        for name in configuration.servers.iter().map(|server| server.name.as_str()) {
            if let Some(server) = self.server(name) {
                server.link.take_effect(before.server(name).map(|old| &*old.link));
            }
        }
    }

    /// A state with one server and one policy.
    pub(crate) fn of_one(
        server: &Server,
        upstream: Upstream,
        policy: &AttachedPolicy,
        settings: &Settings,
    ) -> Result<(Snapshot, Arc<ServerState>), ApplyError> {
        let link = Arc::new(Link::over(server, upstream, settings)?);
        let others = slice::from_ref(policy);
        let in_force = InForce::load(policy, policy.version_in_force(others), others)?;
        let policies = HashMap::from([(policy.name.clone(), Arc::new(in_force))]);
        let state = Arc::new(ServerState { link, policies, anonymous: None });
        let servers = HashMap::from([(server.name.as_str().into(), Arc::clone(&state))]);
        Ok((Snapshot { servers }, state))
    }
}

impl ServerState {
    /// The policy that applies to a grant on this server, if it exists.
    pub(crate) fn policy_of(&self, holder: &Holder) -> Option<Arc<InForce>> {
        self.policies.get(&holder.policy).cloned()
    }
}

/// The policies of a server, compiled; those whose texts and bases are the same are taken over.
fn load_policies(
    all: &[AttachedPolicy],
    server: &Name,
    old: Option<&Arc<ServerState>>,
) -> Result<HashMap<Name, Arc<InForce>>, ApplyError> {
    let mut policies = HashMap::new();
    for policy in all.iter().filter(|policy| policy.server == *server) {
        let version = policy.version_in_force(all);
        let same = old.and_then(|old| old.policies.get(&policy.name));
        let same = same.filter(|same| *same.reference.version == *version);
        let in_force = match same {
            Some(same) => Ok(Arc::clone(same)),
            None => InForce::load(policy, version, all).map(Arc::new),
        };
        match in_force {
            Ok(in_force) => {
                policies.insert(policy.name.clone(), in_force);
            }
            // What a policy extends may go away after it was put in force. Its grants have no
            // policy then, so that nothing is allowed; others are not affected.
            Err(error) if policy.extends_another() => {
                tracing::error!(%error, "a policy is not in force");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(policies)
}

impl InForce {
    fn load(
        attached: &AttachedPolicy,
        version: String,
        all: &[AttachedPolicy],
    ) -> Result<InForce, ApplyError> {
        let policy = attached.compile(all).map_err(|problems| {
            let reason =
                problems.first().map_or_else(String::new, |problem| problem.message.clone());
            ApplyError::Policy {
                server: attached.server.as_str().into(),
                policy: attached.name.as_str().into(),
                reason,
            }
        })?;
        let reference = PolicyRef { name: attached.name.as_str().into(), version: version.into() };
        let needs_definitions = policy.depends_on_definitions();
        Ok(InForce { reference, policy, needs_definitions })
    }
}
