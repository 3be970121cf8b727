//! The rounds of a request that the bridge repeats, because the server asks for input: each
//! is judged, charged and recorded as a call of its own, by the policy of its time.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sluice_bridge::{RefusedRound, RoundEnd, RoundPermission, Rounds};
use sluice_store::new_id;
use sluice_wire::{
    json::Document,
    rpc::{Id, Message},
};
use tokio::time::Instant;

use crate::{
    assess::look_up_tools,
    call::read,
    decide::{Decided, decide, decide_apart, may_take_long},
    exchange::Exchange,
    refusal::Refusal,
    settle::{CallFailure, Settlement},
};

/// The rounds of one request.
#[derive(Debug)]
pub(crate) struct CallRounds {
    exchange: Exchange,
    latest: Mutex<Round>,
}

/// What has become of the latest round.
#[derive(Debug)]
pub(crate) enum Round {
    /// The first one is at the server. This is a copy of its settlement, which the call has.
    First(Box<Settlement>),
    /// A later one is at the server.
    Later(Box<Settlement>),
    /// It has its outcome, and no other one has begun.
    Settled,
    /// The call has ended, so none may follow.
    Over,
}

impl CallRounds {
    /// `first` is a copy of the settlement of the first round.
    pub(crate) fn new(exchange: Exchange, first: Settlement) -> CallRounds {
        CallRounds { exchange, latest: Mutex::new(Round::First(Box::new(first))) }
    }

    /// Ends the call; returns what has become of its latest round.
    pub(crate) fn finish(&self) -> Round {
        mem::replace(&mut *self.lock(), Round::Over)
    }

    fn lock(&self) -> MutexGuard<'_, Round> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn permit(&self, request: &Document) -> Result<(), Refusal> {
        let settlement = self.judge(request).await?;
        let Some(mut settlement) = self.take_up(settlement) else { return Ok(()) };
        settlement.give_back(&CallFailure::Abandoned).await;
        Err(Refusal::Internal)
    }

    /// Makes a round the latest one, which is about to be sent; returns its settlement if the
    /// call has ended.
    fn take_up(&self, mut settlement: Settlement) -> Option<Settlement> {
        let mut latest = self.lock();
        if matches!(*latest, Round::Over) {
            return Some(settlement);
        }
        settlement.note_departure();
        *latest = Round::Later(Box::new(settlement));
        None
    }

    async fn judge(&self, request: &Document) -> Result<Settlement, Refusal> {
        // The grant may have been revoked, and the policy changed, while people were asked.
        let renewed = self.exchange.renew();
        let server = self.exchange.server_name();
        let mut exchange = renewed.ok_or_else(|| Refusal::NotGranted(server.to_owned()))?;
        exchange.request = new_id(exchange.at);
        exchange.started = Instant::now();
        let exchange = Arc::new(exchange);
        let message = read(request)?;
        let tools = look_up_tools(&exchange, &message).await;
        let decided = if may_take_long(&exchange, request) {
            let bounds = &exchange.gateway.settings.bounds;
            let shared = Document::parse(request.text().to_owned(), bounds);
            let shared = Arc::new(shared.map_err(|error| Refusal::Json(error.to_string()))?);
            decide_apart(&exchange, &shared, tools).await?
        } else {
            decide(&exchange, request, message, tools).await?
        };
        match decided {
            Decided::Permitted(permitted) => permitted.into_parts().1.ok_or(Refusal::Internal),
            Decided::Subscribe(_) | Decided::Answered { .. } | Decided::Ignored => {
                Err(Refusal::Internal)
            }
        }
    }
}

impl Rounds for CallRounds {
    fn end(&self, how: RoundEnd) {
        let mut latest = self.lock();
        if matches!(*latest, Round::Over) {
            return;
        }
        if let Round::First(mut settlement) | Round::Later(mut settlement) =
            mem::replace(&mut *latest, Round::Settled)
        {
            settlement.succeed((how == RoundEnd::Refused).then_some(true));
        }
    }

    fn begin<'r>(&'r self, request: &'r Document) -> RoundPermission<'r> {
        Box::pin(async move {
            let message = Message::read(request).ok();
            let id = message.as_ref().and_then(Message::request_id);
            self.permit(request).await.map_err(|refusal| RefusedRound(describe(&refusal, id)))
        })
    }
}

/// The message that tells a client of a refusal.
fn describe(refusal: &Refusal, id: Option<&Id>) -> String {
    match (refusal, id) {
        (Refusal::DeniedCall(result), Some(id)) => {
            format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, id.to_json())
        }
        _ => refusal.to_json(id),
    }
}
