//! Ids and states of a server that its clients carry: sealed, so that they come back
//! only from the grant they were given to, to the same server.

use sluice_wire::edit::quote;

use crate::{exchange::Exchange, refusal::Refusal, seal::Purpose};

/// State of an unfinished request as the client carries it, for the same target only.
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

/// The server's own state, if it was handed out for this very thing.
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

/// The id by which this grant, and no other, can ask for a task.
pub(crate) fn seal_task(exchange: &Exchange, id: &str) -> Result<String, Refusal> {
    let parts = [exchange.holder.id(), exchange.server_name(), id];
    exchange.gateway.keys.seal.seal(Purpose::Task, &parts).ok_or(Refusal::Internal)
}

/// The server's own id of a task, if this grant began it.
pub(crate) fn open_task(exchange: &Exchange, sealed: &str) -> Option<String> {
    let [grant, server, task] = exchange.gateway.keys.seal.open(Purpose::Task, sealed)?;
    (grant == exchange.holder.id() && server == exchange.server_name()).then_some(task)
}
