//! Ids and states of a server that its clients carry. They are sealed, so that they are
//! accepted only from the grant they were issued to and only for the same server.

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
