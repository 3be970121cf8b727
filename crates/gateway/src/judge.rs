//! Judging one message: which class its method belongs to, what the policy decides on
//! it, and what is changed in it before it is sent.
//!
//! Nothing is recorded, charged or sent here: `reserve` makes the decision take effect.
//! The one thing that may be asked of a server is the list of its tools, where the
//! decision depends on it.

mod checks;
mod edits;

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use sluice_policy::{Call, Decision, Facts, Policy};
use sluice_wire::{
    edit::Edits,
    json::{Document, Value},
    mcp::{META_CAPABILITIES, Method, MethodClass, TASKS_EXTENSION, Target},
    rpc::{Id, Message},
};

use crate::{
    answer::{Expected, Shape, open_request_id},
    assess::{ToolList, Tools},
    exchange::Exchange,
    protocol_version::mirrored_target,
    refusal::Refusal,
    repair,
    reserve::shorten,
    sealed_ids::{open_state, open_task},
};

/// Where a message goes.
#[derive(Debug)]
pub(crate) enum Verdict<'a> {
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

/// A parameter that is replaced, and by what.
type Replaced = (&'static str, String);

/// Judges a message. What is answered in the server's place is a refusal too.
pub(crate) async fn judge<'a>(
    exchange: &'a Arc<Exchange>,
    document: &'a Document,
    message: Message<'a>,
) -> Result<Verdict<'a>, Refusal> {
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

/// A request while it is judged.
struct Request<'a> {
    exchange: &'a Arc<Exchange>,
    document: &'a Document,
    id: Id,
    params: Option<Value<'a>>,
}

impl<'a> Request<'a> {
    async fn judge(self, method: &'a str) -> Result<Verdict<'a>, Refusal> {
        if is_notification(method) {
            return Err(Refusal::Request(format!("`{method}` is a notification and has no id")));
        }
        checks::refuse_look_alikes(self.params)?;
        let Some(known) = Method::find(method, self.exchange.revision) else {
            let ruling = unknown_method(self.exchange, method, None);
            let target = text(self.params, "name").map(str::to_owned);
            return self.prepare(method, target, Shape::Plain, None, ruling);
        };
        let target = Target::read(known.class, self.params)
            .map_err(|error| Refusal::Params(error.to_string()))?;
        match (known.class, target) {
            (MethodClass::ToolCall, Target::Tool { name, arguments }) => {
                self.tool_call(known.name, ToolCall { tool: name, arguments }).await
            }
            (MethodClass::Task, Target::Task(task)) => self.task(known.name, task),
            (MethodClass::Resource | MethodClass::Completion, Target::Resource(uri)) => {
                self.access(known.name, uri, "/resources", Policy::permits_resource)
            }
            (MethodClass::Prompt | MethodClass::Completion, Target::Prompt(name)) => {
                self.access(known.name, name, "/prompts", Policy::permits_prompt)
            }
            (class, _) => self.open(known.name, class),
        }
    }

    /// A request that every policy leaves open.
    fn open(self, method: &'static str, class: MethodClass) -> Result<Verdict<'a>, Refusal> {
        if !is_open(class) {
            return Err(Refusal::Internal);
        }
        if class == MethodClass::Listen {
            return Ok(Verdict::Subscribe(self.id));
        }
        let shape = match method {
            "initialize" | "server/discover" => Shape::Introduction,
            "tools/list" => Shape::Tools,
            "resources/list" => Shape::Resources,
            "resources/templates/list" => Shape::Templates,
            "prompts/list" => Shape::Prompts,
            "tasks/list" => Shape::Tasks,
            _ => Shape::Plain,
        };
        if let Some(empty) = empty_list(self.exchange, &shape) {
            return Err(Refusal::Result(empty));
        }
        self.finish(method, shape, None, Ruling::Open)
    }

    /// A resource, prompt or completion.
    fn access(
        self,
        method: &'static str,
        target: &'a str,
        rule: &'static str,
        permits: fn(&Policy, &str) -> bool,
    ) -> Result<Verdict<'a>, Refusal> {
        let is_permitted = self.exchange.rules().is_some_and(|policy| permits(policy, target));
        let state = self.open_state(method, target)?;
        let ruling = Ruling::Access(Access {
            method: method.into(),
            target,
            rule,
            is_permitted,
            refused_as: None,
            refuses_in_shadow: false,
        });
        let shape = match mirrored_target(method) {
            Some(_) => Shape::Call { method, target: target.to_owned() },
            None => Shape::Plain,
        };
        self.finish(method, shape, state.as_ref(), ruling)
    }

    /// A request about a task. Also in shadow mode nobody reaches a task that is not theirs.
    fn task(self, method: &'static str, task: &'a str) -> Result<Verdict<'a>, Refusal> {
        let own = open_task(self.exchange, task);
        let ruling = Ruling::Access(Access {
            method: method.into(),
            target: task,
            rule: "(unknown task)",
            is_permitted: own.is_some(),
            refused_as: Some(self.no_such_task(method)),
            refuses_in_shadow: true,
        });
        let own = own.map(|own| ("taskId", own));
        self.finish(method, Shape::Task, own.as_ref(), ruling)
    }

    /// What the server itself would say of a task that does not exist, so that
    /// nobody can tell one from the task of another.
    fn no_such_task(&self, method: &str) -> Refusal {
        let unknown = || Refusal::Params("there is no such task".into());
        if !self.exchange.is_modern() {
            return unknown();
        }
        if self.exchange.server.link.state.tools.lacks_tasks() {
            return Refusal::UnknownMethod { method: method.to_owned(), is_modern: true };
        }
        let declared = self.params.and_then(|params| params.get("_meta")?.get(META_CAPABILITIES));
        let extension =
            declared.and_then(|declared| declared.get("extensions")?.get(TASKS_EXTENSION));
        if extension.is_some() { unknown() } else { Refusal::TasksUndeclared }
    }

    async fn tool_call(
        self,
        method: &'static str,
        call: ToolCall<'a>,
    ) -> Result<Verdict<'a>, Refusal> {
        let list = definitions(self.exchange, call.tool).await;
        checks::check_mirrored(self.exchange, list.as_deref(), call)?;
        let state = self.open_state(method, call.tool)?;
        let facts = list.as_ref().map_or(Facts::NoList, |list| list.facts(call.tool));
        let judged = Call::new(call.tool, call.arguments)
            .map_err(|error| Refusal::Params(error.to_string()))?;
        let decision =
            sluice_policy::judge(self.exchange.rules(), &judged, facts, self.exchange.at);
        let task = self.params.and_then(|params| params.get("task"));
        let wants_task =
            !self.exchange.is_modern() && task.is_some_and(|task| task.members().is_some());
        let shape = Shape::Call { method, target: call.tool.to_owned() };
        let ruling = Ruling::Tool(ToolRuling { call, decision, list, wants_task });
        self.finish(method, shape, state.as_ref(), ruling)
    }

    /// The server's own state of an unfinished request, if the client brings one.
    fn open_state(&self, method: &str, target: &str) -> Result<Option<Replaced>, Refusal> {
        let Some(state) = self.params.and_then(|params| params.get("requestState")) else {
            return Ok(None);
        };
        let sealed = state
            .as_str()
            .ok_or_else(|| Refusal::Params("`requestState` must be a string".into()))?;
        Ok(Some(("requestState", open_state(self.exchange, method, target, sealed)?)))
    }

    /// Makes a request of a known method ready.
    fn finish(
        self,
        method: &'static str,
        shape: Shape,
        replaced: Option<&Replaced>,
        ruling: Ruling<'a>,
    ) -> Result<Verdict<'a>, Refusal> {
        let named = mirrored_target(method);
        // What is replaced in the body is replaced in the header that repeats it.
        let target = match replaced {
            Some((name, value)) if named == Some(*name) => Some(value.clone()),
            _ => named.and_then(|name| text(self.params, name)).map(str::to_owned),
        };
        self.prepare(method, target, shape, replaced, ruling)
    }

    fn prepare(
        self,
        method: &str,
        target: Option<String>,
        shape: Shape,
        replaced: Option<&Replaced>,
        ruling: Ruling<'a>,
    ) -> Result<Verdict<'a>, Refusal> {
        let edited = edits::edit(self.exchange, self.document, self.params, replaced)?;
        let request = Outgoing {
            mirrors: self.exchange.is_modern().then(|| (method.to_owned(), target)),
            expected: Some(Expected { id: self.id, shape }),
            is_lasting: repair::is_lasting(method, self.params),
            ..post(self.document, edited)
        };
        Ok(Verdict::Decided(Box::new(Judged { request, ruling })))
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

/// A list of which nothing may be seen, answered without asking for it.
fn empty_list(exchange: &Exchange, shape: &Shape) -> Option<String> {
    let rules = exchange.rules();
    let (member, is_denied) = match shape {
        Shape::Tools => ("tools", rules.is_none()),
        Shape::Resources => ("resources", rules.is_none_or(Policy::denies_resources)),
        Shape::Templates => ("resourceTemplates", rules.is_none_or(Policy::denies_resources)),
        Shape::Prompts => ("prompts", rules.is_none_or(Policy::denies_prompts)),
        _ => return None,
    };
    let modern = if exchange.is_modern() {
        r#","resultType":"complete","ttlMs":0,"cacheScope":"private""#
    } else {
        ""
    };
    (is_denied && !exchange.is_shadow()).then(|| format!(r#"{{"{member}":[]{modern}}}"#))
}

/// The server's list of tools, where the decision may depend on it.
async fn definitions(exchange: &Exchange, tool: &str) -> Option<Arc<ToolList>> {
    let link = &exchange.server.link;
    let is_needed = exchange.policy.as_ref().is_some_and(|in_force| in_force.needs_definitions);
    let bounds = exchange.gateway.settings.answer_bounds();
    if is_needed || exchange.is_modern() {
        return Box::pin(Tools::list(link, &bounds, tool)).await;
    }
    let known = link.state.tools.tool_list();
    if known.is_none() {
        link.state.tools.learn_once(link, &bounds);
    }
    known
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
) -> Result<Verdict<'a>, Refusal> {
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
    Ok(Verdict::Decided(Box::new(Judged { request, ruling })))
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
fn reply<'a>(exchange: &Exchange, document: &Document, id: &Id) -> Result<Verdict<'a>, Refusal> {
    let own = open_request_id(exchange, id).filter(|_| !exchange.is_modern());
    let own = own.ok_or(Refusal::Ignored)?;
    let mut edits = Edits::new(document);
    edits.replace(document.root().get("id").ok_or(Refusal::Internal)?, own);
    let request = post(document, Some(edits.finish()));
    Ok(Verdict::Decided(Box::new(Judged { request, ruling: Ruling::Open })))
}

/// A parameter, if it is there and text.
fn text<'d>(params: Option<Value<'d>>, name: &str) -> Option<&'d str> {
    params.and_then(|params| params.get(name)).and_then(Value::as_str)
}
