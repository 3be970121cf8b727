//! Settling a call: the record of its outcome, the end of its leases, and the release of its
//! charges if certainly nothing was sent.

mod failure;

use std::sync::{Arc, OnceLock};

use http::Response;
use sluice_builtin::Verdict;
use sluice_http::answer::Sendings;
use sluice_store::{Kind, Outcome, Record, UpstreamRef, new_id};
use tokio::time::Instant;

use crate::{
    answer::Relayed,
    body::ClientBody,
    cancel::Cancellation,
    exchange::Exchange,
    gateway::Inner,
    refusal::Refusal,
    reserve::{LONGEST_MESSAGE, shorten},
    rounds::{CallRounds, Round},
};

pub(crate) use failure::CallFailure;

/// What a call has of its limits.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Holds {
    /// Charges, which can be given back.
    pub(crate) charges: bool,
    /// Places among the calls in progress, until the outcome is known.
    pub(crate) leases: bool,
}

/// The outcome record of a permitted call, while it is still to be written.
///
/// If this is dropped unsettled, it records that the client did not wait for the answer.
#[derive(Debug)]
pub(crate) struct Settlement {
    gateway: Arc<Inner>,
    /// The record of the decision, from which the outcome's record is made. `None` if the request
    /// is not recorded, such as a list.
    decision: Option<Box<Record>>,
    holds: Holds,
    started: Instant,
    sent: Option<Instant>,
    /// How often it was sent: again if the server had lost its session, or speaks the other era.
    departures: u32,
    status: Option<u16>,
    /// A built-in server's own verdict on the call, besides its answer.
    verdict: Option<Verdict>,
    /// How to tell the server that nobody waits any more.
    cancellation: Option<Cancellation>,
    /// The rounds of the request, if the bridge may repeat it.
    rounds: OnceLock<Arc<CallRounds>>,
}

impl Settlement {
    pub(crate) fn new(
        gateway: Arc<Inner>,
        decision: Box<Record>,
        holds: Holds,
        started: Instant,
    ) -> Settlement {
        Settlement {
            gateway,
            decision: Some(decision),
            holds,
            started,
            sent: None,
            departures: 0,
            status: None,
            verdict: None,
            cancellation: None,
            rounds: OnceLock::new(),
        }
    }

    /// The settlement of a request that is not recorded. It only tells the server when nobody
    /// waits for the answer any more.
    pub(crate) fn without_record(exchange: &Exchange) -> Settlement {
        Settlement {
            gateway: Arc::clone(&exchange.gateway),
            decision: None,
            holds: Holds::default(),
            started: exchange.started,
            sent: None,
            departures: 0,
            status: None,
            verdict: None,
            cancellation: None,
            rounds: OnceLock::new(),
        }
    }

    /// Whether an outcome is to be recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        self.decision.is_some()
    }

    /// Follows the rounds of the request. Then this settles the last of them.
    pub(crate) fn follow_rounds(&self, exchange: &Exchange) -> Arc<CallRounds> {
        let follow = || {
            let first = Settlement {
                gateway: Arc::clone(&self.gateway),
                decision: self.decision.clone(),
                holds: self.holds,
                started: self.started,
                sent: self.sent,
                departures: self.departures,
                status: None,
                verdict: None,
                cancellation: None,
                rounds: OnceLock::new(),
            };
            Arc::new(CallRounds::new(exchange.clone(), first))
        };
        Arc::clone(self.rounds.get_or_init(follow))
    }

    /// The request is being sent.
    pub(crate) fn note_departure(&mut self) {
        self.sent = Some(Instant::now());
        self.departures += 1;
    }

    /// The upstream has begun to answer.
    pub(crate) fn note_answer<B>(&mut self, answer: &Response<B>) {
        self.status = Some(answer.status().as_u16());
        if let Some(Sendings(sendings)) = answer.extensions().get() {
            self.departures += sendings - 1;
        }
        self.verdict = answer.extensions().get().cloned();
    }

    /// The answer is complete.
    pub(crate) fn succeed(&mut self, is_error: Option<bool>) {
        let has_failed = self.verdict.as_ref().is_some_and(Verdict::has_failed);
        let is_error = if has_failed { Some(true) } else { is_error };
        if is_error == Some(true) {
            let why = &CallFailure::Reported;
            self.count_failure(why);
            self.finish(Outcome::Error, is_error, Some(why.to_string()));
        } else {
            self.finish(Outcome::Allow, is_error, None);
        }
    }

    /// The request is being sent, and can be cancelled.
    pub(crate) fn note_cancellation(&mut self, cancellation: Option<Cancellation>) {
        self.cancellation = cancellation;
    }

    /// The call failed.
    pub(crate) fn fail(&mut self, why: &CallFailure) {
        if why.gives_up()
            && self.sent.is_some()
            && let Some(cancellation) = self.cancellation.take()
        {
            cancellation.send();
        }
        self.count_failure(why);
        self.finish(Outcome::Error, None, Some(why.to_string()));
    }

    /// The client has cancelled the call.
    pub(crate) fn cancel(&mut self) {
        // No answer has begun, even if the transport reported a status.
        self.status = None;
        self.fail(&CallFailure::Cancelled);
    }

    /// Nothing was sent, so the charges are released; unless an earlier attempt was sent.
    pub(crate) async fn give_back(&mut self, why: &CallFailure) {
        if let Some(mut last) = self.end_rounds() {
            return last.fail(why);
        }
        self.departures = self.departures.saturating_sub(1);
        let was_sent = self.departures > 0;
        if !std::mem::take(&mut self.holds.charges) || was_sent {
            return self.fail(why);
        }
        let holds_leases = self.holds.leases;
        self.count_failure(why);
        let Some(record) = self.outcome(Outcome::Error, None, Some(why.to_string())) else {
            return;
        };
        let Some(request) = record.request else { return };
        // Before waiting: this may be abandoned while it waits.
        if holds_leases {
            self.gateway.store.give_back(request);
        }
        if let Err(error) = self.gateway.store.release(request, *record).await {
            tracing::error!(%error, "charges could not be given back");
        }
    }

    /// Counts a failure that is the server's.
    fn count_failure(&self, why: &CallFailure) {
        let server = self.decision.as_ref().and_then(|decision| decision.server.as_ref());
        if let (Some(server), Some(kind)) = (server, why.kind()) {
            self.gateway.metrics.note_upstream_error(server, kind);
        }
    }

    fn finish(&mut self, outcome: Outcome, is_error: Option<bool>, message: Option<String>) {
        self.cancellation = None;
        if let Some(mut last) = self.end_rounds() {
            last.status = self.status;
            return last.finish(outcome, is_error, message);
        }
        let holds_leases = self.holds.leases;
        if let Some(record) = self.outcome(outcome, is_error, message) {
            let request = record.request.filter(|_| holds_leases);
            self.gateway.store.append_deferred(record);
            // Afterwards, so that both are in one commit.
            if let Some(request) = request {
                self.gateway.store.give_back(request);
            }
        }
    }

    /// Ends the rounds of the request, if it has any; returns the settlement of the last one
    /// if that is still to be settled instead of this one.
    fn end_rounds(&mut self) -> Option<Box<Settlement>> {
        match self.rounds.take()?.finish() {
            Round::First(mut copy) => {
                copy.decision = None;
                None
            }
            last => {
                self.decision = None;
                if let Round::Later(last) = last { Some(last) } else { None }
            }
        }
    }

    /// Adds to a message how often the request was sent, unless that was once.
    fn add_sendings(&self, message: Option<String>) -> Option<String> {
        if self.departures < 2 {
            return message;
        }
        let sendings = format!("the request was sent {} times", self.departures);
        Some(message.map_or_else(|| sendings.clone(), |message| format!("{message}; {sendings}")))
    }

    fn outcome(
        &mut self,
        outcome: Outcome,
        is_error: Option<bool>,
        message: Option<String>,
    ) -> Option<Box<Record>> {
        let mut record = self.decision.take()?;
        let message = self.add_sendings(message);
        let at = self.gateway.settings.clock.now();
        let micros = micros(self.started);
        let upstream = self.sent.map(|sent| UpstreamRef {
            status: self.status,
            is_error,
            micros: self::micros(sent),
        });
        self.gateway.metrics.note_outcome(&record, upstream.as_ref(), micros);
        // Changed in place, because it is large.
        (record.id, record.at, record.kind) = (new_id(at), at, Kind::Outcome);
        record.outcome = Some(outcome);
        record.message = message.map(|message| shorten(&message, LONGEST_MESSAGE).into_owned());
        (record.upstream, record.micros) = (upstream, Some(micros));
        (record.rule, record.arg_digest, record.arg_values) = (None, None, None);
        record.arg_keys.clear();
        Some(record)
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        if self.decision.is_some() || self.cancellation.is_some() {
            self.fail(&CallFailure::Abandoned);
        }
    }
}

/// How a call ended.
#[derive(Debug)]
pub(crate) enum CallEnd {
    /// With an answer. `is_error` is `None` if the answer does not say.
    Answered {
        is_error: Option<bool>,
    },
    Failed(CallFailure),
    /// Not yet: the answer streams, and the stream settles the call at its end.
    Later,
}

/// Records how a call ended, if it has.
pub(crate) fn settle(relayed: Relayed) -> Result<Response<ClientBody>, Refusal> {
    let Relayed { response, end, settlement } = relayed;
    if let Some(mut settlement) = settlement {
        match end {
            CallEnd::Answered { is_error } => settlement.succeed(is_error),
            CallEnd::Failed(failure) => settlement.fail(&failure),
            CallEnd::Later => {}
        }
    }
    response
}

/// Microseconds since a point in time.
pub(crate) fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}
