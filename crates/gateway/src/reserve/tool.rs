//! The decision on a tool call: its charges are reserved, its denial is recorded, or the
//! call is held until people decide.

use std::{borrow::Cow, fmt, fmt::Write as _, sync::Arc};

use ring::hmac;
use sluice_policy::{Allow, Amount, ArgPath, Decision, Denial, Limit, Scope, Terms};
use sluice_store::{Approval, Charge, CounterKey, Outcome, Record, Reservation, Reserved};
use sluice_wire::{edit::quote, json::Value};

use super::{announce, describe_decision, new_record, shorten, unserved::NotCalled, write};
use crate::{
    assess::{ToolList, Tools},
    exchange::Exchange,
    judge::{ToolCall, ToolRuling},
    refusal::Refusal,
    settle::Settlement,
};

/// Names and keys of a call are cut to this many characters in records.
const LONGEST_KEPT: usize = 256;
const MOST_KEYS: usize = 100;
/// The longest recorded value, in bytes.
const LONGEST_VALUE: usize = 4096;

/// Makes the decision on a call take effect.
pub(super) async fn reserve(
    exchange: &Exchange,
    ruling: ToolRuling<'_>,
) -> Result<Settlement, Refusal> {
    let ToolRuling { call, decision, list, wants_task } = ruling;
    let mut record = new_record(exchange, "tools/call");
    record.tool = Some(Arc::from(&*shorten(call.tool, LONGEST_KEPT)));
    let stopped = match decision {
        Decision::Allow(allow) => match reserve_charges(exchange, record, call, &allow).await? {
            Charged::Made(settlement) => return Ok(settlement),
            Charged::Refused(record, denial) => Box::pin(deny(exchange, *record, &denial)).await?,
        },
        Decision::Deny(denial) => {
            describe_arguments(exchange, &mut record, call);
            Box::pin(deny(exchange, record, &denial)).await?
        }
        Decision::Hold(terms) => {
            describe_arguments(exchange, &mut record, call);
            Box::pin(hold(exchange, record, call, list.as_deref(), &terms)).await?
        }
    };
    match stopped {
        Stopped::Shadowed(settlement) => Ok(settlement),
        Stopped::NotCalled(why) => Err(why.into_refusal(exchange.revision.era(), wants_task)),
    }
}

/// The result for a call that is denied or held.
enum Stopped {
    /// It is sent anyway, because the policy is in shadow mode.
    Shadowed(Settlement),
    NotCalled(NotCalled),
}

/// The result for a call that is allowed if its charges fit.
enum Charged<'p> {
    Made(Settlement),
    /// A limit refuses it. The record is not written yet.
    Refused(Box<Record>, Denial<'p>),
}

/// Adds the arguments to a call's record: names, and only those values that the operator
/// selected.
fn describe_arguments(exchange: &Exchange, record: &mut Record, call: ToolCall<'_>) {
    let Some(arguments) = call.arguments else { return };
    let keys = arguments.members().into_iter().flatten().filter_map(|(key, _)| key.as_str());
    record.arg_keys =
        keys.take(MOST_KEYS).map(|key| shorten(key, LONGEST_KEPT).into_owned()).collect();
    record.arg_keys.sort_unstable();
    let digest = hmac::sign(&exchange.gateway.keys.digests, arguments.raw().as_bytes());
    record.arg_digest = digest.as_ref().try_into().ok();
    record.arg_values = record_values(&exchange.gateway.settings.recorded, arguments);
}

/// The values that the operator wants recorded, by path; long ones are omitted.
fn record_values(paths: &[ArgPath], arguments: Value<'_>) -> Option<String> {
    let mut members = Vec::new();
    for path in paths {
        let values: Vec<_> = path.values(Some(arguments)).into_iter().map(shorten_value).collect();
        if !values.is_empty() {
            members.push(format!("{}:[{}]", quote(path.text()), values.join(",")));
        }
    }
    (!members.is_empty()).then(|| format!("{{{}}}", members.join(",")))
}

fn shorten_value(value: Value<'_>) -> String {
    let text = value.to_string();
    if text.len() <= LONGEST_VALUE { text } else { quote(&format!("({} bytes)", text.len())) }
}

struct Digest(hmac::Context);

impl fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

async fn deny(
    exchange: &Exchange,
    mut record: Record,
    denial: &Denial<'_>,
) -> Result<Stopped, Refusal> {
    record.rule = Some(Arc::from(&*denial.rule));
    record.message.get_or_insert_with(|| denial.message.to_string());
    if exchange.is_shadow() && !denial.refuses_in_shadow() {
        return shadow(exchange, record).await;
    }
    record.outcome = Some(match denial.outcome() {
        sluice_policy::Outcome::Hide => Outcome::Hide,
        sluice_policy::Outcome::Deny
        | sluice_policy::Outcome::Allow
        | sluice_policy::Outcome::Hold => Outcome::Deny,
    });
    let rule = if denial.is_unavailable() { "(not available)" } else { &denial.rule };
    let retry = denial.retry_after.map(|millis| ("retryAfterMs", millis.to_string()));
    let decision = describe_decision(&record, Outcome::Deny, rule, retry.as_slice());
    let text = format!("[POLICY DENIED] {}", denial.message);
    write(exchange, record).await?;
    Ok(Stopped::NotCalled(NotCalled { text, decision }))
}

/// Lets a call through in shadow mode, and records that it would be denied or held.
async fn shadow(exchange: &Exchange, mut record: Record) -> Result<Stopped, Refusal> {
    record.outcome = Some(Outcome::ShadowDeny);
    Ok(Stopped::Shadowed(super::reserve_nothing(exchange, record).await?))
}

/// Reserves the charges and records the decision, in one transaction.
async fn reserve_charges<'p>(
    exchange: &Exchange,
    mut record: Record,
    call: ToolCall<'_>,
    allow: &Allow<'p>,
) -> Result<Charged<'p>, Refusal> {
    let charges: Vec<_> = allow.charges().map(|charge| charge_of(exchange, &charge)).collect();
    let is_charged = !charges.is_empty();
    record.outcome = Some(Outcome::Allow);
    // The outcome's record, which is made from `record` later, is without arguments.
    let mut decision = record.clone();
    describe_arguments(exchange, &mut decision, call);
    let reservation = Reservation { id: exchange.request, charges, record: decision };
    let readings = match exchange.gateway.store.reserve(reservation).await {
        Ok(Reserved::Made { .. }) => {
            announce(exchange, &record);
            let (gateway, started) = (Arc::clone(&exchange.gateway), exchange.started);
            let settlement = Settlement::new(gateway, record, is_charged, started);
            return Ok(Charged::Made(settlement));
        }
        Ok(Reserved::Refused { readings }) => readings,
        Err(error) => {
            tracing::error!(%error, "charges could not be reserved");
            return Err(Refusal::Store);
        }
    };
    let counters: Vec<_> = allow.charges().map(|charge| charge.limit.counter()).collect();
    let reading = |limit: &Limit| {
        let place = counters.iter().position(|counter| *counter == limit.counter());
        place.and_then(|place| readings.get(place)).copied().unwrap_or(Amount::ZERO)
    };
    // If the store refuses although its readings fit, something is wrong: nothing is
    // sent.
    let denial = allow.admit(reading).err().ok_or(Refusal::Internal)?;
    describe_arguments(exchange, &mut record, call);
    // The engine's message quotes the amount, which is an argument's value. The caller
    // may see it, but it must not be recorded.
    let is_amount = allow.charges().any(|charge| charge.amount != Amount::ONE);
    if is_amount && matches!(denial.message, Cow::Owned(_)) {
        record.message = Some("the limit does not leave as much".into());
    }
    Ok(Charged::Refused(Box::new(record), denial))
}

fn charge_of(exchange: &Exchange, charge: &sluice_policy::Charge<'_>) -> Charge {
    let holder = &exchange.holder;
    let owner = match charge.limit.scope() {
        Scope::Grant => holder.id(),
        Scope::Session => exchange.session.as_ref().map_or(holder.id(), |session| &session.id),
        Scope::Principal => holder.owner(),
        Scope::Server => "",
    };
    Charge {
        key: CounterKey::new(
            exchange.server_name(),
            charge.limit.scope(),
            owner,
            charge.limit.counter(),
        ),
        window: charge.limit.window(),
        amount: charge.amount,
        max: charge.limit.max(),
    }
}

/// Stores a request for approval, or joins the pending one for the same call.
async fn hold(
    exchange: &Exchange,
    mut record: Record,
    call: ToolCall<'_>,
    list: Option<&ToolList>,
    terms: &Terms<'_>,
) -> Result<Stopped, Refusal> {
    record.rule = Some(terms.rule.into());
    record.message = terms.message.map(str::to_owned);
    if exchange.is_shadow() {
        return shadow(exchange, record).await;
    }
    // An approval is bound to the tool's definition, so the definition is needed even if
    // the decision did not depend on it.
    let bounds = exchange.gateway.settings.answer_bounds();
    let learnt = match list {
        Some(_) => None,
        None => Tools::list(&exchange.server.link, &bounds, call.tool).await,
    };
    let list = list.or(learnt.as_deref());
    // Only a policy can hold a call.
    let in_force = exchange.policy.as_ref().ok_or(Refusal::Internal)?;
    let asked = terms.message.unwrap_or("A human must approve this call.");
    record.outcome = Some(Outcome::Hold);
    let expires_at = sluice_policy::Timestamp::from_millis(
        exchange.at.as_millis().saturating_add_unsigned(terms.expires_seconds.saturating_mul(1000)),
    );
    let approval = Approval {
        digest: digest_question(exchange, call, list),
        server: exchange.server_name().to_owned(),
        grant: exchange.holder.reference.clone(),
        principal: exchange.holder.principal.as_deref().map(str::to_owned),
        tool: call.tool.to_owned(),
        rule: terms.rule.to_owned(),
        approvers: terms.approvers,
        message: asked.to_owned(),
        policy: in_force.reference.clone(),
        arg_keys: record.arg_keys.clone(),
        requested_at: exchange.at,
        expires_at,
    };
    announce(exchange, &record);
    let decision = record.clone();
    let pending = exchange.gateway.store.hold(approval, record).await.map_err(|error| {
        tracing::error!(%error, "a pending approval could not be stored");
        Refusal::Store
    })?;
    let until = pending.expires_at.to_string();
    let id = pending.id;
    let url = format!("{}/approvals/{id}", exchange.gateway.settings.people);
    let text = format!(
        "[APPROVAL REQUIRED] {asked} Approval {id}, to be decided at {url} until {until}; then make the same call again."
    );
    let approval = format!(r#"{{"id":"{id}","url":{},"expiresAt":"{until}"}}"#, quote(&url));
    let decision =
        describe_decision(&decision, Outcome::Hold, terms.rule, &[("approval", approval)]);
    Ok(Stopped::NotCalled(NotCalled { text, decision }))
}

/// The digest that an approval is bound to. Object keys are sorted, so that the same call
/// has the same digest however it is written.
fn digest_question(exchange: &Exchange, call: ToolCall<'_>, list: Option<&ToolList>) -> String {
    let mut digest = Digest(hmac::Context::with_key(&exchange.gateway.keys.digests));
    let version = exchange.policy.as_ref().map_or("", |in_force| &in_force.reference.version);
    let definition = list.and_then(|list| list.definition(call.tool)).unwrap_or_default();
    for part in [exchange.holder.id(), exchange.server_name(), call.tool, version, definition] {
        // Feeding a digest cannot fail.
        let _ = write!(digest, "{}:{part},", part.len());
    }
    if let Some(arguments) = call.arguments {
        feed_sorted(&mut digest, arguments);
    }
    data_encoding::HEXLOWER.encode(digest.0.sign().as_ref())
}

/// Writes a value with the keys of objects in order.
fn feed_sorted(out: &mut Digest, value: Value<'_>) {
    // Feeding a digest cannot fail.
    if let Some(members) = value.members() {
        let mut members: Vec<_> = members.collect();
        members.sort_unstable_by_key(|(key, _)| key.as_str());
        let _ = out.write_str("{");
        for (key, value) in members {
            let _ = write!(out, "{key}:");
            feed_sorted(out, value);
            let _ = out.write_str(",");
        }
        let _ = out.write_str("}");
    } else if let Some(items) = value.items() {
        let _ = out.write_str("[");
        for item in items {
            feed_sorted(out, item);
            let _ = out.write_str(",");
        }
        let _ = out.write_str("]");
    } else {
        let _ = write!(out, "{value}");
    }
}
