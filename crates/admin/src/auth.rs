//! Access control of the admin listener: the Host and Origin of a request, and the admin
//! token.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use axum::{
    extract::{ConnectInfo, Request, State},
    http::{Extensions, HeaderMap, header},
    middleware::Next,
    response::Response,
};
use sluice_listener::{CallerError, bearer_token};
use sluice_store::{Actor, TokenHash};

use crate::api::{Plane, Problem};

/// Checks the `Host` and the `Origin` of a request.
pub(crate) async fn check_names(
    State(plane): State<Arc<Plane>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let checked = plane.settings.callers.check(request.uri(), request.headers());
    checked.map_err(|error| match error {
        CallerError::Repeated(_) => Problem::request(error.to_string()),
        CallerError::Host => Problem::host(),
        CallerError::Origin => Problem::origin(),
    })?;
    Ok(next.run(request).await)
}

/// Requires the admin token.
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

/// Requires the admin token, unless only this machine can connect.
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

/// Compares hashes, so that the timing reveals nothing about the token.
fn check_token(admin: &TokenHash, headers: &HeaderMap) -> Result<(), &'static str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().ok_or(
        "the admin token is required: send it as `Authorization: Bearer …`\nhint: it is in `admin-token` of the data directory",
    )?;
    let token = value.to_str().ok().and_then(bearer_token).filter(|_| values.next().is_none());
    let token = token.ok_or("`Authorization` must be `Bearer` and the admin token")?;
    if TokenHash::of(token) == *admin { Ok(()) } else { Err("this is not the admin token") }
}

/// The address that a request comes from; loopback for calls in process.
fn source(extensions: &Extensions) -> IpAddr {
    let peer = extensions.get::<ConnectInfo<SocketAddr>>();
    peer.map_or(Ipv4Addr::LOCALHOST.into(), |ConnectInfo(address)| address.ip())
}

/// The holder of the admin token, as audit records name it.
pub(crate) fn actor(extensions: &Extensions) -> Actor {
    let address = Some(source(extensions).to_string().into());
    Actor { address, ..Actor::local("admin-token", "admin") }
}
