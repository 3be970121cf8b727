//! Judging one request: each method class in its own function. `tool_call` asks the
//! policy engine (`sluice_policy::judge`).

use std::sync::Arc;

use sluice_policy::{Call, Facts, Policy};
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
    assess::{ToolList, Tools},
    exchange::Exchange,
    protocol_version::mirrored_target,
    refusal::Refusal,
    repair,
    sealed_ids::{open_state, open_task},
};

/// A request while it is being judged.
pub(super) struct Request<'a> {
    pub(super) exchange: &'a Arc<Exchange>,
    pub(super) document: &'a Document,
    pub(super) id: Id,
    pub(super) params: Option<Value<'a>>,
}

impl<'a> Request<'a> {
    pub(super) async fn judge(self, method: &'a str) -> Result<Route<'a>, Refusal> {
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

    /// A request that every policy allows.
    fn open(self, method: &'static str, class: MethodClass) -> Result<Route<'a>, Refusal> {
        if !is_open(class) {
            return Err(Refusal::Internal);
        }
        if class == MethodClass::Listen {
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
    ) -> Result<Route<'a>, Refusal> {
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

    /// A request about a task. Even in shadow mode no grant can reach another grant's
    /// task.
    fn task(self, method: &'static str, task: &'a str) -> Result<Route<'a>, Refusal> {
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

    async fn tool_call(
        self,
        method: &'static str,
        call: ToolCall<'a>,
    ) -> Result<Route<'a>, Refusal> {
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

    /// The server's own state of an unfinished request, if the client sends one.
    fn open_state(&self, method: &str, target: &str) -> Result<Option<Replaced>, Refusal> {
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
        let edited = edits::edit(self.exchange, self.document, self.params, replaced)?;
        let request = Outgoing {
            mirrors: self.exchange.is_modern().then(|| (method.to_owned(), target)),
            expected: Some(Expected { id: self.id, shape }),
            is_lasting: repair::is_lasting(method, self.params),
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
    (is_denied && !exchange.is_shadow()).then(|| format!(r#"{{"{member}":[]{modern}}}"#))
}

/// The server's list of tools, if the decision may depend on it.
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

/// A parameter, if it is present and a string.
fn text<'d>(params: Option<Value<'d>>, name: &str) -> Option<&'d str> {
    params.and_then(|params| params.get(name)).and_then(Value::as_str)
}
