//! Settling a call: the record of its outcome, and the release of its charges if
//! certainly nothing was sent.

mod failure;

use std::sync::Arc;

use http::Response;
use sluice_builtin::Verdict;
use sluice_store::{Kind, Outcome, Record, UpstreamRef, new_id};
use tokio::time::Instant;

use crate::{answer::Relayed, body::ClientBody, gateway::Inner, refusal::Refusal};

pub(crate) use failure::CallFailure;

/// What is still to be recorded of a call that has its permit.
///
/// Dropped unsettled, it records that its client did not wait for the answer.
#[derive(Debug)]
pub(crate) struct Settlement {
    gateway: Arc<Inner>,
    /// The decision's record, from which the outcome's is made.
    decision: Option<Box<Record>>,
    /// Whether a reservation made charges that can be given back.
    is_charged: bool,
    started: Instant,
    sent: Option<Instant>,
    status: Option<u16>,
    /// What a server of our own says of the call, beside its answer.
    verdict: Option<Verdict>,
}

impl Settlement {
    pub(crate) fn new(
        gateway: Arc<Inner>,
        decision: Record,
        is_charged: bool,
        started: Instant,
    ) -> Settlement {
        Settlement {
            gateway,
            decision: Some(Box::new(decision)),
            is_charged,
            started,
            sent: None,
            status: None,
            verdict: None,
        }
    }

    /// The request leaves now.
    pub(crate) fn note_departure(&mut self) {
        self.sent = Some(Instant::now());
    }

    /// The upstream has begun to answer.
    pub(crate) fn note_answer<B>(&mut self, answer: &Response<B>) {
        self.status = Some(answer.status().as_u16());
        self.verdict = answer.extensions().get().cloned();
    }

    /// The answer is whole.
    pub(crate) fn succeed(&mut self, is_error: Option<bool>) {
        let has_failed = self.verdict.as_ref().is_some_and(Verdict::has_failed);
        let is_error = if has_failed { Some(true) } else { is_error };
        let outcome = if is_error == Some(true) { Outcome::Error } else { Outcome::Allow };
        self.finish(outcome, is_error, None);
    }

    /// There was no good answer.
    pub(crate) fn fail(&mut self, why: &CallFailure) {
        self.finish(Outcome::Error, None, Some(why.to_string()));
    }

    /// The client has cancelled the call, so that no answer was waited for.
    pub(crate) fn cancel(&mut self) {
        // No answer has begun, whatever the transport says.
        self.status = None;
        self.fail(&CallFailure::Cancelled);
    }

    /// Certainly nothing was sent: the charges are given back.
    pub(crate) async fn give_back(&mut self, why: &CallFailure) {
        if !std::mem::take(&mut self.is_charged) {
            return self.fail(why);
        }
        let Some(record) = self.outcome(Outcome::Error, None, Some(why.to_string())) else {
            return;
        };
        let Some(request) = record.request else { return };
        if let Err(error) = self.gateway.store.release(request, record).await {
            tracing::error!(%error, "charges could not be given back");
        }
    }

    fn finish(&mut self, outcome: Outcome, is_error: Option<bool>, message: Option<String>) {
        if let Some(record) = self.outcome(outcome, is_error, message) {
            self.gateway.store.append_deferred(record);
        }
    }

    fn outcome(
        &mut self,
        outcome: Outcome,
        is_error: Option<bool>,
        message: Option<String>,
    ) -> Option<Record> {
        let decision = *self.decision.take()?;
        let at = self.gateway.settings.clock.now();
        let micros = micros(self.started);
        let upstream = self.sent.map(|sent| UpstreamRef {
            status: self.status,
            is_error,
            micros: self::micros(sent),
        });
        self.gateway.metrics.note_outcome(&decision, upstream.as_ref(), micros);
        Some(Record {
            id: new_id(at),
            at,
            kind: Kind::Outcome,
            outcome: Some(outcome),
            message,
            upstream,
            micros: Some(micros),
            rule: None,
            arg_keys: Vec::new(),
            arg_digest: None,
            arg_values: None,
            ..decision
        })
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        if self.decision.is_some() {
            self.fail(&CallFailure::Abandoned);
        }
    }
}

/// How a call ended.
#[derive(Debug)]
pub(crate) enum CallEnd {
    /// With an answer; whether it is an error, if it says so.
    Answered {
        is_error: Option<bool>,
    },
    Failed(CallFailure),
    /// It has not ended: the answer streams, and settles the call at its end.
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

/// Microseconds since a moment.
pub(crate) fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}
