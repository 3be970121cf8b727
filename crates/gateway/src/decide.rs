//! The decision on one request: judged, charged, recorded, and only then permitted.

mod tool;
mod unserved;

use std::{borrow::Cow, sync::Arc};

use sluice_store::{Kind, Outcome, Record, new_id};
use sluice_wire::{
    edit::quoted,
    json::Value,
    mcp::{Era, Method, MethodClass},
};

use crate::{
    exchange::Exchange, forward::Answered, refusal::Refusal, seal::Purpose, settle::Settlement,
};

pub(crate) use tool::{ToolCall, tool_call};
pub(crate) use unserved::{Unserved, unknown_tool, unserved};

/// Leave to send one request upstream.
///
/// INVARIANT: made only in this module: for what is always open, for what a
/// policy permits with its record on disk, and for a tool call with its charges
/// reserved.
#[derive(Debug)]
pub(crate) struct Permit {
    settlement: Option<Settlement>,
}

impl Permit {
    /// For what is not sent: nothing more is recorded.
    pub(crate) fn unused(self) {
        if let Some(settlement) = self.settlement {
            settlement.forget();
        }
    }

    /// Leave to send a request again, of which the server has said that it did not
    /// take it, because it does not know the session. The charges stay made.
    pub(crate) fn again(answered: Answered) -> Option<Permit> {
        let is_refused = answered.answer.status().is_client_error();
        is_refused.then_some(Permit { settlement: answered.settlement })
    }

    /// Takes over what is still to be recorded.
    pub(crate) fn into_settlement(self) -> Option<Settlement> {
        self.settlement
    }
}

/// Why there is no permit.
#[derive(Debug)]
pub(crate) enum Stop {
    Refused(Refusal),
    /// A tool is not called.
    NotCalled(NotCalled),
}

/// Why a tool is not called: what its caller reads, and the decision as JSON.
#[derive(Debug)]
pub(crate) struct NotCalled {
    pub(crate) text: String,
    pub(crate) decision: String,
}

impl NotCalled {
    /// The answer to a request with these parameters: the result of a call, as
    /// JSON. A legacy client that has asked for a task takes no such result and
    /// would show that it is malformed; it shows the message of an error.
    pub(crate) fn result(self, era: Era, params: Option<Value<'_>>) -> Result<String, Refusal> {
        let NotCalled { text, decision } = self;
        let task = params.and_then(|params| params.get("task"));
        if era == Era::Legacy && task.is_some_and(|task| task.members().is_some()) {
            return Err(Refusal::NoTask { message: text, decision });
        }
        let kind = if era == Era::Modern { r#""resultType":"complete","# } else { "" };
        let text = quoted(&text);
        Ok(format!(
            r#"{{{kind}"content":[{{"type":"text","text":{text}}}],"isError":true,"_meta":{{"sluicegate/decision":{decision}}}}}"#
        ))
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refused(refusal)
    }
}

/// A permit for what every policy leaves open: lifecycle, lists (their answers
/// are filtered), liveness, and answers to requests that were let through.
pub(crate) fn open(class: MethodClass) -> Option<Permit> {
    match class {
        MethodClass::Always
        | MethodClass::ToolList
        | MethodClass::ResourceList
        | MethodClass::PromptList
        | MethodClass::TaskList
        | MethodClass::Listen => Some(Permit { settlement: None }),
        MethodClass::ToolCall
        | MethodClass::Resource
        | MethodClass::Prompt
        | MethodClass::Completion
        | MethodClass::Task => None,
    }
}

/// What a policy says of a request that is no tool call.
#[derive(Debug, Clone)]
pub(crate) struct Access<'a> {
    pub(crate) method: Cow<'static, str>,
    /// What is aimed at, for people.
    pub(crate) target: &'a str,
    pub(crate) rule: &'static str,
    pub(crate) is_permitted: bool,
}

/// Records the decision on a request that is no tool call, and gives a permit
/// or a refusal.
pub(crate) async fn access(exchange: &Exchange, access: Access<'_>) -> Result<Permit, Refusal> {
    let mut record = record(exchange, access.method);
    if record.method.as_deref() != Some(access.target) {
        record.target = Some(shortened(access.target, 256).into_owned());
    }
    if access.is_permitted {
        record.outcome = Some(Outcome::Allow);
        return permitted(exchange, record).await;
    }
    let message = format!("`{}` is not available to this grant", shortened(access.target, 256));
    record.rule =
        Some(if exchange.policy.is_none() { "(no policy)".into() } else { access.rule.into() });
    record.message = Some(message.clone());
    if exchange.is_shadow() {
        record.outcome = Some(Outcome::ShadowDeny);
        return permitted(exchange, record).await;
    }
    record.outcome = Some(Outcome::Deny);
    let decision = shown(&record, Outcome::Deny, record.rule.as_deref().unwrap_or_default(), &[]);
    write(exchange, record).await?;
    Err(Refusal::Denied { message, decision })
}

/// Records that a method nobody knows was asked for.
pub(crate) async fn unknown_method(exchange: &Exchange, method: &str) -> Result<Permit, Refusal> {
    let unknown = || Refusal::UnknownMethod {
        method: shortened(method, 128).into(),
        is_modern: exchange.is_modern(),
    };
    // What some server takes for a method with a class of its own goes through
    // that class or none, also where a policy only watches.
    if Method::resembles_known(method) {
        let mut record = record(exchange, kept_method(method));
        record.outcome = Some(Outcome::Deny);
        record.rule = Some("/methods".into());
        write(exchange, record).await?;
        return Err(unknown());
    }
    let is_permitted = exchange.rules().is_some_and(|policy| policy.permits_unknown_method(method));
    let asked =
        Access { method: kept_method(method), target: method, rule: "/methods", is_permitted };
    access(exchange, asked).await.map_err(|refusal| match refusal {
        Refusal::Denied { .. } => unknown(),
        other => other,
    })
}

async fn permitted(exchange: &Exchange, record: Record) -> Result<Permit, Refusal> {
    write(exchange, record.clone()).await?;
    let settlement =
        Settlement::new(Arc::clone(&exchange.gateway), record, false, exchange.started);
    Ok(Permit { settlement: Some(settlement) })
}

/// Tells the log and the metrics of a decision.
fn announce(exchange: &Exchange, record: &Record) {
    exchange.gateway.metrics.decided(exchange, record);
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

/// Puts a decision on disk; without that there is none.
async fn write(exchange: &Exchange, record: Record) -> Result<(), Refusal> {
    announce(exchange, &record);
    exchange.gateway.store.append(record).await.map_err(|error| {
        tracing::error!(%error, "a decision could not be recorded");
        Refusal::Store
    })
}

/// A decision's record, with all that is known before it is made.
fn record(exchange: &Exchange, method: impl Into<Cow<'static, str>>) -> Record {
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

/// A decision as callers see it.
fn shown(record: &Record, outcome: Outcome, rule: &str, more: &[(&str, String)]) -> String {
    let more: Vec<_> = more.iter().map(|(name, json)| format!(r#","{name}":{json}"#)).collect();
    let (id, rule, more) = (record.id, quoted(rule), more.concat());
    let outcome = outcome.as_str();
    format!(r#"{{"id":"{id}","outcome":"{outcome}","rule":{rule}{more}}}"#)
}

/// What records keep of a method that a client made up.
pub(crate) fn kept_method(method: &str) -> Cow<'static, str> {
    shortened(method, 128).into_owned().into()
}

/// At most so many characters of a text that a client chose.
fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    // No text has more characters than bytes.
    let end = if text.len() <= most { None } else { text.char_indices().nth(most) };
    match end {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()).into(),
        None => text.into(),
    }
}

/// State of an unfinished request as the client carries it: sealed, so that it
/// comes back only from this grant, to this server, for the same target.
pub(crate) fn sealed_state(
    exchange: &Exchange,
    method: &str,
    target: &str,
    state: &str,
) -> Result<String, Refusal> {
    let target = quoted(target);
    let parts = [exchange.holder.id(), exchange.server_name(), method, &target, state];
    exchange.gateway.seal.seal(Purpose::RequestState, &parts).ok_or(Refusal::Internal)
}

/// The server's own state, if it was handed out for this very thing.
pub(crate) fn opened_state(
    exchange: &Exchange,
    method: &str,
    target: &str,
    sealed: &str,
) -> Result<String, Refusal> {
    let foreign = || Refusal::Params("`requestState` was not given out for this request".into());
    let opened = exchange.gateway.seal.open(Purpose::RequestState, sealed);
    let [grant, server, of_method, of_target, state] = opened.ok_or_else(foreign)?;
    let is_own = grant == exchange.holder.id()
        && server == exchange.server_name()
        && of_method == method
        && of_target == quoted(target);
    if is_own { Ok(state) } else { Err(foreign()) }
}

/// The server's own id of a task, if this grant began it.
pub(crate) fn opened_task(exchange: &Exchange, sealed: &str) -> Option<String> {
    let [grant, server, task] = exchange.gateway.seal.open(Purpose::Task, sealed)?;
    (grant == exchange.holder.id() && server == exchange.server_name()).then_some(task)
}
