//! Denials of what no server is there for: nothing is judged, because there is
//! no policy to judge by, and each is recorded all the same.

use std::{borrow::Cow, sync::Arc};

use sluice_store::{Kind, Outcome, Record, new_id};
use sluice_wire::json::Value;

use super::{NotCalled, shortened, shown};
use crate::{refusal::Refusal, settle::micros, stack::Stack};

/// Something that was asked of no server.
#[derive(Debug)]
pub(crate) struct Unserved<'a> {
    pub(crate) method: Cow<'static, str>,
    pub(crate) tool: Option<&'a str>,
    pub(crate) rule: &'static str,
    pub(crate) message: &'a str,
}

/// Records a denial, and gives the decision as callers see it.
pub(crate) async fn unserved(stack: &Stack, denied: Unserved<'_>) -> Result<String, Refusal> {
    let record = Record {
        request: Some(stack.request),
        grant: Some(stack.holder.reference.clone()),
        principal: stack.holder.principal.clone(),
        session: stack.session.as_ref().map(|session| Arc::clone(&session.id)),
        method: Some(denied.method),
        tool: denied.tool.map(|tool| Arc::from(&*shortened(tool, 256))),
        outcome: Some(Outcome::Deny),
        rule: Some(denied.rule.into()),
        message: Some(denied.message.to_owned()),
        micros: Some(micros(stack.started)),
        ..Record::new(new_id(stack.at), stack.at, Kind::Decision)
    };
    // Callers see the same of every tool that they cannot have.
    let rule = if denied.tool.is_some() { "(not available)" } else { denied.rule };
    let decision = shown(&record, Outcome::Deny, rule, &[]);
    stack.gateway.metrics.unserved(&record);
    tracing::debug!(
        request = %stack.request,
        grant = stack.holder.id(),
        method = record.method.as_deref(),
        tool = record.tool.as_deref(),
        rule = denied.rule,
        "decided"
    );
    stack.gateway.store.append(record).await.map_err(|error| {
        tracing::error!(%error, "a decision could not be recorded");
        Refusal::Store
    })?;
    Ok(decision)
}

/// The result of a call of a tool that no server of the grant can have.
pub(crate) async fn unknown_tool(
    stack: &Stack,
    tool: &str,
    params: Option<Value<'_>>,
) -> Result<String, Refusal> {
    let message =
        format!("tool `{}` is not available", tool.chars().take(1024).collect::<String>());
    let denied = Unserved {
        method: "tools/call".into(),
        tool: Some(tool),
        rule: "(unknown tool)",
        message: &message,
    };
    let decision = unserved(stack, denied).await?;
    let text = format!("[POLICY DENIED] {message}");
    NotCalled { text, decision }.result(stack.revision.era(), params)
}
