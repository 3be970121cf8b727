//! Access control of the admin listener: the Host and Origin of a request, and the admin
//! token.

use std::{
    convert::Infallible,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use axum::{
    extract::{ConnectInfo, Request, State},
    http::{Extensions, HeaderMap, header},
    middleware::Next,
    response::Response,
};
use sluice_listener::{CallerError, Failure, Failures, SWEEP, bearer_token};
use sluice_store::{Actor, Record, Store, TokenHash};

use crate::{
    api::{AdminState, Problem},
    clock,
};

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

/// Requires the admin token.
pub(crate) async fn require_token(
    State(state): State<Arc<AdminState>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if let Err(reason) = check_token(&state.admin, request.headers()) {
        let (now, source) = (clock::now().as_millis(), source(request.extensions()));
        let (failures, wait) = state.failures.note_and_limit(source, reason, now);
        record_failures(state.ops.store(), failures);
        // Without a token, nothing was guessed.
        let wait = wait.filter(|_| request.headers().contains_key(header::AUTHORIZATION));
        return Err(wait.map_or_else(|| Problem::token(reason), Problem::attempts));
    }
    Ok(next.run(request).await)
}

/// Requires the admin token, unless the operator has opened the metrics to all callers.
pub(crate) async fn require_token_for_metrics(
    state: State<Arc<AdminState>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if state.settings.are_metrics_open {
        return Ok(next.run(request).await);
    }
    require_token(state, request, next).await
}

/// Compares hashes, so that the timing reveals nothing about the token.
fn check_token(admin: &TokenHash, headers: &HeaderMap) -> Result<(), &'static str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().ok_or(
        "the admin token is required: send it as `Authorization: Bearer …`\nhint: it is in `admin-token` of the data directory",
    )?;
    let token = value.to_str().ok().and_then(bearer_token).filter(|_| values.next().is_none());
    let token = token.ok_or("`Authorization` must be `Bearer` and the admin token")?;
    if TokenHash::of(token) == *admin {
        Ok(())
    } else {
        Err(
            "this is not the admin token\nhint: it is in the file `admin-token` of the gateway's data directory",
        )
    }
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
    peer.map_or(Ipv4Addr::LOCALHOST.into(), |ConnectInfo(address)| address.ip())
}

/// The holder of the admin token, as audit records name it.
pub(crate) fn actor(extensions: &Extensions) -> Actor {
    let address = Some(source(extensions).to_string().into());
    Actor { address, ..Actor::local("admin-token", "admin") }
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
