//! The context of one client request: its grant, server, policy, session, protocol version
//! and headers.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use sluice_policy::{AccessDenial, AccessRequest, Facts, Policy, Timestamp, shows};
use sluice_store::{Id, TokenHash, new_id};
use sluice_wire::mcp::{Era, Revision};
use tokio::time::Instant;

use crate::{
    authenticate::Caller,
    gateway::Inner,
    grants::Holder,
    session::Session,
    snapshot::{InForce, ServerState},
};

/// Everything that is known before a message is examined. One exchange sees one policy,
/// even if the configuration changes meanwhile.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    pub(crate) gateway: Arc<Inner>,
    pub(crate) holder: Arc<Holder>,
    pub(crate) server: Arc<ServerState>,
    pub(crate) policy: Option<Arc<InForce>>,
    pub(crate) session: Option<Session>,
    pub(crate) revision: Revision,
    pub(crate) headers: HeaderMap,
    /// Whether it is a part of a message to all servers, which has the grant's share already,
    /// and seals the ids of events itself.
    pub(crate) is_part: bool,
    /// The server's own id of the event after which a stream is resumed.
    pub(crate) resumes_after: Option<HeaderValue>,
    /// The hash of the caller's token; `None` for anonymous callers.
    pub(crate) token: Option<TokenHash>,
    /// The id that links the decision, its outcome and the log lines.
    pub(crate) request: Id,
    pub(crate) at: Timestamp,
    pub(crate) started: Instant,
}

/// The tools of a server that a caller may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolView {
    version: Option<Arc<str>>,
    /// The names, if the server's list is known.
    shown: Option<Vec<String>>,
}

impl ToolView {
    /// Whether a client that has seen this view must list the tools again. If the list is
    /// unknown, a different policy version is reason enough.
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
            is_part: false,
            resumes_after: None,
            token,
            request: new_id(at),
            at,
            started: Instant::now(),
        }
    }

    /// The same exchange under the current configuration; `None` if the server or the
    /// grant is gone, or the grant no longer includes the server.
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
            is_part: self.is_part,
            resumes_after: self.resumes_after.clone(),
            token: self.token,
            request: self.request,
            at: now,
            started: self.started,
        })
    }

    /// The tools that this caller sees now, to be compared with a later view.
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

    /// The policy that applies, if there is one.
    pub(crate) fn rules(&self) -> Option<&Policy> {
        self.policy.as_ref().map(|in_force| &in_force.policy)
    }

    /// Asks the policy about something that is not a tool call.
    pub(crate) fn check_access(&self, request: AccessRequest<'_>) -> Result<(), AccessDenial> {
        match self.rules() {
            Some(policy) => policy.check_access(request),
            None => Err(AccessDenial { rule: "(no policy)".into(), in_shadow: false }),
        }
    }

    /// Whether the policy permits something, or only policies in shadow mode deny it.
    pub(crate) fn lets_pass(&self, request: AccessRequest<'_>) -> bool {
        self.check_access(request).err().is_none_or(|denial| denial.in_shadow)
    }

    pub(crate) fn is_modern(&self) -> bool {
        self.revision.era() == Era::Modern
    }

    pub(crate) fn server_name(&self) -> &str {
        &self.server.link.name
    }
}
