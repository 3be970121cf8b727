//! Seals the task ids, event ids and `requestState` values of a server, so that they are valid
//! only for the grant and the server they were issued for, and event ids only for the session.

use http::HeaderValue;
use sluice_wire::edit::quote;

use crate::{exchange::Exchange, refusal::Refusal, seal::Purpose};

/// Seals the state of an unfinished request, for the same target only.
pub(crate) fn seal_state(
    exchange: &Exchange,
    method: &str,
    target: &str,
    state: &str,
) -> Result<String, Refusal> {
    let target = quote(target);
    let parts = [exchange.holder.id(), exchange.server_name(), method, &target, state];
    exchange.gateway.keys.seal.seal(Purpose::RequestState, &parts).ok_or(Refusal::Internal)
}

/// The server's own state, if it was issued for exactly this request.
pub(crate) fn open_state(
    exchange: &Exchange,
    method: &str,
    target: &str,
    sealed: &str,
) -> Result<String, Refusal> {
    let foreign = || Refusal::Params("`requestState` was not given out for this request".into());
    let opened = exchange.gateway.keys.seal.open(Purpose::RequestState, sealed);
    let [grant, server, of_method, of_target, state] = opened.ok_or_else(foreign)?;
    let is_own = grant == exchange.holder.id()
        && server == exchange.server_name()
        && of_method == method
        && of_target == quote(target);
    if is_own { Ok(state) } else { Err(foreign()) }
}

/// Seals the id of a task, so that only this grant can use it.
pub(crate) fn seal_task(exchange: &Exchange, id: &str) -> Result<String, Refusal> {
    let parts = [exchange.holder.id(), exchange.server_name(), id];
    exchange.gateway.keys.seal.seal(Purpose::Task, &parts).ok_or(Refusal::Internal)
}

/// The server's own id of a task, if this grant began it.
pub(crate) fn open_task(exchange: &Exchange, sealed: &str) -> Option<String> {
    let [grant, server, task] = exchange.gateway.keys.seal.open(Purpose::Task, sealed)?;
    (grant == exchange.holder.id() && server == exchange.server_name()).then_some(task)
}

/// The longest event id in bytes that is safe in a header.
pub(crate) const LONGEST_EVENT_ID: usize = 4096;

/// Seals the id of an event, so that only this session can resume a stream from it. `None`
/// without a session, in which no stream can be resumed, or if the id becomes too long: the
/// client then resumes from an earlier event.
pub(crate) fn seal_event(exchange: &Exchange, id: &str) -> Option<String> {
    let session = exchange.session.as_ref()?;
    let parts = [exchange.holder.id(), exchange.server_name(), &session.id, id];
    let sealed = exchange.gateway.keys.seal.seal(Purpose::Event, &parts)?;
    (sealed.len() <= LONGEST_EVENT_ID).then_some(sealed)
}

/// The server's own id of an event, if it was issued in this session.
pub(crate) fn open_event(exchange: &Exchange, sealed: &str) -> Option<HeaderValue> {
    let [grant, server, of_session, own] =
        exchange.gateway.keys.seal.open(Purpose::Event, sealed)?;
    let session = exchange.session.as_ref()?;
    let is_own = grant == exchange.holder.id()
        && server == exchange.server_name()
        && *of_session == *session.id;
    HeaderValue::try_from(own).ok().filter(|_| is_own)
}
