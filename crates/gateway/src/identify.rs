//! Identifying the caller: the checks of Host and Origin, and the grant behind a token.

use std::{net::IpAddr, sync::Arc};

use http::{HeaderMap, HeaderName, header, request::Parts};
use sluice_listener::{CallerError, bearer_token};
use sluice_store::TokenHash;

use crate::{gateway::Inner, grants::Holder, refusal::Refusal, snapshot::ServerState};

/// Headers of which two would be two answers to one question.
fn is_single(name: &str) -> bool {
    matches!(
        name,
        "authorization"
            | "content-encoding"
            | "content-length"
            | "content-type"
            | "host"
            | "last-event-id"
            | "origin"
            | "transfer-encoding"
    ) || name.starts_with("mcp-")
}

/// Checks the host the gateway is called by, and the page it is called from.
pub(crate) fn check_names(gateway: &Inner, parts: &Parts) -> Result<(), Refusal> {
    gateway.settings.callers.check(&parts.uri, &parts.headers).map_err(|error| match error {
        CallerError::Repeated(name) => twice(&name),
        CallerError::Host => Refusal::Host,
        CallerError::Origin => Refusal::Origin,
    })
}

fn twice(name: &HeaderName) -> Refusal {
    Refusal::Request(format!("header `{name}` is there twice"))
}

/// Refuses all headers that must not be there twice, and those no text can be read from.
pub(crate) fn check_headers(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut previous = None;
    for (name, value) in headers {
        if is_single(name.as_str()) {
            // The values of one header come one after the other.
            if previous == Some(name) {
                return Err(twice(name));
            }
            if value.to_str().is_err() {
                return Err(Refusal::Request(format!("header `{name}` must be visible ASCII")));
            }
        }
        previous = Some(name);
    }
    Ok(())
}

/// One who calls, and the token they have shown.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) holder: Arc<Holder>,
    pub(crate) token: Option<TokenHash>,
}

/// Finds out who calls. Without a token that is nobody, except where a server
/// lets such callers in.
pub(crate) fn identify(
    gateway: &Inner,
    headers: &HeaderMap,
    server: Option<&ServerState>,
    source: IpAddr,
) -> Result<Caller, &'static str> {
    let anonymous = server.and_then(|server| server.anonymous.as_ref());
    let anonymous =
        anonymous.filter(|_| gateway.settings.is_loopback && source.to_canonical().is_loopback());
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        let holder = anonymous.cloned();
        return holder
            .map(|holder| Caller { holder, token: None })
            .ok_or("a grant's token is required: send it as `Authorization: Bearer sg_…`");
    };
    let token = value
        .to_str()
        .ok()
        .and_then(bearer_token)
        .ok_or("`Authorization` must be `Bearer` and a grant's token")?;
    let token = TokenHash::of(token);
    let holder = gateway.config.grant(&token).ok_or("this token is not known here")?;
    if holder.is_revoked {
        return Err("this grant was revoked");
    }
    if !holder.is_valid(gateway.settings.clock.now()) {
        return Err("this grant has expired");
    }
    Ok(Caller { holder, token: Some(token) })
}
