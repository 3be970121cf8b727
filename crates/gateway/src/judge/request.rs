//! Judging one request: each method class in its own function. `tool_call` asks the
//! policy engine (`sluice_policy::judge`).

use std::sync::Arc;

use sluice_policy::{AccessDenial, AccessRequest, Call, Facts, Policy};
use sluice_wire::{
    json::{Document, Value},
    mcp::{META_CAPABILITIES, Method, MethodClass, TASKS_EXTENSION, Target},
    rpc::Id,
};

use super::{
    Access, Judged, Outgoing, Route, Ruling, ToolCall, ToolRuling, checks,
    edits::{self, Replaced},
    is_notification, is_open, post, unknown_method,
};
use crate::{
    answer::{Expected, Shape},
    assess::{ToolList, withholds_name},
    exchange::Exchange,
    protocol_version::mirrored_target,
    refusal::Refusal,
    repair,
    sealed_ids::{open_state, open_task},
    shares::claim_lease,
};

/// A request while it is being judged.
pub(super) struct Request<'a> {
    pub(super) exchange: &'a Arc<Exchange>,
    pub(super) document: &'a Document,
    pub(super) id: Id,
    pub(super) params: Option<Value<'a>>,
    /// The server's tools, if this calls one and the decision may depend on them.
    pub(super) tools: Option<Arc<ToolList>>,
}

impl<'a> Request<'a> {
    pub(super) fn judge(self, method: &'a str) -> Result<Route<'a>, Refusal> {
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
                self.tool_call(known.name, ToolCall { tool: name, arguments })
            }
            (MethodClass::Task, Target::Task(task)) => self.task(known.name, task),
            (MethodClass::Resource | MethodClass::Completion, Target::Resource(uri)) => {
                self.access(known.name, uri, AccessRequest::Resource(uri))
            }
            (MethodClass::Prompt | MethodClass::Completion, Target::Prompt(name)) => {
                self.access(known.name, name, AccessRequest::Prompt(name))
            }
            (class, _) => self.open(known.name, class),
        }
    }

    /// A request that every policy allows.
    fn open(self, method: &'static str, class: MethodClass) -> Result<Route<'a>, Refusal> {
        if !is_open(class) {
            return Err(Refusal::Internal);
        }
        let check = || checks::check_headers(self.exchange, method, self.params, &Ruling::Open);
        if class == MethodClass::Listen {
            check()?;
            return Ok(Route::Subscribe(self.id));
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
        if let Some(result) = empty_list(self.exchange, &shape) {
            check()?;
            return Ok(Route::Answered { id: self.id, result });
        }
        self.finish(method, shape, None, Ruling::Open)
    }

    /// A resource, prompt or completion.
    fn access(
        self,
        method: &'static str,
        target: &'a str,
        request: AccessRequest<'_>,
    ) -> Result<Route<'a>, Refusal> {
        let ruling = Ruling::Access(Access {
            method: method.into(),
            target,
            denial: self.exchange.check_access(request).err(),
            refused_as: None,
        });
        let shape = match mirrored_target(method) {
            Some(_) => Shape::Call { method, target: target.to_owned() },
            None => Shape::Plain,
        };
        let state = self.open_state(method, target, &ruling)?;
        self.finish(method, shape, state.as_ref(), ruling)
    }

    /// A request about a task. Even in shadow mode no grant can reach another grant's
    /// task.
    fn task(self, method: &'static str, task: &'a str) -> Result<Route<'a>, Refusal> {
        let own = open_task(self.exchange, task);
        let ruling = Ruling::Access(Access {
            method: method.into(),
            target: task,
            denial: own
                .is_none()
                .then(|| AccessDenial { rule: "(unknown task)".into(), in_shadow: false }),
            refused_as: Some(self.no_such_task(method)),
        });
        let own = own.map(|own| ("taskId", own));
        self.finish(method, Shape::Task, own.as_ref(), ruling)
    }

    /// The error that the server itself gives for a task that does not exist, so that a
    /// caller cannot detect the tasks of other grants.
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

    fn tool_call(mut self, method: &'static str, call: ToolCall<'a>) -> Result<Route<'a>, Refusal> {
        let list = self.tools.take();
        let facts = self.facts(list.as_deref(), call.tool);
        let judged = Call::new(call.tool, call.arguments)
            .map_err(|error| Refusal::Params(error.to_string()))?;
        let decision =
            sluice_policy::judge(self.exchange.rules(), &judged, facts, self.exchange.at);
        let task = self.params.and_then(|params| params.get("task"));
        let wants_task =
            !self.exchange.is_modern() && task.is_some_and(|task| task.members().is_some());
        let shape = Shape::Call { method, target: call.tool.to_owned() };
        let ruling = Ruling::Tool(ToolRuling { call, decision, list, wants_task });
        let state = self.open_state(method, call.tool, &ruling)?;
        self.finish(method, shape, state.as_ref(), ruling)
    }

    /// The facts about the tool that is called.
    ///
    /// A policy that hides anything forwards only names that are in the server's list: without
    /// the list nobody knows which tool another spelling of a name would reach.
    fn facts<'l>(&self, list: Option<&'l ToolList>, tool: &str) -> Facts<'l> {
        match list {
            _ if withholds_name(&self.exchange.server.link, tool) => Facts::Withheld,
            Some(list) => list.facts(tool),
            None if self.exchange.rules().is_some_and(Policy::hides_anything) => Facts::NotInList,
            None => Facts::NoList,
        }
    }

    /// The server's own state of an unfinished request, if the client sends one and the
    /// request may be sent.
    fn open_state(
        &self,
        method: &str,
        target: &str,
        ruling: &Ruling<'_>,
    ) -> Result<Option<Replaced>, Refusal> {
        if ruling.is_refused() {
            return Ok(None);
        }
        let Some(state) = self.params.and_then(|params| params.get("requestState")) else {
            return Ok(None);
        };
        let sealed = state
            .as_str()
            .ok_or_else(|| Refusal::Params("`requestState` must be a string".into()))?;
        Ok(Some(("requestState", open_state(self.exchange, method, target, sealed)?)))
    }

    /// Prepares a request of a known method for sending.
    fn finish(
        self,
        method: &'static str,
        shape: Shape,
        replaced: Option<&Replaced>,
        ruling: Ruling<'a>,
    ) -> Result<Route<'a>, Refusal> {
        let named = mirrored_target(method);
        // A value that is replaced in the body is also replaced in the header that
        // repeats it.
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
    ) -> Result<Route<'a>, Refusal> {
        checks::check_headers(self.exchange, method, self.params, &ruling)?;
        let edited = edits::edit(self.exchange, self.document, self.params, replaced)?;
        let request = Outgoing {
            mirrors: self.exchange.is_modern().then(|| (method.to_owned(), target)),
            expected: Some(Expected { id: self.id, shape }),
            is_lasting: repair::is_lasting(method, self.params),
            lease: claim_lease(self.exchange, method, self.params)?,
            ..post(self.document, edited)
        };
        Ok(Route::Decided(Box::new(Judged { request, ruling })))
    }
}

/// The empty result of a list that the policy denies entirely; the server is not asked.
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
    is_denied.then(|| format!(r#"{{"{member}":[]{modern}}}"#))
}

/// A parameter, if it is present and a string.
fn text<'d>(params: Option<Value<'d>>, name: &str) -> Option<&'d str> {
    params.and_then(|params| params.get(name)).and_then(Value::as_str)
}
