//! Authenticates the caller by headers alone: checks Host and Origin, and finds the grant
//! that a token belongs to.

use std::{net::IpAddr, sync::Arc};

use http::{HeaderMap, HeaderName, header, request::Parts};
use sluice_listener::{CallerError, bearer_token};
use sluice_store::TokenHash;

use crate::{gateway::Inner, grants::Holder, refusal::Refusal, snapshot::ServerState};

/// Headers that must not occur twice, because two values would contradict each other.
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

/// Checks the Host under which the gateway is called, and the Origin of the calling page.
pub(crate) fn check_host_and_origin(gateway: &Inner, parts: &Parts) -> Result<(), Refusal> {
    gateway.settings.callers.check(&parts.uri, &parts.headers).map_err(|error| match error {
        CallerError::Repeated(name) => twice(&name),
        CallerError::Host => Refusal::Host,
        CallerError::Origin => Refusal::Origin,
    })
}

fn twice(name: &HeaderName) -> Refusal {
    Refusal::Request(format!("header `{name}` is there twice"))
}

/// Refuses headers that must not be repeated, and headers that are not visible ASCII.
pub(crate) fn check_headers(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut previous = None;
    for (name, value) in headers {
        if is_single(name.as_str()) {
            // The values of one header follow each other.
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

/// A caller, and the token it presented.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) holder: Arc<Holder>,
    pub(crate) token: Option<TokenHash>,
}

/// Finds the grant behind a token. Without a token it is anonymous, which only some servers allow.
pub(crate) fn authenticate(
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
    let holder =
        gateway.config.grant(&token).ok_or("unknown token: it may have been rotated or removed")?;
    if holder.is_revoked {
        return Err("this grant was revoked");
    }
    let now = gateway.settings.clock.now();
    if !holder.is_valid(now) {
        return Err("this grant has expired");
    }
    holder.note_use(now);
    Ok(Caller { holder, token: Some(token) })
}
