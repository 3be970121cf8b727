//! A client's request while it is handled: the grant, the server, the policy and the
//! session.

use std::sync::Arc;

use http::HeaderMap;
use sluice_policy::{Facts, Mode, Policy, Timestamp, shows};
use sluice_store::{Id, TokenHash, new_id};
use sluice_wire::mcp::{Era, Revision};
use tokio::time::Instant;

use crate::{
    gateway::Inner,
    grants::Holder,
    identify::Caller,
    session::Session,
    snapshot::{InForce, ServerState},
};

/// Everything that is settled before a message is looked at. One exchange sees one
/// policy, whatever is swapped meanwhile.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    pub(crate) gateway: Arc<Inner>,
    pub(crate) holder: Arc<Holder>,
    pub(crate) server: Arc<ServerState>,
    pub(crate) policy: Option<Arc<InForce>>,
    pub(crate) session: Option<Session>,
    pub(crate) revision: Revision,
    pub(crate) headers: HeaderMap,
    /// What the caller has shown; none of anonymous ones.
    pub(crate) token: Option<TokenHash>,
    /// What decision, outcome and log have in common.
    pub(crate) request: Id,
    pub(crate) at: Timestamp,
    pub(crate) started: Instant,
}

/// What a caller sees of a server's tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolView {
    version: Option<Arc<str>>,
    /// The names, if the server's list is known.
    shown: Option<Vec<String>>,
}

impl ToolView {
    /// Whether somebody who had this view must look again. Where the list is
    /// not known, another policy is reason enough.
    pub(crate) fn differs(&self, other: &ToolView) -> bool {
        match (&self.shown, &other.shown) {
            (Some(shown), Some(others)) => shown != others,
            _ => self.version != other.version,
        }
    }
}

impl Exchange {
    pub(crate) fn new(
        gateway: Arc<Inner>,
        caller: Caller,
        server: Arc<ServerState>,
        headers: HeaderMap,
    ) -> Exchange {
        let Caller { holder, token } = caller;
        let at = gateway.settings.clock.now();
        let policy = server.policy_of(&holder);
        Exchange {
            gateway,
            holder,
            server,
            policy,
            session: None,
            revision: Revision::UNSAID,
            headers,
            token,
            request: new_id(at),
            at,
            started: Instant::now(),
        }
    }

    /// The same exchange under the rules that are in force now; `None` if there is
    /// nothing left to exchange, or nobody who may.
    pub(crate) fn renew(&self) -> Option<Exchange> {
        let gateway = Arc::clone(&self.gateway);
        let server = gateway.config.server(self.server_name())?;
        let holder = match &self.token {
            Some(token) => gateway.config.grant(token)?,
            None => Arc::clone(server.anonymous.as_ref()?),
        };
        let now = gateway.settings.clock.now();
        let is_same =
            holder.id() == self.holder.id() && server.link.shares_state(&self.server.link);
        if !is_same || !holder.is_valid(now) || !holder.servers.contains(&server.link.server.name) {
            return None;
        }
        let policy = server.policy_of(&holder);
        Some(Exchange {
            gateway,
            holder,
            server,
            policy,
            session: self.session.clone(),
            revision: self.revision,
            headers: HeaderMap::new(),
            token: self.token,
            request: self.request,
            at: now,
            started: self.started,
        })
    }

    /// What of the server's tools this caller sees, so that two views can be
    /// told apart.
    pub(crate) fn view(&self) -> ToolView {
        let version = self.policy.as_ref().map(|in_force| Arc::clone(&in_force.reference.version));
        let shown = self.server.link.state.tools.tool_list().map(|list| {
            let shown = list
                .all()
                .filter(|(name, facts, _)| shows(self.rules(), name, Facts::Known(facts)));
            let mut names: Vec<_> = shown.map(|(name, _, _)| name.to_owned()).collect();
            names.sort_unstable();
            names
        });
        ToolView { version, shown }
    }

    /// The policy that decides, if there is one.
    pub(crate) fn rules(&self) -> Option<&Policy> {
        self.policy.as_ref().map(|in_force| &in_force.policy)
    }

    /// Whether a policy that only watches decides.
    pub(crate) fn is_shadow(&self) -> bool {
        self.rules().is_some_and(|policy| policy.mode() == Mode::Shadow)
    }

    /// Whether the policy lets something pass, or would not but only watches.
    pub(crate) fn lets_pass(&self, permits: impl Fn(&Policy) -> bool) -> bool {
        self.is_shadow() || self.rules().is_some_and(permits)
    }

    pub(crate) fn is_modern(&self) -> bool {
        self.revision.era() == Era::Modern
    }

    pub(crate) fn server_name(&self) -> &str {
        &self.server.link.name
    }
}
