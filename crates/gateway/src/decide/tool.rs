//! The decision on a tool call.

use std::{borrow::Cow, fmt, fmt::Write as _, sync::Arc};

use ring::hmac;
use sluice_policy::{
    Allow, Amount, ArgPath, Call, Decision, Denial, Facts, Limit, Scope, Terms, judge,
};
use sluice_store::{Approval, Charge, CounterKey, Outcome, Record, Reservation, Reserved};
use sluice_wire::{edit::quoted, json::Value};

use super::{NotCalled, Permit, Stop, announce, record, shortened, shown, write};
use crate::{
    assess::{ToolList, Tools},
    refusal::Refusal,
    settle::Settlement,
    visit::Visit,
};

/// A tool call as it was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToolCall<'a> {
    pub(crate) tool: &'a str,
    pub(crate) arguments: Option<Value<'a>>,
}

/// Names and keys of a call are kept to this many characters in records.
const LONGEST_KEPT: usize = 256;
const MOST_KEYS: usize = 100;
/// Bytes of one recorded value.
const LONGEST_VALUE: usize = 4096;

/// Judges a call; what may go is charged and recorded.
pub(crate) async fn tool_call(
    visit: &Visit,
    call: ToolCall<'_>,
    list: Option<&ToolList>,
) -> Result<Permit, Stop> {
    let facts = list.map_or(Facts::NoList, |list| list.facts(call.tool));
    let judged =
        Call::new(call.tool, call.arguments).map_err(|error| Refusal::Params(error.to_string()))?;
    let mut record = record(visit, "tools/call");
    describe(visit, &mut record, call);
    match judge(visit.rules(), &judged, facts, visit.at) {
        Decision::Deny(denial) => Box::pin(denied(visit, record, &denial)).await,
        Decision::Hold(terms) => {
            // A question is bound to the tool's definition, so that must be had
            // even where the decision did not depend on it.
            let bounds = visit.gateway.settings.answer_bounds();
            let learnt = match list {
                Some(_) => None,
                None => Box::pin(Tools::list(&visit.server.link, &bounds, call.tool)).await,
            };
            Box::pin(held(visit, record, call, list.or(learnt.as_deref()), &terms)).await
        }
        Decision::Allow(allow) => allowed(visit, record, &allow).await,
    }
}

/// What of a call goes into its record: names, never values.
fn describe(visit: &Visit, record: &mut Record, call: ToolCall<'_>) {
    record.tool = Some(Arc::from(&*shortened(call.tool, LONGEST_KEPT)));
    let Some(arguments) = call.arguments else { return };
    let keys = arguments.members().into_iter().flatten().filter_map(|(key, _)| key.as_str());
    record.arg_keys =
        keys.take(MOST_KEYS).map(|key| shortened(key, LONGEST_KEPT).into_owned()).collect();
    record.arg_keys.sort_unstable();
    let digest = hmac::sign(&visit.gateway.digests, arguments.raw().as_bytes());
    record.arg_digest = digest.as_ref().try_into().ok();
    record.arg_values = recorded(&visit.gateway.settings.recorded, arguments);
}

/// The values that the operator wants recorded, by path; long ones are cut out.
fn recorded(paths: &[ArgPath], arguments: Value<'_>) -> Option<String> {
    let mut members = Vec::new();
    for path in paths {
        let values: Vec<_> = path.values(Some(arguments)).into_iter().map(short).collect();
        if !values.is_empty() {
            members.push(format!("{}:[{}]", quoted(path.text()), values.join(",")));
        }
    }
    (!members.is_empty()).then(|| format!("{{{}}}", members.join(",")))
}

fn short(value: Value<'_>) -> String {
    let text = value.to_string();
    if text.len() <= LONGEST_VALUE { text } else { quoted(&format!("({} bytes)", text.len())) }
}

struct Digest(hmac::Context);

impl fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

async fn denied(visit: &Visit, mut record: Record, denial: &Denial<'_>) -> Result<Permit, Stop> {
    record.rule = Some(Arc::from(&*denial.rule));
    record.message.get_or_insert_with(|| denial.message.to_string());
    if visit.is_shadow() && !denial.refuses_in_shadow() {
        return shadowed(visit, record).await;
    }
    record.outcome = Some(match denial.outcome() {
        sluice_policy::Outcome::Hide => Outcome::Hide,
        sluice_policy::Outcome::Deny
        | sluice_policy::Outcome::Allow
        | sluice_policy::Outcome::Hold => Outcome::Deny,
    });
    let rule = if denial.is_unavailable() { "(not available)" } else { &denial.rule };
    let retry = denial.retry_after.map(|millis| ("retryAfterMs", millis.to_string()));
    let decision = shown(&record, Outcome::Deny, rule, retry.as_slice());
    let text = format!("[POLICY DENIED] {}", denial.message);
    write(visit, record).await?;
    Err(Stop::NotCalled(NotCalled { text, decision }))
}

/// Lets a call through that would be denied or held, and says so in its record.
async fn shadowed(visit: &Visit, mut record: Record) -> Result<Permit, Stop> {
    record.outcome = Some(Outcome::ShadowDeny);
    Ok(super::permitted(visit, record).await?)
}

/// Reserves the charges and records the decision, in one transaction.
async fn allowed(visit: &Visit, mut record: Record, allow: &Allow<'_>) -> Result<Permit, Stop> {
    let charges: Vec<_> = allow.charges().map(|charge| owned(visit, &charge)).collect();
    let is_charged = !charges.is_empty();
    record.outcome = Some(Outcome::Allow);
    let reservation = Reservation { id: visit.request, charges, record: record.clone() };
    let reserved = visit.gateway.store.reserve(reservation).await;
    match reserved {
        Ok(Reserved::Made { .. }) => {
            announce(visit, &record);
            let settlement =
                Settlement::new(Arc::clone(&visit.gateway), record, is_charged, visit.started);
            Ok(Permit { settlement: Some(settlement) })
        }
        Ok(Reserved::Refused { readings }) => {
            let counters: Vec<_> = allow.charges().map(|charge| charge.limit.counter()).collect();
            let reading = |limit: &Limit| {
                let place = counters.iter().position(|counter| *counter == limit.counter());
                place.and_then(|place| readings.get(place)).copied().unwrap_or(Amount::ZERO)
            };
            match allow.admit(reading) {
                Err(denial) => {
                    // The engine's own words say how much was asked for, which is
                    // an argument's value: the caller's, and not the record's.
                    let is_amount = allow.charges().any(|charge| charge.amount != Amount::ONE);
                    if is_amount && matches!(denial.message, Cow::Owned(_)) {
                        record.message = Some("the limit does not leave as much".into());
                    }
                    Box::pin(denied(visit, record, &denial)).await
                }
                // The store refused what its own readings admit: not understood, so not sent.
                Ok(()) => Err(Refusal::Internal.into()),
            }
        }
        Err(error) => {
            tracing::error!(%error, "charges could not be reserved");
            Err(Refusal::Store.into())
        }
    }
}

fn owned(visit: &Visit, charge: &sluice_policy::Charge<'_>) -> Charge {
    let holder = &visit.holder;
    let owner = match charge.limit.scope() {
        Scope::Grant => holder.id(),
        Scope::Session => visit.session.as_ref().map_or(holder.id(), |session| &session.id),
        Scope::Principal => holder.owner(),
        Scope::Server => "",
    };
    Charge {
        key: CounterKey::new(
            visit.server_name(),
            charge.limit.scope(),
            owner,
            charge.limit.counter(),
        ),
        window: charge.limit.window(),
        amount: charge.amount,
        max: charge.limit.max(),
    }
}

/// Stores that a human is asked, or joins the same question.
async fn held(
    visit: &Visit,
    mut record: Record,
    call: ToolCall<'_>,
    list: Option<&ToolList>,
    terms: &Terms<'_>,
) -> Result<Permit, Stop> {
    record.rule = Some(terms.rule.into());
    record.message = terms.message.map(str::to_owned);
    if visit.is_shadow() {
        return shadowed(visit, record).await;
    }
    // Only a policy can hold a call.
    let in_force = visit.policy.as_ref().ok_or(Refusal::Internal)?;
    let asked = terms.message.unwrap_or("A human must approve this call.");
    record.outcome = Some(Outcome::Hold);
    let expires_at = sluice_policy::Timestamp::from_millis(
        visit.at.as_millis().saturating_add_unsigned(terms.expires_seconds.saturating_mul(1000)),
    );
    let approval = Approval {
        digest: question(visit, call, list),
        server: visit.server_name().to_owned(),
        grant: visit.holder.reference.clone(),
        principal: visit.holder.principal.as_deref().map(str::to_owned),
        tool: call.tool.to_owned(),
        rule: terms.rule.to_owned(),
        approvers: terms.approvers,
        message: asked.to_owned(),
        policy: in_force.reference.clone(),
        arg_keys: record.arg_keys.clone(),
        requested_at: visit.at,
        expires_at,
    };
    announce(visit, &record);
    let decision = record.clone();
    let pending = visit.gateway.store.hold(approval, record).await.map_err(|error| {
        tracing::error!(%error, "a pending approval could not be stored");
        Refusal::Store
    })?;
    let until = pending.expires_at.to_string();
    let id = pending.id;
    let url = format!("{}/approvals/{id}", visit.gateway.settings.people);
    let text = format!(
        "[APPROVAL REQUIRED] {asked} Approval {id}, to be decided at {url} until {until}; then make the same call again."
    );
    let approval = format!(r#"{{"id":"{id}","url":{},"expiresAt":"{until}"}}"#, quoted(&url));
    let decision = shown(&decision, Outcome::Hold, terms.rule, &[("approval", approval)]);
    Err(Stop::NotCalled(NotCalled { text, decision }))
}

/// What an approval is bound to. Arguments are taken with sorted keys, so that
/// the same call is the same question however it is written.
fn question(visit: &Visit, call: ToolCall<'_>, list: Option<&ToolList>) -> String {
    let mut digest = Digest(hmac::Context::with_key(&visit.gateway.digests));
    let version = visit.policy.as_ref().map_or("", |in_force| &in_force.reference.version);
    let definition = list.and_then(|list| list.definition(call.tool)).unwrap_or_default();
    for part in [visit.holder.id(), visit.server_name(), call.tool, version, definition] {
        // Feeding a digest cannot fail.
        let _ = write!(digest, "{}:{part},", part.len());
    }
    if let Some(arguments) = call.arguments {
        sorted(&mut digest, arguments);
    }
    data_encoding::HEXLOWER.encode(digest.0.sign().as_ref())
}

/// Writes a value with the keys of objects in order.
fn sorted(out: &mut Digest, value: Value<'_>) {
    // Feeding a digest cannot fail.
    if let Some(members) = value.members() {
        let mut members: Vec<_> = members.collect();
        members.sort_unstable_by_key(|(key, _)| key.as_str());
        let _ = out.write_str("{");
        for (key, value) in members {
            let _ = write!(out, "{key}:");
            sorted(out, value);
            let _ = out.write_str(",");
        }
        let _ = out.write_str("}");
    } else if let Some(items) = value.items() {
        let _ = out.write_str("[");
        for item in items {
            sorted(out, item);
            let _ = out.write_str(",");
        }
        let _ = out.write_str("]");
    } else {
        let _ = write!(out, "{value}");
    }
}
