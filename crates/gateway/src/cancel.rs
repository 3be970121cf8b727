//! Tells a legacy server that nobody waits for a request any more. In the modern era, the end
//! of the connection says so; in the legacy era, only a notification does.

use std::sync::Arc;

use sluice_wire::rpc::Id;

use crate::{
    answer::{Expected, Shape},
    exchange::Exchange,
    reserve::Permitted,
    send::forward,
};

/// What is needed to cancel a request at its server.
#[derive(Debug)]
pub(crate) struct Cancellation {
    exchange: Arc<Exchange>,
    id: Id,
}

impl Cancellation {
    /// For a request that is sent; `None` if its server needs no notification, or could not
    /// tell whose request is meant.
    pub(crate) fn of(exchange: &Arc<Exchange>, expected: &Expected) -> Option<Cancellation> {
        let is_needed = Cancellation::is_possible(exchange, expected);
        is_needed.then(|| Cancellation { exchange: Arc::clone(exchange), id: expected.id.clone() })
    }

    /// Whether a request would be cancelled by a notification. The protocol forbids that for
    /// `initialize`.
    pub(crate) fn is_possible(exchange: &Exchange, expected: &Expected) -> bool {
        let is_introduction = expected.shape == Shape::Introduction;
        !exchange.is_modern() && exchange.session.is_some() && !is_introduction
    }

    /// Notifies the server, without waiting for it.
    pub(crate) fn send(self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let Cancellation { exchange, id } = self;
        runtime.spawn(async move {
            // Best effort: the server may be why nobody waits.
            let _ = forward(&exchange, Permitted::cancel(&id)).await;
        });
    }
}
