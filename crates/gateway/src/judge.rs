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

/// The next step for a message.
#[derive(Debug)]
pub(crate) enum Route<'a> {
    /// Sent to the server, if the decision permits it.
    Decided(Box<Judged<'a>>),
    /// Joined to the subscription that clients of the server share; holds the request id.
    Subscribe(Id),
}

/// A message in the form in which it is sent, with the decision on it.
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

/// A request in the form in which it is sent. Only a `Permitted` request can be sent.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    pub(crate) method: http::Method,
    pub(crate) body: Bytes,
    /// On modern requests: the method and the target, repeated in headers.
    pub(crate) mirrors: Option<(String, Option<String>)>,
    /// `None` if no answer is expected.
    pub(crate) expected: Option<Expected>,
    /// Whether it leaves state in the session that a new session would not have.
    pub(crate) is_lasting: bool,
}

/// The decision, and what it is based on.
#[derive(Debug)]
pub(crate) enum Ruling<'a> {
    /// Allowed by every policy: lifecycle, lists (their answers are filtered), pings, and
    /// answers to server requests that were passed on.
    Open,
    /// Permitted or not by the policy's rules for its target.
    Access(Access<'a>),
    /// A method that some server may take for a known one: refused, also in shadow mode.
    LookAlike {
        method: &'a str,
        refusal: Refusal,
    },
    Tool(ToolRuling<'a>),
}

/// A policy's decision on a request that is not a tool call.
#[derive(Debug)]
pub(crate) struct Access<'a> {
    pub(crate) method: Cow<'static, str>,
    /// The target, for people to read.
    pub(crate) target: &'a str,
    pub(crate) rule: &'static str,
    pub(crate) is_permitted: bool,
    /// The refusal that the client gets instead of the usual denial.
    pub(crate) refused_as: Option<Refusal>,
    /// Whether it is refused in shadow mode too.
    pub(crate) refuses_in_shadow: bool,
}

/// A policy's decision on a tool call.
#[derive(Debug)]
pub(crate) struct ToolRuling<'a> {
    pub(crate) call: ToolCall<'a>,
    pub(crate) decision: Decision<'a>,
    /// The server's tools, if the decision needed them.
    pub(crate) list: Option<Arc<ToolList>>,
    /// Whether the client asks for a task instead of a result.
    pub(crate) wants_task: bool,
}

/// A parsed tool call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToolCall<'a> {
    pub(crate) tool: &'a str,
    pub(crate) arguments: Option<Value<'a>>,
}

/// Judges a message. An answer that the gateway gives in the server's place is a
/// `Refusal` too.
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

/// A message to post, edited or as the client sent it.
fn post(document: &Document, edited: Option<String>) -> Outgoing {
    let body = edited.unwrap_or_else(|| document.text().to_owned());
    Outgoing { method: http::Method::POST, body: body.into(), ..Outgoing::default() }
}

/// Whether every policy allows a class of methods.
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

/// The decision on an unknown method. `refused_as` replaces the usual refusal, which says
/// that there is no such method.
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
        // These name a request by its id, which has a meaning only within a session.
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

/// The refusal of a message without an id whose method is unknown. Unknown notifications
/// are ignored; any other method was meant as a request.
fn unknown_notification(exchange: &Exchange, method: &str) -> Option<Refusal> {
    if is_notification(method) {
        return Some(Refusal::Ignored);
    }
    (!exchange.is_modern()).then(|| needs_id(&shorten(method, 128)))
}

/// Whether a method has the name of a notification.
pub(crate) fn is_notification(method: &str) -> bool {
    method.starts_with("notifications/")
}

pub(crate) fn needs_id(method: &str) -> Refusal {
    Refusal::Request(format!("`{method}` is a request and needs an id"))
}

/// A client's answer to a request of the server. An answer that is late or from another
/// session is ignored, as the protocol requires.
fn reply<'a>(exchange: &Exchange, document: &Document, id: &Id) -> Result<Route<'a>, Refusal> {
    let own = open_request_id(exchange, id).filter(|_| !exchange.is_modern());
    let own = own.ok_or(Refusal::Ignored)?;
    let mut edits = Edits::new(document);
    edits.replace(document.root().get("id").ok_or(Refusal::Internal)?, own);
    let request = post(document, Some(edits.finish()));
    Ok(Route::Decided(Box::new(Judged { request, ruling: Ruling::Open })))
}
