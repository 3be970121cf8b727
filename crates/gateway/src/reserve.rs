//! Applies a decision: charges are reserved and the audit record is committed before anything
//! is sent. Only this module makes a `Permitted` request.
//!
//! A denial is recorded before it is answered. A request that cannot be recorded is refused.

mod no_server;
mod own_messages;
mod server_request;
mod tool;

use std::{borrow::Cow, sync::Arc};

use sluice_policy::AccessDenial;
use sluice_store::{Kind, Outcome, Record, new_id};
use sluice_wire::edit::quote;

use crate::{
    cancel::Cancellation,
    exchange::Exchange,
    judge::{Access, Judged, Outgoing, Ruling},
    refusal::Refusal,
    rounds::CallRounds,
    settle::{Holds, Settlement},
};

pub(crate) use no_server::{Unserved, refuse_unknown_tool, refuse_unserved};
pub(crate) use own_messages::{INITIALIZED, Introduction};
pub(crate) use server_request::{Asked, allow_server_request, deny_server_request};

/// Messages are cut to this many characters in records.
pub(crate) const LONGEST_MESSAGE: usize = 1024;

/// A request that may be sent, exactly as it was judged, together with its settlement.
///
/// INVARIANT: made only in this module: from a judged request that every policy allows,
/// that a policy permits with the record on disk, or whose charges are reserved; and for
/// the gateway's own messages, which are built here (`own_messages`).
#[derive(Debug)]
pub(crate) struct Permitted {
    request: Outgoing,
    settlement: Option<Settlement>,
}

impl Permitted {
    /// The request to send.
    pub(crate) fn request(&self) -> &Outgoing {
        &self.request
    }

    /// What is still to be done when the answer is complete, or nobody waits for it.
    pub(crate) fn settlement(&mut self) -> Option<&mut Settlement> {
        self.settlement.as_mut()
    }

    /// Follows the rounds of a request of a legacy client, which the bridge may repeat.
    pub(crate) fn follow_rounds(&self, exchange: &Exchange) -> Option<Arc<CallRounds>> {
        let settlement = self.settlement.as_ref().filter(|settlement| settlement.is_recorded())?;
        (!exchange.is_modern()).then(|| settlement.follow_rounds(exchange))
    }

    /// Splits off the settlement; the request can then no longer be sent.
    pub(crate) fn into_parts(self) -> (Outgoing, Option<Settlement>) {
        (self.request, self.settlement)
    }
}

/// Reserves the charges of a decision and records it.
pub(crate) async fn reserve(
    exchange: &Exchange,
    judged: Box<Judged<'_>>,
) -> Result<Permitted, Refusal> {
    let (request, ruling) = judged.into_parts();
    let settlement = match ruling {
        Ruling::Open => {
            let expected = request.expected.as_ref();
            let is_possible = |expected: &_| Cancellation::is_possible(exchange, expected);
            expected.is_some_and(is_possible).then(|| Settlement::without_record(exchange))
        }
        Ruling::Access(access) => Some(Box::pin(record_access(exchange, access)).await?),
        Ruling::LookAlike { method, refusal } => {
            return Err(Box::pin(refuse_look_alike(exchange, method, refusal)).await);
        }
        Ruling::Tool(ruling) => Some(tool::reserve(exchange, ruling).await?),
    };
    Ok(Permitted { request, settlement })
}

/// Records the decision on a request that is not a tool call.
async fn record_access(exchange: &Exchange, access: Access<'_>) -> Result<Settlement, Refusal> {
    let mut record = new_record(exchange, access.method);
    if record.method.as_deref() != Some(access.target) {
        record.target = Some(shorten(access.target, 256).into_owned());
    }
    let Some(denial) = access.denial else {
        record.outcome = Some(Outcome::Allow);
        return record_uncharged(exchange, record).await;
    };
    let message = denial_message(access.target);
    let in_shadow = denial.in_shadow;
    deny(&mut record, denial, &message);
    if in_shadow {
        return record_uncharged(exchange, record).await;
    }
    let rule = record.rule.as_deref().unwrap_or_default();
    let decision = describe_decision(&record, Outcome::Deny, rule, &[]);
    write(exchange, record).await?;
    Err(access.refused_as.unwrap_or(Refusal::Denied { message, decision }))
}

fn denial_message(target: &str) -> String {
    format!("`{}` is not available to this grant", shorten(target, 256))
}

/// Notes a denial in a record, or in shadow mode that it would have been denied.
fn deny(record: &mut Record, denial: AccessDenial, message: &str) {
    let outcome = if denial.in_shadow { Outcome::ShadowDeny } else { Outcome::Deny };
    record.rule = Some(denial.rule.into());
    record.message = Some(shorten(message, LONGEST_MESSAGE).into_owned());
    record.outcome = Some(outcome);
}

/// Records a request whose method some server may take for a known one.
async fn refuse_look_alike(exchange: &Exchange, method: &str, refusal: Refusal) -> Refusal {
    let mut record = new_record(exchange, shorten_method(method));
    record.outcome = Some(Outcome::Deny);
    record.rule = Some("/methods".into());
    write(exchange, record).await.err().unwrap_or(refusal)
}

/// Records a decision that permits the request without charges.
async fn record_uncharged(exchange: &Exchange, record: Box<Record>) -> Result<Settlement, Refusal> {
    write(exchange, record.clone()).await?;
    Ok(Settlement::new(Arc::clone(&exchange.gateway), record, Holds::default(), exchange.started))
}

/// Reports a decision to the log and the metrics.
fn announce(exchange: &Exchange, record: &Record) {
    exchange.gateway.metrics.note_decision(exchange, record);
    tracing::debug!(
        request = %exchange.request,
        server = exchange.server_name(),
        grant = exchange.holder.id(),
        method = record.method.as_deref(),
        tool = record.tool.as_deref(),
        outcome = record.outcome.map(Outcome::as_str),
        rule = record.rule.as_deref(),
        "decided"
    );
}

/// Writes a decision to disk. If that fails, the request is refused.
async fn write(exchange: &Exchange, record: Box<Record>) -> Result<(), Refusal> {
    announce(exchange, &record);
    exchange
        .gateway
        .store
        .append(record)
        .await
        .map_err(|error| Refusal::from_store(&error, "a decision could not be recorded"))
}

/// The record of a decision, with all fields that are known in advance.
fn new_record(exchange: &Exchange, method: impl Into<Cow<'static, str>>) -> Box<Record> {
    Box::new(Record {
        request: Some(exchange.request),
        server: Some(Arc::clone(&exchange.server.link.name)),
        grant: Some(exchange.holder.reference.clone()),
        principal: exchange.holder.principal.clone(),
        session: exchange.session.as_ref().map(|session| Arc::clone(&session.id)),
        method: Some(method.into()),
        policy: exchange.policy.as_ref().map(|in_force| in_force.reference.clone()),
        micros: Some(crate::settle::micros(exchange.started)),
        ..Record::new(new_id(exchange.at), exchange.at, Kind::Decision)
    })
}

/// A decision as callers see it, as JSON.
fn describe_decision(
    record: &Record,
    outcome: Outcome,
    rule: &str,
    more: &[(&str, String)],
) -> String {
    let more: Vec<_> = more.iter().map(|(name, json)| format!(r#","{name}":{json}"#)).collect();
    let (id, rule, more) = (record.id, quote(rule), more.concat());
    let outcome = outcome.as_str();
    format!(r#"{{"id":"{id}","outcome":"{outcome}","rule":{rule}{more}}}"#)
}

/// The part of an unknown method name that records keep.
pub(crate) fn shorten_method(method: &str) -> Cow<'static, str> {
    shorten(method, 128).into_owned().into()
}

/// The first `most` characters of a text that a client chose.
pub(crate) fn shorten(text: &str, most: usize) -> Cow<'_, str> {
    // No text has more characters than bytes.
    let end = if text.len() <= most { None } else { text.char_indices().nth(most) };
    match end {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()).into(),
        None => text.into(),
    }
}
