//! Denials of requests that no server of the grant can answer. No policy applies to them,
//! but each is recorded.

use std::{borrow::Cow, sync::Arc};

use sluice_store::{Kind, Outcome, Record, new_id};
use sluice_wire::{edit::quote, json::Value, mcp::Era};

use super::{describe_decision, shorten};
use crate::{refusal::Refusal, settle::micros, stack::Stack};

/// A request for which there is no server.
#[derive(Debug)]
pub(crate) struct Unserved<'a> {
    pub(crate) method: Cow<'static, str>,
    pub(crate) tool: Option<&'a str>,
    pub(crate) rule: &'static str,
    pub(crate) message: &'a str,
}

/// Records a denial, and returns the decision as callers see it.
pub(crate) async fn refuse_unserved(
    stack: &Stack,
    denied: Unserved<'_>,
) -> Result<String, Refusal> {
    let record = Record {
        request: Some(stack.request),
        grant: Some(stack.holder.reference.clone()),
        principal: stack.holder.principal.clone(),
        session: stack.session.as_ref().map(|session| Arc::clone(&session.id)),
        method: Some(denied.method),
        tool: denied.tool.map(|tool| Arc::from(&*shorten(tool, 256))),
        outcome: Some(Outcome::Deny),
        rule: Some(denied.rule.into()),
        message: Some(denied.message.to_owned()),
        micros: Some(micros(stack.started)),
        ..Record::new(new_id(stack.at), stack.at, Kind::Decision)
    };
    // Callers get the same answer for every tool that is not available to them.
    let rule = if denied.tool.is_some() { "(not available)" } else { denied.rule };
    let decision = describe_decision(&record, Outcome::Deny, rule, &[]);
    stack.gateway.metrics.note_unserved(&record);
    tracing::debug!(
        request = %stack.request,
        grant = stack.holder.id(),
        method = record.method.as_deref(),
        tool = record.tool.as_deref(),
        rule = denied.rule,
        "decided"
    );
    stack
        .gateway
        .store
        .append(record)
        .await
        .map_err(|error| Refusal::from_store(&error, "a decision could not be recorded"))?;
    Ok(decision)
}

/// Refuses a call of a tool that no server of the grant has.
pub(crate) async fn refuse_unknown_tool(
    stack: &Stack,
    tool: &str,
    params: Option<Value<'_>>,
) -> Refusal {
    let message =
        format!("tool `{}` is not available", tool.chars().take(1024).collect::<String>());
    let denied = Unserved {
        method: "tools/call".into(),
        tool: Some(tool),
        rule: "(unknown tool)",
        message: &message,
    };
    let decision = match refuse_unserved(stack, denied).await {
        Ok(decision) => decision,
        Err(refusal) => return refusal,
    };
    let text = format!("[POLICY DENIED] {message}");
    let era = stack.revision.era();
    let task = params.and_then(|params| params.get("task"));
    let wants_task = era == Era::Legacy && task.is_some_and(|task| task.members().is_some());
    NotCalled { text, decision }.into_refusal(era, wants_task)
}

/// Why a tool is not called: the text for its caller, and the decision as JSON.
#[derive(Debug)]
pub(super) struct NotCalled {
    pub(super) text: String,
    pub(super) decision: String,
}

impl NotCalled {
    /// Builds the answer for the caller: the result of a call. A legacy client that asked
    /// for a task would report such a result as malformed, so it gets an error, whose
    /// message it shows.
    pub(super) fn into_refusal(self, era: Era, wants_task: bool) -> Refusal {
        let NotCalled { text, decision } = self;
        if wants_task {
            return Refusal::NoTask { message: text, decision };
        }
        let kind = if era == Era::Modern { r#""resultType":"complete","# } else { "" };
        let text = quote(&text);
        Refusal::DeniedCall(format!(
            r#"{{{kind}"content":[{{"type":"text","text":{text}}}],"isError":true,"_meta":{{"sluicegate/decision":{decision}}}}}"#
        ))
    }
}
