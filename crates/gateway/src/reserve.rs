//! Makes a decision take effect: charges are reserved and the record is on disk before
//! anything is sent. Only then is a `Permitted` request made.
//!
//! A denial is recorded in the same way. A request that cannot be recorded is refused.

mod own;
mod tool;
mod unserved;

use std::{borrow::Cow, sync::Arc};

use sluice_store::{Kind, Outcome, Record, new_id};
use sluice_wire::edit::quote;

use crate::{
    exchange::Exchange,
    judge::{Access, Judged, Outgoing, Ruling},
    refusal::Refusal,
    settle::Settlement,
};

pub(crate) use own::{INITIALIZED, Introduction};
pub(crate) use unserved::{Unserved, refuse_unknown_tool, refuse_unserved};

/// A request that may be sent, exactly as it was judged, together with its settlement.
///
/// INVARIANT: made only in this module: from a judged request that every policy allows,
/// that a policy permits with the record on disk, or whose charges are reserved; and for
/// the gateway's own messages, which are built here (`own`).
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

    /// The part of the record that is still to be written.
    pub(crate) fn settlement(&mut self) -> Option<&mut Settlement> {
        self.settlement.as_mut()
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
        Ruling::Open => None,
        Ruling::Access(access) => Some(Box::pin(reserve_access(exchange, access)).await?),
        Ruling::LookAlike { method, refusal } => {
            return Err(Box::pin(refuse_look_alike(exchange, method, refusal)).await);
        }
        Ruling::Tool(ruling) => Some(tool::reserve(exchange, ruling).await?),
    };
    Ok(Permitted { request, settlement })
}

/// Records the decision on a request that is not a tool call.
async fn reserve_access(exchange: &Exchange, access: Access<'_>) -> Result<Settlement, Refusal> {
    let mut record = new_record(exchange, access.method);
    if record.method.as_deref() != Some(access.target) {
        record.target = Some(shorten(access.target, 256).into_owned());
    }
    if access.is_permitted {
        record.outcome = Some(Outcome::Allow);
        return reserve_nothing(exchange, record).await;
    }
    let message = denial_message(access.target);
    deny(exchange, &mut record, access.rule, &message);
    if exchange.is_shadow() && !access.refuses_in_shadow {
        return reserve_nothing(exchange, record).await;
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
fn deny(exchange: &Exchange, record: &mut Record, rule: &'static str, message: &str) {
    let rule = if exchange.policy.is_none() { "(no policy)" } else { rule };
    record.rule = Some(rule.into());
    record.message = Some(message.to_owned());
    let outcome = if exchange.is_shadow() { Outcome::ShadowDeny } else { Outcome::Deny };
    record.outcome = Some(outcome);
}

/// Records a request whose method some server may take for a known one.
async fn refuse_look_alike(exchange: &Exchange, method: &str, refusal: Refusal) -> Refusal {
    let mut record = new_record(exchange, shorten_method(method));
    record.outcome = Some(Outcome::Deny);
    record.rule = Some("/methods".into());
    write(exchange, record).await.err().unwrap_or(refusal)
}

/// Records that the policy denies a request of the server to its client. `Ok` in shadow
/// mode, in which the request is passed on anyway.
pub(crate) async fn deny_server_request(exchange: &Exchange, method: &str) -> Result<(), Refusal> {
    let mut record = new_record(exchange, shorten_method(method));
    if record.method.as_deref() != Some(method) {
        record.target = Some(shorten(method, 256).into_owned());
    }
    let message = denial_message(method);
    deny(exchange, &mut record, "/server_requests", &message);
    let rule = record.rule.as_deref().unwrap_or_default();
    let decision = describe_decision(&record, Outcome::Deny, rule, &[]);
    write(exchange, record).await?;
    if exchange.is_shadow() { Ok(()) } else { Err(Refusal::Denied { message, decision }) }
}

/// Records a decision that permits the request without charges.
async fn reserve_nothing(exchange: &Exchange, record: Record) -> Result<Settlement, Refusal> {
    write(exchange, record.clone()).await?;
    Ok(Settlement::new(Arc::clone(&exchange.gateway), record, false, exchange.started))
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
async fn write(exchange: &Exchange, record: Record) -> Result<(), Refusal> {
    announce(exchange, &record);
    exchange.gateway.store.append(record).await.map_err(|error| {
        tracing::error!(%error, "a decision could not be recorded");
        Refusal::Store
    })
}

/// The record of a decision, with all fields that are known in advance.
fn new_record(exchange: &Exchange, method: impl Into<Cow<'static, str>>) -> Record {
    Record {
        request: Some(exchange.request),
        server: Some(Arc::clone(&exchange.server.link.name)),
        grant: Some(exchange.holder.reference.clone()),
        principal: exchange.holder.principal.clone(),
        session: exchange.session.as_ref().map(|session| Arc::clone(&session.id)),
        method: Some(method.into()),
        policy: exchange.policy.as_ref().map(|in_force| in_force.reference.clone()),
        micros: Some(crate::settle::micros(exchange.started)),
        ..Record::new(new_id(exchange.at), exchange.at, Kind::Decision)
    }
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
