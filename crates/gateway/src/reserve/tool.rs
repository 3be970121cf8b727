//! Applies the decision on a tool call. Allow: its charges are reserved. Deny: the denial is
//! recorded. Hold: the call is stored for approval, and refused.

use std::{borrow::Cow, fmt, fmt::Write as _, sync::Arc};

use ring::hmac;
use sluice_policy::{
    Allow, Amount, ArgPath, Concurrency, Decision, Denial, Limit, Objection, Scope, Terms,
};
use sluice_store::{
    Approval, Charge, CounterKey, Lease, Outcome, Record, Reservation, Reserved, StoreError,
};
use sluice_wire::{edit::quote, json::Value};

use super::{
    LONGEST_MESSAGE, announce, describe_decision, new_record, no_server::NotCalled, shorten, write,
};
use crate::{
    assess::{ToolList, Tools},
    exchange::Exchange,
    judge::{ToolCall, ToolRuling},
    refusal::Refusal,
    settle::{Holds, Settlement},
};

/// Names and keys of a call are cut to this many characters in records.
const LONGEST_KEPT: usize = 256;
const MOST_KEYS: usize = 100;
/// The names of a call's arguments that its record keeps, in bytes; further names are left out.
const MOST_KEY_BYTES: usize = 4 << 10;
/// The longest recorded value, in bytes.
const LONGEST_VALUE: usize = 4096;
/// The values that a record keeps, in bytes; further ones are left out.
const MOST_VALUE_BYTES: usize = 16 << 10;

/// Makes the decision on a call take effect.
pub(super) async fn reserve(
    exchange: &Exchange,
    ruling: ToolRuling<'_>,
) -> Result<Settlement, Refusal> {
    let ToolRuling { call, decision, list, wants_task } = ruling;
    let mut record = new_record(exchange, "tools/call");
    record.tool = Some(Arc::from(&*shorten(call.tool, LONGEST_KEPT)));
    let ended = match decision {
        Decision::Allow(allow) if allow.objection().is_some() => {
            Box::pin(pass_over_objection(exchange, record, call, &allow)).await?
        }
        Decision::Allow(allow) => {
            record.outcome = Some(Outcome::Allow);
            match reserve_charges(exchange, record, call, &allow).await? {
                Charged::Made(settlement) => return Ok(settlement),
                Charged::Refused(record, denial) => {
                    Box::pin(refuse_charges(exchange, record, call, &allow, denial)).await?
                }
            }
        }
        Decision::Deny(denial) => {
            describe_arguments(exchange, &mut record, call);
            Err(Box::pin(deny(exchange, record, &denial)).await?)
        }
        Decision::Hold(terms) => {
            describe_arguments(exchange, &mut record, call);
            Err(Box::pin(hold(exchange, record, call, list.as_deref(), &terms)).await?)
        }
    };
    ended.map_err(|why| why.into_refusal(exchange.revision.era(), wants_task))
}

/// A call that is sent, or why it is not.
type Ended = Result<Settlement, NotCalled>;

/// Denies a call for which a limit has no room, unless only a limit in shadow mode has none.
async fn refuse_charges(
    exchange: &Exchange,
    mut record: Box<Record>,
    call: ToolCall<'_>,
    allow: &Allow<'_>,
    denial: Denial<'_>,
) -> Result<Ended, Refusal> {
    if !denial.is_in_shadow() {
        return Ok(Err(deny(exchange, record, &denial).await?));
    }
    note_denial(&mut record, &denial);
    pass_in_shadow(exchange, record, call, &allow.without_shadow()).await
}

/// Lets a call through against which policies in shadow mode have something.
async fn pass_over_objection(
    exchange: &Exchange,
    mut record: Box<Record>,
    call: ToolCall<'_>,
    allow: &Allow<'_>,
) -> Result<Ended, Refusal> {
    match allow.objection() {
        Some(Objection::Deny(denial)) => note_denial(&mut record, denial),
        Some(Objection::Hold(terms)) => note_terms(&mut record, terms),
        None => {}
    }
    pass_in_shadow(exchange, record, call, allow).await
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
    let mut bytes = 0;
    let keys = keys.map(|key| shorten(key, LONGEST_KEPT).into_owned()).take_while(|key| {
        bytes += key.len();
        bytes <= MOST_KEY_BYTES
    });
    record.arg_keys = keys.take(MOST_KEYS).collect();
    record.arg_keys.sort_unstable();
    let digest = hmac::sign(&exchange.gateway.keys.digests, arguments.raw().as_bytes());
    record.arg_digest = digest.as_ref().try_into().ok();
    record.arg_values = record_values(&exchange.gateway.settings.recorded, arguments);
}

/// The values that the operator wants recorded, by path; long ones are omitted.
fn record_values(paths: &[ArgPath], arguments: Value<'_>) -> Option<String> {
    let mut members = Vec::new();
    let mut bytes = 0;
    for path in paths {
        let values = path.values(Some(arguments)).into_iter().map(shorten_value);
        let values = values.take_while(|value| {
            bytes += value.len() + 1;
            bytes <= MOST_VALUE_BYTES
        });
        let values: Vec<_> = values.collect();
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

/// What a held call's message says, if the policy says nothing.
const ASKED: &str = "A human must approve this call.";

struct Digest(hmac::Context);

impl fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

async fn deny(
    exchange: &Exchange,
    mut record: Box<Record>,
    denial: &Denial<'_>,
) -> Result<NotCalled, Refusal> {
    note_denial(&mut record, denial);
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
    Ok(NotCalled { text, decision })
}

fn note_denial(record: &mut Record, denial: &Denial<'_>) {
    record.rule = Some(Arc::from(&*denial.rule));
    record.message.get_or_insert_with(|| shorten(&denial.message, LONGEST_MESSAGE).into_owned());
}

fn note_terms(record: &mut Record, terms: &Terms<'_>) {
    record.rule = Some(terms.rule.into());
    record.message = Some(shorten(terms.message.unwrap_or(ASKED), LONGEST_MESSAGE).into_owned());
}

/// Lets a call through that only policies in shadow mode would deny or hold, and records that. It
/// is charged by those that are enforced.
async fn pass_in_shadow(
    exchange: &Exchange,
    mut record: Box<Record>,
    call: ToolCall<'_>,
    allow: &Allow<'_>,
) -> Result<Ended, Refusal> {
    record.outcome = Some(Outcome::ShadowDeny);
    if allow.charges().next().is_none() && allow.leases().next().is_none() {
        describe_arguments(exchange, &mut record, call);
        return Ok(Ok(super::record_uncharged(exchange, record).await?));
    }
    match reserve_charges(exchange, record, call, allow).await? {
        Charged::Made(settlement) => Ok(Ok(settlement)),
        Charged::Refused(record, denial) => Ok(Err(deny(exchange, record, &denial).await?)),
    }
}

/// Reserves the charges and records the decision, in one transaction.
async fn reserve_charges<'p>(
    exchange: &Exchange,
    mut record: Box<Record>,
    call: ToolCall<'_>,
    allow: &Allow<'p>,
) -> Result<Charged<'p>, Refusal> {
    let charges: Vec<_> = allow.charges().map(|charge| charge_of(exchange, &charge)).collect();
    let leases: Vec<_> = allow.leases().map(|needed| lease_of(exchange, needed)).collect();
    let holds = Holds { charges: !charges.is_empty(), leases: !leases.is_empty() };
    // The outcome's record, which is made from `record` later, is without arguments.
    let mut decision = record.clone();
    describe_arguments(exchange, &mut decision, call);
    let reservation = Reservation { id: exchange.request, charges, leases, record: decision };
    let (readings, in_progress) = match exchange.gateway.store.reserve(reservation).await {
        Ok(Reserved::Made { .. }) => {
            announce(exchange, &record);
            let (gateway, started) = (Arc::clone(&exchange.gateway), exchange.started);
            let settlement = Settlement::new(gateway, record, holds, started);
            return Ok(Charged::Made(settlement));
        }
        Ok(Reserved::Refused { readings, in_progress }) => (readings, in_progress),
        Err(error) => return Err(Refusal::from_store(&error, "charges could not be reserved")),
    };
    let counters: Vec<_> = allow.charges().map(|charge| charge.limit.counter()).collect();
    let reading = |limit: &Limit| {
        let place = counters.iter().position(|counter| *counter == limit.counter());
        place.and_then(|place| readings.get(place)).copied().unwrap_or(Amount::ZERO)
    };
    let rules: Vec<_> = allow.leases().map(Concurrency::rule).collect();
    let in_progress = |concurrency: &Concurrency| {
        let place = rules.iter().position(|rule| *rule == concurrency.rule());
        Amount::whole(place.and_then(|place| in_progress.get(place)).copied().unwrap_or(0))
    };
    // If the store refuses although its readings fit, something is wrong: nothing is
    // sent.
    let denial = allow.admit(reading, in_progress).err().ok_or(Refusal::Internal)?;
    describe_arguments(exchange, &mut record, call);
    // What a policy in shadow mode has against the call is not why it is refused.
    record.message = None;
    // The engine's message quotes the amount, which is an argument's value. The caller
    // may see it, but it must not be recorded.
    let is_amount = allow.charges().any(|charge| charge.amount != Amount::ONE);
    let is_of_limit = !rules.contains(&&*denial.rule);
    if is_amount && is_of_limit && matches!(denial.message, Cow::Owned(_)) {
        record.message = Some("the limit does not leave as much".into());
    }
    Ok(Charged::Refused(record, denial))
}

fn charge_of(exchange: &Exchange, charge: &sluice_policy::Charge<'_>) -> Charge {
    Charge {
        key: key_of(exchange, charge.limit.scope(), charge.limit.counter()),
        window: charge.limit.window(),
        amount: charge.amount,
        max: charge.limit.max(),
    }
}

fn lease_of(exchange: &Exchange, needed: &Concurrency) -> Lease {
    Lease { key: key_of(exchange, needed.scope(), needed.rule()), max: needed.max() }
}

/// The counter, or the calls in progress, of this name that the call counts for.
fn key_of(exchange: &Exchange, scope: Scope, name: &str) -> CounterKey {
    let holder = &exchange.holder;
    let owner = match scope {
        Scope::Grant => holder.id(),
        Scope::Session => exchange.session.as_ref().map_or(holder.id(), |session| &session.id),
        Scope::Principal => holder.owner(),
        Scope::Server => "",
    };
    CounterKey::new(exchange.server_name(), scope, owner, name)
}

/// Stores a request for approval, or joins the pending one for the same call.
async fn hold(
    exchange: &Exchange,
    mut record: Box<Record>,
    call: ToolCall<'_>,
    list: Option<&ToolList>,
    terms: &Terms<'_>,
) -> Result<NotCalled, Refusal> {
    let asked = terms.message.unwrap_or(ASKED);
    note_terms(&mut record, terms);
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
    record.outcome = Some(Outcome::Hold);
    let expires_at = sluice_policy::Timestamp::from_millis(
        exchange.at.as_millis().saturating_add_unsigned(terms.expires_seconds.saturating_mul(1000)),
    );
    let approval = Approval {
        digest: digest_approval(exchange, call, list),
        server: exchange.server_name().to_owned(),
        grant: exchange.holder.reference.clone(),
        principal: exchange.holder.principal.as_deref().map(str::to_owned),
        tool: shorten(call.tool, LONGEST_KEPT).into_owned(),
        rule: terms.rule.to_owned(),
        approvers: terms.approvers,
        message: asked.to_owned(),
        policy: in_force.reference.clone(),
        arg_keys: record.arg_keys.clone(),
        requested_at: exchange.at,
        expires_at,
    };
    let decision = record.clone();
    let pending = match exchange.gateway.store.hold(approval, *record).await {
        Ok(pending) => pending,
        Err(error @ StoreError::TooManyHeld { .. }) => {
            return refuse_held(exchange, decision, terms.rule, &error).await;
        }
        Err(error) => {
            return Err(Refusal::from_store(&error, "a pending approval could not be stored"));
        }
    };
    announce(exchange, &decision);
    let until = pending.expires_at.to_string();
    let id = pending.id;
    let url = format!("{}/approvals/{id}", exchange.gateway.settings.admin_url);
    let text = format!(
        "[APPROVAL REQUIRED] {asked} The call was not sent. It waits for approval {id} at {url} until {until}."
    );
    let approval = format!(r#"{{"id":"{id}","url":{},"expiresAt":"{until}"}}"#, quote(&url));
    let decision =
        describe_decision(&decision, Outcome::Hold, terms.rule, &[("approval", approval)]);
    Ok(NotCalled { text, decision })
}

/// Denies a call that cannot be held because too many calls wait already.
async fn refuse_held(
    exchange: &Exchange,
    mut record: Box<Record>,
    rule: &str,
    error: &StoreError,
) -> Result<NotCalled, Refusal> {
    record.outcome = Some(Outcome::Deny);
    record.message = Some(error.to_string());
    let decision = describe_decision(&record, Outcome::Deny, rule, &[]);
    let text = format!("[POLICY DENIED] This call needs approval, but {error}.");
    write(exchange, record).await?;
    Ok(NotCalled { text, decision })
}

/// The digest that an approval is bound to. Object keys are sorted, so that the same call
/// has the same digest however it is written.
fn digest_approval(exchange: &Exchange, call: ToolCall<'_>, list: Option<&ToolList>) -> String {
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
