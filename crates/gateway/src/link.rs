//! One server as the gateway reaches it: its definition (`Link`) and, separately, its
//! state (`LinkState`). Clients' requests to the server go through [`Link::send`], which
//! takes a `Permitted` and attaches the server's credential. The gateway's own client
//! ([`LinkState::introduce`]) builds its messages itself, and gets the credential from
//! `assess::fetch`.
//!
//! A definition is immutable and replaced whole when the configuration changes. The
//! state (known protocol and tools, connections, sessions) passes to the new definition if
//! the endpoint is the same, so a new timeout loses none of it. If the credential changes,
//! the protocol, connections and tools are kept; streams and bridge sessions are reopened.

use std::{borrow::Cow, sync::Arc, time::Duration};

use http::{HeaderMap, Request, Response};
use sluice_bridge::{Bridge, Caller, Offer};
use sluice_builtin::Endpoint;
use sluice_http::{AnswerBody, HttpUpstream, Outdated, SendError, ServerProtocol, address::Reach};
use sluice_stdio::{self as stdio, StdioServer};
use sluice_store::{Instances, Secret, Server, Source, Start, Transport};
use sluice_upstream::{
    Upstream,
    client::{Client, ClientError, Declares},
};
use sluice_wire::{
    json::Bounds,
    mcp::{Era, Revision},
    secrets::Secrets,
};

use crate::{
    assess::Tools,
    credential::Credential,
    hops::Hops,
    reserve::Permitted,
    settings::Settings,
    shares::Usage,
    snapshot::{ApplyError, Builtins},
    subscriptions::Hub,
};

/// A server's definition, with the state behind it.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) server: Server,
    pub(crate) name: Arc<str>,
    pub(crate) credential: Credential,
    hops: Hops,
    pub(crate) timeout: Duration,
    secrets: Secrets,
    pub(crate) state: Arc<LinkState>,
}

/// The state that outlives a change of the definition.
///
/// `protocol` is shared with what detects its parts: `bridge` notes the eras, `upstream` the
/// HTTP transport. Each is detected once, and again when it stops working.
#[derive(Debug)]
pub(crate) struct LinkState {
    protocol: Arc<ServerProtocol>,
    /// The endpoint, with its connections or processes. Private, so that only permitted
    /// requests and those of the gateway's own client are sent to it.
    upstream: Upstream,
    /// Translates for clients of an era that the server does not speak, and holds their
    /// sessions. Built-in servers speak both eras and have none.
    bridge: Option<Bridge>,
    pub(crate) tools: Arc<Tools>,
    /// Subscriptions that clients share.
    pub(crate) hub: Hub,
    pub(crate) usage: Arc<Usage>,
}

/// What the gateway keeps for each session of a legacy client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionCost {
    Nothing,
    Memory,
    Process,
    /// A connection to a server of the oldest transport.
    Connection,
}

impl Link {
    /// The link for a definition. It takes over the state of the previous link if the
    /// endpoint is the same.
    pub(crate) fn build(
        server: &Server,
        before: Option<&Arc<Link>>,
        settings: &Settings,
        builtins: &Builtins,
    ) -> Result<Arc<Link>, ApplyError> {
        if let Some(before) = before.filter(|before| before.server == *server) {
            return Ok(Arc::clone(before));
        }
        let credential = read_credential(server)?;
        let state = match before.filter(|before| is_same_endpoint(&before.server, server)) {
            Some(before)
                if before.credential == credential
                    && before.server.mask_secrets == server.mask_secrets =>
            {
                Arc::clone(&before.state)
            }
            Some(before) => Arc::new(before.state.begin_again(server)),
            None => Arc::new(LinkState::new(server, build_upstream(server, settings, builtins)?)),
        };
        Ok(Arc::new(Link::define(server, credential, &settings.hops, state)))
    }

    /// The link to a server behind this upstream, whose secrets it knows if it is a command.
    pub(crate) fn over(
        server: &Server,
        upstream: Upstream,
        settings: &Settings,
    ) -> Result<Link, ApplyError> {
        let is_masked = matches!(server.transport, Transport::Command { .. });
        let upstream = if is_masked { upstream } else { mask(server, upstream) };
        let state = Arc::new(LinkState::new(server, upstream));
        Ok(Link::define(server, read_credential(server)?, &settings.hops, state))
    }

    fn define(server: &Server, credential: Credential, hops: &Hops, state: Arc<LinkState>) -> Link {
        Link {
            server: server.clone(),
            name: server.name.as_str().into(),
            credential,
            hops: hops.clone(),
            timeout: server.timeout,
            secrets: state.upstream.secrets(),
            state,
        }
    }

    /// A text of the server without its secrets, for a log line, a record or an error.
    pub(crate) fn without_secrets<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.secrets.mask(text)
    }

    /// How many secrets were removed from answers to agents.
    pub(crate) fn count_masked(&self) -> u64 {
        self.secrets.count_masked()
    }

    /// Whether two definitions have the same endpoint and credential, and thus the same
    /// state.
    pub(crate) fn shares_state(&self, other: &Link) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// Makes this definition current: starts a command that is to run from the start, and
    /// tells state that was taken over what has changed.
    pub(crate) fn take_effect(&self, before: Option<&Link>) {
        if let Upstream::Stdio(child) = self.state.upstream.server() {
            child.set_timeout(self.timeout);
            let is_started =
                before.is_some_and(|before| before.shares_state(self) && starts_up(&before.server));
            if starts_up(&self.server) && !is_started {
                let child = Arc::clone(child);
                tokio::spawn(async move { child.begin().await });
            }
        }
        if before.is_some_and(|before| before.credential != self.credential) {
            // The server may show other tools for another credential.
            self.state.tools.mark_stale();
        }
        if before.is_some_and(|before| before.server.hidden_text != self.server.hidden_text) {
            // Other tools may be withheld.
            self.state.tools.mark_stale();
        }
    }

    /// The headers of requests that the gateway makes for itself.
    pub(crate) fn own_headers(&self) -> HeaderMap {
        let mut headers = self.credential.to_headers();
        self.hops.add_to(&mut headers);
        headers
    }

    /// Sends a permitted request of this era to a server of either era, with these
    /// headers and the server's credential.
    pub(crate) async fn send(
        &self,
        era: Era,
        mut headers: HeaderMap,
        permitted: &Permitted,
        caller: impl FnOnce() -> Caller,
    ) -> Result<Response<AnswerBody>, SendError> {
        let outgoing = permitted.request();
        self.credential.add_to(&mut headers);
        self.hops.add_to(&mut headers);
        // Boxed, because it is moved through several layers.
        let mut request = Box::new(Request::new(outgoing.body.clone()));
        *request.method_mut() = outgoing.method.clone();
        *request.headers_mut() = headers;
        if let Some(lease) = &outgoing.lease {
            request.extensions_mut().insert(lease.clone());
        }
        match &self.state.bridge {
            // Its own errors may quote the server too.
            Some(bridge) => {
                let sent = bridge.send(era, request, caller).await;
                sent.map_err(|error| self.state.upstream.mask_error(error))
            }
            None => self.state.upstream.send(request).await,
        }
    }
}

impl LinkState {
    fn new(server: &Server, upstream: Upstream) -> LinkState {
        let protocol = Arc::default();
        let upstream = upstream.with_protocol(&protocol);
        LinkState::with(server, protocol, upstream, Arc::default())
    }

    /// New state for the same endpoint with another credential.
    fn begin_again(&self, server: &Server) -> LinkState {
        self.protocol.forget(Outdated::Credential);
        let protocol = Arc::clone(&self.protocol);
        let upstream = mask(server, self.upstream.clone());
        LinkState::with(server, protocol, upstream, Arc::clone(&self.tools))
    }

    fn with(
        server: &Server,
        protocol: Arc<ServerProtocol>,
        upstream: Upstream,
        tools: Arc<Tools>,
    ) -> LinkState {
        let offer = match server.bridge {
            sluice_store::Bridge::OwnEra => Offer::OwnEra,
            sluice_store::Bridge::Modern => Offer::Modern,
        };
        let speaks_both = matches!(upstream.server(), Upstream::Builtin(_));
        let bridge = || Bridge::new(upstream.clone(), offer, Arc::clone(&protocol));
        LinkState {
            bridge: (!speaks_both).then(bridge),
            protocol,
            upstream,
            tools,
            hub: Hub::default(),
            usage: Arc::default(),
        }
    }
}

impl LinkState {
    /// Opens a session of the gateway's own client, which builds its messages itself.
    pub(crate) async fn introduce<'s>(
        &'s self,
        headers: &'s HeaderMap,
        bounds: Bounds,
    ) -> Result<Client<'s>, ClientError> {
        let client = Client::introduce(&self.upstream, headers, bounds, Declares::Everything);
        let client = client.await?;
        if let Some(revision) = Revision::from_name(client.revision()) {
            self.learn_era(revision.era());
        }
        Ok(client)
    }

    /// Notes the era that the server speaks, after it was probed in both.
    pub(crate) fn learn_era(&self, era: Era) {
        self.protocol.note_probed(era);
    }

    /// How a legacy server is presented to modern clients, if it is bridged.
    pub(crate) fn offer(&self) -> Option<Offer> {
        self.bridge.as_ref().map(Bridge::offer)
    }

    /// The era of a command that was started for a single client; `None` for other
    /// servers.
    pub(crate) async fn only_child_era(&self) -> Option<Era> {
        match self.upstream.server() {
            Upstream::Only(child) => child.era().await,
            _ => None,
        }
    }

    /// What a session costs that a client begins here.
    pub(crate) fn session_cost(&self) -> SessionCost {
        match self.upstream.server() {
            Upstream::Http(_) if self.protocol.is_streamable() => SessionCost::Nothing,
            Upstream::Http(_) => SessionCost::Connection,
            Upstream::Stdio(server) if server.has_child_per_session() => SessionCost::Process,
            Upstream::Stdio(_) => SessionCost::Memory,
            Upstream::Builtin(_) | Upstream::Only(_) | Upstream::Masked(_) => SessionCost::Nothing,
        }
    }

    /// Whether a session that is kept here is subscribed to a resource.
    pub(crate) fn is_subscribed(&self, session: &str, uri: &str) -> bool {
        match self.upstream.server() {
            Upstream::Stdio(server) => server.is_subscribed(session, uri),
            _ => false,
        }
    }

    pub(crate) fn is_builtin(&self) -> bool {
        matches!(self.upstream.server(), Upstream::Builtin(_))
    }

    /// The last stderr lines of a command, for operators.
    pub(crate) fn last_words(&self) -> Option<String> {
        self.upstream.last_words()
    }

    /// The same, but only for a single client's command that has not introduced itself
    /// yet.
    pub(crate) fn words_at_start(&self) -> Option<String> {
        self.upstream.words_at_start()
    }
}

fn apply_error(server: &Server, reason: String) -> ApplyError {
    ApplyError::Server { server: server.name.as_str().into(), reason }
}

fn read_credential(server: &Server) -> Result<Credential, ApplyError> {
    Credential::read(&server.transport).map_err(|reason| apply_error(server, reason))
}

fn starts_up(server: &Server) -> bool {
    matches!(server.transport, Transport::Command { start: Start::Up, .. })
}

/// Whether two definitions reach the same server in the same way.
fn is_same_endpoint(a: &Server, b: &Server) -> bool {
    let is_same_transport = match (&a.transport, &b.transport) {
        (Transport::Http { url: a, .. }, Transport::Http { url: b, .. }) => a == b,
        (
            Transport::Command { command: a, env: a_env, instances: a_instances, .. },
            Transport::Command { command: b, env: b_env, instances: b_instances, .. },
        ) => a == b && a_env == b_env && a_instances == b_instances,
        (a, b) => a == b,
    };
    // The sources must match too: only the file may name this machine's own addresses.
    is_same_transport && a.name == b.name && a.source == b.source && a.bridge == b.bridge
}

/// The same upstream, whose secrets are removed from what it writes.
fn mask(server: &Server, upstream: Upstream) -> Upstream {
    upstream.mask(server.transport.secrets(), server.mask_secrets)
}

fn build_upstream(
    server: &Server,
    settings: &Settings,
    builtins: &Builtins,
) -> Result<Upstream, ApplyError> {
    Ok(mask(server, connect(server, settings, builtins)?))
}

fn connect(
    server: &Server,
    settings: &Settings,
    builtins: &Builtins,
) -> Result<Upstream, ApplyError> {
    let failed = |reason: String| apply_error(server, reason);
    match &server.transport {
        Transport::Http { url, .. } => {
            // Only the operator's configuration file may name the machine itself.
            let reach = &settings.reach;
            let loopback = reach.loopback || server.source == Source::File;
            let reach = Reach { loopback, ..reach.clone() };
            let upstream = HttpUpstream::new(url.expose(), reach);
            Ok(Upstream::Http(upstream.map_err(|error| failed(error.to_string()))?))
        }
        Transport::Builtin { name, options } => {
            let make = builtins.get(name.as_str());
            let make =
                make.ok_or_else(|| failed(format!("there is no built-in server `{name}`")))?;
            Ok(Upstream::Builtin(Endpoint::new(make(options).map_err(failed)?)))
        }
        Transport::Command { command, env, instances, .. } => {
            Ok(Upstream::Stdio(build_stdio(server, settings, command, env, *instances)))
        }
    }
}

/// A server that is a command; it is not started yet.
fn build_stdio(
    server: &Server,
    settings: &Settings,
    command: &[String],
    env: &[(String, Secret)],
    instances: Instances,
) -> Arc<StdioServer> {
    let env = env.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect();
    let secrets = server.transport.secrets();
    let program = stdio::Program { command: command.to_vec(), env, secrets };
    let instances = match instances {
        Instances::Shared => stdio::Instances::Shared,
        Instances::Session => stdio::Instances::Session,
    };
    let mut launch = settings.launch.clone();
    launch.environment.push(settings.hops.variable());
    let timeout = Some(stdio::Timeout::new(server.timeout));
    let limits = stdio::Limits { message: settings.answer, timeout };
    Arc::new(StdioServer::new(server.name.as_str(), launch, program, instances, limits))
}
