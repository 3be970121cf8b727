//! Access control of the admin listener: the `Host` and `Origin` of a request, who makes it, and
//! whether their role allows it.

mod attempts;
mod caller;
pub(crate) mod cookie;
mod links;
pub(crate) mod password;
pub(crate) mod permission;

use std::{
    convert::Infallible,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{
    extract::{ConnectInfo, FromRequestParts as _, MatchedPath, RawPathParams, Request, State},
    http::{Extensions, HeaderMap, Method, header, request::Parts},
    middleware::Next,
    response::Response,
};
use sluice_listener::{CallerError, Failure, Failures, SWEEP, bearer_token};
use sluice_policy::Timestamp;
use sluice_store::{Record, Session, Store, StoreError, TokenHash};

use self::permission::Permission;
pub(crate) use self::{
    attempts::SignInAttempts,
    caller::{Caller, Proof},
    links::{LIFETIME as LINK_LIFETIME, SignInLinks},
    password::Passwords,
};
use crate::{
    api::{AdminState, Problem},
    clock,
};

/// A session ends when it was not used for this long.
pub(crate) const SESSION_IDLE: Duration = Duration::from_hours(8);
/// A session ends this long after it began, however it is used.
pub(crate) const SESSION_LIFETIME: Duration = Duration::from_hours(168);
/// How exactly the last use of a session or token is noted.
const USE_PRECISION: Duration = Duration::from_mins(1);

/// What access control keeps between requests.
pub(crate) struct Auth {
    pub(crate) admin: TokenHash,
    pub(crate) failures: Failures,
    pub(crate) attempts: SignInAttempts,
    pub(crate) links: SignInLinks,
    pub(crate) passwords: Passwords,
}

impl Auth {
    pub(crate) fn new(admin: TokenHash) -> Auth {
        Auth {
            admin,
            failures: Failures::new("admin API: "),
            attempts: SignInAttempts::new(),
            links: SignInLinks::new(),
            passwords: Passwords::new(),
        }
    }
}

/// Why nobody is known to make a request.
#[derive(Debug)]
pub(crate) enum Unidentified {
    /// It carries nothing that proves who makes it.
    Nothing(&'static str),
    /// What it carries proves nothing.
    Wrong(&'static str),
    /// It changes something in a session, without the token that only pages of this listener have.
    Forged,
    Store(StoreError),
}

const NO_TOKEN: &str = "sign in, or send a token as `Authorization: Bearer …`\nhint: the admin token is in `admin-token` of the data directory";
const NOT_BEARER: &str = "`Authorization` must be `Bearer` and a token";
const WRONG_TOKEN: &str = "this is not the admin token, nor an API token that is valid\nhint: the admin token is in the file `admin-token` of the gateway's data directory";
const NO_SESSION: &str = "the session is over\nhint: sign in again";

/// Checks the `Host` and the `Origin` of a request.
pub(crate) async fn check_host_and_origin(
    State(state): State<Arc<AdminState>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let checked = state.settings.callers.check(request.uri(), request.headers());
    checked.map_err(|error| match error {
        CallerError::Repeated(_) => Problem::request(error.to_string()),
        CallerError::Host => Problem::host(),
        CallerError::Origin => Problem::origin(),
    })?;
    Ok(next.run(request).await)
}

/// Requires a caller whose role allows the request.
pub(crate) async fn require_permission(
    State(state): State<Arc<AdminState>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let caller = require_caller(&state, &parts).await?;
    // Without a matched path, the fallback answers that there is nothing.
    if let Some(matched) = parts.extensions.get::<MatchedPath>().cloned() {
        let path = matched.as_str().strip_prefix("/api/v1").unwrap_or_default();
        let rule = permission::find_rule(parts.method.as_str(), path);
        let rule = rule.ok_or_else(Problem::not_allowed)?;
        if !caller.may(rule) {
            return Err(Problem::forbidden(&caller, rule));
        }
        if path.starts_with("/servers/{name}") {
            require_server(&caller, &mut parts).await?;
        }
    }
    parts.extensions.insert(caller);
    Ok(next.run(Request::from_parts(parts, body)).await)
}

/// Requires that the caller's role includes the server that the path names.
async fn require_server(caller: &Caller, parts: &mut Parts) -> Result<(), Problem> {
    // As handlers will read it, with escapes decoded.
    let parameters = RawPathParams::from_request_parts(parts, &()).await;
    let parameters = parameters.map_err(|_| Problem::request("the path cannot be read"))?;
    let named = parameters.iter().find(|(name, _)| *name == "name").map(|(_, value)| value);
    match named {
        Some(server) if caller.covers_text(server) => Ok(()),
        named => Err(Problem::other_server(caller, named.unwrap_or_default())),
    }
}

/// Requires a caller that may read metrics, unless the operator has opened them to all callers.
pub(crate) async fn require_permission_for_metrics(
    State(state): State<Arc<AdminState>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if state.settings.are_metrics_open {
        return Ok(next.run(request).await);
    }
    let (parts, body) = request.into_parts();
    let caller = require_caller(&state, &parts).await?;
    let rule = Permission::ReadOperations;
    if !caller.may(rule) {
        return Err(Problem::forbidden(&caller, rule));
    }
    Ok(next.run(Request::from_parts(parts, body)).await)
}

async fn require_caller(state: &AdminState, parts: &Parts) -> Result<Caller, Problem> {
    let is_safe = matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
    let csrf = parts.headers.get(cookie::CSRF_HEADER).and_then(|value| value.to_str().ok());
    let source = source(&parts.extensions);
    let found = identify(state, &parts.headers, source, csrf, is_safe).await;
    found.map_err(|error| refuse_unidentified(state, source, error))
}

/// Finds out who makes a request. `csrf` is the token against forgery that came with it, which a
/// session needs unless the request is safe.
pub(crate) async fn identify(
    state: &AdminState,
    headers: &HeaderMap,
    address: IpAddr,
    csrf: Option<&str>,
    is_safe: bool,
) -> Result<Caller, Unidentified> {
    let proof = if headers.contains_key(header::AUTHORIZATION) {
        identify_by_token(state, headers).await?
    } else if let Some(cookie) = cookie::read(headers) {
        let is_forged = !is_safe && csrf != Some(&cookie::derive_csrf_token(cookie));
        let proof = identify_by_session(state, cookie).await?;
        if is_forged {
            return Err(Unidentified::Forged);
        }
        proof
    } else {
        return Err(Unidentified::Nothing(NO_TOKEN));
    };
    Ok(Caller { proof, address })
}

/// Compares hashes, so that the timing reveals nothing about a token.
async fn identify_by_token(state: &AdminState, headers: &HeaderMap) -> Result<Proof, Unidentified> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().filter(|_| values.next().is_none());
    let token = value.and_then(|value| value.to_str().ok()).and_then(bearer_token);
    let token = TokenHash::of(token.ok_or(Unidentified::Wrong(NOT_BEARER))?);
    if token == state.auth.admin {
        return Ok(Proof::AdminToken);
    }
    let (store, now) = (state.ops.store(), clock::now());
    let found = store.api_token_of(&token).await.map_err(Unidentified::Store)?;
    let found = found.filter(|(token, person)| token.is_valid(now) && person.disabled_at.is_none());
    let (token, person) = found.ok_or(Unidentified::Wrong(WRONG_TOKEN))?;
    if token.last_used.is_none_or(|last| is_older(last, now, USE_PRECISION)) {
        store.note_api_token_use(&token.id, now).await.map_err(Unidentified::Store)?;
    }
    Ok(Proof::ApiToken(token, person))
}

async fn identify_by_session(state: &AdminState, cookie: &str) -> Result<Proof, Unidentified> {
    let (store, now) = (state.ops.store(), clock::now());
    let token = TokenHash::of(cookie);
    let found = store.session(&token).await.map_err(Unidentified::Store)?;
    let (session, person) = found.ok_or(Unidentified::Wrong(NO_SESSION))?;
    let is_of_nobody = session.person.is_some() && person.is_none();
    let is_disabled = person.as_ref().is_some_and(|person| person.disabled_at.is_some());
    if is_over(&session, now) || is_of_nobody || is_disabled {
        return Err(Unidentified::Wrong(NO_SESSION));
    }
    if is_older(session.used_at, now, USE_PRECISION) {
        store.note_session_use(&token, now).await.map_err(Unidentified::Store)?;
    }
    Ok(match person {
        Some(person) => Proof::Session(session, person),
        None => Proof::OwnerSession(session),
    })
}

fn is_over(session: &Session, now: Timestamp) -> bool {
    session.expires_at <= now || is_older(session.used_at, now, SESSION_IDLE)
}

fn is_older(at: Timestamp, now: Timestamp, age: Duration) -> bool {
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    now.as_millis().saturating_sub(at.as_millis()) >= age
}

/// The answer to a request that nobody is known to make; failed attempts are recorded and limited.
fn refuse_unidentified(state: &AdminState, source: IpAddr, error: Unidentified) -> Problem {
    match error {
        Unidentified::Nothing(reason) => {
            note_failure(state, source, reason);
            Problem::token(reason)
        }
        Unidentified::Wrong(reason) => {
            let wait = note_failure(state, source, reason);
            wait.map_or_else(|| Problem::token(reason), Problem::attempts)
        }
        Unidentified::Forged => Problem::csrf(),
        Unidentified::Store(error) => crate::ops::Refused::Store(error).into(),
    }
}

/// Records a failed attempt; returns how many seconds its source must wait if it has failed too
/// often.
pub(crate) fn note_failure(state: &AdminState, source: IpAddr, reason: &str) -> Option<u64> {
    let now = clock::now().as_millis();
    let (failures, wait) = state.auth.failures.note_and_limit(source, reason, now);
    record_failures(state.ops.store(), failures);
    wait
}

/// Records failed authentications.
pub(crate) fn record_failures(store: &Store, failures: Vec<Failure>) {
    for failure in failures {
        store.append_deferred(Record::failed_authentication(clock::now(), failure.message));
    }
}

/// Records the sums of each minute, also if nobody fails again. Never ends.
pub(crate) async fn sweep_failures(failures: &Failures, store: &Store) -> Infallible {
    let mut minutes = tokio::time::interval(SWEEP);
    loop {
        minutes.tick().await;
        record_failures(store, failures.sweep(clock::now().as_millis()));
    }
}

/// The address that a request comes from; loopback for calls in process.
pub(crate) fn source(extensions: &Extensions) -> IpAddr {
    let peer = extensions.get::<ConnectInfo<SocketAddr>>();
    peer.map_or(Ipv4Addr::LOCALHOST.into(), |ConnectInfo(address)| address.ip().to_canonical())
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, time::Duration};

    use sluice_listener::{Failures, SWEEP};
    use sluice_store::{Clock, Filter, Store};

    use super::sweep_failures;
    use crate::clock;

    #[tokio::test(start_paused = true)]
    async fn the_sum_of_a_minute_is_recorded_without_another_failure() {
        let (failures, store) = (Failures::new("admin API: "), Store::memory(Clock::System));
        let earlier = clock::now().as_millis() - 2 * 60_000;
        for _ in 0..12 {
            let _ = failures.note(Ipv4Addr::LOCALHOST.into(), "wrong", earlier);
        }
        let swept = tokio::time::timeout(SWEEP + Duration::from_secs(1), async {
            match sweep_failures(&failures, &store).await {}
        });
        assert!(swept.await.is_err());
        store.flush().await.unwrap();
        let entries = store.page(&Filter::default(), 10).await.unwrap().entries;
        let messages: Vec<_> =
            entries.iter().filter_map(|entry| entry.record.message.as_deref()).collect();
        assert_eq!(messages, ["admin API: 3 more failed in that minute (from 127.0.0.1)"]);
    }
}
