//! Judging one message: the class of its method, the decision of the policy engine
//! (`sluice_policy::judge`), and the edits to make before it is sent.
//!
//! This does no I/O and never waits: `carry` passes in what a decision depends on, such as
//! the server's tools, and nothing is recorded, charged or sent. `reserve` makes the decision take
//! effect, and is where limits are checked against the counters.

mod checks;
mod edits;
mod request;

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use sluice_http::Lease;
use sluice_policy::{AccessDenial, AccessRequest, Decision};
use sluice_wire::{
    edit::Edits,
    json::{Document, Value},
    mcp::{Method, MethodClass},
    rpc::{Id, Message},
};

pub(crate) use self::checks::called_tool;
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
    /// Answered with this result, as JSON; the server is not asked.
    Answered { id: Id, result: String },
    /// Accepted, but not forwarded: a message that needs no answer and has no effect.
    Ignored,
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
    /// Held at the server as long as what it begins there.
    pub(crate) lease: Option<Lease>,
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

impl Ruling<'_> {
    /// Whether the message is refused whatever the limits say, so that nothing is sent. A call
    /// that waits for approval is not: it is to be sent later.
    fn is_refused(&self) -> bool {
        match self {
            Ruling::Open => false,
            Ruling::Access(access) => {
                access.denial.as_ref().is_some_and(|denial| !denial.in_shadow)
            }
            Ruling::LookAlike { .. } => true,
            Ruling::Tool(ruling) => match &ruling.decision {
                Decision::Deny(_) => true,
                Decision::Hold(_) | Decision::Allow(_) => false,
            },
        }
    }
}

/// A policy's decision on a request that is not a tool call.
#[derive(Debug)]
pub(crate) struct Access<'a> {
    pub(crate) method: Cow<'static, str>,
    /// The target, for people to read.
    pub(crate) target: &'a str,
    /// `None` if it is permitted.
    pub(crate) denial: Option<AccessDenial>,
    /// The refusal that the client gets instead of the usual denial.
    pub(crate) refused_as: Option<Refusal>,
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

/// Judges a message. `tools` is the list of the server's tools, if the message calls one and
/// the decision may depend on it.
pub(crate) fn judge<'a>(
    exchange: &'a Arc<Exchange>,
    document: &'a Document,
    message: Message<'a>,
    tools: Option<Arc<ToolList>>,
) -> Result<Route<'a>, Refusal> {
    match message {
        Message::Request { id, method, params } => {
            Request { exchange, document, id, params, tools }.judge(method)
        }
        Message::Notification { method, params } => {
            notification(exchange, document, method, params)
        }
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
    Ruling::Access(Access {
        method: shorten(method, 128).into_owned().into(),
        target: method,
        denial: exchange.check_access(AccessRequest::UnknownMethod(method)).err(),
        refused_as: Some(refusal),
    })
}

fn notification<'a>(
    exchange: &Exchange,
    document: &Document,
    method: &'a str,
    params: Option<Value<'a>>,
) -> Result<Route<'a>, Refusal> {
    let ruling = match Method::find(method, exchange.revision) {
        None => unknown_method(exchange, method, unknown_notification(exchange, method)),
        Some(_) if !is_notification(method) => return Err(needs_id(method)),
        // These name a request by its id, which has a meaning only within a session.
        Some(Method { name: "notifications/cancelled" | "notifications/progress", .. })
            if exchange.session.is_none() =>
        {
            return Ok(Route::Ignored);
        }
        Some(known) if is_open(known.class) => Ruling::Open,
        Some(_) => return Err(Refusal::Internal),
    };
    checks::check_headers(exchange, method, params, &ruling)?;
    let mirrors = exchange.is_modern().then(|| (method.to_owned(), None));
    let request = Outgoing { mirrors, ..post(document, None) };
    Ok(Route::Decided(Box::new(Judged { request, ruling })))
}

/// The refusal of a message without an id whose method is unknown. A notification is never
/// answered with an error; any other method was meant as a request.
fn unknown_notification(exchange: &Exchange, method: &str) -> Option<Refusal> {
    if is_notification(method) {
        return Some(Refusal::DeniedNotification);
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
    let Some(own) = own else { return Ok(Route::Ignored) };
    let mut edits = Edits::new(document);
    edits.replace(document.root().get("id").ok_or(Refusal::Internal)?, own);
    let request = post(document, Some(edits.finish()));
    Ok(Route::Decided(Box::new(Judged { request, ruling: Ruling::Open })))
}
