//! Who may ask: by which name and from which page the plane is called, and the
//! admin token.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use axum::{
    extract::{ConnectInfo, Request, State},
    http::{Extensions, HeaderMap, HeaderName, Uri, header, uri::Authority},
    middleware::Next,
    response::Response,
};
use sluice_store::{Actor, TokenHash};

use crate::api::{Plane, Problem, Settings};

/// Checks the name the plane is called by, and the page it is called from.
pub(crate) async fn check_names(
    State(plane): State<Arc<Plane>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    names(&plane.settings, request.uri(), request.headers())?;
    Ok(next.run(request).await)
}

fn names(settings: &Settings, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let host = only(headers, &header::HOST)?;
    let authority = uri.authority().map(Authority::as_str);
    // HTTP/2 names the host in the request line, and may repeat it.
    let named = match (authority, host) {
        (Some(authority), Some(host)) if authority != host => return Err(Problem::host()),
        (authority, host) => authority.or(host).ok_or_else(Problem::host)?,
    };
    if !is_known(settings, named) {
        return Err(Problem::host());
    }
    match only(headers, &header::ORIGIN)? {
        Some(origin) if !may_call(settings, origin, named) => Err(Problem::origin()),
        _ => Ok(()),
    }
}

/// A header that must not be there twice.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().map(|value| value.to_str().unwrap_or_default());
    match values.next() {
        Some(_) => Err(Problem::request(format!("header `{name}` is there twice"))),
        None => Ok(value),
    }
}

/// Whether the plane may be called by this name.
fn is_known(settings: &Settings, named: &str) -> bool {
    let Some(name) = without_port(named) else { return false };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let hosts = &settings.hosts;
    [named, name, bare]
        .iter()
        .any(|known| hosts.iter().any(|host| host.eq_ignore_ascii_case(known)))
}

/// The host of `name`, `name:1`, `1.2.3.4:1` or `[::1]:1`.
fn without_port(named: &str) -> Option<&str> {
    let (name, port) = match named.rsplit_once(':') {
        Some((name, port)) if !named.ends_with(']') => (name, Some(port)),
        _ => (named, None),
    };
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok());
    let is_bracketed = name.starts_with('[') && name.ends_with(']');
    (is_port && !name.is_empty() && (is_bracketed || !name.contains(':'))).then_some(name)
}

/// Whether an origin is listed, or is this very plane.
fn may_call(settings: &Settings, origin: &str, named: &str) -> bool {
    let own = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    own.is_some_and(|own| own.eq_ignore_ascii_case(named))
        || settings.origins.iter().any(|listed| listed == origin)
}

/// Lets only those through who have the admin token.
pub(crate) async fn require_token(
    State(plane): State<Arc<Plane>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if let Err(reason) = check_token(&plane.admin, request.headers()) {
        plane.failures.note(plane.ops.store(), source(request.extensions()), reason);
        return Err(Problem::token(reason));
    }
    Ok(next.run(request).await)
}

/// The same, unless only this machine can connect.
pub(crate) async fn require_token_from_afar(
    plane: State<Arc<Plane>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if plane.settings.is_loopback {
        return Ok(next.run(request).await);
    }
    require_token(plane, request, next).await
}

/// Compares hashes, so that the time it takes says nothing about the token.
fn check_token(admin: &TokenHash, headers: &HeaderMap) -> Result<(), &'static str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().ok_or(
        "the admin token is required: send it as `Authorization: Bearer …`\nhint: it is in `admin-token` of the data directory",
    )?;
    let token = value.to_str().ok().and_then(bearer).filter(|_| values.next().is_none());
    let token = token.ok_or("`Authorization` must be `Bearer` and the admin token")?;
    if TokenHash::of(token) == *admin { Ok(()) } else { Err("this is not the admin token") }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Where a request comes from; in process, from this machine.
fn source(extensions: &Extensions) -> IpAddr {
    let peer = extensions.get::<ConnectInfo<SocketAddr>>();
    peer.map_or(Ipv4Addr::LOCALHOST.into(), |ConnectInfo(address)| address.ip())
}

/// The holder of the admin token, as audit records name it.
pub(crate) fn actor(extensions: &Extensions) -> Actor {
    let address = Some(source(extensions).to_string().into());
    Actor { address, ..Actor::local("admin-token", "admin") }
}

#[cfg(test)]
mod tests {
    use super::{bearer, is_known, may_call};
    use crate::api::Settings;

    fn settings(hosts: &[&str]) -> Settings {
        let hosts = hosts.iter().map(ToString::to_string).collect();
        let origins = vec!["https://app.example.com".into()];
        Settings { hosts, origins, is_loopback: true, catalog: "catalog.db".into() }
    }

    #[test]
    fn hosts_are_known_by_name_with_or_without_port() {
        let own = settings(&["localhost", "127.0.0.1", "::1", "gate.example.com:443"]);
        for good in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:8788",
            "[::1]:80",
            "[::1]",
            "gate.example.com:443",
        ] {
            assert!(is_known(&own, good), "{good}");
        }
        for wrong in [
            "evil.example.com",
            "gate.example.com",
            "gate.example.com:80",
            "localhost.evil.com",
            "localhost:x",
            "::1",
            "",
            ":80",
        ] {
            assert!(!is_known(&own, wrong), "{wrong}");
        }
    }

    #[test]
    fn pages_call_from_here_or_from_a_listed_origin() {
        let own = settings(&["localhost"]);
        for good in ["http://localhost:8788", "https://app.example.com"] {
            assert!(may_call(&own, good, "localhost:8788"), "{good}");
        }
        for wrong in ["http://localhost:9999", "https://evil.example.com", "null", ""] {
            assert!(!may_call(&own, wrong, "localhost:8788"), "{wrong}");
        }
    }

    #[test]
    fn only_bearer_tokens_are_tokens() {
        assert_eq!(bearer("Bearer x"), Some("x"));
        for wrong in ["Basic x", "Bearer", "Bearer ", "x", ""] {
            assert_eq!(bearer(wrong), None, "{wrong}");
        }
    }
}
