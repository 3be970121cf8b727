//! What requests claim of the resources: a turn for a call, a place for a stream, and a lease
//! for what outlasts its request at the server.

use sluice_http::Lease;
use sluice_wire::json::Value;

use super::{Bound, Resource, Share};
use crate::{
    connections::Slot, exchange::Exchange, gateway::Inner, grants::Holder, link::SessionCost,
    refusal::Refusal,
};

/// The longest URI in bytes that can be subscribed to: it is kept as long as the subscription.
const LONGEST_URI: usize = 8 << 10;

/// A request in progress: one of its grant's and one of its server's.
#[derive(Debug)]
#[expect(dead_code, reason = "the shares are given back on drop")]
pub(crate) struct Turn {
    grant: Option<Share>,
    server: Option<Share>,
}

impl Turn {
    /// For a request to one server. If it is a part of a message to all servers, that message
    /// has the grant's share.
    pub(crate) fn take(exchange: &Exchange) -> Result<Turn, Refusal> {
        let gateway = &exchange.gateway;
        let own = || gateway.share(&exchange.holder, Resource::Calls, 1);
        let grant = (!exchange.is_part).then(own).transpose()?;
        let bound = gateway.shares.server_bound();
        let usage = &exchange.server.link.state.usage;
        let server = Share::take(usage, Resource::Calls, 1, bound.most);
        let server = server.ok_or_else(|| gateway.refuse_share(bound))?;
        Ok(Turn { grant, server: Some(server) })
    }

    /// For a request to all servers of a grant.
    pub(crate) fn take_for_all(gateway: &Inner, holder: &Holder) -> Result<Turn, Refusal> {
        let grant = gateway.share(holder, Resource::Calls, 1)?;
        Ok(Turn { grant: Some(grant), server: None })
    }
}

/// The place of a stream that stays open.
#[derive(Debug)]
#[expect(dead_code, reason = "what it holds is given back on drop")]
pub(crate) struct StreamPlace {
    share: Share,
    slot: Option<Slot>,
}

impl StreamPlace {
    /// For a stream that needs no connection to a server for itself.
    pub(crate) fn take(gateway: &Inner, holder: &Holder) -> Result<StreamPlace, Refusal> {
        Ok(StreamPlace { share: gateway.share(holder, Resource::Streams, 1)?, slot: None })
    }

    /// For a stream that needs one.
    pub(crate) fn take_connected(gateway: &Inner, holder: &Holder) -> Result<StreamPlace, Refusal> {
        let bound = gateway.shares.connected_stream_bound();
        let share = gateway.share_within(holder, Resource::Streams, 1, bound)?;
        Ok(StreamPlace { share, slot: Some(gateway.connections.acquire()?) })
    }
}

/// Claims what a request keeps at its server as long as the session or the subscription lasts
/// that it begins; `None` if it begins none that is kept here.
pub(crate) fn claim_lease(
    exchange: &Exchange,
    method: &str,
    params: Option<Value<'_>>,
) -> Result<Option<Lease>, Refusal> {
    match method {
        "initialize" if !exchange.is_modern() => claim_session(exchange),
        "resources/subscribe" => {
            let uri = params.and_then(|params| params.get("uri")).and_then(Value::as_str);
            claim_subscription(exchange, uri.unwrap_or_default()).map(Some)
        }
        _ => Ok(None),
    }
}

/// Claims one subscription of a session.
fn claim_subscription(exchange: &Exchange, uri: &str) -> Result<Lease, Refusal> {
    check_uri(uri)?;
    let gateway = &exchange.gateway;
    let mut bound = gateway.shares.bound_of(Resource::Subscriptions);
    let session = exchange.session.as_ref().and_then(|session| session.upstream.to_str().ok());
    if session.is_some_and(|session| exchange.server.link.state.is_subscribed(session, uri)) {
        // It replaces the one that the session has, which is given back then.
        bound.most = bound.most.saturating_add(1);
    }
    let share = gateway.share_within(&exchange.holder, Resource::Subscriptions, 1, bound)?;
    Ok(Lease::new(share))
}

/// Claims what a stream of `subscriptions/listen` needs at its server: one with a process for each
/// session may start one for it.
pub(crate) fn claim_listener(exchange: &Exchange) -> Result<Option<Share>, Refusal> {
    match exchange.server.link.state.session_cost() {
        SessionCost::Process => {
            exchange.gateway.share(&exchange.holder, Resource::Children, 1).map(Some)
        }
        SessionCost::Nothing | SessionCost::Memory | SessionCost::Connection => Ok(None),
    }
}

fn claim_session(exchange: &Exchange) -> Result<Option<Lease>, Refusal> {
    let (gateway, holder) = (&exchange.gateway, &exchange.holder);
    Ok(match exchange.server.link.state.session_cost() {
        SessionCost::Nothing => None,
        SessionCost::Memory => Some(Lease::new(gateway.share(holder, Resource::Sessions, 1)?)),
        SessionCost::Process => Some(Lease::new(gateway.share(holder, Resource::Children, 1)?)),
        SessionCost::Connection => {
            let share = gateway.share(holder, Resource::Sessions, 1)?;
            Some(Lease::new((share, StreamPlace::take_connected(gateway, holder)?)))
        }
    })
}

/// Claims the subscriptions that one stream has.
pub(crate) fn claim_subscriptions<'u>(
    exchange: &Exchange,
    uris: impl Iterator<Item = &'u str>,
) -> Result<Share, Refusal> {
    let mut count = 0;
    for uri in uris {
        check_uri(uri)?;
        count += 1;
    }
    exchange.gateway.share(&exchange.holder, Resource::Subscriptions, count)
}

fn check_uri(uri: &str) -> Result<(), Refusal> {
    if uri.len() > LONGEST_URI {
        return Err(Refusal::Params(format!(
            "a URI to subscribe to has at most {LONGEST_URI} bytes"
        )));
    }
    Ok(())
}

impl Inner {
    /// Takes a share for a grant.
    fn share(&self, holder: &Holder, resource: Resource, count: usize) -> Result<Share, Refusal> {
        self.share_within(holder, resource, count, self.shares.bound_of(resource))
    }

    fn share_within(
        &self,
        holder: &Holder,
        resource: Resource,
        count: usize,
        bound: Bound,
    ) -> Result<Share, Refusal> {
        let usage = self.shares.usage_of(&holder.reference.id, &holder.usage);
        Share::take(usage, resource, count, bound.most).ok_or_else(|| self.refuse_share(bound))
    }

    fn refuse_share(&self, bound: Bound) -> Refusal {
        self.metrics.note_bound(bound.name);
        Refusal::Bound(bound)
    }
}
