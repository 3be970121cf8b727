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

/// The outcome record of a permitted call, while it is still to be written.
///
/// If this is dropped unsettled, it records that the client did not wait for the answer.
#[derive(Debug)]
pub(crate) struct Settlement {
    gateway: Arc<Inner>,
    /// The record of the decision, from which the outcome's record is made.
    decision: Option<Box<Record>>,
    /// Whether a reservation made charges that can be given back.
    is_charged: bool,
    started: Instant,
    sent: Option<Instant>,
    status: Option<u16>,
    /// A built-in server's own verdict on the call, besides its answer.
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

    /// The request is being sent.
    pub(crate) fn note_departure(&mut self) {
        self.sent = Some(Instant::now());
    }

    /// The upstream has begun to answer.
    pub(crate) fn note_answer<B>(&mut self, answer: &Response<B>) {
        self.status = Some(answer.status().as_u16());
        self.verdict = answer.extensions().get().cloned();
    }

    /// The answer is complete.
    pub(crate) fn succeed(&mut self, is_error: Option<bool>) {
        let has_failed = self.verdict.as_ref().is_some_and(Verdict::has_failed);
        let is_error = if has_failed { Some(true) } else { is_error };
        let outcome = if is_error == Some(true) { Outcome::Error } else { Outcome::Allow };
        self.finish(outcome, is_error, None);
    }

    /// The call failed.
    pub(crate) fn fail(&mut self, why: &CallFailure) {
        self.finish(Outcome::Error, None, Some(why.to_string()));
    }

    /// The client has cancelled the call.
    pub(crate) fn cancel(&mut self) {
        // No answer has begun, even if the transport reported a status.
        self.status = None;
        self.fail(&CallFailure::Cancelled);
    }

    /// Nothing was sent, so the charges are released.
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
