//! Judging one message: which class its method belongs to, what the policy engine
//! (`sluice_policy::judge`) decides on it, and what is changed in it before it is sent.
//!
//! Nothing is recorded, charged or sent here: `reserve` makes the decision take effect,
//! and is where limits are checked against the counters. The only request that may go
//! to a server is for the list of its tools, if the decision depends on it.

mod checks;
mod edits;
mod request;

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use sluice_policy::Decision;
use sluice_wire::{
    edit::Edits,
    json::{Document, Value},
    mcp::{Method, MethodClass},
    rpc::{Id, Message},
};

use self::request::Request;
use crate::{
    answer::{Expected, open_request_id},
    assess::ToolList,
    exchange::Exchange,
    refusal::Refusal,
    reserve::shorten,
};

/// Where a message goes.
#[derive(Debug)]
pub(crate) enum Route<'a> {
    /// To the server, if its decision permits it.
    Decided(Box<Judged<'a>>),
    /// To the subscription that clients of the server share; the id of the request.
    Subscribe(Id),
}

/// A message as it is to be sent, with the decision on it.
///
/// INVARIANT: made only in this module, from a message that was judged.
#[derive(Debug)]
pub(crate) struct Judged<'a> {
    request: Outgoing,
    ruling: Ruling<'a>,
}

impl<'a> Judged<'a> {
    pub(crate) fn into_parts(self) -> (Outgoing, Ruling<'a>) {
        (self.request, self.ruling)
    }
}

/// A request as it is to be sent. Only a `Permitted` one can be.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    pub(crate) method: http::Method,
    pub(crate) body: Bytes,
    /// On modern requests: the method, and what is aimed at.
    pub(crate) mirrors: Option<(String, Option<String>)>,
    /// `None` where no answer is due.
    pub(crate) expected: Option<Expected>,
    /// Whether something lasts of it that another session would not have.
    pub(crate) is_lasting: bool,
}

/// What was decided, and on what grounds.
#[derive(Debug)]
pub(crate) enum Ruling<'a> {
    /// Every policy leaves it open: lifecycle, lists (their answers are filtered),
    /// liveness, and answers to requests that were let through.
    Open,
    /// It was let through or not by what the policy says of its target.
    Access(Access<'a>),
    /// A method that some server takes for a known one: refused, whatever the mode.
    LookAlike {
        method: &'a str,
        refusal: Refusal,
    },
    Tool(ToolRuling<'a>),
}

/// What a policy says of a request that is no tool call.
#[derive(Debug)]
pub(crate) struct Access<'a> {
    pub(crate) method: Cow<'static, str>,
    /// What is aimed at, for people.
    pub(crate) target: &'a str,
    pub(crate) rule: &'static str,
    pub(crate) is_permitted: bool,
    /// What the client is told in place of the usual denial.
    pub(crate) refused_as: Option<Refusal>,
    /// Whether it is refused in shadow mode too.
    pub(crate) refuses_in_shadow: bool,
}

/// What a policy says of a tool call.
#[derive(Debug)]
pub(crate) struct ToolRuling<'a> {
    pub(crate) call: ToolCall<'a>,
    pub(crate) decision: Decision<'a>,
    /// The server's tools, as far as they were needed.
    pub(crate) list: Option<Arc<ToolList>>,
    /// Whether the client expects a task and no result.
    pub(crate) wants_task: bool,
}

/// A tool call as it was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToolCall<'a> {
    pub(crate) tool: &'a str,
    pub(crate) arguments: Option<Value<'a>>,
}

/// Judges a message. What is answered in the server's place is a refusal too.
pub(crate) async fn judge<'a>(
    exchange: &'a Arc<Exchange>,
    document: &'a Document,
    message: Message<'a>,
) -> Result<Route<'a>, Refusal> {
    match message {
        Message::Request { id, method, params } => {
            let request = Request { exchange, document, id, params };
            request.judge(method).await
        }
        Message::Notification { method, .. } => notification(exchange, document, method),
        Message::Response { id, .. } => reply(exchange, document, &id),
        Message::Failure { id, .. } => {
            let id =
                id.ok_or_else(|| Refusal::Request("an answer needs the id of its request".into()))?;
            reply(exchange, document, &id)
        }
    }
}

/// A message to be posted, as it came or edited.
fn post(document: &Document, edited: Option<String>) -> Outgoing {
    let body = edited.unwrap_or_else(|| document.text().to_owned());
    Outgoing { method: http::Method::POST, body: body.into(), ..Outgoing::default() }
}

/// Whether every policy leaves a class of methods open.
fn is_open(class: MethodClass) -> bool {
    match class {
        MethodClass::Always
        | MethodClass::ToolList
        | MethodClass::ResourceList
        | MethodClass::PromptList
        | MethodClass::TaskList
        | MethodClass::Listen => true,
        MethodClass::ToolCall
        | MethodClass::Resource
        | MethodClass::Prompt
        | MethodClass::Completion
        | MethodClass::Task => false,
    }
}

/// What is decided on a method that nobody knows; `refused_as` is what the client is
/// told other than that there is no such method.
fn unknown_method<'a>(
    exchange: &Exchange,
    method: &'a str,
    refused_as: Option<Refusal>,
) -> Ruling<'a> {
    let is_modern = exchange.is_modern();
    let unknown = || Refusal::UnknownMethod { method: shorten(method, 128).into(), is_modern };
    let refusal = refused_as.unwrap_or_else(unknown);
    if Method::resembles_known(method) {
        return Ruling::LookAlike { method, refusal };
    }
    let is_permitted = exchange.rules().is_some_and(|policy| policy.permits_unknown_method(method));
    Ruling::Access(Access {
        method: shorten(method, 128).into_owned().into(),
        target: method,
        rule: "/methods",
        is_permitted,
        refused_as: Some(refusal),
        refuses_in_shadow: false,
    })
}

fn notification<'a>(
    exchange: &Exchange,
    document: &Document,
    method: &'a str,
) -> Result<Route<'a>, Refusal> {
    let ruling = match Method::find(method, exchange.revision) {
        None => unknown_method(exchange, method, unknown_notification(exchange, method)),
        Some(_) if !is_notification(method) => return Err(needs_id(method)),
        // These name a request by an id, which means something only within a session.
        Some(Method { name: "notifications/cancelled" | "notifications/progress", .. })
            if exchange.session.is_none() =>
        {
            return Err(Refusal::Ignored);
        }
        Some(known) if is_open(known.class) => Ruling::Open,
        Some(_) => return Err(Refusal::Internal),
    };
    let mirrors = exchange.is_modern().then(|| (method.to_owned(), None));
    let request = Outgoing { mirrors, ..post(document, None) };
    Ok(Route::Decided(Box::new(Judged { request, ruling })))
}

/// What a client is told of a message without an id that nobody knows: a receiver
/// ignores notifications that it does not know, and any other was meant as a request.
fn unknown_notification(exchange: &Exchange, method: &str) -> Option<Refusal> {
    if is_notification(method) {
        return Some(Refusal::Ignored);
    }
    (!exchange.is_modern()).then(|| needs_id(&shorten(method, 128)))
}

/// Whether a method is named as notifications are.
pub(crate) fn is_notification(method: &str) -> bool {
    method.starts_with("notifications/")
}

pub(crate) fn needs_id(method: &str) -> Refusal {
    Refusal::Request(format!("`{method}` is a request and needs an id"))
}

/// A client's answer to a request of the server. One that nobody waits for, because
/// it is late or of another session, is ignored, as the protocol has it.
fn reply<'a>(exchange: &Exchange, document: &Document, id: &Id) -> Result<Route<'a>, Refusal> {
    let own = open_request_id(exchange, id).filter(|_| !exchange.is_modern());
    let own = own.ok_or(Refusal::Ignored)?;
    let mut edits = Edits::new(document);
    edits.replace(document.root().get("id").ok_or(Refusal::Internal)?, own);
    let request = post(document, Some(edits.finish()));
    Ok(Route::Decided(Box::new(Judged { request, ruling: Ruling::Open })))
}
