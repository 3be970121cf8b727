//! Who calls: under which name, from which page, with which token.

use std::{net::IpAddr, sync::Arc};

use http::{HeaderMap, HeaderName, header, request::Parts};
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

/// Checks the name the gateway is called by, and the page it is called from.
pub(crate) fn check_names(gateway: &Inner, parts: &Parts) -> Result<(), Refusal> {
    for name in [header::HOST, header::ORIGIN] {
        single(&parts.headers, &name)?;
    }
    let host = parts.headers.get(header::HOST).map(|value| value.to_str().unwrap_or_default());
    let authority = parts.uri.authority().map(http::uri::Authority::as_str);
    // HTTP/2 names the host in the request line, and may repeat it.
    let named = match (authority, host) {
        (Some(authority), Some(host)) if authority != host => return Err(Refusal::Host),
        (authority, host) => authority.or(host).ok_or(Refusal::Host)?,
    };
    let (name, _) = split_port(named).ok_or(Refusal::Host)?;
    if !gateway
        .settings
        .hosts
        .iter()
        .any(|host| host.eq_ignore_ascii_case(name) || host.eq_ignore_ascii_case(named))
    {
        return Err(Refusal::Host);
    }
    match parts.headers.get(header::ORIGIN) {
        Some(origin) if !is_own(gateway, origin.to_str().unwrap_or_default(), named) => {
            Err(Refusal::Origin)
        }
        _ => Ok(()),
    }
}

/// Whether an origin is listed, or is this very gateway.
fn is_own(gateway: &Inner, origin: &str, named: &str) -> bool {
    let own = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    own.is_some_and(|own| own.eq_ignore_ascii_case(named))
        || gateway.settings.origins.iter().any(|listed| listed == origin)
}

/// A host and its port, of `name`, `name:1`, `1.2.3.4:1` or `[::1]:1`.
fn split_port(named: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = named.strip_prefix('[') {
        let (address, after) = rest.split_once(']')?;
        let port = match after.strip_prefix(':') {
            Some(port) => Some(port.parse().ok()?),
            None if after.is_empty() => None,
            None => return None,
        };
        return Some((address, port));
    }
    match named.split_once(':') {
        Some((name, port)) => Some((name, Some(port.parse().ok()?))),
        None => Some((named, None)),
    }
}

/// Refuses a header that is there twice.
fn single(headers: &HeaderMap, name: &HeaderName) -> Result<(), Refusal> {
    if headers.get_all(name).iter().nth(1).is_some() {
        return Err(twice(name));
    }
    Ok(())
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
        .and_then(bearer)
        .ok_or("`Authorization` must be `Bearer` and a grant's token")?;
    let token = TokenHash::of(token);
    let holder = gateway.grants.find(&token).ok_or("this token is not known here")?;
    if holder.is_revoked {
        return Err("this grant was revoked");
    }
    if !holder.is_valid(gateway.settings.clock.now()) {
        return Err("this grant has expired");
    }
    Ok(Caller { holder, token: Some(token) })
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::{bearer, split_port};

    #[test]
    fn hosts_and_ports_are_told_apart() {
        assert_eq!(split_port("localhost"), Some(("localhost", None)));
        assert_eq!(split_port("127.0.0.1:8787"), Some(("127.0.0.1", Some(8787))));
        assert_eq!(split_port("[::1]:80"), Some(("::1", Some(80))));
        assert_eq!(split_port("[::1]"), Some(("::1", None)));
        for wrong in ["::1", "a:b", "[::1", "[::1]x", "a:99999", "evil@localhost:1:2"] {
            assert_eq!(split_port(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_bearer_tokens_are_tokens() {
        assert_eq!(bearer("Bearer sg_x"), Some("sg_x"));
        assert_eq!(bearer("bearer  sg_x"), Some("sg_x"));
        for wrong in ["Basic sg_x", "Bearer", "Bearer ", "sg_x", ""] {
            assert_eq!(bearer(wrong), None, "{wrong}");
        }
    }
}
