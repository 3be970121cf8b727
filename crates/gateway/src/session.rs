//! Sessions of the legacy era: the id that the client knows, and the upstream's id that
//! is sealed in it.

use std::sync::Arc;

use http::HeaderValue;
use sluice_store::new_id;

use crate::{exchange::Exchange, gateway::Inner, grants::Holder, refusal::Refusal, seal::Purpose};

/// A session that belongs to this grant on this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    /// Our id, for counters and records.
    pub(crate) id: Arc<str>,
    /// The upstream's id.
    pub(crate) upstream: HeaderValue,
}

impl Session {
    /// Opens the session id that a client sent. An id of another grant or server is
    /// refused like an unknown one.
    pub(crate) fn open(
        gateway: &Inner,
        holder: &Holder,
        server: &str,
        sealed: &str,
    ) -> Result<Session, Refusal> {
        let [grant, of_server, id, upstream] =
            gateway.keys.seal.open(Purpose::Session, sealed).ok_or(Refusal::Session)?;
        if grant != holder.id() || of_server != server {
            return Err(Refusal::Session);
        }
        let upstream = match gateway.sessions.repairs.current(&id) {
            Some(current) => current,
            None => HeaderValue::try_from(upstream).map_err(|_| Refusal::Session)?,
        };
        Ok(Session { id: id.into(), upstream })
    }

    /// Our id of a session that an upstream has begun: plain, and sealed for the client.
    pub(crate) fn begin(
        exchange: &Exchange,
        upstream: &HeaderValue,
    ) -> Option<(Arc<str>, HeaderValue)> {
        let (grant, server) = (exchange.holder.id(), exchange.server_name());
        let id = new_id(exchange.at).to_string();
        let parts = [grant, server, &id, upstream.to_str().ok()?];
        let sealed = exchange.gateway.keys.seal.seal(Purpose::Session, &parts)?;
        Some((id.into(), HeaderValue::try_from(sealed).ok()?))
    }
}
